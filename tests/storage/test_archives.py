"""Untrusted folders and zips."""

from __future__ import annotations

import contextlib
import zipfile
from pathlib import Path

import pytest

from deixis.errors import DatasetError
from deixis.storage import archives
from deixis.storage.archives import open_tree


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_a_folder_and_a_zip_of_it_read_the_same(tmp_path: Path) -> None:
    files = {"a/1.txt": b"one", "a/2.txt": b"two", ".hidden": b"no", "__MACOSX/1.txt": b"no"}
    for name, data in files.items():
        if not name.startswith("__"):
            (tmp_path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "folder" / name).write_bytes(data)
    zipped(tmp_path / "a.zip", files)
    for path in (tmp_path / "folder", tmp_path / "a.zip"):
        with open_tree(path) as tree:
            assert {name: tree.read(name) for name in tree.names()} == {"a/1.txt": b"one", "a/2.txt": b"two"}


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil", "a/../../evil", "..\\evil", "C:\\evil"])
def test_a_path_that_leaves_the_archive_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DatasetError, match=r"a\.zip.*evil"), open_tree(zipped(tmp_path / "a.zip", {name: b"x"})):
        pass


def test_a_member_that_lies_about_its_size_is_not_read_beyond_it(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"a": b"x" * 1000})
    data = bytearray(path.read_bytes())
    at = data.rfind(b"PK\x01\x02") + 24  # the size in the central directory
    data[at : at + 4] = (10).to_bytes(4, "little")
    path.write_bytes(data)
    with open_tree(path) as tree, contextlib.suppress(DatasetError):
        assert len(tree.read("a")) <= 10


@pytest.mark.parametrize("keep", [0, 10, 100, -5])
def test_a_truncated_zip_is_named(tmp_path: Path, keep: int) -> None:
    path = zipped(tmp_path / "a.zip", {"a": b"x" * 1000, "b": b"y" * 1000})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DatasetError, match="a.zip"), open_tree(path):
        pass


def test_flipped_bits_inside_a_member_are_noticed(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"a": bytes(range(256)) * 4})
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(data)
    with open_tree(path) as tree, pytest.raises(DatasetError, match=r"a\.zip: a "):
        tree.read("a")


def test_a_link_out_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link.txt").symlink_to(tmp_path / "secret")
    with open_tree(tmp_path / "folder") as tree, pytest.raises(DatasetError, match=r"link\.txt"):
        tree.read("link.txt")


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="nothing-here.zip"), open_tree(tmp_path / "nothing-here.zip"):
        pass


def test_a_file_or_member_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "a.zip", {"small": b"x" * 10, "large": bytes(range(11))})
    (tmp_path / "a.txt").write_text("x" * 11)
    monkeypatch.setattr(archives, "MAX_FILE_BYTES", 10)
    with open_tree(tmp_path) as tree, pytest.raises(DatasetError, match=r"a\.txt"):
        tree.read("a.txt")
    with pytest.raises(DatasetError, match=r"a\.zip.*'large'"), open_tree(path):
        pass
    monkeypatch.setattr(archives, "MAX_FILE_BYTES", 11)
    with open_tree(path) as tree:
        assert len(tree.read("large")) == 11


def test_an_archive_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "a.zip", {name: bytes(range(10)) for name in "abc"})
    monkeypatch.setattr(archives, "MAX_ARCHIVE_BYTES", 29)
    with pytest.raises(DatasetError, match=r"a\.zip"), open_tree(path):
        pass
    monkeypatch.setattr(archives, "MAX_ARCHIVE_BYTES", 30)
    with open_tree(path) as tree:
        assert tree.names() == ["a", "b", "c"]


@pytest.mark.parametrize(("members", "size"), [(1, 5 * 2**20), (17, 2**20)])
def test_a_bomb_of_one_or_many_members_is_refused(tmp_path: Path, members: int, size: int) -> None:
    path = zipped(tmp_path / "a.zip", {str(number): bytes(size) for number in range(members)})
    with pytest.raises(DatasetError, match=rf"a\.zip.* {members * size // 2**20} MB"), open_tree(path):
        pass
