"""The order and the settings of selective search."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from deixis import geometry
from deixis.vision.proposals.selective_search import SelectiveSearch, SelectiveSearchSettings, shorter_sides

pytest.importorskip("cv2.ximgproc", reason="needs the extra 'proposals'")


@pytest.fixture(scope="module")
def photo() -> Image.Image:
    pixels = np.random.default_rng(3).integers(0, 256, (6, 9, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((180, 120), Image.Resampling.NEAREST)


def test_scores_are_shorter_sides_and_kept_boxes_are_apart(photo: Image.Image) -> None:
    found = SelectiveSearch(SelectiveSearchSettings(side=90, overlap=0.4)).propose(photo, None, 100)
    assert len(found.boxes) > 10
    assert np.allclose(found.scores, shorter_sides(found.boxes, photo.size))
    assert (np.triu(geometry.iou(found.boxes, found.boxes), 1) < 0.4).all()


def test_quality_finds_more_than_fast(photo: Image.Image) -> None:
    fast, quality = (
        SelectiveSearch(SelectiveSearchSettings(side=60, mode=mode, overlap=1.0)).propose(photo, None, 100_000)
        for mode in ("fast", "quality")
    )
    assert len(quality.boxes) > len(fast.boxes)


def test_a_long_thin_box_scores_below_a_smaller_square_one() -> None:
    long, square = shorter_sides(np.array([[0.0, 0, 100, 5], [0, 0, 20, 10]]), size=(100, 50)).tolist()
    assert (long, square) == (0.1, 0.2)
