"""Stored scores are not computed again; inputs of all rows are checked first; sweeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.papers import training
from deixis.papers.results import ModelScores
from deixis.papers.tables import Table, Training, find_table
from deixis.papers.training import ExperimentFolder, TableModels
from tests.models.quarters import make_quarters, make_store


def test_scores_are_computed_once_for_the_same_settings_and_data(tmp_path: Path) -> None:
    runs, calls = ExperimentFolder(tmp_path / "runs"), []

    def compute() -> ModelScores:
        calls.append(1)
        return ModelScores({"r1": float(len(calls))})

    about = {"task": "retrieval", "settings": {"epochs": 3}, "data": "sha256:1"}
    assert [runs.scores("retrieval", about, compute).scores["r1"] for _ in range(2)] == [1, 1]
    for change in ({"data": "sha256:2"}, {"settings": {"epochs": 4}}):
        assert runs.scores("retrieval", {**about, **change}, compute).scores["r1"] == len(calls)
    assert len(calls) == 3


def test_stored_scores_have_a_readable_description(tmp_path: Path) -> None:
    ExperimentFolder(tmp_path).scores("retrieval", {"seed": 1}, lambda: ModelScores({"r1": 1.0}))
    [folder] = (tmp_path / "scores").iterdir()
    assert json.loads((folder / "about.json").read_text()) == {"seed": 1}


def test_a_failed_computation_leaves_no_files(tmp_path: Path) -> None:
    def fail() -> ModelScores:
        raise DeixisError("no")

    with pytest.raises(DeixisError, match="no"):
        ExperimentFolder(tmp_path).scores("retrieval", {}, fail)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def swept(table: Table, sweep: str) -> tuple[str, ...]:
    row = training.sweep(table, [sweep]).row(sweep.partition(":")[0])
    assert row.recipe is not None
    assert row.recipe.model is not None
    return row.recipe.model.choose


def test_a_sweep_makes_values_the_choices_of_one_row() -> None:
    table = find_table("hm-lstm-1")
    choices = ("learning_rate=8e-3", "learning_rate=1e-3")
    assert swept(table, "hm-lstm:learning_rate=8e-3, 1e-3") == choices
    assert training.sweep(table, ["hm-lstm:learning_rate=8e-3"]).row("chain") == table.row("chain")
    for wrong in ("hm-lstm:learning_rate", "hm-lstm:rate=1", "nothing:learning_rate=1", "hm-lstm"):
        with pytest.raises(DeixisError):
            training.sweep(table, [wrong])
    with pytest.raises(DeixisError, match="--sweep"):
        training.sweep(find_table("m-rnn-8"), ["shared:learning_rate=1"])


def test_missing_inputs_of_any_row_are_found_before_a_model_is_trained(tmp_path: Path) -> None:
    dataset = make_quarters(tmp_path, 12)
    trainings = [Training("cca", "papers/cca-sentences"), Training("two-branch", "papers/two-branch-sentences")]

    def check(*changes: str) -> None:
        training.check_inputs(TableModels(dataset, ExperimentFolder(tmp_path / "runs"), changes), trainings)

    check()
    for changes in (("features_dir=nowhere",), ("word_vectors=nowhere", "text_features=mean")):
        with pytest.raises(DeixisError, match="nowhere"):
            check(*changes)
    make_store(dataset, tmp_path / "store")
    check(f"features_dir={tmp_path / 'store'}")
    assert training.imported_regions([f"features_dir={tmp_path / 'store'}"]) == []
    assert not (tmp_path / "runs").exists()
