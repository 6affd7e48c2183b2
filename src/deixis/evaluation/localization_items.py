"""What there is to localise: the mentions of a data set whose chains have boxes.

One *item* is one mention in one caption: the thing that a model is asked to find. A chain that five captions
mention is five items, as in the papers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deixis import geometry
from deixis.data.records import ENTITY_TYPES, Photo

Protocol = Literal["union", "any"]
"""`union`: the gold is the box around all boxes of the chain; `any`: each box of the chain is a gold."""

PROTOCOLS: tuple[Protocol, ...] = ("union", "any")

_ARTICLES = ("a", "an", "the")


@dataclass(frozen=True, slots=True)
class Item:
    """A mention to be found in its photo.

    Attributes
    ----------
    photo, caption, span
        The photo's id, the caption's place among all captions of the photo (from 0, captions about other
        photos counted too), and the mention's first and last offset in Unicode code points, end exclusive.
    phrase, types
        The words as written, and the types as the data has them.
    boxes
        All boxes of the chain, at least one: pixels of the photo, 0-based, end exclusive.
    size
        Width and height of the photo, where known; only the blind baselines need it.
    """

    photo: str
    caption: int
    span: tuple[int, int]
    phrase: str
    types: tuple[str, ...]
    boxes: tuple[tuple[float, float, float, float], ...]
    size: tuple[int, int] | None = None

    def gold(self, protocol: Protocol) -> geometry.Boxes:
        """The boxes that count as right, as (n, 4).

        Examples
        --------
        >>> pair = Item("1", 0, (0, 7), "Two men", ("people",), ((0, 0, 10, 10), (20, 0, 30, 10)))
        >>> pair.gold("union").tolist()
        [[0.0, 0.0, 30.0, 10.0]]
        >>> len(pair.gold("any"))
        2
        """
        every = np.asarray(self.boxes, dtype=np.float64)
        return geometry.union(every)[None] if protocol == "union" else every


def localization_items(photos: Iterable[Photo], *, region_phrases: bool = False) -> list[Item]:
    """All mentions whose chain has at least one box, in the order of the photos, captions and mentions.

    Captions that the data marks as being about another photo (`related` is False) are left out, and so are
    mentions without a chain or with a chain that has no box: there is nothing to compare a prediction with.

    Parameters
    ----------
    photos
        With captions, mentions and boxes.
    region_phrases
        Also take captions that describe a single region and were never meant as sentences about the photo.
        They are left out unless asked for, because the papers localise the phrases of sentences.

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
        for place, caption in enumerate(photo.captions)
        if caption.related and (region_phrases or not caption.region_phrase)
        for item in _items_of(photo, place)
    ]


def _items_of(photo: Photo, place: int) -> Iterable[Item]:
    caption = photo.captions[place]
    size = None if photo.width is None or photo.height is None else (photo.width, photo.height)
    for mention in caption.mentions:
        boxes = () if mention.chain is None else photo.boxes_of(mention.chain)
        if boxes:
            yield Item(
                photo.id,
                place,
                (mention.start, mention.end),
                caption.phrase(mention),
                mention.types,
                tuple(box.xyxy for box in boxes),
                size,
            )


def distinct_phrase(phrase: str) -> str:
    """What makes two mentions the same phrase: lower case, single spaces, no leading *a*, *an* or *the*.

    Table 5 of the Entities paper lists "man" and "two men", not "a man": the article goes, the number stays.

    Examples
    --------
    >>> distinct_phrase("A young  Man"), distinct_phrase("The"), distinct_phrase("two men")
    ('young man', 'the', 'two men')
    """
    words = phrase.lower().split()
    return " ".join(words[1:] if len(words) > 1 and words[0] in _ARTICLES else words)


def types_in_order(items: Iterable[Item]) -> list[str]:
    """The types that occur: those of Entities in the order of its tables, then any others by name.

    Examples
    --------
    >>> types_in_order([Item("1", 0, (0, 3), "dog", ("robots", "animals"), ((0, 0, 9, 9),))])
    ['animals', 'robots']
    """
    found = {kind for item in items for kind in item.types}
    return [kind for kind in ENTITY_TYPES if kind in found] + sorted(found.difference(ENTITY_TYPES))
