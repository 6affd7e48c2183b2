"""Stored scores are not computed again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.papers.results import ModelScores
from deixis.papers.training import ExperimentFolder


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
