"""`deixis verify`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis.annotate.project import make_project
from deixis.data.dataset import Dataset
from deixis.search.index import update_index
from deixis.storage.artifacts import Artifact, write_artifact
from deixis.vision.feature_store import update_store
from tests.cli.conftest import Command
from tests.search.index.fakes import ColourEncoder, photos
from tests.unchecked import without_checksums
from tests.vision.feature_store.small import colour_encoder, make_data


def save_model(folder: Path) -> Path:
    part = Artifact("inner", {}, {"b": np.arange(4)})
    write_artifact(folder / "model", Artifact("outer", {"seed": 1}, {"a": np.arange(3.0)}, {"part": part}))
    return folder / "model"


def save_data(folder: Path) -> Path:
    data = make_data(folder, 4).path
    update_store(data / "features" / "colours", Dataset(data), colour_encoder())
    return data


def save_index(folder: Path) -> Path:
    photos(folder / "photos", 4)
    update_index(folder / "index", [folder / "photos"], ColourEncoder())
    return folder / "index"


def save_project(folder: Path) -> Path:
    make_project(folder / "project").close()
    return folder / "project"


@pytest.mark.parametrize(
    ("save", "kind", "damaged"),
    [
        (save_model, "model", "weights.safetensors"),
        (save_model, "model", "part/weights.safetensors"),
        (save_model, "model", "part/config.json"),
        (save_data, "data set", "captions.arrow"),
        (save_data, "data set", "features/colours/*.safetensors"),
        (save_data, "data set", "features/colours/manifest.json"),
        (save_index, "index", "cache/*-whole.bin"),
        (save_project, "project", "annotations.sqlite"),
    ],
)
def test_damage_is_found_and_a_remedy_is_named(
    save: object, kind: str, damaged: str, command: Command, tmp_path: Path
) -> None:
    assert callable(save)
    folder = save(tmp_path)
    (sound,) = command.json("verify", folder)
    assert sound == {"path": str(folder), "kind": kind, "problems": [], "fix": None}
    (file,) = folder.glob(damaged)
    content = bytearray(file.read_bytes())
    content[5 if file.suffix == ".sqlite" else len(content) // 2] ^= 1
    file.write_bytes(content)
    out, error = command("verify", folder, code=2)
    assert "fix: " in out
    assert str(folder) in error


def test_an_index_is_found_by_its_name(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "deixis").mkdir()
    save_index(tmp_path).rename(tmp_path / "deixis" / "mine.deixis")
    assert "@mine: index, no damage found" in command("verify", "@mine")[0]
    assert "@other" in command.error("verify", "@other")


def test_a_model_without_checksums_is_not_called_sound(command: Command, tmp_path: Path) -> None:
    folder = save_model(tmp_path)
    without_checksums(folder)
    assert "without a checksum" in command("verify", folder, code=2)[0]


def test_other_things_are_one_line(command: Command, tmp_path: Path) -> None:
    assert "nothing" in command.error("verify", tmp_path / "nothing")
    assert "not an index" in command.error("verify", tmp_path)
