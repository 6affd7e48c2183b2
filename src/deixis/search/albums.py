"""Albums: text files with one path a line, in the folder of an index, for other programs to read and to write."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from deixis.errors import DeixisError
from deixis.storage.atomic import explain_os_errors, new_file
from deixis.storage.files import read_regular
from deixis.storage.remote import photo_path
from deixis.storage.sql import is_postgres

FOLDER = "albums"
_SUFFIX = ".txt"
_LOCK = ".lock"
_LOCK_TIMEOUT_S = 10.0
_NAME = re.compile(r"""[^\W_][^/\\:*?"<>|\x00-\x1f\x7f]{0,79}(?<![. ])""")


class Albums:
    """The albums of an index; an index in a database has none."""

    def __init__(self, index: str | PathLike[str]) -> None:
        self._folder = None if is_postgres(index) else Path(index) / FOLDER

    def names(self) -> list[str]:
        """Return the names of the albums, sorted."""
        files = self._folder.glob(f"*{_SUFFIX}") if self._folder else []
        return sorted(path.stem for path in files if path.is_file() and _NAME.fullmatch(path.stem))

    def read(self, name: str) -> list[Path]:
        """Return the photos of an album."""
        if self._folder is None or name not in (known := self.names()):
            there = f"; there are {', '.join(known)}" if self._folder and known else ""
            raise DeixisError(f"album:{name}: no album has this name{there}")
        with explain_os_errors(self._folder):
            lines = os.fsdecode(read_regular(self._file(name))).split("\n")  # names may have other line breaks
        return [photo_path(line.removesuffix("\r")) for line in lines if line.strip()]

    def change(self, name: str, photos: Iterable[Path], *, remove: bool = False) -> None:
        """Add photos to an album, or remove them from it; an album without photos is deleted."""
        with self._changing(name):
            before = self.read(name) if name in self.names() else []
            chosen = dict.fromkeys(photos)
            after = [path for path in before if path not in chosen] if remove else [*dict.fromkeys([*before, *chosen])]
            self._write(name, after)

    def move(self, moved: Mapping[Path, Path]) -> None:
        """Replace the paths of photos that were moved."""
        for name in self.names() if moved else []:
            with self._changing(name):
                before = self.read(name)
                after = [moved.get(path, path) for path in before]
                if after != before:
                    self._write(name, after)

    @contextmanager
    def _changing(self, name: str) -> Iterator[None]:
        """Let no other thread and no other process change an album between reading and writing it."""
        from filelock import FileLock, Timeout  # slow import, for writers only

        file = self._file(name)
        with explain_os_errors(file):
            file.parent.mkdir(mode=0o700, exist_ok=True)
            lock = FileLock(file.parent / _LOCK, mode=0o600)
            try:
                lock.acquire(timeout=_LOCK_TIMEOUT_S)
            except Timeout:
                raise DeixisError(f"{file}: another process is writing it; try again when it has finished") from None
        try:
            yield
        finally:
            lock.release()

    def _write(self, name: str, photos: list[Path]) -> None:
        file = self._file(name)
        if not photos:
            with explain_os_errors(file):
                file.unlink(missing_ok=True)
            return
        if broken := next((path for path in photos if "\n" in str(path)), None):
            raise DeixisError(f"{broken}: a name with a line break cannot be in an album")
        with new_file(file, private=True) as partial:
            partial.write_bytes(b"".join(os.fsencode(f"{path}\n") for path in photos))

    def _file(self, name: str) -> Path:
        if self._folder is None:
            raise DeixisError("albums are files in the folder of an index, and this index is in a database")
        if not _NAME.fullmatch(name):
            raise DeixisError(
                f"{name!r}: not a name for an album, which begins with a letter or digit and names a file"
            )
        return self._folder / f"{name}{_SUFFIX}"
