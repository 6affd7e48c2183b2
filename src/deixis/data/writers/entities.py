"""Flickr30k Entities, in the layout of the release.

Boxes are rounded to whole pixels of the size at which the photo was annotated. Chains whose ids are not numbers are
renumbered within their photo.

Not written: trees, labels of boxes, boxes without a chain, line breaks in captions.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from deixis.data.entities import format_annotation, format_sentence
from deixis.data.records import Photo
from deixis.data.writers.common import copy_photos, splits_of

_PLAIN_NUMBER = re.compile(r"[1-9][0-9]*", re.ASCII)


def write(photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
    """Write ``Sentences``, ``Annotations``, a list per split and ``UNRELATED_CAPTIONS``."""
    sentences, annotations = folder / "Sentences", folder / "Annotations"
    sentences.mkdir()
    annotations.mkdir()
    splits: dict[str, list[str]] = defaultdict(list)
    unrelated: list[str] = []
    for photo in copy_photos(photos, folder, images):
        photo_id = photo.annotated.id if photo.annotated else photo.id
        names = _chain_names(photo)
        lines = [re.sub(r"[\r\n]", " ", format_sentence(caption, names)) + "\n" for caption in photo.captions]
        (sentences / f"{photo_id}.txt").write_bytes("".join(lines).encode())
        (annotations / f"{photo_id}.xml").write_bytes(format_annotation(photo, names).encode())
        for split in splits_of(photo) if photo.splits else ():
            splits[split].append(photo_id)
        unrelated += [f"{photo_id} {n}" for n, caption in enumerate(photo.captions, 1) if not caption.related]
    for split, ids in splits.items():
        (folder / f"{split}.txt").write_text("\n".join([*ids, ""]))
    if unrelated:
        heading = "# format: <imageID> <sentence number>"
        (folder / "UNRELATED_CAPTIONS").write_text("\n".join([heading, *unrelated]))


def _chain_names(photo: Photo) -> dict[str, str]:
    if all(_PLAIN_NUMBER.fullmatch(chain.id) for chain in photo.chains):
        return {}
    return {chain.id: str(number) for number, chain in enumerate(photo.chains, start=1)}
