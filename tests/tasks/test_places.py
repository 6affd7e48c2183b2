"""Where a region is, as numbers."""

from __future__ import annotations

import numpy as np

from deixis.tasks.places import PLACE_SIZE, places, with_places, with_whole_place


def test_places_are_shares_of_the_photo() -> None:
    found = places([[0, 0, 200, 100], [50, 25, 150, 75]], (200, 100))
    np.testing.assert_allclose(found, [[0, 0, 1, 1, 1, 1, 1], [0.25, 0.25, 0.75, 0.75, 0.5, 0.5, 0.25]])
    assert found.shape[1] == PLACE_SIZE


def test_without_weight_vectors_stay_as_they_are() -> None:
    vectors = np.ones((2, 3), dtype=np.float32)
    assert with_places(vectors, np.zeros((2, 4)), (9, 9), 0.0) is vectors
    assert with_whole_place(vectors, 0.0) is vectors


def test_a_whole_photo_is_the_region_that_covers_it() -> None:
    vectors = np.ones((2, 3), dtype=np.float32)
    boxes = np.array([[0, 0, 90, 60], [0, 0, 90, 60]])
    np.testing.assert_allclose(with_whole_place(vectors, 3.0), with_places(vectors, boxes, (90, 60), 3.0))
