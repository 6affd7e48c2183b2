"""Encoders with a simple network: feature maps, pooling, photos of any size, crops, and files, also invalid ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from deixis.data.images import LIMIT_VARIABLE, open_photo, opened_photo
from deixis.errors import PhotoError
from deixis.vision import encoder as encoders
from deixis.vision.encoder import (
    POINTS,
    FeatureMap,
    ImageEncoder,
    InputSize,
    Pixels,
    encode_and_keep,
    encode_full_size,
    encode_photos,
    pool_regions,
    resample_cells,
    resize_photo,
    ten_crops,
)
from tests.vision.feature_store.small import colours

ENCODER = ImageEncoder("colours", colours, InputSize(16), channels=3, dimension=3, fingerprint="1")


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


def mean_colours(pixels: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A network whose cells are blocks of 4 × 4 pixels."""
    photos, height, width, _ = pixels.shape
    blocks = pixels.astype(np.float32).reshape(photos, height // 4, 4, width // 4, 4, 3)
    cells = np.ascontiguousarray(blocks.mean(axis=(2, 4)).transpose(0, 3, 1, 2))
    return cells, cells.mean(axis=(2, 3))


def colour_encoder(side: int = 16, keep_aspect: bool = False, name: str = "colours") -> ImageEncoder:
    return ImageEncoder(name, mean_colours, InputSize(side, keep_aspect, 4), channels=3, dimension=3, fingerprint=name)


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
    expected = [np.mean([mean_colours(crop[None])[1][0] for crop in ten_crops(photo, 16)], axis=0) for photo in photos]
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


def save(path: Path, width: int, height: int, level: int, orientation: int = 1) -> Path:
    """A photo with a gradient from dark on the left to bright on the right."""
    ramp = np.linspace(level, level + 100, width).astype(np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.broadcast_to(ramp[None, :, None], (height, width, 3)).copy()).save(path, quality=95, exif=exif)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    return [save(tmp_path / f"{n}.jpg", 30 + n, 20, 10 * n) for n in range(11)]


@pytest.mark.parametrize("batch", [1, 3, 11, 50])
@pytest.mark.parametrize("readers", [1, 4])
def test_photos_come_back_in_order_with_their_features(photos: list[Path], batch: int, readers: int) -> None:
    found = list(encode_photos(ENCODER, photos, batch, readers))
    assert [path for path, _ in found] == photos
    for path, features in found:
        assert isinstance(features, FeatureMap)
        [expected] = ENCODER.encode([open_photo(path)])
        np.testing.assert_allclose(features.cells, expected.cells, rtol=1e-5)
        assert features.size == expected.size


def test_a_bad_file_never_stops_a_run(photos: list[Path], tmp_path: Path) -> None:
    photos[2].write_bytes(b"no photo")
    photos[5].write_bytes(photos[5].read_bytes()[:300])
    photos[10] = tmp_path / "gone.jpg"
    found = dict(encode_photos(ENCODER, photos, batch=4))
    bad = [photos.index(path) for path, features in found.items() if isinstance(features, PhotoError)]
    assert bad == [2, 5, 10]
    assert all(found[photos[index]].path == str(photos[index]) for index in bad)  # type: ignore[union-attr]
    [(_, after)] = encode_photos(ENCODER, photos[3:4])
    assert isinstance(after, FeatureMap)
    np.testing.assert_allclose(found[photos[3]].cells, after.cells, rtol=1e-5)  # type: ignore[union-attr]


def test_only_a_few_photos_are_read_ahead(photos: list[Path]) -> None:
    taken = 0

    def endless() -> Iterator[Path]:
        nonlocal taken
        for number in count():
            taken += 1
            yield photos[number % len(photos)]

    found = encode_photos(ENCODER, endless(), batch=4)
    for number in range(1, 40):
        next(found)
        assert taken - number < 3 * 4
    found.close()


def test_an_abandoned_iterator_leaves_no_threads(photos: list[Path]) -> None:
    found = encode_photos(ENCODER, photos, batch=2)
    next(found)
    found.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("photos")]


def decoded_sizes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The sizes at which photos are decoded from now on."""
    sizes: list[tuple[int, int]] = []

    @contextmanager
    def watched(path: Path, min_side: int | None = None) -> Iterator[Image.Image]:
        with opened_photo(path, min_side) as photo:
            sizes.append(photo.size)
            yield photo

    monkeypatch.setattr(encoders, "opened_photo", watched)
    return sizes


@pytest.mark.parametrize(
    ("saved", "orientation", "size"),
    [
        ((803, 401), 1, (803, 401)),
        ((803, 401), 3, (803, 401)),
        ((803, 401), 6, (401, 803)),
        ((803, 401), 8, (401, 803)),
        ((399, 400), 6, (400, 399)),  # at a reduced scale, the sides are equal
    ],
)
def test_a_large_jpeg_is_decoded_at_a_reduced_scale_and_keeps_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: tuple[int, int], orientation: int, size: tuple[int, int]
) -> None:
    path = save(tmp_path / "a.jpg", *saved, 50, orientation)
    sizes = decoded_sizes(monkeypatch)
    [(_, features)] = encode_photos(ENCODER, [path])
    assert 32 <= min(sizes[0]) < 101
    assert isinstance(features, FeatureMap)
    assert features.size == size
    [expected] = ENCODER.encode([open_photo(path)])
    np.testing.assert_allclose(features.cells, expected.cells, atol=4 / 255)


def test_photos_at_full_size_are_decoded_once_and_returned_with_their_maps(
    photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = save(tmp_path / "large.jpg", 803, 401, 50, orientation=6)
    sizes = decoded_sizes(monkeypatch)
    found = list(encode_full_size(ENCODER, [*photos, large], batch=3))
    assert len(sizes) == 12
    for path, encoded in found:
        photo, features = encoded
        expected = open_photo(path)
        assert photo.size == expected.size == features.size
        assert photo.tobytes() == expected.tobytes()
        np.testing.assert_allclose(features.cells, ENCODER.encode([expected])[0].cells, rtol=1e-5)


def test_a_bad_file_yields_its_error_at_full_size(photos: list[Path]) -> None:
    photos[3].write_bytes(b"no photo")
    found = dict(encode_full_size(ENCODER, photos))
    assert [photos.index(path) for path, encoded in found.items() if isinstance(encoded, PhotoError)] == [3]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("photos")]


@pytest.mark.parametrize(("megapixels", "most"), [(1, 1), (3, 3)])
def test_large_photos_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, megapixels: int, most: int
) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, str(megapixels))
    paths = [save(tmp_path / f"{number}.png", 500, 600, 0) for number in range(6)]  # 4 MB each
    at_once: list[int] = []
    running: set[int] = set()

    def keep(_: Image.Image) -> None:
        running.add(threading.get_ident())
        time.sleep(0.05)
        at_once.append(len(running))
        running.discard(threading.get_ident())

    found = list(encode_and_keep(ENCODER, paths, keep, readers=4))
    assert not any(isinstance(each, PhotoError) for _, each in found)
    assert max(at_once) == most
