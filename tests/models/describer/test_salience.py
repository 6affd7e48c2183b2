"""Selection of regions: of one that the user gives, and of the most salient ones by maximal marginal relevance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.models.describer.salience import (
    clip_region,
    estimate_objectness,
    parse_region,
    select_diverse,
    select_salient,
)
from deixis.vision.proposals import Proposals

SIZE = (100, 80)


@pytest.mark.parametrize("typed", ["", "1,2,3", "1,2,3,4,5", "1,2,three,4", "1;2;3;4"])
def test_a_region_that_is_not_four_numbers_is_refused(typed: str) -> None:
    with pytest.raises(DeixisError, match="x1,y1,x2,y2"):
        parse_region(typed)


@pytest.mark.parametrize(
    ("region", "message"),
    [
        ((50, 10, 20, 40), "region 50,10,20,40: "),
        ((50, 40, 60, 40), "region 50,40,60,40: "),
        ((100, 10, 140, 40), "region 100,10,140,40: "),
        ((-30, -30, -1, -1), "100 × 80"),
        ((-30, 0, 0.5, 40), "100 × 80"),
        ((0, 0, float("nan"), 9), "give four numbers"),
        ((0, 0, 9), "give four numbers"),
    ],
)
def test_an_invalid_region_is_refused(region: tuple[float, ...], message: str) -> None:
    with pytest.raises(DeixisError) as error:
        clip_region(region, SIZE)
    assert message in str(error.value)


side = st.floats(-50, 150)


@given(side, side, side, side)
def test_an_accepted_region_lies_within_the_photo(x1: float, y1: float, x2: float, y2: float) -> None:
    try:
        left, top, right, bottom = clip_region((x1, y1, x2, y2), SIZE)
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


def test_of_overlapping_or_nested_similar_regions_one_is_selected() -> None:
    worth = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.1])
    found = select_salient(BOXES.astype(float), worth, LOOKS, KINDS, 10, 0.4).tolist()
    assert sorted(found) == [
        0,
        3,
        4,
    ]  # 1 and 2 are 0 again, 3 lies within it and is something else, 5 is worth too little
    assert found[0] == 0


def test_of_overlapping_regions_with_the_same_phrase_one_is_selected() -> None:
    boxes = np.array([[0, 0, 40, 40], [20, 0, 60, 40], [60, 0, 99, 40]], dtype=float)
    worth, looks = np.array([0.9, 0.8, 0.7]), np.eye(3)
    assert select_salient(boxes, worth, looks, np.array([7, 8, 7]), 3, 0.4).tolist() == [0, 2, 1]
    assert select_salient(boxes, worth, looks, np.array([7, 7, 7]), 3, 0.4).tolist() == [0, 2]


def test_at_most_the_requested_number_of_regions_is_selected() -> None:
    assert len(select_salient(BOXES.astype(float), np.ones(6), LOOKS, KINDS, 2, 0.4)) == 2
    assert select_salient(np.zeros((0, 4)), np.zeros(0), np.zeros((0, 3)), np.zeros(0, np.intp), 2, 0.4).tolist() == []


def test_the_objectness_of_a_region_is_that_of_the_most_overlapping_proposal() -> None:
    proposals = Proposals(np.array([[0, 0, 10, 10], [50, 50, 90, 70]], dtype=float), np.array([0.8, 0.5]))
    likely = estimate_objectness(np.array([[0, 0, 10, 5], [50, 50, 90, 70], [95, 0, 99, 5]], dtype=float), proposals)
    assert likely == pytest.approx([0.4, 0.5, 0])
    assert estimate_objectness(BOXES.astype(float), Proposals(np.zeros((0, 4)), np.zeros(0))).tolist() == [0] * 6


def plainly(relevance: list[float], alike: np.ndarray, most: int, weight: float) -> list[int]:
    chosen: list[int] = []
    while len(chosen) < min(most, len(relevance)):
        values = {}
        for place in range(len(relevance)):
            if place not in chosen:
                nearest = max((alike[place, other] for other in chosen), default=0.0)
                values[place] = (1 - weight) * relevance[place] - weight * nearest
        chosen.append(max(values, key=lambda place: (values[place], -place)))
    return chosen


@given(st.integers(0, 500), st.integers(1, 9), st.integers(1, 12), st.sampled_from([0.0, 0.3, 0.7, 1.0]))
def test_the_selection_equals_a_plain_loop(seed: int, count: int, most: int, weight: float) -> None:
    generator = np.random.default_rng(seed)
    relevance = generator.random(count)
    alike = generator.uniform(-1, 1, (count, count))
    alike = (alike + alike.T) / 2
    found = select_diverse(relevance, lambda place: alike[place], most, weight=weight).tolist()
    assert found == plainly(relevance.tolist(), alike, most, weight)


def test_with_weight_zero_the_most_relevant_items_are_selected() -> None:
    assert select_diverse([0.2, 0.9, 0.5], lambda place: np.ones(3), 3, weight=0).tolist() == [1, 2, 0]


def test_too_similar_items_are_never_selected() -> None:
    alike = np.array([[1, 0.99, 0.2], [0.99, 1, 0.2], [0.2, 0.2, 1]])
    assert select_diverse([0.9, 0.8, 0.1], lambda place: alike[place], 3, max_similarity=0.95).tolist() == [0, 2]


@pytest.mark.parametrize(("count", "most"), [(0, 3), (4, 0)])
def test_no_items_or_a_count_of_zero_give_an_empty_selection(count: int, most: int) -> None:
    assert select_diverse(np.ones(count), lambda place: np.ones(count), most).tolist() == []
