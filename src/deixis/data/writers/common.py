"""What the writers share: where photos go, which splits they are in, what boxes show, and JSON written as it comes."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deixis import geometry
from deixis.data.records import Photo
from deixis.errors import DatasetError
from deixis.files.atomic import explained
from deixis.files.names import is_below, is_plain

NO_SPLIT = "rest"
"""Where formats that need a split have the photos that are in none."""

OTHER = "other"
"""What a thing is called of which nothing is known; also one of Entities' types."""


def splits_of(photo: Photo) -> tuple[str, ...]:
    """The splits of a photo, each once; `NO_SPLIT` where it is in none.

    Examples
    --------
    >>> splits_of(Photo("1", splits=("train", "train"))), splits_of(Photo("2"))
    (('train',), ('rest',))
    """
    for split in photo.splits:
        if not is_plain(split):
            raise DatasetError(f"photo {photo.id!r}: its split {split!r} cannot be part of a file's name")
    return tuple(dict.fromkeys(photo.splits)) or (NO_SPLIT,)


def file_name(photo: Photo) -> str:
    """What other formats call the photo's file: its path below the folder of photos, or else its likely name.

    Examples
    --------
    >>> file_name(Photo("1", file="a/1.png")), file_name(Photo("1"))
    ('a/1.png', '1.jpg')
    """
    if photo.file is not None:
        return photo.file
    return photo.annotated.file if photo.annotated else f"{photo.id}.jpg"


def sentences_of(photo: Photo) -> list[str]:
    """What was said of the photo as a whole: no phrases for regions, no blank captions.

    Examples
    --------
    >>> from deixis.data.records import Caption
    >>> dog, red = Caption.from_text("A dog."), Caption.from_text("red hat", region_phrase=True)
    >>> sentences_of(Photo("1", (dog, red, Caption.from_text(" "))))
    ['A dog.']
    """
    return [caption.text for caption in photo.captions if caption.text.strip() and not caption.region_phrase]


def path_of(photo: Photo, images: Path) -> Path | None:
    """Where the photo's file is; None where it has none."""
    if photo.file is None:
        return None
    if not is_below(photo.file):
        raise DatasetError(f"photo {photo.id!r}: its file {photo.file!r} is not below the folder of photos")
    return images / photo.file


def bring_along(photos: Iterable[Photo], folder: Path, images: Path | None) -> Iterator[Photo]:
    """Pass photos on; each one's file is copied to ``folder/images`` as it passes, if `images` is given."""
    for photo in photos:
        source = None if images is None else path_of(photo, images)
        if source is not None:
            target = folder / "images" / file_name(photo)
            with explained(source):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
        yield photo


def categories_of_boxes(photo: Photo) -> list[str]:
    """One word for what each box shows: its label, or else the first type that a caption gives one of its chains.

    Examples
    --------
    >>> from deixis.data.records import Box, Caption, Chain, Mention
    >>> dog = Caption.from_text("A dog.", (Mention(0, 5, "7", ("animals",)),))
    >>> boxes = (Box((0, 0, 1, 1), ("7",)), Box((0, 0, 1, 1), label="cat"), Box((0, 0, 1, 1)))
    >>> categories_of_boxes(Photo("1", (dog,), (Chain("7"),), boxes))
    ['animals', 'cat', 'other']
    """
    types: dict[str, str] = {}
    for caption in photo.captions:
        for mention in caption.mentions:
            if mention.chain is not None and mention.types:
                types.setdefault(mention.chain, mention.types[0])
    return [box.label or next((types[chain] for chain in box.chains if chain in types), OTHER) for box in photo.boxes]


def corners_of(photo: Photo) -> geometry.Boxes:
    """The boxes of a photo in one array, of shape (0, 4) where it has none.

    Examples
    --------
    >>> corners_of(Photo("1")).shape
    (0, 4)
    """
    return np.array([box.xyxy for box in photo.boxes], dtype=np.float64).reshape(-1, 4)


def number(value: float) -> float:
    """A whole number without its ``.0``.

    Examples
    --------
    >>> number(5.0), number(5.5)
    (5, 5.5)
    """
    return int(value) if float(value).is_integer() else float(value)


def to_json(value: object) -> str:
    """JSON on one line, in ASCII: programs that open it in another encoding than UTF-8 still read it right."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def json_list(items: Iterable[object]) -> Iterator[str]:
    r"""A JSON list piece by piece, an item a line.

    Examples
    --------
    >>> "".join(json_list(iter([1, 2])))
    '[\n1,\n2\n]'
    """
    yield "["
    for place, item in enumerate(items):
        yield (",\n" if place else "\n") + to_json(item)
    yield "\n]"


def json_document(fields: Mapping[str, object]) -> Iterator[str]:
    r"""A JSON object piece by piece; iterators in it become lists whose items are asked for one after another.

    Examples
    --------
    >>> "".join(json_document({"name": "deixis", "images": iter([1])}))
    '{"name":"deixis",\n"images":[\n1\n]}\n'
    """
    for place, (name, value) in enumerate(fields.items()):
        yield (",\n" if place else "{") + to_json(name) + ":"
        yield from json_list(value) if isinstance(value, Iterator) else [to_json(value)]
    yield "}\n"


def write_text(path: Path, pieces: Iterable[str]) -> None:
    """Write a UTF-8 file piece by piece, with the same bytes on every system."""
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(pieces)


class Spool:
    """Items that wait on disk until all are known. It leaves no file behind."""

    def __init__(self, folder: Path) -> None:
        # Closed by `close`, which callers hand to an ExitStack.
        self._file = tempfile.TemporaryFile("w+", dir=folder, encoding="utf-8", newline="\n")  # noqa: SIM115
        self.count = 0

    def add(self, item: Mapping[str, Any]) -> None:
        """Put an item aside."""
        self._file.write(to_json(item) + "\n")
        self.count += 1

    def items(self) -> Iterator[dict[str, Any]]:
        """The items in the order they came, from the first on each time it is called."""
        self._file.seek(0)
        for line in self._file:
            yield json.loads(line)

    def close(self) -> None:
        """Give the disk back."""
        self._file.close()
