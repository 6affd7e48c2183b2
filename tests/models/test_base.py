"""Location features of regions."""

from __future__ import annotations

import numpy as np

from deixis.models.base import LOCATION_SIZE, append_locations, append_whole_location, box_locations


def test_locations_are_divided_by_the_size_of_the_photo() -> None:
    found = box_locations([[0, 0, 200, 100], [50, 25, 150, 75]], (200, 100))
    np.testing.assert_allclose(found, [[0, 0, 1, 1, 1, 1, 1], [0.25, 0.25, 0.75, 0.75, 0.5, 0.5, 0.25]])
    assert found.shape[1] == LOCATION_SIZE


def test_a_whole_photo_is_the_region_that_covers_it() -> None:
    vectors, boxes = np.ones((2, 3), dtype=np.float32), np.array([[0, 0, 90, 60]] * 2)
    np.testing.assert_allclose(append_whole_location(vectors, 3.0), append_locations(vectors, boxes, (90, 60), 3.0))
    assert append_locations(vectors, boxes, (90, 60), 0.0) is append_whole_location(vectors, 0.0) is vectors
