"""What is kept of what a model says."""

from __future__ import annotations

import numpy as np

from deixis.index.seeing import Seen, refusal


def test_a_photo_without_regions_is_kept() -> None:
    assert refusal(Seen(np.ones(4, dtype=np.float32), 9, 9), 4, 4) is None


def test_boxes_that_are_not_finite_are_refused() -> None:
    boxes = np.full((1, 4), np.nan, dtype=np.float32)
    seen = Seen(np.ones(4, dtype=np.float32), 9, 9, boxes, np.ones((1, 4), dtype=np.float32))
    assert refusal(seen, 4, 4) == "the model gave numbers that are not finite"


def test_vectors_that_half_precision_cannot_hold_are_refused() -> None:
    seen = Seen(np.ones(2, np.float32), 9, 9, np.zeros((1, 4), np.float32), np.full((1, 2), 7e4, np.float32))
    assert refusal(seen, 2, 2) == "the model gave numbers that float16 cannot hold"
