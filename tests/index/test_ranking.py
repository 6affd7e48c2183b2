"""The best of many scores, compared with sorting all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.index.ranking import best


def sorted_places(scores: np.ndarray, top: int) -> list[int]:
    return sorted(range(len(scores)), key=lambda place: (-scores[place], place))[: max(top, 0)]


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0, float("-inf")]), max_size=60), st.integers(-1, 70))
def test_ties_go_to_the_earlier_place(values: list[float], top: int) -> None:
    scores = np.array(values, dtype=np.float32)
    assert best(scores, top).tolist() == sorted_places(scores, top)


@pytest.mark.parametrize("top", [1, 10, 300, 20_000])
@pytest.mark.parametrize("order", ["random", "ascending", "descending", "best in a row", "equal"])
def test_many_scores_are_ranked_as_sorting_would(top: int, order: str) -> None:
    scores = np.random.default_rng(0).standard_normal(30_000).astype(np.float32)
    if order == "ascending":
        scores.sort()
    elif order == "descending":
        scores = np.sort(scores)[::-1].copy()
    elif order == "best in a row":
        scores[1000:1400] += 50
    elif order == "equal":
        scores[:] = 0.5
    assert best(scores, top).tolist() == np.argsort(-scores, kind="stable")[:top].tolist()
