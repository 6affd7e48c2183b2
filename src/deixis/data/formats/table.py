"""CSV and TSV tables with a header: columns for the photo, the sentence and optionally the split.

For example, Kaggle's ``captions.txt`` of Flickr8k (``image,caption``). Columns are found by name. The separator (comma,
semicolon, tab or bar) is the one that gives both columns. A cell may hold a JSON list of sentences, as in the Flickr30k
tables on Hugging Face.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deixis.data.documents import parse_line
from deixis.data.formats.content import Content
from deixis.data.names import CaptionCollector, CaptionSource, error_at_line
from deixis.errors import DatasetError

KIND = "table"
FORM = "CSV or TSV with a header (image, caption)"

PHOTO_COLUMNS = ("image", "image_name", "file", "file_name", "filename", "path", "photo")
SENTENCE_COLUMNS = ("caption", "comment", "text", "sentence", "raw", "description")


@dataclass(frozen=True)
class _Layout:
    delimiter: str
    width: int
    photo: int
    sentence: int
    split: int | None


def recognizes(content: Content) -> bool:
    return _layout(content.first_line) is not None


def read(content: Content) -> CaptionSource:
    layout = _layout(content.first_line)
    if layout is None:
        raise DatasetError(f"{content.path}: the header has no column for photos or none for sentences")
    collector = CaptionCollector()
    for number, row in _rows(content, layout.delimiter):
        error = error_at_line(content.path, number)
        if len(row) != layout.width:
            raise error(
                f"{len(row)} fields where the header has {layout.width}; "
                f"quote fields that contain {layout.delimiter!r} or line breaks"
            )
        split = "" if layout.split is None else row[layout.split].strip()
        for sentence in _sentences(row[layout.sentence].strip(), content.path, number):
            collector.add(row[layout.photo].strip(), sentence, error, split=split)
    return collector.source(KIND)


def _layout(header: str) -> _Layout | None:
    for delimiter in ",;\t|":
        try:
            names = [name.strip().lower() for name in next(csv.reader([header], delimiter=delimiter))]
        except (csv.Error, StopIteration):
            continue
        photo, sentence = _column(names, PHOTO_COLUMNS), _column(names, SENTENCE_COLUMNS)
        if photo is not None and sentence is not None:
            return _Layout(delimiter, len(names), photo, sentence, _column(names, ("split",)))
    return None


def _column(names: list[str], candidates: tuple[str, ...]) -> int | None:
    return next((names.index(name) for name in candidates if name in names), None)


def _rows(content: Content, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows below the header that are not blank, each with the number of its first line."""
    reader = csv.reader(io.StringIO(content.text, newline=""), delimiter=delimiter, strict=True)
    header_seen = False
    while True:
        number = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DatasetError(f"{content.path}: line {number}: {error}") from None
        if not any(cell.strip() for cell in row):
            continue
        if header_seen:
            yield number, row
        header_seen = True


def _sentences(cell: str, file: Path, line: int) -> list[str]:
    if cell.startswith('["') and cell.endswith('"]'):
        return [sentence.nonblank_text() for sentence in parse_line(cell, line, file).items()]
    return [cell]
