"""Which regions are spoken of: those that are asked for, and those that stand out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.tasks.describe.salient import objectness, parsed_region, region_within, standing_out
from deixis.vision.proposals.proposer import Proposals

SIZE = (100, 80)


@pytest.mark.parametrize("typed", ["", "1,2,3", "1,2,3,4,5", "1,2,three,4", "1;2;3;4"])
def test_a_region_that_is_not_four_numbers_is_refused(typed: str) -> None:
    with pytest.raises(DeixisError, match="give four numbers with commas between them: x1,y1,x2,y2"):
        parsed_region(typed)


@pytest.mark.parametrize(
    ("region", "told"),
    [
        ((50, 10, 20, 40), "region 50,10,20,40: ends before it begins"),
        ((50, 40, 60, 40), "region 50,40,60,40: ends before it begins"),
        ((100, 10, 140, 40), "region 100,10,140,40: lies outside the photo, which is 100 × 80 pixels"),
        ((-30, -30, -1, -1), "lies outside the photo"),
        ((-30, 0, 0.5, 40), "narrower than a pixel within the photo"),
        ((0, 0, float("nan"), 9), "give four numbers"),
        ((0, 0, 9), "give four numbers"),
    ],
)
def test_a_region_that_is_none_is_refused(region: tuple[float, ...], told: str) -> None:
    with pytest.raises(DeixisError) as error:
        region_within(region, SIZE)
    assert told in str(error.value)


side = st.floats(-50, 150)


@given(side, side, side, side)
def test_what_is_accepted_lies_within_the_photo(x1: float, y1: float, x2: float, y2: float) -> None:
    try:
        left, top, right, bottom = region_within((x1, y1, x2, y2), SIZE)
    except DeixisError:
        return
    assert (left, right) == (max(x1, 0), min(x2, SIZE[0]))
    assert (top, bottom) == (max(y1, 0), min(y2, SIZE[1]))
    assert min(right - left, bottom - top) >= 1


BOXES = np.array(
    [[0, 0, 60, 60], [0, 0, 60, 56], [10, 10, 40, 40], [10, 50, 30, 58], [70, 0, 100, 40], [70, 50, 99, 79]]
)
LOOKS = np.array([[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]], dtype=np.float64)

KINDS = np.arange(6)


def test_of_regions_that_overlap_or_show_the_same_within_each_other_one_is_spoken_of() -> None:
    worth = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.1])
    found = standing_out(BOXES.astype(float), worth, LOOKS, KINDS, 10, 0.4).tolist()
    assert sorted(found) == [
        0,
        3,
        4,
    ]  # 1 and 2 are 0 again, 3 lies within it and is something else, 5 is worth too little
    assert found[0] == 0


def test_of_regions_that_are_called_the_same_and_overlap_one_is_spoken_of() -> None:
    boxes = np.array([[0, 0, 40, 40], [20, 0, 60, 40], [60, 0, 99, 40]], dtype=float)
    worth, looks = np.array([0.9, 0.8, 0.7]), np.eye(3)
    assert standing_out(boxes, worth, looks, np.array([7, 8, 7]), 3, 0.4).tolist() == [0, 2, 1]
    assert standing_out(boxes, worth, looks, np.array([7, 7, 7]), 3, 0.4).tolist() == [0, 2]


def test_no_more_regions_are_chosen_than_are_asked_for_and_none_from_none() -> None:
    assert len(standing_out(BOXES.astype(float), np.ones(6), LOOKS, KINDS, 2, 0.4)) == 2
    assert standing_out(np.zeros((0, 4)), np.zeros(0), np.zeros((0, 3)), np.zeros(0, np.intp), 2, 0.4).tolist() == []


def test_a_region_is_as_likely_something_as_the_proposal_that_it_overlaps_most() -> None:
    proposals = Proposals(np.array([[0, 0, 10, 10], [50, 50, 90, 70]], dtype=float), np.array([0.8, 0.5]))
    likely = objectness(np.array([[0, 0, 10, 5], [50, 50, 90, 70], [95, 0, 99, 5]], dtype=float), proposals)
    assert likely == pytest.approx([0.4, 0.5, 0])
    assert objectness(BOXES.astype(float), Proposals(np.zeros((0, 4)), np.zeros(0))).tolist() == [0] * 6
