"""Content of a captions file or folder, read lazily and once; text and XML from unknown sources."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml import ElementTree as SafeElementTree

from deixis.data.formats.values import first_json
from deixis.errors import DatasetError
from deixis.storage.archives import open_tree


def decode(data: bytes, name: str | Path) -> str:
    """Decode UTF-8, with or without a byte order mark. The error names the line of the first invalid byte."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DatasetError(
            f"{name}: line {line}: not UTF-8 (byte 0x{data[error.start]:02x}); save the file as UTF-8"
        ) from error


def read_text(path: Path) -> str:
    if path.is_char_device() or path.is_block_device():  # /dev/zero has no end
        raise DatasetError(f"{path}: a device, not a file")
    try:
        return decode(path.read_bytes(), path)
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror})") from error


def parse_xml(data: bytes | str, tag: str, file: str) -> Element:
    """Parse an untrusted XML document. Errors name `file`."""
    try:
        root: Element = SafeElementTree.fromstring(data, forbid_dtd=True)
    except DefusedXmlException:
        raise DatasetError(f"{file}: refused, because it declares a DOCTYPE or entities") from None
    except (ParseError, ValueError, LookupError) as error:
        raise DatasetError(f"{file}: not well-formed XML ({error})") from None
    if root.tag != tag:
        raise DatasetError(f"{file}: expected <{tag}>, found <{root.tag}>")
    return root


_ZIP_BEGINS = (b"PK\x03\x04", b"PK\x05\x06")
_FIRST_LINE = re.compile(r"\S[^\n]*")


class Content:
    """A captions file, or a folder or zip, optionally with COCO's file of boxes."""

    def __init__(self, path: Path, instances: Path | None = None) -> None:
        self.path = path
        self.instances = instances

    @cached_property
    def is_tree(self) -> bool:
        """True for a folder or a zip."""
        if self.path.is_dir():
            return True
        if not self.path.is_file():  # a pipe can be read only once
            return False
        with self.path.open("rb") as stream:
            return stream.read(4) in _ZIP_BEGINS

    @cached_property
    def names(self) -> list[str]:
        if not self.is_tree:
            return []
        with open_tree(self.path) as tree:
            return tree.names()

    @cached_property
    def text(self) -> str:
        """Text of a file; empty for a folder or zip."""
        if self.is_tree:
            return ""
        text = read_text(self.path)
        if not text.strip():
            raise DatasetError(f"{self.path}: the file is empty")
        return text

    @cached_property
    def first_line(self) -> str:
        """First line that is not blank."""
        found = _FIRST_LINE.search(self.text)
        return found[0].rstrip() if found else ""

    def lines(self) -> list[tuple[int, str]]:
        """Return the lines that are not blank, with their numbers.

        Lines end with a line feed only: captions may contain the other separators of `str.splitlines`.
        """
        numbered = enumerate(self.text.split("\n"), start=1)
        return [(number, line.removesuffix("\r")) for number, line in numbered if line.strip()]

    @cached_property
    def _first_json(self) -> tuple[object, bool]:
        if not self.first_line.startswith(("{", "[")):
            return None, False
        return first_json(self.text, self.path)

    @property
    def first_json(self) -> object:
        """First JSON value of the file; None if it is not JSON."""
        return self._first_json[0]

    @property
    def document(self) -> object:
        """The only JSON value of the file; None if it is not JSON or has several values."""
        value, is_whole = self._first_json
        return value if is_whole else None
