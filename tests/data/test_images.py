"""Photo files of every format, previews of RAW files, frames of videos, and invalid files."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
import pillow_heif
import pytest
from PIL import Image

from deixis.data import images
from deixis.data.images import LIMIT_VARIABLE, find_photos, inspect_photo, open_photo, photo_size
from deixis.errors import DeixisError, PhotoError
from deixis.search.index.photo_files import XMP, read_exif

pillow_heif.register_heif_opener()
ROOT = Path(__file__).parents[2]
RED_LEFT = Image.fromarray(
    np.where(np.arange(40)[None, :, None] < 20, [[[255, 0, 0]]], [[[0, 0, 255]]]).repeat(24, 0).astype(np.uint8)
)


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp", "a.tiff", "a.bmp", "a.gif", "a.heic", "a.avif", "A.JPG"])
def test_every_image_format_is_read(tmp_path: Path, name: str) -> None:
    RED_LEFT.save(tmp_path / name)
    assert find_photos(tmp_path) == [tmp_path / name]
    found = inspect_photo(tmp_path / name)
    assert (found.width, found.height) == (40, 24)
    photo = open_photo(tmp_path / name)
    assert photo.mode == "RGB"
    left, right = photo.getpixel((3, 12)), photo.getpixel((36, 12))
    assert left[0] > 180 > 90 > left[2]
    assert right[2] > 180 > 90 > right[0]


def test_transparency_becomes_white(tmp_path: Path) -> None:
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(tmp_path / "a.png")
    assert open_photo(tmp_path / "a.png").getpixel((0, 0)) == (255, 255, 255)


def test_palettes_cmyk_and_deep_greys_keep_their_colours(tmp_path: Path) -> None:
    RED_LEFT.convert("P").save(tmp_path / "p.png")
    RED_LEFT.convert("CMYK").save(tmp_path / "c.jpg", quality=95)
    deep = np.linspace(0, 65535, 24 * 40).reshape(24, 40).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "g.png")
    assert open_photo(tmp_path / "p.png").getpixel((3, 3))[0] > 180
    assert open_photo(tmp_path / "c.jpg").getpixel((3, 3))[0] > 180
    middle = open_photo(tmp_path / "g.png").getpixel((20, 12))[0]
    assert 110 < middle < 145


def test_only_the_first_frame_of_a_gif_is_read(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert open_photo(tmp_path / "a.gif").getpixel((0, 0))[0] > 200


@pytest.mark.parametrize(
    "data", [b"", b"GIF89a", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%!PS-Adobe-3.0 EPSF-3.0"]
)
def test_a_file_that_is_no_photo_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.jpg").write_bytes(data)
    with pytest.raises(PhotoError) as error:
        open_photo(tmp_path / "a.jpg")
    assert error.value.path == str(tmp_path / "a.jpg")


@pytest.mark.parametrize("min_side", [None, 10])
def test_a_truncated_photo_is_refused_when_decoded(tmp_path: Path, min_side: int | None) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (200, 200, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.jpg")
    data = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(data[: len(data) // 2])
    assert inspect_photo(tmp_path / "a.jpg").width == 200
    with pytest.raises(PhotoError, match=r"a\.jpg"):
        open_photo(tmp_path / "a.jpg", min_side)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    "size", [(30_000, 30_000), (15_000, 10_001)], ids=["beyond Pillow's limit", "beyond our limit"]
)
def test_too_many_pixels_or_bytes_are_refused_before_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    Image.new("1", size).save(tmp_path / "bomb.png")
    for read in (inspect_photo, open_photo):
        with pytest.raises(PhotoError, match="too many"):
            read(tmp_path / "bomb.png")
    monkeypatch.setattr(images, "MAX_BYTES", 10)
    with pytest.raises(PhotoError, match="larger than"):
        open_photo(tmp_path / "bomb.png")


def test_missing_and_hidden_files(tmp_path: Path) -> None:
    with pytest.raises(PhotoError, match=r"a\.jpg"):
        inspect_photo(tmp_path / "a.jpg")
    with pytest.raises(PhotoError, match=tmp_path.name):
        open_photo(tmp_path)
    (tmp_path / ".cache").mkdir()
    RED_LEFT.save(tmp_path / ".cache" / "a.jpg")
    RED_LEFT.save(tmp_path / "b.png")
    (tmp_path / "notes.txt").write_text("not a photo")
    assert find_photos(tmp_path) == [tmp_path / "b.png"]


CORNERS = {"R": (255, 0, 0), "G": (0, 255, 0), "B": (0, 0, 255), "W": (255, 255, 255)}
QUARTERS = Image.new("RGB", (48, 32))
for place, name in enumerate("RGBW"):
    QUARTERS.paste(CORNERS[name], (24 * (place % 2), 16 * (place // 2), 24 * (place % 2) + 24, 16 * (place // 2) + 16))


@pytest.mark.parametrize(
    ("orientation", "size", "corners"),  # top left, top right, bottom left, bottom right: EXIF 2.3, tag 0x0112
    [
        (1, (48, 32), "RGBW"),
        (2, (48, 32), "GRWB"),
        (3, (48, 32), "WBGR"),
        (4, (48, 32), "BWRG"),
        (5, (32, 48), "RBGW"),
        (6, (32, 48), "BRWG"),
        (7, (32, 48), "WGBR"),
        (8, (32, 48), "GWRB"),
    ],
)
@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "tiff", "heic"])
def test_every_exif_orientation_is_applied_in_every_format_that_has_it(
    tmp_path: Path, ending: str, orientation: int, size: tuple[int, int], corners: str
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"a.{ending}"
    QUARTERS.save(path, exif=exif.tobytes(), quality=95)  # pillow-heif turns a photo only if it is told in bytes
    found, photo = inspect_photo(path), open_photo(path)
    assert (found.width, found.height) == photo.size == size
    right, bottom = 3 * size[0] // 4, 3 * size[1] // 4
    for name, (x, y) in zip(corners, [(8, 8), (right, 8), (8, bottom), (right, bottom)], strict=True):
        assert photo.getpixel((x, y)) == pytest.approx(CORNERS[name], abs=60)


def test_no_limit_is_advised_that_would_be_refused(tmp_path: Path) -> None:
    """The header of a hostile BMP states billions of pixels a side."""
    header = struct.pack("<IHHI", 100, 0, 0, 54) + struct.pack("<IiiHH6I", 40, 2**31 - 1, 2**31 - 1, 1, 24, *[0] * 6)
    (tmp_path / "a.bmp").write_bytes(b"BM" + header)
    with pytest.raises(PhotoError, match="too many$"):
        open_photo(tmp_path / "a.bmp")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("name", "size", "needed"),
    [("a.png", (15_000, 10_001), 151), ("b.png", (20_000, 10_000), 200), ("c.webp", (10_000, 8_000), 160)],
)
def test_a_refusal_says_how_to_raise_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: tuple[int, int], needed: int
) -> None:
    Image.new("1" if name.endswith("png") else "L", size).save(tmp_path / name, method=0, quality=0)
    with pytest.raises(PhotoError, match=f"too many; set {LIMIT_VARIABLE}={needed} and retry"):
        open_photo(tmp_path / name, min_side=100)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)
    monkeypatch.setenv(LIMIT_VARIABLE, str(needed))
    assert photo_size(tmp_path / name) == size
    monkeypatch.setattr(Image.Image, "load", lambda _: pytest.fail("decoded"))
    with pytest.raises(pytest.fail.Exception, match="decoded"):
        open_photo(tmp_path / name, min_side=100)


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "many", "nan", "9" * 5000])
def test_the_limit_is_a_number_of_megapixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    RED_LEFT.save(tmp_path / "a.jpg")
    monkeypatch.setenv(LIMIT_VARIABLE, text)
    with pytest.raises(DeixisError, match=LIMIT_VARIABLE):
        open_photo(tmp_path / "a.jpg")


@pytest.mark.parametrize("mode", ["RGBA", "P", "I;16", "F"])
def test_a_large_photo_is_converted_in_strips_and_reduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    values = np.random.default_rng(0).integers(0, 256, (203, 301, 4), dtype=np.uint8)
    deep = {"I;16": values[..., 0].astype(np.uint16) * 250, "F": values[..., 0].astype(np.float32) / 255}
    image = Image.fromarray(deep.get(mode, values))
    image = image.quantize(32) if mode == "P" else image
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "a.tif", exif=exif)
    whole = open_photo(tmp_path / "a.tif")
    monkeypatch.setattr(images, "_STRIP_PIXELS", 301 * 10)
    assert open_photo(tmp_path / "a.tif").tobytes() == whole.tobytes()
    monkeypatch.setattr(images, "_LARGE_PIXELS", 1000)
    reduced = open_photo(tmp_path / "a.tif", min_side=60)
    assert reduced.size == (68, 101)
    assert whole.size == (203, 301)
    assert reduced.tobytes() == whole.reduce(3).tobytes()


def png_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


@pytest.mark.parametrize("is_late", [False, True])
def test_metadata_of_a_png_are_read_without_decoding_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    xmp = b'<x xmp:CreateDate="2021-06-12T10:30:00"/>'
    chunks = png_chunk(b"eXIf", exif.tobytes()[6:]) + png_chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp)
    plain = io.BytesIO()
    RED_LEFT.save(plain, "PNG")
    content = plain.getvalue()
    at = content.index(b"IEND" if is_late else b"IDAT") - 4  # behind the pixels or before them
    path = tmp_path / "a.png"
    path.write_bytes(content[:at] + chunks + content[at:])
    with monkeypatch.context() as patch:
        patch.setattr("PIL.PngImagePlugin.PngImageFile.load", lambda _: pytest.fail("was decoded"))
        assert photo_size(path) == (24, 40)
        found = read_exif(path)
        assert (found.orientation, found.date_source) == (6, XMP)
    assert open_photo(path).size == (24, 40)


_PEAK = """
import resource, sys
from pathlib import Path
from PIL import Image
from deixis.vision.encoder import ImageEncoder, InputSize
from deixis.vision.encoder import encode_and_keep
from tests.vision.feature_store.small import colours
from deixis.search.index.photo_files import make_thumbnail
encoder = ImageEncoder("colours", colours, InputSize(224), channels=3, dimension=3, fingerprint="1")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path, found in encode_and_keep(encoder, sorted(Path(sys.argv[1]).iterdir()), make_thumbnail):
    print(path.name, found if isinstance(found, Exception) else "read", file=sys.stderr)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def peak_of(folder: Path) -> int:
    """Megabytes that reading the photos of a folder takes."""
    run = subprocess.run([sys.executable, "-c", _PEAK, str(folder)], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "read" in run.stderr
    return int(run.stdout)


def test_memory_is_bounded_for_large_photos(tmp_path: Path) -> None:
    for number in range(2):
        Image.new("L", (8_000, 6_500)).save(tmp_path / f"{number}.png", compress_level=1)
    assert peak_of(tmp_path) < 300


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "jpg", "progressive.jpg", "tif", "webp", "avif", "gif", "alpha.png"])
def test_memory_is_bounded_for_the_largest_photos(tmp_path: Path, suffix: str) -> None:
    size = (12_000, 6_000) if suffix == "webp" else (13_000, 9_000) if suffix == "avif" else (14_000, 10_500)
    options: dict[str, dict[str, Any]] = {
        "progressive.jpg": {"progressive": True},
        "tif": {"compression": "tiff_lzw", "tiffinfo": {278: size[1]}},
        "webp": {"method": 0, "save_all": True, "append_images": [Image.new("RGB", size, "blue")]},
        "gif": {"save_all": True, "append_images": [Image.new("P", size, 1)]},
        "avif": {"speed": 10},
    }
    image = Image.new({"gif": "P", "alpha.png": "RGBA"}.get(suffix, "RGB"), size)
    for number in range(3):
        image.save(tmp_path / f"{number}.{suffix}", **options.get(suffix, {}))
    assert peak_of(tmp_path) < 1300


@pytest.mark.slow
def test_memory_is_bounded_for_large_photos_of_all_kinds(tmp_path: Path) -> None:
    """Strips take a pointer for each row, PNG files were decoded for their EXIF data, and threads keep memory."""
    for number in range(2):
        Image.new("RGB", (1, 60_000_000)).save(tmp_path / f"{number}a.png", compress_level=1)
        Image.new("RGB", (400, 300_000)).save(tmp_path / f"{number}b.png", compress_level=1)
        Image.new("RGBA", (14_000, 10_500)).save(tmp_path / f"{number}c.png", compress_level=1)
        Image.new("RGB", (14_000, 10_500)).save(tmp_path / f"{number}d.tif", compression="tiff_lzw")
        Image.new("RGB", (8_600, 8_600)).save(tmp_path / f"{number}e.webp", method=0)
        Image.new("RGB", (14_000, 10_500)).save(tmp_path / f"{number}f.jpg", progressive=True)
    assert peak_of(tmp_path) < 1300


@pytest.mark.parametrize(("min_side", "size"), [(None, (40, 24)), (10, (20, 12))])
def test_a_photo_of_just_as_many_pixels_as_allowed_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, min_side: int | None, size: tuple[int, int]
) -> None:
    RED_LEFT.save(tmp_path / "a.jpg")
    monkeypatch.setattr(images, "MAX_PIXELS", 40 * 24)
    assert open_photo(tmp_path / "a.jpg", min_side).size == size
    monkeypatch.setattr(images, "MAX_PIXELS", 40 * 24 - 1)
    with pytest.raises(PhotoError, match="40 × 24"):
        open_photo(tmp_path / "a.jpg", min_side)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_large_jpeg_may_be_decoded_small_and_is_upright_all_the_same(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "a.jpg"
    QUARTERS.resize((803, 401)).save(path, exif=exif, quality=95)
    whole, small = open_photo(path), open_photo(path, min_side=40)
    assert photo_size(path) == whole.size == ((803, 401) if orientation < 5 else (401, 803))
    assert 40 <= min(small.size) < 80
    for x, y in [(0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75)]:
        there = [photo.getpixel((int(x * photo.width), int(y * photo.height))) for photo in (whole, small)]
        assert there[0] == pytest.approx(there[1], abs=20)


@pytest.mark.parametrize(("min_side", "width"), [(1, 100), (50, 100), (51, 200), (100, 200), (101, 400), (300, 800)])
def test_both_sides_have_at_least_the_requested_length(tmp_path: Path, min_side: int, width: int) -> None:
    Image.new("RGB", (800, 400)).save(tmp_path / "a.jpg")
    assert open_photo(tmp_path / "a.jpg", min_side).size == (width, width // 2)


@pytest.mark.parametrize(("mode", "name"), [("L", "a.jpg"), ("CMYK", "a.jpg"), ("RGB", "a.png"), ("RGBA", "a.webp")])
def test_other_formats_than_colour_jpeg_are_decoded_at_full_size(tmp_path: Path, mode: str, name: str) -> None:
    Image.new(mode, (800, 600)).save(tmp_path / name)
    assert open_photo(tmp_path / name, min_side=10).size == (800, 600)


def grey_of(path: Path) -> list[int]:
    greys: list[int] = np.asarray(open_photo(path))[..., 0].ravel().tolist()
    return greys


def test_16_bit_scans_stay_dark_and_a_transparent_grey_becomes_white(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 128, 255]], dtype=np.uint16)).save(tmp_path / "dark.png")
    Image.fromarray(np.array([[0, 5, 32768]], dtype=np.uint16)).save(tmp_path / "transparent.png", transparency=5)
    assert grey_of(tmp_path / "dark.png") == [0, 0, 0]
    assert grey_of(tmp_path / "transparent.png") == [0, 255, 127]


@pytest.mark.parametrize("order", ["<", ">"])
def test_16_bit_tiffs_of_both_byte_orders_are_scaled(tmp_path: Path, order: str) -> None:
    values = np.array([[0, 32768, 65535]], dtype=f"{order}u2")
    Image.frombytes("I;16" if order == "<" else "I;16B", (3, 1), values.tobytes()).save(tmp_path / "a.tiff")
    assert grey_of(tmp_path / "a.tiff") == [0, 127, 255]


@pytest.mark.parametrize(
    ("dtype", "values", "greys"),
    [
        (np.float32, [0, 0.5, 1], [0, 127, 255]),
        (np.float32, [0, 128, 255], [0, 128, 255]),
        (np.float32, [0, 32768, 65535], [0, 127, 255]),
        (np.float32, [-1, 128, 255], [0, 128, 255]),
        (np.float32, [np.nan, 0.5, 1], [0, 127, 255]),
        (np.float32, [-np.inf, 0.5, np.inf], [0, 127, 255]),
        (np.float32, [np.nan, np.nan, np.nan], [0, 0, 0]),
        (np.float32, [0, 1e30, 65535], [0, 255, 255]),
        (np.int32, [0, 1, 255], [0, 1, 255]),
        (np.int32, [0, 32768, 65535], [0, 127, 255]),
    ],
)
def test_other_grey_values_are_scaled_by_the_smallest_sufficient_white(
    tmp_path: Path, dtype: type, values: list[float], greys: list[int]
) -> None:
    Image.fromarray(np.array([values], dtype=dtype)).save(tmp_path / "a.tiff")
    assert grey_of(tmp_path / "a.tiff") == greys


def test_a_reason_of_several_lines_becomes_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ValueError("Invalid input:\n  no such box\n")

    RED_LEFT.save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "open", refuse)
    with pytest.raises(PhotoError) as error:
        open_photo(tmp_path / "a.png")
    assert error.value.reason == "cannot be read (Invalid input: no such box)"


def jpeg(size: tuple[int, int], colour: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "JPEG")
    return buffer.getvalue()


def raw_file(path: Path, *previews: bytes, magic: bytes = b"II*\0") -> Path:
    """Write what a camera does: TIFF tags, pixels that look like a JPEG by chance, and previews."""
    exif = Image.Exif()
    exif.endian = "<"
    exif[0x010F], exif[0x0110], exif[0x0112] = "NIKON", "NIKON D750", 6
    exif.get_ifd(0x8769)[0x9003] = "2020:01:02 03:04:05"
    tags = exif.tobytes()[6:]
    path.write_bytes(magic + tags[4:] + b"\xff\xd8\xff\xc3 lossless pixels" + b"\0".join(previews))
    return path


@pytest.mark.parametrize("magic", [b"II*\0", b"IIRO", b"IIU\0"])
def test_the_largest_preview_is_opened_and_turned_as_the_camera_was_held(magic: bytes, tmp_path: Path) -> None:
    path = raw_file(tmp_path / "a.NEF", jpeg((16, 8), "red"), jpeg((64, 32), "blue"), jpeg((8, 8), "red"), magic=magic)
    assert photo_size(path) == (32, 64)
    photo = open_photo(path)
    assert photo.size == (32, 64)
    red, _, blue = photo.getpixel((9, 9))
    assert red < 50 < 200 < blue
    exif = read_exif(path)
    assert (exif.camera, exif.orientation, exif.taken) == ("NIKON D750", 6, 1577934245)


def test_a_raw_file_without_a_preview_says_so(tmp_path: Path) -> None:
    with pytest.raises(PhotoError, match="without a preview"):
        open_photo(raw_file(tmp_path / "a.cr2"))


def test_a_video_is_shown_by_a_frame_after_its_beginning(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    writer = cv2.VideoWriter(str(tmp_path / "a.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 10, (64, 48))
    for number in range(20):
        writer.write(np.full((48, 64, 3), 0 if number < 8 else 200, dtype=np.uint8))
    writer.release()
    assert open_photo(tmp_path / "a.avi").size == (64, 48)
    assert open_photo(tmp_path / "a.avi").getpixel((9, 9))[0] > 150
    (tmp_path / "b.mp4").write_bytes(b"no video")
    with pytest.raises(PhotoError, match="without a frame"):
        open_photo(tmp_path / "b.mp4")


def test_a_video_whose_name_is_a_pattern_shows_no_other_file(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    Image.new("RGB", (8, 8), "red").save(tmp_path / "01.mp4", "PNG")
    (tmp_path / "%02d.mp4").write_bytes(b"no video")
    with pytest.raises(PhotoError, match="without a frame"):
        open_photo(tmp_path / "%02d.mp4")


def test_the_opened_video_is_read_and_not_what_its_path_names_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cv2 = pytest.importorskip("cv2")
    if not Path("/dev/fd").exists():
        pytest.skip("needs /dev/fd")
    for name, value in (("a.avi", 250), ("secret.avi", 0)):
        writer = cv2.VideoWriter(str(tmp_path / name), cv2.VideoWriter_fourcc(*"MJPG"), 10, (64, 48))
        for _ in range(15):
            writer.write(np.full((48, 64, 3), value, np.uint8))
        writer.release()
    original = images.open_video_frame

    def swap(path: Path, file: IO[bytes]) -> Image.Image:
        (tmp_path / "secret.avi").replace(path)
        return original(path, file)

    monkeypatch.setattr(images, "open_video_frame", swap)
    assert np.mean(np.asarray(open_photo(tmp_path / "a.avi"))) > 200


def test_a_damaged_video_is_reported_once(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    (tmp_path / "b.mp4").write_bytes(b"no video")
    code = "import sys; from pathlib import Path\n"
    code += "from deixis.data.images import open_photo; from deixis.errors import PhotoError\n"
    code += "try: open_photo(Path(sys.argv[1]))\nexcept PhotoError: pass"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "b.mp4"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deixis.data.images.find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "pillow_jxl", None)
    for name, extra in (("a.mp4", r"deixis\[video\]"), ("a.jxl", r"deixis\[jxl\]")):
        (tmp_path / name).write_bytes(b"anything")
        with pytest.raises(PhotoError, match=extra):
            open_photo(tmp_path / name)
