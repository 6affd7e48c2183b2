"""Flickr8k ``token.txt`` and Flickr30k ``.token``: ``NAME.jpg#0<TAB>text`` on each line."""

from __future__ import annotations

import re

from deixis.data.readers.content import Content
from deixis.data.readers.names import CaptionCollector, Source, error_at_line

KIND = "flickr-token"
FORM = "Flickr8k's token.txt and Flickr30k's .token (NAME.jpg#0, tab, caption)"

_NAME = re.compile(r"(?P<name>.*\S)\s*#(?P<number>[0-9]{1,9})", re.DOTALL)
_AFTER_SUFFIX = re.compile(r"(?<=\.jpg)\..*", re.IGNORECASE | re.DOTALL)


def recognizes(content: Content) -> bool:
    return _parts(content.first_line) is not None


def read(content: Content) -> Source:
    """Return photos in the order of the file, captions in the order of their numbers."""
    collector = CaptionCollector()
    for line_number, line in content.lines():
        error = error_at_line(content.path, line_number)
        parts = _parts(line)
        if parts is None:
            raise error("expected NAME.jpg#0, a tab and a caption")
        name, number, caption = parts
        collector.add(name, caption, error, number=number)
    return collector.source(KIND)


def _parts(line: str) -> tuple[str, int, str] | None:
    """Return photo name, caption number and caption."""
    name, tab, caption = line.partition("\t")
    found = _NAME.fullmatch(name) if tab else None
    if found is None:
        return None
    # Flickr8k has captions of "2258277193_586949ec62.jpg.1", a duplicate download.
    return _AFTER_SUFFIX.sub("", found["name"].strip()), int(found["number"]), caption
