"""Suppression of the same boxes under many rankings: the same as one ranking at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis import geometry
from deixis.evaluation import shared_suppression
from deixis.evaluation.shared_suppression import Neighbours


def made_up_boxes(rng: np.random.Generator, n: int) -> np.ndarray:
    corners = rng.integers(0, 20, size=(n, 2))
    return np.concatenate([corners, corners + rng.integers(1, 20, size=(n, 2))], axis=1).astype(np.float64)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([0, 1, 2, 5, 30, 64, 65, 130]), min_size=1, max_size=5),
    st.integers(1, 4),
    st.sampled_from([np.float32, np.float64, np.float16]),
    st.sampled_from([1, 5, 4096]),
    st.integers(0, 1000),
)
def test_what_is_kept_is_what_suppression_of_one_photo_under_one_ranking_keeps(
    counts: list[int], rankings: int, dtype: type, at_once: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    boxes = made_up_boxes(rng, sum(counts))
    # Few different numbers, so that many are equal; both zeros are among them.
    scores = rng.choice([-2.5, -1.0, -0.0, 0.0, 0.5, 3.0], size=(rankings, len(boxes))).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_suppression, "_ROWS_AT_ONCE", at_once)
        kept = Neighbours.of(boxes, np.array(counts)).kept(scores)
    begin = 0
    for count in counts:
        photo = slice(begin, begin + count)
        for row in range(rankings):
            plain = np.zeros(count, dtype=bool)
            plain[geometry.nms(boxes[photo], scores[row, photo])] = True
            assert kept[row, photo].tolist() == plain.tolist()
        begin += count


def test_boxes_of_other_photos_are_never_suppressed() -> None:
    twins = np.array([[0.0, 0, 10, 10]] * 2)
    assert Neighbours.of(twins, np.array([1, 1])).kept(np.array([[0.9, 0.5]])).tolist() == [[True, True]]
    assert Neighbours.of(twins, np.array([2])).kept(np.array([[0.9, 0.5]])).tolist() == [[True, False]]
