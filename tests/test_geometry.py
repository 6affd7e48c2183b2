"""Boxes against plain loops over pixels, and identities."""

from __future__ import annotations

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


@given(st.lists(st.tuples(right_way_round, st.integers(0, 3)), max_size=8), st.sampled_from([0.3, 0.5, 1.0]))
def test_nms_keeps_what_a_plain_loop_keeps(rows: list[tuple[tuple[int, ...], int]], threshold: float) -> None:
    order = sorted(range(len(rows)), key=lambda i: (-rows[i][1], i))
    kept: list[int] = []
    for i in order:
        overlaps = [
            len(pixels(rows[i][0]) & pixels(rows[k][0])) / len(pixels(rows[i][0]) | pixels(rows[k][0])) for k in kept
        ]
        if all(overlap < threshold for overlap in overlaps):
            kept.append(i)
    found = geometry.nms([row[0] for row in rows], [row[1] for row in rows], threshold)
    assert found.tolist() == kept


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


def test_nms_of_more_boxes_than_one_block_is_the_plain_loop() -> None:
    drawn = np.random.default_rng(0)
    corners = drawn.random((600, 2)) * 100
    rows = np.concatenate([corners, corners + 5 + drawn.random((600, 2)) * 30], axis=1)
    scores = drawn.random(600)
    expected = suppressed_one_by_one(rows, scores, 0.5)
    assert geometry.nms(rows, scores, 0.5).tolist() == expected
    assert geometry.nms(rows, scores, 0.5, max_boxes=7).tolist() == expected[:7]


@given(box)
def test_entities_corners_round_trip(one: tuple[int, ...]) -> None:
    assert geometry.to_entities(geometry.from_entities(one)).tolist() == list(one)


def test_an_entities_box_of_one_pixel_has_one_pixel_here() -> None:
    assert geometry.area(geometry.from_entities([5, 5, 5, 5])) == 1


@given(box)
def test_xywh_round_trips(one: tuple[int, ...]) -> None:
    assert geometry.to_xywh(geometry.from_xywh(one)).tolist() == list(one)


@given(right_way_round, st.integers(1, 900), st.integers(1, 900))
def test_rescaled_corners_come_back_to_the_same_whole_pixel(one: tuple[int, ...], width: int, height: int) -> None:
    there = geometry.rescale(one, (500, 333), (width, height))
    back = geometry.rescale(there, (width, height), (500, 333))
    assert np.rint(back).tolist() == list(one)


def test_clipped_boxes_end_at_the_border() -> None:
    assert geometry.clip([[-3, -2, 500, 400], [1, 2, 3, 4]], 100, 50).tolist() == [[0, 0, 100, 50], [1, 2, 3, 4]]
