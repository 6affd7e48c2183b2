"""Encoders with a simple network: photos of any size, and crops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from deixis.vision.encoder import ImageEncoder, InputSize, Pixels, resize_photo, ten_crops
from deixis.vision.feature_map import FeatureMap


def colours(pixels: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A network whose cells are blocks of 4 × 4 pixels."""
    photos, height, width, _ = pixels.shape
    blocks = pixels.astype(np.float32).reshape(photos, height // 4, 4, width // 4, 4, 3)
    cells = np.ascontiguousarray(blocks.mean(axis=(2, 4)).transpose(0, 3, 1, 2))
    return cells, cells.mean(axis=(2, 3))


def colour_encoder(side: int = 16, keep_aspect: bool = False, name: str = "colours") -> ImageEncoder:
    return ImageEncoder(name, colours, InputSize(side, keep_aspect, 4), channels=3, dimension=3, fingerprint=name)


def noise(width: int, height: int, seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def same(one: FeatureMap, other: FeatureMap) -> bool:
    return np.allclose(one.cells, other.cells) and np.allclose(one.whole, other.whole) and one.size == other.size


sides = st.integers(1, 3000)


@given(sides, sides, st.integers(32, 600), st.sampled_from([1, 14, 16, 32]))
def test_a_size_with_kept_aspect_ratio_is_a_multiple_of_the_patch_size(
    w: int, h: int, side: int, multiple: int
) -> None:
    size = InputSize(side, keep_aspect=True, multiple=multiple)
    wide, high = size.target_size(w, h)
    assert wide % multiple == high % multiple == 0
    assert min(wide, high) >= multiple
    assert size.target_size(h, w) == (high, wide)
    if side >= 128:  # up to rounding, the number of pixels and the proportions are kept
        proportions = min(max(w / h, 1 / 3), 3)
        assert abs(wide - side * proportions**0.5) <= multiple / 2 + 1e-6
        assert abs(high - side / proportions**0.5) <= multiple / 2 + 1e-6


photo_sizes = st.lists(st.tuples(st.integers(8, 90), st.integers(8, 90)), max_size=7)


@given(photo_sizes, st.booleans())
def test_the_order_and_the_batch_do_not_affect_features(sizes: list[tuple[int, int]], keep_aspect: bool) -> None:
    encoder = colour_encoder(keep_aspect=keep_aspect)
    photos = [noise(width, height, seed) for seed, (width, height) in enumerate(sizes)]
    together = encoder.encode(photos)
    alone = [encoder.encode([photo])[0] for photo in photos]
    assert len(together) == len(photos)
    assert all(same(one, other) for one, other in zip(together, alone, strict=True))


def test_features_have_the_full_size_of_the_photo() -> None:
    encoder = colour_encoder()
    assert encoder.encode([noise(60, 30, 0)])[0].size == (60, 30)
    assert encoder.encode_prepared([encoder.prepare(noise(60, 30, 0), size=(600, 300))])[0].size == (600, 300)


def test_a_photo_decoded_at_a_reduced_scale_has_the_input_size_of_the_full_one() -> None:
    encoder = colour_encoder(keep_aspect=True)
    prepared = encoder.prepare(noise(101, 50, 0), size=(303, 101))
    assert prepared.pixels.shape[:2] == encoder.input_size.target_size(303, 101)[::-1]


def test_ten_crops_are_corners_and_centre_and_their_mirror_images() -> None:
    photo = noise(256, 256, 0)
    pixels = np.asarray(photo)
    crops = ten_crops(photo, 224)
    assert crops.shape == (10, 224, 224, 3)
    corners = [(0, 0), (32, 0), (0, 32), (32, 32), (16, 16)]
    for number, (left, top) in enumerate(corners):
        expected = pixels[top : top + 224, left : left + 224]
        assert np.array_equal(crops[2 * number], expected)
        assert np.array_equal(crops[2 * number + 1], expected[:, ::-1])


def test_a_crop_vector_is_the_mean_over_the_ten() -> None:
    encoder = colour_encoder()
    photos = [noise(50, 70, 0), noise(30, 30, 1)]
    vectors = encoder.encode_crops(photos)
    expected = [np.mean([colours(crop[None])[1][0] for crop in ten_crops(photo, 16)], axis=0) for photo in photos]
    np.testing.assert_allclose(vectors, expected, rtol=1e-5)
    assert encoder.encode_crops([]).shape == (0, 3)


def test_resizing_is_antialiased() -> None:
    stripes = np.zeros((256, 256, 3), np.uint8)
    stripes[:, ::2] = 255
    small = resize_photo(Image.fromarray(stripes), (16, 16))
    assert abs(int(small.min()) - 127) < 12
    assert abs(int(small.max()) - 127) < 12


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1"])
def test_images_of_other_modes_are_converted_to_rgb(mode: str) -> None:
    [features] = colour_encoder().encode([Image.new("RGB", (40, 30), "white").convert(mode)])
    assert features.whole.tolist() == [255, 255, 255]


@pytest.mark.parametrize("size", [(1, 1), (1, 5000), (5000, 1), (3, 2)])
@pytest.mark.parametrize("keep_aspect", [False, True])
def test_photos_of_extreme_sizes_are_encoded(size: tuple[int, int], keep_aspect: bool) -> None:
    [features] = colour_encoder(keep_aspect=keep_aspect).encode([Image.new("RGB", size, "white")])
    assert features.size == size
    assert features.whole.tolist() == [255, 255, 255]
