"""Karpathy's ``dataset.json``: photos with a split each, and their sentences with tokens.

A photo of two splits is in the first; one of no split is in ``rest``, which no reader takes for one of the published
splits (train, restval, val, test).

Lost: mentions, chains and boxes, sizes, all but the first split, which captions are about another photo, blank
captions, and phrases that describe a region, which are no sentences.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from deixis.data.records import Photo
from deixis.data.writers.common import bring_along, file_name, json_document, sentences_of, splits_of, write_text

_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
_JOINS_WORDS = re.compile(r"[-/\u2010-\u2015]")


def write(photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
    """Write ``dataset.json``."""
    entries = _entries(bring_along(photos, folder, images))
    write_text(folder / "dataset.json", json_document({"dataset": "deixis", "images": entries}))


def _entries(photos: Iterable[Photo]) -> Iterator[dict[str, Any]]:
    sentid = 0
    for imgid, photo in enumerate(photos):
        texts = sentences_of(photo)
        sentids = list(range(sentid, sentid + len(texts)))
        sentid += len(texts)
        yield _place(photo) | {
            "imgid": imgid,
            "split": splits_of(photo)[0],
            "sentids": sentids,
            "sentences": [
                {"tokens": tokens(text), "raw": text, "imgid": imgid, "sentid": number}
                for number, text in zip(sentids, texts, strict=True)
            ],
        }


def _place(photo: Photo) -> dict[str, str]:
    """The file's name, and its folder where there is one, as the published file for COCO has it."""
    path = PurePosixPath(file_name(photo))
    folder = {} if path.parent == PurePosixPath() else {"filepath": str(path.parent)}
    return folder | {"filename": path.name}


def tokens(text: str) -> list[str]:
    """Words as the published files have them: lower case, cut at hyphens, all other punctuation gone.

    Examples
    --------
    >>> tokens("A chef's knife, cloud-wreathed.")
    ['a', 'chefs', 'knife', 'cloud', 'wreathed']
    """
    bare = _JOINS_WORDS.sub(" ", text.lower()).translate(_ASCII_PUNCTUATION)
    if not bare.isascii():
        bare = "".join(sign for sign in bare if not unicodedata.category(sign).startswith("P"))
    return bare.split()
