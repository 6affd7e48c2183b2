"""What of a data set each score is about, in the order in which matrices and files of scores must have it.

- *photos*: the photos of the split, in its order.
- *sentences*: the sentences of those photos (`Photo.sentences`), photo by photo; phrases that describe a region and
  captions that the data says are about another photo are none.
- *regions*: the chains that have boxes and a mention, photo by photo; a chain's region is the union of its boxes.
- *phrases*: the mentions of those chains, photo by photo, caption by caption; captions that the data says are about
  another photo mention nothing of this one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deixis import geometry
from deixis.data.records import Photo
from deixis.errors import DatasetError


@dataclass(frozen=True)
class Sentences:
    """The sentences of some photos."""

    texts: tuple[str, ...]
    photo_of_sentence: tuple[int, ...]


@dataclass(frozen=True)
class Regions:
    """The regions and phrases of some photos.

    Attributes
    ----------
    boxes, photo_of_region
        The union box of each region, and the place of its photo.
    phrases, photo_of_phrase
        The words of each phrase, and the place of its photo.
    positives
        Which phrases were said of which region, as (region, phrase).
    """

    boxes: tuple[tuple[float, float, float, float], ...]
    photo_of_region: tuple[int, ...]
    phrases: tuple[str, ...]
    photo_of_phrase: tuple[int, ...]
    positives: tuple[tuple[int, int], ...]


def sentences_of(photos: Iterable[Photo]) -> Sentences:
    """The sentences of some photos, in the order that scores must have.

    Examples
    --------
    >>> from deixis.data.records import Caption
    >>> dog = Photo("1", (Caption.from_text("A dog."), Caption.from_text("It runs.")))
    >>> sentences_of([dog, Photo("2", (Caption.from_text("A cat."),))])
    Sentences(texts=('A dog.', 'It runs.', 'A cat.'), photo_of_sentence=(0, 0, 1))
    """
    found = [(caption.text, place) for place, photo in enumerate(photos) for caption in photo.sentences]
    if not found:
        raise DatasetError("no captions to score")
    texts, photo_of_sentence = zip(*found, strict=True)
    return Sentences(texts, photo_of_sentence)


def regions_of(photos: Iterable[Photo]) -> Regions:
    """The regions and phrases of some photos, in the order that scores must have.

    Examples
    --------
    >>> from deixis.data.records import Box, Caption, Chain, Mention
    >>> said = Caption.from_text("A dog in snow", (Mention(0, 5, "1"), Mention(9, 13, "2")))
    >>> regions_of([Photo("7", (said,), (Chain("1"), Chain("2", scene=True)), (Box((0, 0, 4, 4), ("1",)),))])
    ... # doctest: +NORMALIZE_WHITESPACE
    Regions(boxes=((0.0, 0.0, 4.0, 4.0),), photo_of_region=(0,), phrases=('A dog',), photo_of_phrase=(0,),
            positives=((0, 0),))
    """
    boxes: list[tuple[float, float, float, float]] = []
    photo_of_region: list[int] = []
    phrases: list[str] = []
    photo_of_phrase: list[int] = []
    positives: list[tuple[int, int]] = []
    for place, photo in enumerate(photos):
        region_of_chain: dict[str, int] = {}
        captions = [caption for caption in photo.captions if caption.related]
        mentioned = {mention.chain for caption in captions for mention in caption.mentions}
        for chain in photo.chains:
            shown = photo.boxes_of(chain.id)
            if shown and chain.id in mentioned:
                region_of_chain[chain.id] = len(boxes)
                x1, y1, x2, y2 = geometry.union([box.xyxy for box in shown]).tolist()
                boxes.append((x1, y1, x2, y2))
                photo_of_region.append(place)
        for caption in captions:
            for mention in caption.mentions:
                if mention.chain in region_of_chain:
                    positives.append((region_of_chain[mention.chain], len(phrases)))
                    phrases.append(caption.phrase(mention))
                    photo_of_phrase.append(place)
    if not boxes:
        raise DatasetError("no regions to score: no chain has both a box and a mention")
    return Regions(tuple(boxes), tuple(photo_of_region), tuple(phrases), tuple(photo_of_phrase), tuple(positives))
