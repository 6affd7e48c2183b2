"""Checksums of saved files: those of a manifest itself, and those of the files that it lists.

CRC-32 finds accidental damage: every change of up to 32 neighbouring bits, and all but one in four billion others. It
does not protect against somebody who changes the manifest as well. A large file is checked in blocks, each of them
when it is first read. Files saved by older versions have no checksums and are read unchecked.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.storage.files import hash_file, read_regular

BLOCK = 2**18
"""Bytes of a file that have one checksum."""

_DIGITS = 8
_CHECKSUM = "checksum"
_SEAL = re.compile(rb',\n *"checksum": "([0-9a-f]{8})"\n}\n\Z')
_SEALED = (2, 3, 4)
"""Versions of manifests that must have a checksum."""


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


@dataclass(frozen=True)
class FileChecks:
    """What a manifest says about a file.

    `crc32` has eight hexadecimal digits for each block. `sha256` identifies the content.
    """

    bytes: int
    sha256: str
    crc32: str

    @classmethod
    def of(cls, path: Path) -> FileChecks:
        """Compute the checksums of a file."""
        sums, size = [], 0
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                sums.append(_crc(block))
                size += len(block)
        return cls(size, hash_file(path), "".join(sums))

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

    All methods raise `ValueError` if the file is not as it was written.
    """

    def __init__(self, path: Path, checks: FileChecks | None) -> None:
        self.path = path
        self.checks = checks
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
        self._check_size(self.path.stat().st_size)
        return np.memmap(self.path, dtype=np.uint8, mode="r")

    def _check_size(self, found: int) -> None:
        if self.checks and found != self.checks.bytes:
            raise ValueError(f"{found:,} bytes instead of {self.checks.bytes:,}")

    def _check_blocks(self, begin: int, end: int) -> None:
        first, last = begin // BLOCK, -(-end // BLOCK)
        if first < last and not self._checked[first:last].all():
            self._compare(self._content.data, first, last)
            self._checked[first:last] = True

    def _compare(self, content: memoryview, first: int, last: int) -> None:
        for number in range(first, last):
            expected = self.checks.crc32[number * _DIGITS : (number + 1) * _DIGITS] if self.checks else ""
            if _crc(content[number * BLOCK : (number + 1) * BLOCK]) != expected:
                raise ValueError(f"its checksum does not match after byte {number * BLOCK:,}")
