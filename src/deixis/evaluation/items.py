"""The photos, sentences, regions and phrases of a data set that are scored, in the order of score matrices and files.

- *photos*: the photos of the split, in its order.
- *sentences*: the sentences of those photos (`Photo.sentences`), photo by photo, without region phrases and without
  captions that the data marks as unrelated to the photo.
- *regions*: the chains that have boxes and a mention, photo by photo; the region of a chain is the union of its boxes.
- *phrases*: the mentions of those chains, photo by photo, caption by caption, without unrelated captions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deixis import geometry
from deixis.arrays import IntArray
from deixis.data.records import ENTITY_TYPES, Photo
from deixis.errors import DatasetError, DeixisError
from deixis.tokens import distinct_phrase

Protocol = Literal["union", "any"]
"""`union`: the gold box is the union of all boxes of the chain; `any`: each box of the chain is a gold box."""

PROTOCOLS: tuple[Protocol, ...] = ("union", "any")


def check_protocol(protocol: str) -> None:
    """Raise `DeixisError` for an unknown protocol."""
    if protocol not in PROTOCOLS:
        raise DeixisError(f"protocol {protocol!r} does not exist; choose {' or '.join(PROTOCOLS)}")


@dataclass(frozen=True, slots=True)
class Item:
    """A mention to localize in its photo."""

    # Photo id, index of the caption among all captions of the photo (including unrelated ones), and the offsets of the
    # mention in Unicode code points, end exclusive
    photo: str
    caption: int
    span: tuple[int, int]
    # Text of the mention and its entity types
    phrase: str
    types: tuple[str, ...]
    # All boxes of the chain, at least one: pixels of the photo, 0-based, end exclusive
    boxes: tuple[geometry.XYXY, ...]
    size: tuple[int, int] | None = None  # width and height of the photo if known; only the blind baselines need it

    def gold(self, protocol: Protocol) -> geometry.Boxes:
        """Return the boxes that count as correct, as (n, 4)."""
        boxes = np.asarray(self.boxes, dtype=np.float64)
        return geometry.union(boxes)[None] if protocol == "union" else boxes


def localization_items(photos: Iterable[Photo], *, region_phrases: bool = False) -> list[Item]:
    """Return all mentions whose chain has at least one box, in the order of photos, captions and mentions.

    Unrelated captions (`related` is False) and mentions without a box are left out.

    Parameters
    ----------
    photos
        Photos with captions, mentions and boxes.
    region_phrases
        Include captions that describe a single region. The papers localize the phrases of sentences only.

    Examples
    --------
    >>> from deixis.data.records import Box, Caption, Mention
    >>> caption = Caption.from_text("A dog runs.", (Mention(0, 5, "1", ("animals",)),))
    >>> photo = Photo("7", (caption,), boxes=(Box((0, 0, 40, 30), ("1",)),), width=100, height=80)
    >>> [(item.phrase, item.span, item.boxes) for item in localization_items([photo])]
    [('A dog', (0, 5), ((0, 0, 40, 30),))]
    """
    return [
        item
        for photo in photos
        for index, caption in enumerate(photo.captions)
        if caption.related and (region_phrases or not caption.region_phrase)
        for item in _caption_items(photo, index)
    ]


def _caption_items(photo: Photo, index: int) -> Iterable[Item]:
    caption = photo.captions[index]
    size = None if photo.width is None or photo.height is None else (photo.width, photo.height)
    for mention in caption.mentions:
        boxes = () if mention.chain is None else photo.boxes_of(mention.chain)
        if boxes:
            yield Item(
                photo.id,
                index,
                (mention.start, mention.end),
                caption.phrase(mention),
                mention.types,
                tuple(box.xyxy for box in boxes),
                size,
            )


def indices_by_phrase(phrases: Iterable[str]) -> dict[str, IntArray]:
    """Return the indices of each distinct phrase, in the order of their first occurrences."""
    indices: dict[str, list[int]] = {}
    for index, phrase in enumerate(phrases):
        indices.setdefault(distinct_phrase(phrase), []).append(index)
    return {phrase: np.array(found, dtype=np.intp) for phrase, found in indices.items()}


def distinct_phrases(items: Iterable[Item]) -> dict[str, IntArray]:
    """Return the distinct phrases in the order of their first mentions, each with the indices of its items."""
    return indices_by_phrase(item.phrase for item in items)


def typical_wording(items: Sequence[Item]) -> list[str]:
    """Return the most frequent wording of each distinct phrase in lower case, such as "a dog" for "dog"."""
    typical = []
    for indices in distinct_phrases(items).values():
        wordings = [" ".join(items[index].phrase.lower().split()) for index in indices]
        typical.append(max(wordings, key=wordings.count))  # the first of equally frequent ones
    return typical


def indices_by_type(items: Sequence[Item]) -> dict[str, IntArray]:
    """Return the indices of the items of each type that occurs.

    Those of Entities come first, in the order of its tables, then any others by name.
    """
    found = {kind for item in items for kind in item.types}
    kinds = [kind for kind in ENTITY_TYPES if kind in found] + sorted(found.difference(ENTITY_TYPES))
    return {kind: np.flatnonzero([kind in item.types for item in items]) for kind in kinds}


def most_frequent(groups: Mapping[str, IntArray], limit: int) -> list[str]:
    """Return the names of the largest groups, by size and then by name."""
    return sorted(groups, key=lambda name: (-len(groups[name]), name))[:limit]


@dataclass(frozen=True)
class Sentences:
    """The sentences of some photos and the photo index of each."""

    texts: tuple[str, ...]
    photo_of_sentence: tuple[int, ...]


@dataclass(frozen=True)
class Regions:
    """The regions and phrases of some photos."""

    # Union box and photo index of each region
    boxes: tuple[geometry.XYXY, ...]
    photo_of_region: tuple[int, ...]
    # Text and photo index of each phrase
    phrases: tuple[str, ...]
    photo_of_phrase: tuple[int, ...]
    positives: tuple[tuple[int, int], ...]  # pairs (region, phrase) that belong together


def sentences_of(photos: Iterable[Photo]) -> Sentences:
    """Return the sentences of some photos, in the order of score matrices."""
    found = [(caption.text, index) for index, photo in enumerate(photos) for caption in photo.sentences]
    if not found:
        raise DatasetError("no captions to score: the photos have no sentences")
    texts, photo_of_sentence = zip(*found, strict=True)
    return Sentences(texts, photo_of_sentence)


def regions_of(photos: Iterable[Photo]) -> Regions:
    """Return the regions and phrases of some photos, in the order of score matrices."""
    boxes: list[geometry.XYXY] = []
    photo_of_region: list[int] = []
    phrases: list[str] = []
    photo_of_phrase: list[int] = []
    positives: list[tuple[int, int]] = []
    for index, photo in enumerate(photos):
        region_of_chain: dict[str, int] = {}
        captions = [caption for caption in photo.captions if caption.related]
        mentioned = {mention.chain for caption in captions for mention in caption.mentions}
        for chain in photo.chains:
            chain_boxes = photo.boxes_of(chain.id)
            if chain_boxes and chain.id in mentioned:
                region_of_chain[chain.id] = len(boxes)
                x1, y1, x2, y2 = geometry.union([box.xyxy for box in chain_boxes]).tolist()
                boxes.append((x1, y1, x2, y2))
                photo_of_region.append(index)
        for caption in captions:
            for mention in caption.mentions:
                if mention.chain in region_of_chain:
                    positives.append((region_of_chain[mention.chain], len(phrases)))
                    phrases.append(caption.phrase(mention))
                    photo_of_phrase.append(index)
    if not boxes:
        raise DatasetError("no regions to score: no chain has both a box and a mention")
    return Regions(tuple(boxes), tuple(photo_of_region), tuple(phrases), tuple(photo_of_phrase), tuple(positives))
