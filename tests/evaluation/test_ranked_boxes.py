"""Rankings of boxes against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis import geometry
from deixis.evaluation import ranked_boxes
from deixis.evaluation.ranked_boxes import Overlaps, rank_boxes

whole = st.integers(0, 6)
side = st.tuples(whole, whole).map(sorted)
box = st.tuples(side, side).map(lambda s: [s[0][0], s[1][0], s[0][1], s[1][1]])
ranking = st.lists(st.tuples(box, st.sampled_from([0.0, 0.5, 1.0])), max_size=12)


def arrays(pairs: list[tuple[list[int], float]]) -> tuple[geometry.Boxes, np.ndarray]:
    boxes = np.array([corners for corners, _ in pairs], dtype=np.float64).reshape(-1, 4)
    return boxes, np.array([score for _, score in pairs], dtype=np.float64)


def test_the_first_of_equal_boxes_is_better() -> None:
    ranked = rank_boxes([(np.array([[0.0, 0, 1, 1], [0, 0, 2, 2], [0, 0, 3, 3]]), np.array([1.0, 2, 2]))])
    assert ranked.boxes[:, 2].tolist() == [2, 3, 1]


def made_up_boxes(rng: np.random.Generator, n: int) -> np.ndarray:
    corners = rng.integers(0, 20, size=(n, 2))
    return np.concatenate([corners, corners + rng.integers(1, 20, size=(n, 2))], axis=1).astype(np.float64)


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([0, 1, 2, 5, 30, 64, 65, 130]), min_size=1, max_size=5),
    st.integers(1, 4),
    st.sampled_from([np.float32, np.float64, np.float16]),
    st.sampled_from([1, 5, 4096]),
    st.integers(0, 1000),
)
def test_shared_nms_equals_nms_of_each_photo_and_ranking(
    counts: list[int], rankings: int, dtype: type, at_once: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    boxes = made_up_boxes(rng, sum(counts))
    # Few different numbers, so that many are equal; both zeros are among them.
    scores = rng.choice([-2.5, -1.0, -0.0, 0.0, 0.5, 3.0], size=(rankings, len(boxes))).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranked_boxes, "_ROWS_PER_BATCH", at_once)
        kept = Overlaps.from_boxes(boxes, np.array(counts)).kept(scores)
    begin = 0
    for count in counts:
        photo = slice(begin, begin + count)
        for row in range(rankings):
            plain = np.zeros(count, dtype=bool)
            plain[geometry.nms(boxes[photo], scores[row, photo])] = True
            assert kept[row, photo].tolist() == plain.tolist()
        begin += count
