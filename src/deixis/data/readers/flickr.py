"""Flickr8k's ``token.txt`` and Flickr30k's ``.token``: ``NAME.jpg#0<TAB>text`` on each line."""

from __future__ import annotations

import re

from deixis.data.readers.content import Content
from deixis.data.readers.gathered import Gathered, at_line
from deixis.data.readers.source import Source

KIND = "flickr-token"
FORM = "Flickr8k's token.txt and Flickr30k's .token (NAME.jpg#0, tab, caption)"

_NAME = re.compile(r"(?P<name>.*\S)\s*#(?P<number>[0-9]{1,9})", re.DOTALL)
_AFTER_SUFFIX = re.compile(r"(?<=\.jpg)\..*", re.IGNORECASE | re.DOTALL)


def recognises(content: Content) -> bool:
    """Whether the first line names a photo, the number of a caption and, after a tab, the caption."""
    return _parts(content.first_line) is not None


def read(content: Content) -> Source:
    """Photos in the order in which the file names them first, captions in the order of their numbers."""
    gathered = Gathered()
    for line_number, line in content.lines():
        wrong = at_line(content.path, line_number)
        parts = _parts(line)
        if parts is None:
            raise wrong("expected NAME.jpg#0, a tab and a caption")
        name, number, caption = parts
        gathered.add(name, caption, wrong, number=number)
    return gathered.source(KIND)


def _parts(line: str) -> tuple[str, int, str] | None:
    """The name of the photo, the number of the caption, and the caption."""
    name, tab, caption = line.partition("\t")
    found = _NAME.fullmatch(name) if tab else None
    if found is None:
        return None
    # Flickr8k has captions of "2258277193_586949ec62.jpg.1", a leftover of somebody's download.
    return _AFTER_SUFFIX.sub("", found["name"].strip()), int(found["number"]), caption
