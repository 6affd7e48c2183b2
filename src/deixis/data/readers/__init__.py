"""Readers of caption files. They turn files of any origin into `Photo` records.

`read_captions` detects the format from the content, never from the file name. Whatever a file contains, readers raise
nothing but `DatasetError`.

To add a reader, write one module with the members of `Format` (`deixis.data.readers.karpathy` is a short example) and
add the module to `FORMATS`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from deixis.data.names import Source, quote_text
from deixis.data.readers import (
    coco,
    flickr,
    iapr,
    jsonl,
    karpathy,
    label_studio,
    odvg,
    parquet,
    regions,
    table,
)
from deixis.data.readers.content import Content
from deixis.errors import DatasetError

__all__ = ["Source", "read_captions"]


class Format(Protocol):
    """Interface of a reader module."""

    FORM: str  # name in messages

    def recognizes(self, content: Content) -> bool:
        """Return whether the content has this format."""
        ...

    def read(self, content: Content) -> Source:
        """Return the photos in the content."""
        ...


FORMATS: tuple[Format, ...] = (
    parquet,
    iapr,
    flickr,
    karpathy,
    coco,
    regions,
    label_studio,
    odvg,
    jsonl,
    table,
)
"""All readers, in the order in which they are tried. The first that recognizes the content reads it."""


def read_captions(path: Path, *, instances: Path | None = None) -> Source:
    """Read photos and their captions from a file, or from a folder or zip of files.

    `instances` is a COCO file of boxes for COCO captions. Errors are raised at once or while iterating over the photos.
    """
    content = Content(path, instances)
    try:
        chosen = next((known for known in FORMATS if known.recognizes(content)), None)
        if chosen is None:
            forms = "; ".join(known.FORM for known in FORMATS)
            raise DatasetError(f"{path}: unknown format ({_describe(content)}); known formats: {forms}")
        if instances is not None and chosen is not coco:
            raise DatasetError(f"{path}: --instances {instances} requires COCO captions, but this is {chosen.FORM}")
        source = chosen.read(content)
    except OSError as error:
        raise DatasetError(f"{error.filename or path}: cannot be read ({error.strerror})") from error
    if source.total == 0:
        raise DatasetError(f"{path}: contains no photos")
    return source


def _describe(content: Content) -> str:
    if content.is_tree:
        names = content.names
        return f"a folder or zip of {len(names)} files" + (f", first {quote_text(names[0])}" if names else "")
    if isinstance(content.first_json, dict):
        return f"a JSON object with the keys {quote_text(', '.join(content.first_json))}"
    return f"it starts with {quote_text(content.first_line)}"
