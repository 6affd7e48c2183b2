"""JSON Lines in the full format of deixis: one photo per line in ``photos.jsonl``. ``deixis data import`` reads it.

Nothing is lost: tokens are computed again from the text. Default values are not written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from deixis.data.records import AnnotationSource, Box, Caption, Chain, Mention, Photo
from deixis.data.writers.common import compact_number, copy_photos, write_text


def write(photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
    write_text(folder / "photos.jsonl", _lines(copy_photos(photos, folder, images)))


def _lines(photos: Iterable[Photo]) -> Iterator[str]:
    for photo in photos:
        # Not escaped to ASCII, because people read this format.
        yield json.dumps(_photo(photo), separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


def _photo(photo: Photo) -> dict[str, Any]:
    return {"id": photo.id} | _without_defaults(
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


def _annotated(source: AnnotationSource) -> dict[str, Any]:
    sizes = _without_defaults(width=(source.width, None), height=(source.height, None), depth=(source.depth, None))
    return {"id": source.id, "file": source.file} | sizes


def _caption(caption: Caption) -> dict[str, Any]:
    return {"text": caption.text} | _without_defaults(
        mentions=([_mention(mention) for mention in caption.mentions], []),
        related=(caption.related, True),
        tree=(caption.tree, None),
        region_phrase=(caption.region_phrase, False),
    )


def _mention(mention: Mention) -> dict[str, Any]:
    fields = {"span": [mention.start, mention.end], "chain": mention.chain}
    return fields | _without_defaults(types=(list(mention.types), []))


def _chain(chain: Chain) -> dict[str, Any]:
    return {"id": chain.id} | _without_defaults(
        scene=(chain.scene, False), no_box=(chain.no_box, False), annotated=(chain.annotated, True)
    )


def _box(box: Box) -> dict[str, Any]:
    corners = {"box": [compact_number(value) for value in box.xyxy]}
    return corners | _without_defaults(chains=(list(box.chains), []), label=(box.label, None))


def _without_defaults(**fields: tuple[object, object]) -> dict[str, Any]:
    """Return the fields whose value differs from the default; each is (value, default)."""
    return {name: value for name, (value, default) in fields.items() if value != default}
