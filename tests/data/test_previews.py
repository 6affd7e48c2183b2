"""Previews of RAW files and frames of videos."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import IO

import numpy as np
import pytest
from PIL import Image

from deixis.data import images
from deixis.data.images import open_photo, photo_size
from deixis.errors import PhotoError
from deixis.search.index.photo_files import read_exif


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
    monkeypatch.setattr("deixis.data.previews.find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "pillow_jxl", None)
    for name, extra in (("a.mp4", r"deixis\[video\]"), ("a.jxl", r"deixis\[jxl\]")):
        (tmp_path / name).write_bytes(b"anything")
        with pytest.raises(PhotoError, match=extra):
            open_photo(tmp_path / name)


def test_avif_is_read(tmp_path: Path) -> None:
    Image.new("RGB", (64, 48), "blue").save(tmp_path / "a.avif")
    assert open_photo(tmp_path / "a.avif").size == (64, 48)
