"""Photo files through an encoder: order, bounded memory, invalid files."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.data.images import LIMIT_VARIABLE, open_photo, opened_photo
from deixis.errors import PhotoError
from deixis.vision import extraction
from deixis.vision.encoder import ImageEncoder, InputSize
from deixis.vision.extraction import encode_and_keep, encode_full_size, encode_photos
from deixis.vision.feature_map import FeatureMap
from tests.vision.feature_store.small import colours

ENCODER = ImageEncoder("colours", colours, InputSize(16), channels=3, dimension=3, fingerprint="1")


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

    monkeypatch.setattr(extraction, "opened_photo", watched)
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
