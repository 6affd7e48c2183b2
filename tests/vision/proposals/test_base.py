"""What holds for the boxes of every proposer."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deixis.vision.proposals.base import best_boxes

SIDE = st.integers(-20, 60)
ROWS = st.lists(st.tuples(SIDE, SIDE, SIDE, SIDE, st.integers(0, 5)), max_size=30)


def plainly(rows: list[tuple[int, ...]], width: int, height: int, top: int) -> list[tuple[float, ...]]:
    """The same, one box after the other."""
    found: list[tuple[float, ...]] = []
    for x1, y1, x2, y2, score in sorted(rows, key=lambda row: -row[4]):
        box = (max(min(x1, width), 0), max(min(y1, height), 0), max(min(x2, width), 0), max(min(y2, height), 0))
        if box[2] > box[0] and box[3] > box[1] and box not in [each[:4] for each in found]:
            found.append((*box, score))
    return (found or [(0, 0, width, height, 0)])[:top]


@given(ROWS, st.integers(1, 40), st.integers(1, 40), st.integers(1, 12))
def test_boxes_are_clipped_sorted_and_distinct_as_in_a_plain_loop(
    rows: list[tuple[int, ...]], width: int, height: int, top: int
) -> None:
    given_rows = np.array(rows, dtype=float).reshape(-1, 5)
    found = best_boxes(given_rows[:, :4], given_rows[:, 4], (width, height), top)
    assert np.column_stack([found.boxes, found.scores]).tolist() == [
        list(map(float, row)) for row in plainly(rows, width, height, top)
    ]


def test_without_proposals_the_whole_photo_is_the_proposal() -> None:
    found = best_boxes(np.empty((0, 4)), [], (7, 5), top=3)
    assert found.boxes.tolist() == [[0, 0, 7, 5]]
    assert found.scores.tolist() == [0]
