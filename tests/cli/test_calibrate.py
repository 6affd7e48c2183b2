"""`deixis calibrate`, and an index of a model without a calibration."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from deixis.data.samples import SAMPLES
from deixis.search.collection import open_index, search_encoder
from tests.cli.conftest import Command
from tests.models import clip_substitute
from tests.models.clip_substitute import save_weights
from tests.scenes import write_scenes

CAT, BEE = SAMPLES / "images" / "cat.jpg", SAMPLES / "images" / "bee.jpg"


def scenes(folder: Path, count: int, command: Command) -> Path:
    write_scenes(folder / "scenes", count, {"train": 0.2, "dev": 0.8})
    captions = folder / "scenes" / "photos.jsonl"
    command(
        "data", "import", "--images", folder / "scenes" / "images", "--captions", captions, "--out", folder / "data"
    )
    return folder / "data"


@pytest.mark.slow
def test_probabilities_are_fitted_and_stored_in_the_index(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip_substitute.install(monkeypatch)
    index, weights = tmp_path / "index", save_weights(tmp_path / "weights.pt")
    command("index", CAT, BEE, "--into", index, "--model", f"open-clip:small:{weights}")
    search = ("search", "a cat", "--index", index, "--explain")
    out, err = command(*search)
    assert "%  " not in out
    assert "a cat: [" in out or "a cat: probably" in out
    assert (
        "ranked without percentages, because this index has no calibration; fit one to photos with captions: "
        f"deixis calibrate DATA --index {index}" in err
    )
    assert [hit["probability"] for hit in command.json(*search)["hits"]] == [None]  # the vectors are nearly equal
    assert "%" not in command("search", "--like", CAT, "--index", index)[0]

    data = scenes(tmp_path, 40, command)
    document = command.json("calibrate", data, "--index", index)
    assert document["model"] == f"open-clip:small:{weights}"
    [scores] = document["scores"].values()
    assert {"calibration error", "words find something", "absents find something"} <= set(scores)
    out, err = command(*search, "--all")
    assert "%  " in out
    assert "calibration" not in err
    with open_index(index) as photos:
        assert photos.calibration is not None
        assert photos.calibration.fingerprint == photos.encoder.fingerprint
    command("index", CAT, "--into", index, "--rebuild")  # the model stays, the calibration does not
    assert "ranked without percentages" in command(*search)[1]
    search_encoder.cache_clear()


def test_problems_are_one_line(
    tmp_path: Path, sample_index: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no photo index" in command.error("calibrate", tmp_path, "--index", tmp_path / "none")
    data = scenes(tmp_path, 5, command)
    assert "has 4 photos; a calibration needs at least 30" in command.error(
        "calibrate", data, "--index", shutil.copytree(sample_index, tmp_path / "index")
    )
    assert "split" in command.error("calibrate", data, "--index", tmp_path / "index", "--split", "nix")
    clip_substitute.install(monkeypatch)
    into = ("index", CAT, "--into", tmp_path / "index", "--model")
    assert "nothing.pt: no such file" in command.error(*into, "open-clip:small:nothing.pt")
    assert "another model" in command.error(*into, "open-clip:small")
    assert "nix: no such directory" in command.error(*into, "nix")
    assert "cannot compare" in command.error(*into, "captioner")
