"""`deixis train hm-lstm` as a person types it, and what can be done with the model then."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from deixis.cli.main import _run
from deixis.language.vectors import WordVectors
from deixis.tasks import grounding
from tests.tasks.coloured import COLOURS
from tests.tasks.quarters import make_quarters, use_small_encoders
from tests.vision.store.small import Corners

SMALL = [
    f"--set={setting}"
    for setting in (
        *("hidden=8", "dimension=6", "epochs=2", "rounds=1", "round_epochs=1", "batch_size=8", "top=4"),
        *("proposals=corners", "vectors=vectors", "device=cpu", "threads=1"),
    )
]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    use_small_encoders(monkeypatch)
    monkeypatch.setattr(grounding, "open_proposer", lambda name, encoder=None: Corners())
    words = [*COLOURS, "a", "the", "square", "one"]
    WordVectors(np.eye(len(words), dtype=np.float32), words).save("vectors")
    make_quarters(tmp_path)
    return Path("data")


@pytest.fixture
def model(data: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert _run(["train", "hm-lstm", "--data", "data", *SMALL]) == 0
    capsys.readouterr()
    return Path("hm-lstm.model")


def test_it_says_what_it_learned_from_and_what_to_do_next(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["train", "hm-lstm", "--data", "data", "--settings", "deixis/hm-lstm", *SMALL]) == 0
    out, err = capsys.readouterr()
    first, second = out.splitlines()
    assert first.startswith("hm-lstm.model: hm-lstm, learned from 16 photos, 32 sentences and ")
    assert second.startswith("dev (8 photos): i2t_r1 ")
    assert err.splitlines()[-1] == "next: deixis evaluate retrieval --model hm-lstm.model --data data --split dev"


@pytest.mark.parametrize(
    ("task", "scores"),
    [("retrieval", ["i2t_r1", "t2i_medr"]), ("regions", ["r1", "medr"]), ("sentences", ["s2s_r1"]),
     ("grounding", ["r1", "upper_bound", "blind_r1", "by_type"])],
)  # fmt: skip
def test_every_task_that_it_can_do_is_scored(
    model: Path, capsys: pytest.CaptureFixture[str], task: str, scores: list[str]
) -> None:
    assert _run(["evaluate", task, "--model", str(model), "--data", "data", "--split", "dev", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(name in found for name in scores)


def test_correspondences_are_scored_round_by_round(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for stage in ("0-roots", "1-phrases"):
        assert _run(["evaluate", "grounding", "--model", str(model / stage), "--data", "data", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["proposals"]["mean"] == 5  # the whole photo and four corners


def test_it_points_in_a_photo_and_draws(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["ground", "images/0002.png", "A red square beside the blue one.", "--model", str(model)]
    assert _run([*command, "--picture", "pointed.png", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["phrases"][0]["text"] == "A red square"
    assert Path("pointed.png").stat().st_size > 0


def test_a_finished_run_says_so_and_goes_on_as_it_was(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (model / "model" / "model" / "weights.safetensors").read_bytes()
    assert _run(["train", "hm-lstm", "--data", "data", *SMALL]) == 2
    assert "go on with it by --resume" in capsys.readouterr().err
    assert _run(["train", "hm-lstm", "--data", "data", *SMALL, "--resume"]) == 0
    assert (model / "model" / "model" / "weights.safetensors").read_bytes() == before


def test_word_vectors_that_are_not_there_are_one_line(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["train", "hm-lstm", "--data", "data", *SMALL, "--set", "vectors=none.txt"]) == 2
    assert capsys.readouterr().err == "deixis: none.txt: no such file or folder\n"
