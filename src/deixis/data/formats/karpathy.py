"""Karpathy's splits: ``dataset_flickr8k.json``, ``dataset_flickr30k.json`` and ``dataset_coco.json``.

``dataset.json`` is written, with one split for each photo, and sentences with tokens. Photos without a split are in
``rest``, which is none of the published splits (train, restval, val, test).

Not written: mentions, chains and boxes, sizes, all but the first split, whether a caption is about another photo, blank
captions and region phrases.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from deixis.data.documents import Value
from deixis.data.formats.common import copy_photos, file_name, json_document, sentences_of, splits_of, write_text
from deixis.data.formats.content import Content
from deixis.data.names import CaptionSource, PhotoIds, check_split_name
from deixis.data.records import AnnotationSource, Caption, Photo

KIND = "karpathy"
FORM = "Karpathy's dataset_*.json (images with sentences and a split)"


def recognizes(content: Content) -> bool:
    match content.document:
        case {"images": [{"sentences": _}, *_]}:
            return True
    return False


def read(content: Content) -> CaptionSource:
    """Return photos in the order of the document; ``split`` (train, val, test, restval) becomes `Photo.splits`.

    Photos of restval are in train too, as in the papers that train on 113,287 photos of MS COCO.
    """
    images = Value(content.document, content.path)["images"].items()
    return CaptionSource(KIND, _photos(images), len(images))


def _photos(images: list[Value]) -> Iterator[Photo]:
    ids = PhotoIds()
    for image in images:
        folder, split = image.text_at("filepath"), image.get("split")
        name = image["filename"].nonblank_text()
        if folder:
            name = f"{folder}/{name}"
        photo_id = ids.add_new(name, image.error)
        yield Photo(
            photo_id,
            tuple(Caption.from_text(each["raw"].nonblank_text()) for each in image["sentences"].items()),
            splits=() if split is None else _splits(check_split_name(split.text(), split.error)),
            annotated=AnnotationSource(photo_id, name),
        )


def _splits(name: str) -> tuple[str, ...]:
    return (name, "train") if name == "restval" else (name,)


_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
_JOINS_WORDS = re.compile(r"[-/\u2010-\u2015]")


def write(photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
    entries = _entries(copy_photos(photos, folder, images))
    write_text(folder / "dataset.json", json_document({"dataset": "deixis", "images": entries}))


def _entries(photos: Iterable[Photo]) -> Iterator[dict[str, Any]]:
    sentid = 0
    for imgid, photo in enumerate(photos):
        texts = sentences_of(photo)
        sentids = list(range(sentid, sentid + len(texts)))
        sentid += len(texts)
        yield _file_fields(photo) | {
            "imgid": imgid,
            "split": splits_of(photo)[0],
            "sentids": sentids,
            "sentences": [
                {"tokens": tokens(text), "raw": text, "imgid": imgid, "sentid": number}
                for number, text in zip(sentids, texts, strict=True)
            ],
        }


def _file_fields(photo: Photo) -> dict[str, str]:
    """Return the file name and, if there is one, its folder, as in the published file for COCO."""
    path = PurePosixPath(file_name(photo))
    folder = {} if path.parent == PurePosixPath() else {"filepath": str(path.parent)}
    return folder | {"filename": path.name}


def tokens(text: str) -> list[str]:
    """Split a sentence as in the published files: lower case, split at hyphens, without punctuation."""
    bare = _JOINS_WORDS.sub(" ", text.lower()).translate(_ASCII_PUNCTUATION)
    if not bare.isascii():
        bare = "".join(sign for sign in bare if not unicodedata.category(sign).startswith("P"))
    return bare.split()
