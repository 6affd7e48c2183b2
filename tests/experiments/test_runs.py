"""What has been measured is not measured again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.experiments.outcomes import Outcome
from deixis.experiments.runs import Runs


def test_an_outcome_is_measured_once_for_the_same_settings_and_data(tmp_path: Path) -> None:
    runs, measured = Runs(tmp_path / "runs"), []

    def measure() -> Outcome:
        measured.append(1)
        return Outcome({"r1": float(len(measured))})

    about = {"task": "retrieval", "settings": {"epochs": 3}, "data": "sha256:1"}
    assert [runs.outcome("retrieval", about, measure).scores["r1"] for _ in range(2)] == [1, 1]
    for change in ({"data": "sha256:2"}, {"settings": {"epochs": 4}}):
        assert runs.outcome("retrieval", {**about, **change}, measure).scores["r1"] == len(measured)
    assert len(measured) == 3


def test_people_can_read_what_an_outcome_is_of(tmp_path: Path) -> None:
    Runs(tmp_path).outcome("retrieval", {"seed": 1}, lambda: Outcome({"r1": 1.0}))
    [folder] = (tmp_path / "scores").iterdir()
    assert json.loads((folder / "about.json").read_text()) == {"seed": 1}


def test_a_measurement_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail() -> Outcome:
        raise DeixisError("no")

    with pytest.raises(DeixisError, match="no"):
        Runs(tmp_path).outcome("retrieval", {}, fail)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
