"""Tables with a header: CSV and TSV with a column for the photo, one for the sentence and perhaps one for the split.

Kaggle's ``captions.txt`` of Flickr8k (``image,caption``) is such a file. Columns are found by their names, and the
separator (comma, semicolon, tab or bar) is the one under which the header has both. A cell that holds a JSON list
of sentences, as the Flickr30k tables on Hugging Face have them, counts as that many captions.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deixis.data.readers.content import Content
from deixis.data.readers.gathered import Gathered, at_line
from deixis.data.readers.source import Source
from deixis.data.readers.values import parse_line
from deixis.errors import DatasetError

KIND = "table"
FORM = "CSV or TSV with a header (image, caption)"

_PHOTO_COLUMNS = ("image", "image_name", "file", "file_name", "filename", "path", "photo")
_SENTENCE_COLUMNS = ("caption", "comment", "text", "sentence", "raw", "description")


@dataclass(frozen=True)
class _Layout:
    delimiter: str
    width: int
    photo: int
    sentence: int
    split: int | None


def recognises(content: Content) -> bool:
    """Whether the first line has a column for photos and one for sentences."""
    return _layout(content.first_line) is not None


def read(content: Content) -> Source:
    """Photos in the order in which the table names them first."""
    layout = _layout(content.first_line)
    if layout is None:
        raise DatasetError(f"{content.path}: the first line names no column for photos, or none for sentences")
    gathered = Gathered()
    for number, row in _rows(content, layout.delimiter):
        wrong = at_line(content.path, number)
        if len(row) != layout.width:
            raise wrong(
                f"{len(row)} fields where the header has {layout.width}; "
                f"a field with {layout.delimiter!r} or a line break in it needs quotes"
            )
        split = "" if layout.split is None else row[layout.split].strip()
        for sentence in _sentences(row[layout.sentence].strip(), content.path, number):
            gathered.add(row[layout.photo].strip(), sentence, wrong, split=split)
    return gathered.source(KIND)


def _layout(header: str) -> _Layout | None:
    for delimiter in ",;\t|":
        try:
            names = [name.strip().lower() for name in next(csv.reader([header], delimiter=delimiter))]
        except (csv.Error, StopIteration):
            continue
        photo, sentence = _column(names, _PHOTO_COLUMNS), _column(names, _SENTENCE_COLUMNS)
        if photo is not None and sentence is not None:
            return _Layout(delimiter, len(names), photo, sentence, _column(names, ("split",)))
    return None


def _column(names: list[str], wanted: tuple[str, ...]) -> int | None:
    return next((names.index(name) for name in wanted if name in names), None)


def _rows(content: Content, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows below the header, each with the number of its first line; blank ones are left out."""
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
        return [sentence.sentence() for sentence in parse_line(cell, line, file).items()]
    return [cell]
