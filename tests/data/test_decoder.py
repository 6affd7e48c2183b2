"""Decoders: processes that decode photos of strangers, and can be stopped."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pi_heif
import pillow_heif
import pytest
from PIL import Image

from deixis.data import images
from deixis.data.decoder import DECODE_BYTES, DecoderPool
from deixis.data.images import open_photo
from deixis.errors import PhotoError
from tests.trust.test_files import progressive

PIXELS = 50_000_000


def photo(size: tuple[int, int] = (60, 40), kind: str = "PNG", mode: str = "RGB") -> bytes:
    written = io.BytesIO()
    values = np.random.default_rng(3).integers(0, 256, (size[1], size[0], len(mode)), dtype=np.uint8)
    Image.fromarray(values.squeeze(), mode).save(written, kind)
    return written.getvalue()


@pytest.fixture
def decoders() -> Iterator[DecoderPool]:
    pool = DecoderPool(1)
    yield pool
    pool.close()


@pytest.mark.parametrize(("kind", "mode"), [("PNG", "RGB"), ("PNG", "RGBA"), ("JPEG", "L"), ("WEBP", "RGB")])
def test_a_decoder_gives_the_pixels_of_open_photo(decoders: DecoderPool, tmp_path: Path, kind: str, mode: str) -> None:
    (tmp_path / "photo").write_bytes(photo(kind=kind, mode=mode))
    expected = open_photo(tmp_path / "photo")
    for _ in range(2):  # the second one by the same process
        assert np.array_equal(decoders.decode((tmp_path / "photo").read_bytes(), PIXELS), expected)


def test_problems_are_those_of_open_photo(decoders: DecoderPool) -> None:
    with pytest.raises(PhotoError, match="not a photo in a known format"):
        decoders.decode(b"hello", PIXELS)
    with pytest.raises(PhotoError, match="60 × 40 pixels are too many"):
        decoders.decode(photo(), 1000)
    assert decoders.decode(photo(), PIXELS).size == (60, 40)


@pytest.mark.parametrize("version", ["1.23.0", "1.23.3"])
def test_heif_of_strangers_is_refused_by_a_libheif_with_holes(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pillow_heif.register_heif_opener()
    (tmp_path / "a.heic").write_bytes(photo(kind="HEIF"))
    (tmp_path / "a.avif").write_bytes(photo(kind="AVIF"))
    monkeypatch.setattr(pillow_heif, "libheif_version", lambda: version)
    images._register_heif.cache_clear()
    try:
        with pytest.raises(PhotoError, match=f"HEIF uploads need a newer libheif than {version}: pip install"):
            open_photo(Path("upload"), content=io.BytesIO((tmp_path / "a.heic").read_bytes()))
        assert open_photo(Path("upload"), content=io.BytesIO((tmp_path / "a.avif").read_bytes())).size == (60, 40)
        assert open_photo(tmp_path / "a.heic").size == (60, 40)  # your own
    finally:
        images._register_heif.cache_clear()


def test_heif_of_strangers_is_decoded_by_a_libheif_without_known_holes(decoders: DecoderPool) -> None:
    pillow_heif.register_heif_opener()
    assert decoders.decode(photo(kind="HEIF"), PIXELS).size == (60, 40)


def test_without_pillow_heif_your_own_photos_are_read_by_pi_heif(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pillow_heif.register_heif_opener()
    (tmp_path / "a.heic").write_bytes(photo(kind="HEIF"))
    monkeypatch.setattr(images, "find_spec", lambda name: None)
    images._register_heif.cache_clear()
    try:
        assert open_photo(tmp_path / "a.heic").size == (60, 40)
        assert images._register_heif() == tuple(map(int, pi_heif.libheif_version().split(".")))
    finally:
        images._register_heif.cache_clear()


def test_a_decode_that_takes_too_long_is_stopped_and_the_next_photo_is_decoded() -> None:
    pool = DecoderPool(1, seconds=0.5)
    bomb = progressive(2400, 500)  # within the limit of scans; takes seconds
    try:
        with pytest.raises(PhotoError, match="takes more than 0.5 s"):
            pool.decode(bomb, PIXELS)
        pool._seconds = 60.0
        assert pool.decode(photo(), PIXELS).size == (60, 40)
    finally:
        pool.close()


def test_a_decoder_that_dies_is_replaced(decoders: DecoderPool) -> None:
    decoders.decode(photo(), PIXELS)
    process = _process(decoders)
    process.kill()
    process.wait()
    assert decoders.decode(photo(), PIXELS).size == (60, 40)


def test_decoders_import_little_and_have_a_limit_of_memory(decoders: DecoderPool) -> None:
    decoders.decode(photo(), PIXELS)
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    folder = Path("/proc") / str(_process(decoders).pid)
    (limit,) = (line.split()[3] for line in (folder / "limits").read_text().splitlines() if "address space" in line)
    assert int(limit) == DECODE_BYTES
    mapped = (folder / "maps").read_text()
    assert not any(name in mapped for name in ("/torch/", "/onnxruntime/", "/numpy/", "_sqlite3"))


def test_no_process_stays_after_close() -> None:
    pool = DecoderPool(2)
    pool.decode(photo(), PIXELS)
    process = _process(pool)
    slots = [pool._idle.get() for _ in range(2)]
    for slot in slots:  # so that the process is not in the slot that comes first
        pool._idle.put(slot)
    pool.close()
    deadline = time.monotonic() + 20
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.poll() is not None


def _process(pool: DecoderPool):  # type: ignore[no-untyped-def]
    decoder = pool._idle.get()
    pool._idle.put(decoder)
    assert decoder is not None
    return decoder._process
