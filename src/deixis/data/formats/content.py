"""The content of a captions file or folder, read lazily and once, and XML and boxes in it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml import ElementTree as SafeElementTree

from deixis.data.documents import Value, first_json, read_text
from deixis.errors import DatasetError
from deixis.geometry import XYXY
from deixis.storage.archives import open_tree


def xywh_to_corners(xywh: Sequence[float], value: Value) -> XYXY:
    """Convert ``x, y, width, height``; errors name `value`. COCO has empty boxes and boxes outside of photos."""
    x, y, width, height = xywh
    if width < 0 or height < 0:
        raise value.error(f"negative box size (width {width:g}, height {height:g})")
    if not (math.isfinite(x + width) and math.isfinite(y + height)):
        raise value.error("the box is too large")
    return x, y, x + width, y + height


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
        """Return the lines that are not blank, with their numbers; only line feeds end a line."""
        numbered = enumerate(self.text.split("\n"), start=1)
        return [(number, line.removesuffix("\r")) for number, line in numbered if line.strip()]

    @cached_property
    def _json(self) -> tuple[object, bool]:
        return first_json(self.text, self.path) if self.first_line.startswith(("{", "[")) else (None, False)

    @property
    def first_json(self) -> object:
        """First JSON value of the file; None if it is not JSON."""
        return self._json[0]

    @property
    def document(self) -> object:
        """The only JSON value of the file; None if it is not JSON or has several values."""
        return self._json[0] if self._json[1] else None
