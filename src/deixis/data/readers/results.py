"""Flickr30k ``results.csv``: ``image_name| comment_number| comment``, without CSV quoting."""

from __future__ import annotations

import re

from deixis.data.readers.content import Content
from deixis.data.readers.names import CaptionCollector, Source, error_at_line

KIND = "flickr-results"
FORM = "Flickr30k's results.csv (image_name| comment_number| comment)"

_HEADER = re.compile(r"image_name\s*\|\s*comment_number\s*\|\s*comment", re.IGNORECASE)
# The release has one line without its second separator: "2199200615.jpg| 4   A dog runs across the grass ."
_LINE = re.compile(r"(?P<name>[^|]+)\|\s*(?P<number>[0-9]{1,9})(?:\s*\||\s+(?=\S))(?P<caption>.*)", re.DOTALL)


def recognizes(content: Content) -> bool:
    return _HEADER.fullmatch(content.first_line) is not None


def read(content: Content) -> Source:
    """Return photos in the order of the file, captions in the order of their numbers."""
    collector = CaptionCollector()
    for number, line in content.lines()[1:]:
        error = error_at_line(content.path, number)
        found = _LINE.fullmatch(line)
        if found is None:
            raise error("expected photo | caption number | caption")
        collector.add(found["name"].strip(), found["caption"], error, number=int(found["number"]))
    return collector.source(KIND)
