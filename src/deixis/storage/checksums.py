"""Checksums of everything that is saved: CRC-32 over bytes, of rows, of manifests and of the files that these list.

CRC-32 finds accidental damage: every change of up to 32 neighbouring bits, and all but one in four billion others. It
does not protect against somebody who changes the manifest as well. A large file is checked in blocks, each of them
when it is first read. Files saved by older versions have no checksums and are read unchecked. `row_checks` has those of
the rows of SQLite files.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from deixis.storage.files import hash_file, open_regular, read_regular

BLOCK = 2**18
"""Bytes of a file that have one checksum."""

_PARALLEL_BLOCKS = 64
"""From this many blocks on, threads share the work."""

_DIGITS = 8
_CHECKSUM = "checksum"
_SEAL = re.compile(rb',\n *"checksum": "([0-9a-f]{8})"\n}\n\Z')
_SEALED = (2, 3, 4)
"""Versions of manifests that must have a checksum."""


def crc32_of(*parts: Any) -> int:
    """Return the CRC-32 of bytes, or contiguous arrays, one after the other."""
    total = 0
    for part in parts:
        total = zlib.crc32(part, total)
    return total


def seal(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON that ends with the checksum of the rest.

    Examples
    --------
    >>> unseal(seal({"version": 2, "name": "dog"}))
    {'version': 2, 'name': 'dog'}
    """
    return seal_text(json.dumps(document, ensure_ascii=False, indent=1))


def seal_text(text: str) -> bytes:
    """Return the text of a JSON object with a checksum at its end, in any layout."""
    body = text.rstrip().removesuffix("}").rstrip().encode()
    return body + f',\n "{_CHECKSUM}": "{_crc(body)}"\n}}\n'.encode()


def unseal(content: bytes) -> Any:
    """Return the document that `seal` wrote. Raises `ValueError` if it is not as it was written."""
    found = _SEAL.search(content)
    if found and found[1].decode() != _crc(content[: found.start()]):
        raise ValueError("its checksum does not match: damaged, or changed by hand")
    document: Any = json.loads(content.decode())
    if isinstance(document, dict):
        if not found and (_CHECKSUM in document or document.get("version") in _SEALED):
            raise ValueError("it has no checksum: damaged, or changed by hand")
        document.pop(_CHECKSUM, None)
    return document


def seal_line(document: Mapping[str, Any]) -> str:
    """Return a document as one line of JSON that ends with the checksum of the rest.

    Examples
    --------
    >>> unseal_line(seal_line({"name": "dog"}))
    {'name': 'dog'}
    """
    body = json.dumps(document, ensure_ascii=False).removesuffix("}")
    return f'{body}, "{_CHECKSUM}": "{_crc(body.encode())}"}}\n'


def unseal_line(line: str) -> dict[str, Any]:
    """Return the document that `seal_line` wrote. Raises `ValueError` if it is not as it was written."""
    document: dict[str, Any] = json.loads(line)
    if seal_line({name: value for name, value in document.items() if name != _CHECKSUM}) != line.rstrip("\n") + "\n":
        raise ValueError("the checksum of a line does not match: damaged, or changed by hand")
    del document[_CHECKSUM]
    return document


def _crc(content: Any) -> str:
    return f"{zlib.crc32(content):0{_DIGITS}x}"


def _block_crcs(file: IO[bytes]) -> tuple[str, int]:
    """Return the checksums of the blocks of the rest of a file, and its length."""
    sums, size = [], 0
    while block := file.read(BLOCK):
        sums.append(_crc(block))
        size += len(block)
    return "".join(sums), size


@dataclass(frozen=True)
class FileChecks:
    """What a manifest says about a file.

    `crc32` has eight hexadecimal digits for each block. `sha256` identifies the content; empty if nothing asks for it.
    """

    bytes: int
    sha256: str
    crc32: str

    @classmethod
    def of(cls, path: Path) -> FileChecks:
        """Compute the checksums of a file."""
        with path.open("rb") as file:
            crc32, size = _block_crcs(file)
        return cls(size, hash_file(path), crc32)

    def after_append(self, path: Path) -> FileChecks:
        """Return the checksums of a file that has grown, reading only its last block and what was appended."""
        complete = self.bytes // BLOCK
        with path.open("rb") as file:
            file.seek(complete * BLOCK)
            crc32, size = _block_crcs(file)
        return FileChecks(complete * BLOCK + size, "", self.crc32[: complete * _DIGITS] + crc32)

    @classmethod
    def from_json(cls, entry: Any) -> FileChecks:
        checks = cls(**entry)
        blocks = -(-checks.bytes // BLOCK)
        if len(checks.crc32) != blocks * _DIGITS or not isinstance(checks.sha256, str):
            raise ValueError("the checksums of a file are not complete")
        return checks

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class CheckedFile:
    """A file whose blocks are checked when they are first read; without `checks`, all content is accepted.

    With `may_grow`, more bytes may follow those that have checksums. All methods raise `ValueError` if the file is not
    as it was written.
    """

    def __init__(self, path: Path, checks: FileChecks | None, may_grow: bool = False) -> None:
        self.path = path
        self.checks = checks
        self.may_grow = may_grow
        self._checked = np.zeros(len(checks.crc32) // _DIGITS if checks else 0, dtype=bool)

    @property
    def sha256(self) -> str:
        """Hash of the content, computed only if it is not known. The content is not checked."""
        return self.checks.sha256 if self.checks else hash_file(self.path)

    def read(self) -> bytes:
        """Return the whole content, read from the disk again."""
        content = read_regular(self.path)
        self._check_size(len(content))
        self._compare(memoryview(content), 0, len(self._checked))
        return content

    def check(self) -> None:
        """Check all of the file that was not checked before."""
        if self.checks:
            self._check_size(self.path.stat().st_size)
            self._check_blocks(0, self.checks.bytes)

    def array(self, dtype: Any, shape: tuple[int, ...], offset: int) -> NDArray[Any]:
        """Return a read-only array of the mapped file, after checking the blocks that it lies in."""
        array: NDArray[Any] = np.ndarray(shape, dtype, self._content, offset)
        if self.checks:
            self._check_blocks(offset, offset + array.nbytes)
        return array

    @cached_property
    def _content(self) -> NDArray[np.uint8]:
        with open_regular(self.path) as file:
            size = os.fstat(file.fileno()).st_size
            self._check_size(size)
            return np.memmap(file, dtype=np.uint8, mode="r") if size else np.zeros(0, dtype=np.uint8)

    def _check_size(self, found: int) -> None:
        if self.checks and (found < self.checks.bytes if self.may_grow else found != self.checks.bytes):
            raise ValueError(f"{found:,} bytes instead of {self.checks.bytes:,}")

    def _check_blocks(self, begin: int, end: int) -> None:
        first, last = begin // BLOCK, -(-end // BLOCK)
        if first < last and not self._checked[first:last].all():
            self._compare(self._content.data, first, last)
            self._checked[first:last] = True

    def _compare(self, content: memoryview, first: int, last: int) -> None:
        if self.checks is None:
            return
        expected, end = self.checks.crc32, self.checks.bytes

        def is_damaged(number: int) -> bool:
            found = _crc(content[number * BLOCK : min((number + 1) * BLOCK, end)])
            return found != expected[number * _DIGITS : (number + 1) * _DIGITS]

        threads = os.cpu_count() or 1 if last - first >= _PARALLEL_BLOCKS else 1
        with ThreadPoolExecutor(threads, "checksums") as pool:
            damaged = (pool.map if threads > 1 else map)(is_damaged, range(first, last))
            for number, found in enumerate(damaged, first):
                if found:
                    raise ValueError(f"its checksum does not match after byte {number * BLOCK:,}")
