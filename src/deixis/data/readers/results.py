"""Flickr30k's ``results.csv``: ``image_name| comment_number| comment``, not quoted as CSV would be."""

from __future__ import annotations

import re

from deixis.data.readers.content import Content
from deixis.data.readers.gathered import Gathered, at_line
from deixis.data.readers.source import Source

KIND = "flickr-results"
FORM = "Flickr30k's results.csv (image_name| comment_number| comment)"

_HEADER = re.compile(r"image_name\s*\|\s*comment_number\s*\|\s*comment", re.IGNORECASE)
# The release has one line without its second separator: "2199200615.jpg| 4   A dog runs across the grass ."
_LINE = re.compile(r"(?P<name>[^|]+)\|\s*(?P<number>[0-9]{1,9})(?:\s*\||\s+(?=\S))(?P<caption>.*)", re.DOTALL)


def recognises(content: Content) -> bool:
    """Whether the first line is the header of that file."""
    return _HEADER.fullmatch(content.first_line) is not None


def read(content: Content) -> Source:
    """Photos in the order in which the file names them first, captions in the order of their numbers."""
    gathered = Gathered()
    for number, line in content.lines()[1:]:
        wrong = at_line(content.path, number)
        found = _LINE.fullmatch(line)
        if found is None:
            raise wrong("expected a photo, the number of a caption and the caption, with | between them")
        gathered.add(found["name"].strip(), found["caption"], wrong, number=int(found["number"]))
    return gathered.source(KIND)
