"""One way to read a folder or a zip of files from a stranger: by name, with limits, nothing unpacked to disk."""

from __future__ import annotations

import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from deixis.errors import DatasetError

MAX_FILE_BYTES = 64 * 2**20
"""No single annotation file is read beyond this; the largest of Flickr30k Entities has 20 kB."""

MAX_ARCHIVE_BYTES = 16 * 2**30

MAX_RATIO = 200
"""A zip member that unpacks to more than this many times its size, and to over a megabyte, is a bomb."""

_HIDDEN = re.compile(r"(?:^|/)(?:\.|__MACOSX/)")

_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    OSError,
    EOFError,
    ValueError,
    IndexError,
    RuntimeError,  # a password, or a method of compression that is not known
)
"""What `zipfile` raises on bytes that are no whole zip."""


class Tree(Protocol):
    """Files by their names with forward slashes, in a folder or a zip."""

    root: Path

    def names(self) -> list[str]:
        """All file names, sorted."""
        ...

    def read(self, name: str) -> bytes:
        """The bytes of one file."""
        ...


class Folder:
    """The files below a folder. Symbolic links that leave it are not followed."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self) -> list[str]:
        """All file names, sorted; hidden files are left out."""
        found = (path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file())
        return sorted(name for name in found if not _HIDDEN.search(name))

    def read(self, name: str) -> bytes:
        """The bytes of one file."""
        path = self.root / name
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise DatasetError(f"{self.root}: {name} lies outside the folder")
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                raise DatasetError(f"{self.root}: {name} is larger than {MAX_FILE_BYTES // 2**20} MB")
            return path.read_bytes()
        except OSError as error:
            raise DatasetError(f"{self.root}: {name} cannot be read ({error.strerror})") from error


class Zip:
    """The files inside a zip, never unpacked to disk."""

    def __init__(self, root: Path, archive: zipfile.ZipFile) -> None:
        self.root = root
        self._archive = archive
        # An empty name, which no honest archive has, would make `is_dir` fail.
        self._members = {info.filename: info for info in archive.infolist() if info.filename and not info.is_dir()}
        for name, info in self._members.items():
            self._refuse_hostile(name, info)
        unpacked = sum(info.file_size for info in self._members.values())
        packed = sum(info.compress_size for info in self._members.values())
        if unpacked > MAX_ARCHIVE_BYTES or (unpacked > 16 * 2**20 and unpacked > MAX_RATIO * packed):
            raise DatasetError(
                f"{root}: refused, it would unpack to {unpacked / 2**20:,.0f} MB from {packed / 2**20:,.1f} MB"
            )
        self._names = sorted(name for name in self._members if not _HIDDEN.search(name))

    def _refuse_hostile(self, name: str, info: zipfile.ZipInfo) -> None:
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
        """All file names, sorted; hidden files and macOS' resource folders are left out."""
        return self._names

    def read(self, name: str) -> bytes:
        """The bytes of one file; at most as many as the archive's directory states."""
        info = self._members[name]
        try:
            with self._archive.open(info) as stream:
                return stream.read(info.file_size)
        except _DAMAGE as error:
            raise DatasetError(f"{self.root}: {name} cannot be unpacked ({error})") from error


@contextmanager
def open_tree(path: Path) -> Iterator[Tree]:
    """Open a folder or a zip.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "a.txt").write_text("hello")
    ...     with open_tree(Path(folder)) as tree:
    ...         [(name, tree.read(name)) for name in tree.names()]
    [('a.txt', b'hello')]
    """
    if path.is_dir():
        yield Folder(path)
        return
    if not path.exists():
        raise DatasetError(f"{path}: no such file or folder")
    with _open_zip(path) as archive:
        yield Zip(path, archive)


def _open_zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except PermissionError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror})") from error
    except _DAMAGE as error:
        raise DatasetError(f"{path}: not a whole zip file ({error}); it may be truncated") from error
