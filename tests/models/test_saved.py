"""Folders of models: whole, replaced only if made here, and refused in one line when damaged."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from deixis.errors import DeixisError
from deixis.models import CCA, Stacked, load_model
from deixis.models.saved import _CLASSES, SETTINGS, WEIGHTS

ROWS = np.random.default_rng(0).normal(size=(2, 50, 5)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    CCA(2).fit(*ROWS).save(tmp_path / "made")
    return tmp_path / "made"


def test_the_settings_can_be_read_by_people(folder: Path) -> None:
    document = json.loads((folder / SETTINGS).read_text())
    assert document["kind"] == "cca"
    assert document["settings"]["components"] == 2


def test_saving_again_replaces_what_was_saved(folder: Path) -> None:
    CCA(3).fit(*ROWS).save(folder)
    assert CCA.load(folder).components == 3


def test_a_folder_that_was_not_made_here_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DeixisError, match="not replaced"):
        CCA(2).fit(*ROWS).save(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def damage_settings(folder: Path, **changes: object) -> None:
    document = json.loads((folder / SETTINGS).read_text())
    (folder / SETTINGS).write_text(json.dumps(document | changes))


def test_nothing_there_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="no model saved here"):
        CCA.load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"format": "other"}, "not a model made by deixis"),
        ({"version": 99}, "written for version 99, this deixis reads 1"),
        ({"kind": "m-rnn"}, "holds 'm-rnn', not 'cca'"),
        ({"settings": {"components": 3}}, "a projection of shape"),
        ({"settings": {"colour": 3}}, "damaged, or not made by deixis"),
        ({"settings": None}, "damaged, or not made by deixis"),
        ({"parts": [".."]}, "names a part that cannot be a folder"),
        ({"parts": ["gone"]}, "gone: no model saved here"),
    ],
)
def test_settings_that_cannot_be_right_are_one_clear_line(
    folder: Path, changes: dict[str, object], complaint: str
) -> None:
    damage_settings(folder, **changes)
    with pytest.raises(DeixisError, match=complaint) as refusal:
        CCA.load(folder)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("content", [b"", b"not weights", b"\xff" * 64])
def test_weights_that_cannot_be_read_are_one_clear_line(folder: Path, content: bytes) -> None:
    (folder / WEIGHTS).write_bytes(content)
    with pytest.raises(DeixisError, match=f"{WEIGHTS}: damaged, or not made by deixis") as refusal:
        CCA.load(folder)
    assert "\n" not in str(refusal.value)


def test_missing_weights_are_one_clear_line(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    with pytest.raises(DeixisError, match=f"{WEIGHTS}: missing"):
        CCA.load(folder)


def test_weights_of_another_model_are_one_clear_line(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    del weights["correlations"]
    save_file(weights, folder / WEIGHTS)
    with pytest.raises(DeixisError, match="damaged, or not made by deixis"):
        CCA.load(folder)


def test_weights_that_do_not_fit_each_other_are_one_clear_line(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    save_file(weights | {"correlations": np.ones(3, dtype=np.float32)}, folder / WEIGHTS)
    with pytest.raises(DeixisError, match=r"correlations of shape \(3,\)"):
        CCA.load(folder)


def test_a_model_that_holds_itself_is_not_followed_for_ever(folder: Path) -> None:
    damage_settings(folder, parts=["again"])
    (folder / "again").symlink_to(folder)
    with pytest.raises(DeixisError, match="nested more than"):
        Stacked.load(folder)


def test_a_model_of_any_kind_is_opened_by_what_it_says_of_itself(folder: Path, tmp_path: Path) -> None:
    opened = load_model(folder)
    assert isinstance(opened, CCA)
    np.testing.assert_array_equal(opened.prepare_visual(ROWS[0]), CCA.load(folder).prepare_visual(ROWS[0]))
    Stacked(opened, CCA(2)).fit(*ROWS).save(tmp_path / "stacked")
    assert isinstance(load_model(tmp_path / "stacked"), Stacked)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"kind": "oracle"}, "no kind of model is called 'oracle'; there are cca, "),
        ({"kind": "stacked"}, "damaged, or not made by deixis"),
        ({"settings": {"components": 3}}, "a projection of shape"),
    ],
)
def test_a_model_that_is_not_what_it_says_is_one_clear_line(
    folder: Path, changes: dict[str, object], complaint: str
) -> None:
    damage_settings(folder, **changes)
    with pytest.raises(DeixisError, match=complaint) as refusal:
        load_model(folder)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("kind", sorted(_CLASSES))
def test_every_kind_is_where_it_is_looked_for(kind: str) -> None:
    module, name = _CLASSES[kind]
    assert kind == getattr(import_module(f"deixis.models.{module}"), name).KIND


def test_half_precision_halves_the_file_and_is_computed_with_in_single(tmp_path: Path) -> None:
    model = Stacked(CCA(2).fit(*ROWS), CCA(3)).fit(*ROWS)
    model.save(tmp_path / "single")
    model.save(tmp_path / "half", half=True)
    weights = load_file(tmp_path / "half" / "model" / WEIGHTS)
    assert {array.dtype for array in weights.values() if array.dtype.kind == "f"} == {np.dtype(np.float16)}
    opened = Stacked.load(tmp_path / "half")
    vectors = opened.prepare_visual(ROWS[0])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, Stacked.load(tmp_path / "single").prepare_visual(ROWS[0]), atol=0.01)
