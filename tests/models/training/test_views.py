"""Random views of photos: which parts they show, and their features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.errors import PhotoError
from deixis.models.training.views import View, encode_views, random_views
from tests.vision.feature_store.small import colour_encoder


def quarters(width: int = 40, height: int = 20) -> Image.Image:
    """A photo whose left half is red and right half blue, darker below."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[:, : width // 2, 0], pixels[:, width // 2 :, 2] = 200, 200
    pixels[height // 2 :] //= 2
    return Image.fromarray(pixels)


def test_views_are_the_photo_its_mirror_image_and_large_parts_of_it() -> None:
    views = random_views(200, np.random.default_rng(0))
    assert views[0] == View()
    assert views[1] == View(mirrored=True)
    sides = np.array([view.box for view in views[2:]])
    assert sides.min() >= 0
    assert sides.max() <= 1 + 1e-9
    areas = (sides[:, 2:] - sides[:, :2]).prod(axis=1)
    assert 0.45 < areas.min() < 0.6
    assert 0.9 < areas.max() <= 1
    assert 60 < sum(view.mirrored for view in views[2:]) < 140
    light = np.array([(view.brightness, view.contrast) for view in views[2:]])
    assert 0.7 <= light.min() < 0.75
    assert 1.25 < light.max() <= 1.3


def test_the_same_seed_gives_the_same_views() -> None:
    first, second, other = (random_views(5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == second != other


def test_a_view_shows_its_part_of_the_photo() -> None:
    right = np.asarray(View((0.5, 0.0, 1.0, 0.5)).of(quarters()))
    assert right.shape == (10, 20, 3)
    assert (right == (0, 0, 200)).all()
    mirrored = np.asarray(View(mirrored=True).of(quarters()))
    assert (mirrored[0, 0] == (0, 0, 200)).all()
    assert np.asarray(View(brightness=0.5).of(quarters()))[0, 0].tolist() == [100, 0, 0]
    flat = np.asarray(View(contrast=0.5).of(quarters()))
    assert 0 < flat[0, 0, 1] < flat[0, 0, 0] < 200


def test_a_view_of_a_tiny_photo_has_a_pixel() -> None:
    assert View((0.4, 0.4, 0.45, 0.45)).of(quarters(2, 2)).size == (1, 1)


def test_views_are_encoded_like_photos_of_what_they_show(tmp_path: Path) -> None:
    encoder, views = colour_encoder(), random_views(3, np.random.default_rng(0))
    paths = []
    for number in range(20):
        paths.append(tmp_path / f"{number}.png")
        quarters(40 + number, 30).save(paths[-1])
    found = list(encode_views(encoder, paths, [views] * 20))
    assert [len(photo) for photo in found] == [3] * 20
    for path, photo in zip(paths, found, strict=True):
        with Image.open(path) as opened:
            expected = encoder.encode([view.of(opened) for view in views])
        for view, other in zip(photo, expected, strict=True):
            np.testing.assert_array_equal(view.cells, other.cells)
            np.testing.assert_array_equal(view.whole, other.whole)


def test_a_photo_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PhotoError):
        list(encode_views(colour_encoder(), [tmp_path / "none.png"], [[View()]]))
