"""Boxes against plain loops over pixels, and identities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis import geometry

corner = st.integers(-5, 30)
box = st.tuples(corner, corner, corner, corner)
boxes = st.lists(box, max_size=6).map(lambda rows: np.array(rows, dtype=float).reshape(-1, 4))
right_way_round = box.map(lambda b: (min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]) + 1, max(b[1], b[3]) + 1))


def pixels(one_box: tuple[int, ...]) -> set[tuple[int, int]]:
    x1, y1, x2, y2 = one_box
    return {(x, y) for x in range(int(x1), int(x2)) for y in range(int(y1), int(y2))}


@given(boxes, boxes)
def test_iou_is_shared_pixels_over_all_pixels(a: np.ndarray, b: np.ndarray) -> None:
    found = geometry.iou(a, b)
    assert found.shape == (len(a), len(b))
    for i, one in enumerate(a):
        for j, other in enumerate(b):
            shared, both = pixels(one) & pixels(other), pixels(one) | pixels(other)
            assert found[i, j] == pytest.approx(len(shared) / len(both) if both else 0)


@given(box)
def test_area_counts_pixels(one: tuple[int, ...]) -> None:
    assert geometry.area(one) == len(pixels(one))


@given(st.lists(right_way_round, min_size=1, max_size=6))
def test_the_union_is_the_smallest_box_that_contains_all(rows: list[tuple[int, ...]]) -> None:
    x1, y1, x2, y2 = geometry.union(rows)
    inside = set().union(*map(pixels, rows))
    assert (x1, y1) == (min(x for x, _ in inside), min(y for _, y in inside))
    assert (x2 - 1, y2 - 1) == (max(x for x, _ in inside), max(y for _, y in inside))


def suppressed_one_by_one(rows: np.ndarray, scores: np.ndarray, threshold: float) -> list[int]:
    kept: list[int] = []
    for row in sorted(range(len(rows)), key=lambda row: (-scores[row], row)):
        if all(geometry.iou(rows[row], rows[other])[0, 0] < threshold for other in kept):
            kept.append(row)
    return kept


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(0, 60),
    block=st.integers(1, 20),
    threshold=st.sampled_from([0.0, 0.3, 0.5, 1.0, 1.1]),
    most=st.none() | st.integers(0, 70),
)
def test_nms_in_blocks_equals_the_plain_loop_with_ties_and_duplicates(
    seed: int, count: int, block: int, threshold: float, most: int | None
) -> None:
    drawn = np.random.default_rng(seed)
    corners = drawn.integers(0, 12, (count, 2))
    rows = np.concatenate([corners, corners + drawn.integers(0, 6, (count, 2))], axis=1).astype(float)
    scores = drawn.integers(0, 4, count) / 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geometry, "_BLOCK", block)
        found = geometry.nms(rows, scores, threshold, most)
    assert found.tolist() == suppressed_one_by_one(rows, scores, threshold)[:most]


@pytest.mark.parametrize(
    ("convert", "back", "theirs", "ours"),
    [
        (geometry.from_entities, geometry.to_entities, [1, 1, 10, 20], [0, 0, 10, 20]),
        (geometry.from_xywh, geometry.to_xywh, [2, 3, 10, 20], [2, 3, 12, 23]),
    ],
)
@given(one=box)
def test_other_conventions_are_converted_both_ways(
    convert: Callable[..., Any], back: Callable[..., Any], theirs: list[int], ours: list[int], one: tuple[int, ...]
) -> None:
    assert convert(theirs).tolist() == ours
    assert back(convert(one)).tolist() == list(one)


@given(right_way_round, st.integers(1, 900), st.integers(1, 900))
def test_rescaled_corners_come_back_to_the_same_whole_pixel(one: tuple[int, ...], width: int, height: int) -> None:
    assert geometry.rescale([0, 0, 100, 50], size=(200, 100), to=(100, 100)).tolist() == [0, 0, 50, 50]
    there = geometry.rescale(one, (500, 333), (width, height))
    back = geometry.rescale(there, (width, height), (500, 333))
    assert np.rint(back).tolist() == list(one)


def test_clipped_boxes_end_at_the_border() -> None:
    assert geometry.clip([[-3, -2, 500, 400], [1, 2, 3, 4]], 100, 50).tolist() == [[0, 0, 100, 50], [1, 2, 3, 4]]
