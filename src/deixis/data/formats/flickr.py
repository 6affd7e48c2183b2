"""The caption files of Flickr8k and Flickr30k, one caption per line.

``token.txt`` and ``.token`` have ``NAME.jpg#0<TAB>text``; ``results.csv`` has ``image_name| comment_number| comment``
below a header, without CSV quoting.
"""

from __future__ import annotations

import re

from deixis.data.formats.content import Content
from deixis.data.names import CaptionCollector, CaptionSource, error_at_line

FORM = (
    "Flickr8k's token.txt and Flickr30k's .token (NAME.jpg#0, tab, caption); "
    "Flickr30k's results.csv (image_name| comment_number| comment)"
)

_TOKEN = re.compile(r"(?P<name>[^\t]*\S)[^\S\t]*#(?P<number>[0-9]{1,9})\t(?P<caption>.*)", re.DOTALL)
_HEADER = re.compile(r"image_name\s*\|\s*comment_number\s*\|\s*comment", re.IGNORECASE)
# The release has one line without its second separator: "2199200615.jpg| 4   A dog runs across the grass ."
_RESULT = re.compile(r"(?P<name>[^|]+)\|\s*(?P<number>[0-9]{1,9})(?:\s*\||\s+(?=\S))(?P<caption>.*)", re.DOTALL)
# Flickr8k has captions of "2258277193_586949ec62.jpg.1", a duplicate download.
_AFTER_SUFFIX = re.compile(r"(?<=\.jpg)\..*", re.IGNORECASE | re.DOTALL)


def recognizes(content: Content) -> bool:
    return _is_results(content) or _TOKEN.fullmatch(content.first_line) is not None


def _is_results(content: Content) -> bool:
    return _HEADER.fullmatch(content.first_line) is not None


def read(content: Content) -> CaptionSource:
    """Return photos in the order of the file, captions in the order of their numbers."""
    collector = CaptionCollector()
    is_results = _is_results(content)
    pattern = _RESULT if is_results else _TOKEN
    for number, line in content.lines()[is_results:]:
        error = error_at_line(content.path, number)
        found = pattern.fullmatch(line)
        if found is None:
            form = "photo | caption number | caption" if is_results else "NAME.jpg#0, a tab and a caption"
            raise error(f"expected {form}")
        name = found["name"].strip() if is_results else _AFTER_SUFFIX.sub("", found["name"].strip())
        collector.add(name, found["caption"], error, number=int(found["number"]))
    return collector.source("flickr-results" if is_results else "flickr-token")
