"""Read the files of an untrusted folder or zip by name, with size limits and without unpacking to disk."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deixis.errors import DatasetError
from deixis.storage.checksums import READ_ERRORS

MAX_FILE_BYTES = 64 * 2**20
"""Size limit of one annotation file. The largest of Flickr30k Entities has 20 kB."""

MAX_ARCHIVE_BYTES = 16 * 2**30

MAX_RATIO = 200
"""Maximum compression ratio of a zip member over 1 MB. More is taken for a zip bomb."""

_HIDDEN = re.compile(r"(?:^|/)(?:\.|__MACOSX/)")


class Folder:
    """Files below a folder by their relative names, with forward slashes. Links that lead outside it are refused."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self) -> list[str]:
        """Return sorted names, without hidden files and macOS resource folders."""
        found = (path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file())
        return sorted(name for name in found if not _HIDDEN.search(name))

    def read(self, name: str) -> bytes:
        path = self.root / name
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise DatasetError(f"{self.root}: {name} is outside the folder")
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                raise DatasetError(f"{self.root}: {name} is larger than {MAX_FILE_BYTES // 2**20} MB")
            return path.read_bytes()
        except OSError as error:
            raise DatasetError(f"{self.root}: {name} cannot be read ({error.strerror})") from error


class Zip:
    def __init__(self, root: Path, archive: zipfile.ZipFile) -> None:
        self.root = root
        self._archive = archive
        # Skip empty names: `is_dir` fails on them, and only hostile archives have them.
        self._members = {info.filename: info for info in archive.infolist() if info.filename and not info.is_dir()}
        for name, info in self._members.items():
            self._check_member(name, info)
        unpacked = sum(info.file_size for info in self._members.values())
        packed = sum(info.compress_size for info in self._members.values())
        if unpacked > MAX_ARCHIVE_BYTES or (unpacked > 16 * 2**20 and unpacked > MAX_RATIO * packed):
            raise DatasetError(
                f"{root}: refused, it would unpack to {unpacked / 2**20:,.0f} MB from {packed / 2**20:,.1f} MB"
            )
        self._names = sorted(name for name in self._members if not _HIDDEN.search(name))

    def _check_member(self, name: str, info: zipfile.ZipInfo) -> None:
        parts = name.replace("\\", "/").split("/")
        if parts[0] == "" or ".." in parts or parts[0].endswith(":"):
            raise DatasetError(f"{self.root}: refused, it holds a path that leaves the archive: {name!r}")
        too_dense = info.file_size > 2**20 and info.file_size > MAX_RATIO * max(info.compress_size, 1)
        if too_dense or info.file_size > MAX_FILE_BYTES:
            raise DatasetError(
                f"{self.root}: refused, {name!r} would unpack to {info.file_size / 2**20:.0f} MB "
                f"from {info.compress_size / 2**20:.1f} MB"
            )

    def names(self) -> list[str]:
        return self._names

    def read(self, name: str) -> bytes:
        info = self._members[name]
        try:
            with self._archive.open(info) as stream:
                return stream.read(info.file_size)  # never more than the archive's directory states
        except READ_ERRORS as error:
            raise DatasetError(f"{self.root}: {name} cannot be unpacked ({error})") from error


Tree = Folder | Zip


@contextmanager
def open_tree(path: Path) -> Iterator[Tree]:
    """Open a folder or a zip for reading."""
    if path.is_dir():
        yield Folder(path)
        return
    if not path.exists():
        raise DatasetError(f"{path}: no such file or folder")
    try:
        opened = zipfile.ZipFile(path)
    except PermissionError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror})") from error
    except READ_ERRORS as error:
        raise DatasetError(f"{path}: not a valid zip file ({error}); it may be truncated") from error
    with opened as archive:
        yield Zip(path, archive)
