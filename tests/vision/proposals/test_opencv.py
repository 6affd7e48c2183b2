"""Contours of Edge Boxes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from deixis.vision.proposals.opencv import contours, thin_contours

cv2 = pytest.importorskip("cv2", reason="needs the extra 'proposals'")


def step_across(
    angle: float, dark: tuple[int, ...] = (0, 0, 0), light: tuple[int, ...] = (255, 255, 255)
) -> NDArray[np.uint8]:
    """Two colours that meet in a straight line through the centre; `angle` is that of its normal."""
    y, x = np.indices((61, 61)) - 30.0
    pixels: NDArray[np.uint8] = np.where(
        (x * np.cos(angle) + y * np.sin(angle) > 1e-9)[..., None], np.array(light), np.array(dark)
    ).astype(np.uint8)
    return pixels


@pytest.mark.parametrize("degrees", [0, 30, 45, 90, 120, 170])
def test_a_contour_is_strongest_where_colours_meet_and_has_the_angle_of_its_normal(degrees: int) -> None:
    strength, across = contours(cv2, step_across(np.radians(degrees)), blur=2.0)
    assert strength[30, 30] > 0.9
    beside = np.rint(30 + 15 * np.array([np.sin(np.radians(degrees)), np.cos(np.radians(degrees))])).astype(int)
    assert strength[tuple(beside)] < 0.01
    apart = (np.degrees(across[30, 30]) - degrees + 90) % 180 - 90
    assert abs(apart) < 3


def test_colours_of_equal_lightness_have_a_contour_and_invisible_noise_has_none() -> None:
    strength, _ = contours(cv2, step_across(0, dark=(0xC0, 0, 0), light=(0, 0x6E, 0)), blur=2.0)
    assert strength[30, 30] > 0.9
    strength, _ = contours(cv2, step_across(0, dark=(100, 100, 100), light=(101, 101, 101)), blur=2.0)
    assert strength.max() < 0.1


@pytest.mark.parametrize("degrees", [0, 90])
def test_thinning_leaves_a_line(degrees: int) -> None:
    strength, across = contours(cv2, step_across(np.radians(degrees)), blur=2.0)
    lines = thin_contours(cv2, strength, across)
    width = (lines > 0).sum(axis=1 - degrees // 90)[10:50]
    assert (strength > 0.1).sum() > 4 * (lines > 0.1).sum()
    assert width.min() >= 1
    assert (lines[30, 26:36] if degrees == 0 else lines[26:36, 30]).astype(bool).sum() <= 2


def test_the_border_of_the_photo_is_no_contour() -> None:
    lines = thin_contours(cv2, np.ones((5, 7), np.float32), np.zeros((5, 7), np.float32))
    assert lines[1:-1, 1:-1].all()
    assert not lines[[0, -1]].any()
    assert not lines[:, [0, -1]].any()
