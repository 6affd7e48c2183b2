"""Files that are not what they seem: pipes, links that lead elsewhere, and photos that take minutes to decode."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from deixis.annotate.pairs import read_pairs
from deixis.data import images
from deixis.data.images import inspect_photo, open_photo, photo_size
from deixis.errors import DeixisError, PhotoError
from deixis.models.training.settings import read_presets
from deixis.papers.tables import read_tables
from deixis.search.index import update_index
from deixis.search.index.photo_files import read_exif, read_metadata
from deixis.search.places import index_place
from deixis.storage.files import open_regular
from deixis.storage.sidecars import write_caption
from deixis.web.pages import encode_jpeg
from tests.search.index.fakes import ColourEncoder, ReadIndex, photo


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe.jpg")
    return tmp_path / "pipe.jpg"


def test_a_pipe_is_refused_and_never_waited_for(pipe: Path) -> None:
    for read in (open_photo, photo_size, inspect_photo, encode_jpeg):
        with pytest.raises((PhotoError, OSError), match="not a regular file"):
            read(pipe)
    assert isinstance(read_metadata(pipe)[1], PhotoError)
    read_exif(pipe)


@pytest.mark.parametrize("name", ["a.png.xmp", "a.xmp"])
def test_a_pipe_in_place_of_a_sidecar_is_not_waited_for(name: str, tmp_path: Path) -> None:
    path = photo(tmp_path / "photos" / "a.png", 50)
    os.mkfifo(tmp_path / "photos" / name)
    assert update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder()).added == 1
    with pytest.raises(DeixisError, match="not a regular file"):
        write_caption(path, "A dog.")


def test_commands_do_not_hang_on_a_pipe(pipe: Path) -> None:
    command = [sys.executable, "-m", "deixis", "caption", str(pipe)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pipe.jpg" in done.stderr


def progressive(side: int, scans: int) -> bytes:
    """Return a progressive JPEG whose last scan is repeated, which is valid and takes as long as all of them."""
    buffer = io.BytesIO()
    Image.new("L", (side, side), 99).save(buffer, "JPEG", progressive=True)
    content = buffer.getvalue()
    last = content.rindex(b"\xff\xda")
    tail = content[last:-2]
    return content[:-2] + tail * (scans - content.count(b"\xff\xda")) + content[-2:]


def test_a_photo_with_many_scans_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    (tmp_path / "bomb.jpg").write_bytes(progressive(64, 2000))
    with pytest.raises(PhotoError, match="2000 scans"):
        open_photo(tmp_path / "bomb.jpg")
    (tmp_path / "photo.jpg").write_bytes(progressive(64, 12))
    assert open_photo(tmp_path / "photo.jpg").size == (64, 64)


def test_a_large_photo_may_have_fewer_scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_SCANNED_PIXELS", 50 * 64 * 64)
    (tmp_path / "photo.jpg").write_bytes(progressive(64, 51))
    with pytest.raises(PhotoError, match="51 scans"):
        open_photo(tmp_path / "photo.jpg")


def test_a_folder_that_became_a_link_is_not_followed_outside(tmp_path: Path) -> None:
    inside, outside = tmp_path / "photos" / "holiday", tmp_path / "secret"
    photo(inside / "a.png", 50)
    photo(outside / "a.png", 90)
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder())
    with ReadIndex(tmp_path / "index") as index:
        (found,) = index.newest(1)
        root = index.info.root_of(found.path)
        assert encode_jpeg(found.path, root=root)
        inside.rename(tmp_path / "photos" / "moved")
        inside.symlink_to(outside)
        with pytest.raises(PhotoError, match="a link to a file outside"):
            encode_jpeg(found.path, root=root)


def test_an_indexed_folder_may_itself_be_a_link(tmp_path: Path) -> None:
    photo(tmp_path / "real" / "a.png", 50)
    (tmp_path / "photos").symlink_to(tmp_path / "real")
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder())
    with ReadIndex(tmp_path / "index") as index:
        (found,) = index.newest(1)
        assert encode_jpeg(found.path, root=index.info.root_of(found.path))


def test_the_opened_file_is_checked_and_not_only_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "a").write_text("inside")
    (tmp_path / "secret").write_text("secret")
    original = os.open

    def swap(path: Path, *arguments: int) -> int:
        """Open another file than the path names afterwards, as a link that is changed at the right moment would."""
        return original(tmp_path / "secret", *arguments)

    monkeypatch.setattr(os, "open", swap)
    with pytest.raises(OSError, match="outside"):
        open_regular(tmp_path / "inside" / "a", tmp_path / "inside")


@pytest.mark.parametrize("value", ["[" * 100_000, "1" * 5000], ids=["nested", "digits"])
def test_files_that_are_nested_without_end_or_have_endless_numbers_are_refused(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, pairs = tmp_path / "deixis" / "config.toml", tmp_path / "pairs.jsonl"
    config.parent.mkdir()
    config.write_text(f"index = {value}")
    pairs.write_text(value)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("DEIXIS_INDEX", raising=False)
    readers: list[tuple[str, Callable[[], object]]] = [
        ("not valid TOML", index_place),
        ("not TOML", lambda: read_tables(config)),
        ("not TOML", lambda: read_presets(config)),
        ("not JSON", lambda: read_pairs(pairs, {})),
    ]
    for message, read in readers:
        with pytest.raises(DeixisError, match=message):
            read()
