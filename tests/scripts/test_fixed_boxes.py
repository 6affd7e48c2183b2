"""The choice of fixed boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fixed_boxes import fit, save

from deixis import geometry
from deixis.errors import DeixisError
from deixis.vision.proposals import FixedProposer


def some_boxes(count: int, seed: int = 0) -> geometry.Boxes:
    corners = np.sort(np.random.default_rng(seed).random((count, 2, 2)), axis=1)
    return corners.reshape(-1, 4)


def covered(chosen: geometry.Boxes, golds: geometry.Boxes) -> int:
    return int((geometry.iou(golds, chosen) >= 0.5).any(axis=1).sum())


def test_every_choice_covers_as_many_of_the_remaining_boxes_as_possible() -> None:
    golds = some_boxes(200)
    chosen = fit(golds, 20).boxes
    tenths = np.arange(11) / 10
    grid = [(x1, y1, x2, y2) for x1 in tenths for y1 in tenths for x2 in tenths for y2 in tenths if x2 > x1 and y2 > y1]
    for before in range(20):
        left = golds[~(geometry.iou(golds, chosen[:before]) >= 0.5).any(axis=1)]
        most = (geometry.iou(grid, left) >= 0.5).sum(axis=1).max()
        assert covered(chosen[before : before + 1], left) == most


def test_when_all_boxes_are_covered_other_candidates_follow() -> None:
    chosen = fit([[0, 0, 0.5, 0.5]], 40).boxes
    assert len(np.unique(chosen, axis=0)) == 40


def test_more_golds_than_fit_into_one_slice_are_all_counted() -> None:
    golds = np.concatenate(
        [np.tile([0.0, 0.0, 0.3, 0.3], (1, 1)), some_boxes(1200) * 1e-3 + [0.8, 0.8, 0.8005, 0.8005]]
    )
    golds = np.concatenate([golds, np.linspace(0.6, 0.61, 700)[:, None] * [0, 0, 1, 1] + [0.0, 0.3, 0.0, 0.0]])
    assert covered(fit(golds, 1).boxes, golds) >= 700


def test_saved_boxes_round_trip(tmp_path: Path) -> None:
    boxes = fit(some_boxes(30), 7)
    save(boxes, tmp_path / "boxes.json")
    assert (FixedProposer.load(tmp_path / "boxes.json").boxes == boxes.boxes).all()


@pytest.mark.parametrize("count", [0, -1, 3026])
def test_a_number_of_boxes_without_as_many_candidates_is_refused(count: int) -> None:
    with pytest.raises(DeixisError, match=f"3025, not {count}"):
        fit(some_boxes(3), count)
