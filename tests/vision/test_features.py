"""What an encoder makes of a photo."""

from __future__ import annotations

import numpy as np

from deixis.vision.features import FeatureMap

LEFT_AND_RIGHT = FeatureMap(
    cells=np.array([[[0, 0, 1, 1]] * 4], dtype=np.float32), whole=np.array([0.5], np.float32), size=(400, 200)
)


def test_regions_are_in_pixels_of_the_photo() -> None:
    left, right, all_of_it = LEFT_AND_RIGHT.regions([[0, 0, 150, 200], [250, 0, 400, 200], [0, 0, 400, 200]])
    assert left == 0
    assert right == 1
    assert all_of_it == 0.5


def test_one_box_and_none_are_taken_as_well() -> None:
    assert LEFT_AND_RIGHT.regions([0, 0, 100, 100]).shape == (1, 1)
    assert LEFT_AND_RIGHT.regions([]).shape == (0, 1)
