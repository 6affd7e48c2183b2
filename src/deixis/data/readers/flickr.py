"""Flickr8k's ``token.txt`` and Flickr30k's ``.token``: ``NAME.jpg#0<TAB>text`` on each line."""

from __future__ import annotations

import re

from deixis.data.readers.content import Content
from deixis.data.readers.gathered import Gathered, at_line
from deixis.data.readers.source import Source

KIND = "flickr-token"
FORM = "Flickr8k's token.txt and Flickr30k's .token (NAME.jpg#0, tab, caption)"

_LINE = re.compile(r"(?P<name>[^\t]*[^\t ]) *#(?P<number>[0-9]{1,9})\t(?P<caption>.*)", re.DOTALL)
_AFTER_SUFFIX = re.compile(r"(?<=\.jpg)\..*", re.IGNORECASE | re.DOTALL)


def recognises(content: Content) -> bool:
    """Whether the first line names a photo, the number of a caption and, after a tab, the caption."""
    return _LINE.fullmatch(content.first_line) is not None


def read(content: Content) -> Source:
    """Photos in the order in which the file names them first, captions in the order of their numbers."""
    gathered = Gathered()
    for number, line in content.lines():
        wrong = at_line(content.path, number)
        found = _LINE.fullmatch(line)
        if found is None:
            raise wrong("expected NAME.jpg#0, a tab and a caption")
        # Flickr8k has captions of "2258277193_586949ec62.jpg.1", a leftover of somebody's download.
        name = _AFTER_SUFFIX.sub("", found["name"].strip())
        gathered.add(name, found["caption"], wrong, number=int(found["number"]))
    return gathered.source(KIND)
