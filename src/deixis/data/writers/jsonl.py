"""JSON Lines, the full form of our own: one photo a line in ``photos.jsonl``, readable again by ``deixis data import``.

Lost: nothing but tokens, which are made anew from the text. What is as the records have it by default is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from deixis.data.records import Annotated, Box, Caption, Chain, Mention, Photo
from deixis.data.writers.common import bring_along, number, write_text


def write(photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
    """Write ``photos.jsonl``."""
    write_text(folder / "photos.jsonl", _lines(bring_along(photos, folder, images)))


def _lines(photos: Iterable[Photo]) -> Iterator[str]:
    for photo in photos:
        # Not in ASCII: this is the one format that people read.
        yield json.dumps(_photo(photo), separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


def _photo(photo: Photo) -> dict[str, Any]:
    return {"id": photo.id} | _told(
        file=(photo.file, None),
        width=(photo.width, None),
        height=(photo.height, None),
        splits=(list(photo.splits), []),
        sha256=(photo.sha256, None),
        annotated=(photo.annotated and _annotated(photo.annotated), None),
        captions=([_caption(caption) for caption in photo.captions], []),
        chains=([_chain(chain) for chain in photo.chains], []),
        boxes=([_box(box) for box in photo.boxes], []),
    )


def _annotated(was: Annotated) -> dict[str, Any]:
    sizes = _told(width=(was.width, None), height=(was.height, None), depth=(was.depth, None))
    return {"id": was.id, "file": was.file} | sizes


def _caption(caption: Caption) -> dict[str, Any]:
    return {"text": caption.text} | _told(
        mentions=([_mention(mention) for mention in caption.mentions], []),
        related=(caption.related, True),
        tree=(caption.tree, None),
        region_phrase=(caption.region_phrase, False),
    )


def _mention(mention: Mention) -> dict[str, Any]:
    place = {"span": [mention.start, mention.end], "chain": mention.chain}
    return place | _told(types=(list(mention.types), []))


def _chain(chain: Chain) -> dict[str, Any]:
    return {"id": chain.id} | _told(
        scene=(chain.scene, False), no_box=(chain.no_box, False), annotated=(chain.annotated, True)
    )


def _box(box: Box) -> dict[str, Any]:
    corners = {"box": [number(value) for value in box.xyxy]}
    return corners | _told(chains=(list(box.chains), []), label=(box.label, None))


def _told(**fields: tuple[object, object]) -> dict[str, Any]:
    """The fields whose value, the first of each pair, is not the default, the second."""
    return {name: value for name, (value, default) in fields.items() if value != default}
