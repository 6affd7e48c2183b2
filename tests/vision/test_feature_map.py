"""Feature maps and pooling."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from deixis.vision.feature_map import POINTS, FeatureMap, pool_regions, resample_cells


def read_bilinearly(cells: NDArray[np.float32], x: float, y: float) -> NDArray[np.float64]:
    """The map at one point; cell centres are at 0, 1, 2…, and points outside are clamped."""
    _, rows, columns = cells.shape
    x, y = min(max(x, 0.0), columns - 1.0), min(max(y, 0.0), rows - 1.0)
    left, top = int(x), int(y)
    right, bottom = min(left + 1, columns - 1), min(top + 1, rows - 1)
    a, b = x - left, y - top
    upper = cells[:, top, left] * (1 - a) + cells[:, top, right] * a
    lower = cells[:, bottom, left] * (1 - a) + cells[:, bottom, right] * a
    return np.asarray(upper * (1 - b) + lower * b, dtype=np.float64)


def plain_roi_align(
    cells: NDArray[np.float32], box: tuple[float, float, float, float], size: tuple[int, int]
) -> NDArray[np.float64]:
    _, rows, columns = cells.shape
    x1, y1, x2, y2 = box
    total = np.zeros(len(cells))
    for i in range(POINTS):
        for j in range(POINTS):
            x = x1 + (x2 - x1) * (i + 0.5) / POINTS
            y = y1 + (y2 - y1) * (j + 0.5) / POINTS
            total += read_bilinearly(cells, x / size[0] * columns - 0.5, y / size[1] * rows - 0.5)
    return total / POINTS**2


@st.composite
def photos_with_boxes(
    draw: st.DrawFn,
) -> tuple[NDArray[np.float32], list[tuple[float, float, float, float]], tuple[int, int]]:
    rows, columns = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    width, height = draw(st.integers(1, 600)), draw(st.integers(1, 600))
    boxes = []
    for _ in range(draw(st.integers(1, 4))):
        across = sorted(draw(st.tuples(*[st.floats(-0.1, 1.1)] * 2)))
        down = sorted(draw(st.tuples(*[st.floats(-0.1, 1.1)] * 2)))
        boxes.append((across[0] * width, down[0] * height, across[1] * width, down[1] * height))
    seed = draw(st.integers(0, 99))
    cells = np.random.default_rng(seed).normal(size=(3, rows, columns)).astype(np.float32)
    return cells, boxes, (width, height)


@given(photos_with_boxes())
def test_region_vectors_are_those_of_a_plain_roi_align(
    case: tuple[NDArray[np.float32], list[tuple[float, float, float, float]], tuple[int, int]],
) -> None:
    cells, boxes, size = case
    expected = np.stack([plain_roi_align(cells, box, size) for box in boxes])
    np.testing.assert_allclose(pool_regions(cells, np.array(boxes), size), expected, atol=1e-5)


def test_a_resampled_map_holds_the_vectors_of_the_new_cells() -> None:
    cells = np.random.default_rng(0).normal(size=(3, 16, 16)).astype(np.float32)
    resampled = resample_cells(cells, 9, 7)
    boxes = np.array([[x / 7, y / 9, (x + 1) / 7, (y + 1) / 9] for y in range(9) for x in range(7)])
    expected = pool_regions(cells, boxes, (1, 1)).T.reshape(3, 9, 7)
    np.testing.assert_allclose(resampled, expected, atol=1e-5)
    assert resample_cells(cells, 16, 16) is cells


LEFT_AND_RIGHT = FeatureMap(
    cells=np.array([[[0, 0, 1, 1]] * 4], dtype=np.float32), whole=np.array([0.5], np.float32), size=(400, 200)
)


def test_regions_are_in_pixels_of_the_photo() -> None:
    left, right, all_of_it = LEFT_AND_RIGHT.regions([[0, 0, 150, 200], [250, 0, 400, 200], [0, 0, 400, 200]])
    assert left == 0
    assert right == 1
    assert all_of_it == 0.5
    assert LEFT_AND_RIGHT.regions([0, 0, 100, 100]).shape == (1, 1)
    assert LEFT_AND_RIGHT.regions([]).shape == (0, 1)
