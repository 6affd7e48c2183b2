"""What lies at a path, read once and only as far as formats ask, so that they can be told by content."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

from deixis.data.readers.text import read_text
from deixis.data.readers.values import first_json
from deixis.errors import DatasetError
from deixis.files.trees import open_tree

_ZIP_BEGINS = (b"PK\x03\x04", b"PK\x05\x06")
_FIRST_LINE = re.compile(r"\S[^\n]*")


class Content:
    """A captions file, or a folder or zip of them.

    Attributes
    ----------
    path
        Where it lies.
    instances
        COCO's file of boxes that was given with it, if any.
    """

    def __init__(self, path: Path, instances: Path | None = None) -> None:
        self.path = path
        self.instances = instances

    @cached_property
    def is_tree(self) -> bool:
        """Whether it is a folder or a zip."""
        if self.path.is_dir():
            return True
        if not self.path.is_file():  # a pipe, which can be read only once
            return False
        with self.path.open("rb") as stream:
            return stream.read(4) in _ZIP_BEGINS

    @cached_property
    def names(self) -> list[str]:
        """The names of the files in a folder or zip."""
        if not self.is_tree:
            return []
        with open_tree(self.path) as tree:
            return tree.names()

    @cached_property
    def text(self) -> str:
        """The text of a file; nothing where it is a folder or zip."""
        if self.is_tree:
            return ""
        text = read_text(self.path)
        if not text.strip():
            raise DatasetError(f"{self.path}: the file is empty")
        return text

    @cached_property
    def first_line(self) -> str:
        """The first line that is not blank."""
        found = _FIRST_LINE.search(self.text)
        return found[0].rstrip() if found else ""

    def lines(self) -> list[tuple[int, str]]:
        """The lines that are not blank, each with its number.

        Only the line feed ends a line: captions may hold the rarer separators that `str.splitlines` knows.
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
        """The JSON value that the file begins with; None where it is not JSON."""
        return self._first_json[0]

    @property
    def document(self) -> object:
        """The JSON value that fills the file; None where it is not JSON or holds several values."""
        value, is_whole = self._first_json
        return value if is_whole else None
