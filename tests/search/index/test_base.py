"""Encoded photos are checked before they are stored."""

from __future__ import annotations

import numpy as np

from deixis.search.index.base import PhotoVectors


def test_a_photo_without_regions_is_valid() -> None:
    assert PhotoVectors(np.ones(4, np.float32), 9, 9).problem(4, 4) is None


def test_boxes_that_are_not_finite_are_a_problem() -> None:
    boxes = np.full((1, 4), np.nan, dtype=np.float32)
    encoded = PhotoVectors(np.ones(4, np.float32), 9, 9, boxes, np.ones((1, 4), np.float32))
    assert "finite" in (encoded.problem(4, 4) or "")


def test_vectors_beyond_half_precision_are_a_problem() -> None:
    boxes, vectors = np.zeros((1, 4), np.float32), np.full((1, 2), 7e4, np.float32)
    assert "float16" in (PhotoVectors(np.ones(2, np.float32), 9, 9, boxes, vectors).problem(2, 2) or "")
