"""Maximal marginal relevance, against a loop so plain that it is obviously right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.tasks.describe.diverse import diverse


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
def test_the_choice_is_that_of_the_plain_loop(seed: int, count: int, most: int, weight: float) -> None:
    generator = np.random.default_rng(seed)
    relevance = generator.random(count)
    alike = generator.uniform(-1, 1, (count, count))
    alike = (alike + alike.T) / 2
    found = diverse(relevance, lambda place: alike[place], most, weight=weight).tolist()
    assert found == plainly(relevance.tolist(), alike, most, weight)


def test_without_weight_the_most_relevant_are_chosen_in_their_order() -> None:
    assert diverse([0.2, 0.9, 0.5], lambda place: np.ones(3), 3, weight=0).tolist() == [1, 2, 0]


def test_what_is_too_similar_is_never_chosen_however_few_remain() -> None:
    alike = np.array([[1, 0.99, 0.2], [0.99, 1, 0.2], [0.2, 0.2, 1]])
    assert diverse([0.9, 0.8, 0.1], lambda place: alike[place], 3, too_similar=0.95).tolist() == [0, 2]


@pytest.mark.parametrize(("count", "most"), [(0, 3), (4, 0)])
def test_nothing_is_chosen_from_nothing_and_if_nothing_is_asked_for(count: int, most: int) -> None:
    assert diverse(np.ones(count), lambda place: np.ones(count), most).tolist() == []
