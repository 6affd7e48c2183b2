"""Recall by percentage, written down."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.evaluation.curves import check_curve_path, write_curves
from deixis.evaluation.retrieval import Ranking, recall_curve

ALL, SOME = np.full(6, 50), np.full(12, 20)
RANKINGS = {
    "i2t": Ranking(np.array([1.0, 3, 10, 40, 50, np.inf]), ALL, np.arange(6), 6),
    "t2i": Ranking(np.arange(1.0, 13), SOME, np.arange(12) // 2, 6),
}


def test_a_table_has_a_row_for_each_percentage_with_intervals(tmp_path: Path) -> None:
    said = write_curves(tmp_path / "curve.csv", RANKINGS)
    with (tmp_path / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["percentage"]) for row in rows] == list(range(1, 101))
    for name, ranking in RANKINGS.items():
        curve = recall_curve(ranking)
        assert [float(row[name]) for row in rows] == pytest.approx(curve.recall, abs=1e-3)
        assert all(float(row[f"{name}_low"]) <= float(row[name]) <= float(row[f"{name}_high"]) for row in rows)
    assert float(rows[19]["i2t"]) == 50.0, "three of six within the first ten of fifty"
    assert float(rows[99]["i2t"]) < 100, "one was in no list"
    assert "i2t 0.0 at 1 %, 16.7 at 5 %" in said


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_plot_is_written(tmp_path: Path, ending: str) -> None:
    write_curves(tmp_path / f"curve.{ending}", RANKINGS)
    begin = (tmp_path / f"curve.{ending}").read_bytes()[:5]
    assert begin == (b"\x89PNG\r" if ending == "png" else b"<?xml")


def test_unknown_suffixes_and_missing_folders_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match=r"curve.docx.*\.csv.*\.png"):
        check_curve_path(tmp_path / "curve.docx")
    with pytest.raises(DeixisError, match="nowhere"):
        check_curve_path(tmp_path / "nowhere" / "curve.csv")
