"""Every region of every photo, ranked for a phrase: where in such a ranking the phrase's mentions are found.

A model that scores any phrase against any region gives hundreds of millions of scores. Of the ranking that a phrase
makes of all regions, average precision needs only what stands before each find, so only that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis import geometry
from deixis.errors import DeixisError
from deixis.evaluation.drawn_precision import Finds, PhotoRanking
from deixis.evaluation.localization_items import Item, Protocol, distinct_phrase
from deixis.evaluation.ranked_boxes import IOU, Flags, Whole
from deixis.geometry import Boxes

Row = npt.NDArray[Any]


@dataclass(frozen=True)
class Regions:
    """The candidate boxes of all photos, end to end.

    Attributes
    ----------
    photos
        The photos' ids.
    boxes
        (n, 4) those of the first photo, then those of the second, and so on.
    counts
        (photos,) how many each photo has.

    Examples
    --------
    >>> regions = Regions.of({"7": [[0, 0, 40, 30], [0, 0, 100, 80]], "8": [[0, 0, 90, 90]]})
    >>> regions.boxes.shape, regions.photo.tolist()
    ((3, 4), [0, 0, 1])
    """

    photos: tuple[str, ...]
    boxes: Boxes
    counts: Whole

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.photos) or int(self.counts.sum()) != len(self.boxes):
            raise DeixisError(
                f"{len(self.photos):,} photos and {len(self.boxes):,} regions, but counts for "
                f"{len(self.counts):,} photos that add up to {int(self.counts.sum()):,}"
            )

    @classmethod
    def of(cls, boxes: dict[str, npt.ArrayLike]) -> Regions:
        """From the boxes of each photo, by its id; a photo may have none."""
        arrays = [np.asarray(each, dtype=np.float64).reshape(-1, 4) for each in boxes.values()]
        counts = np.array([len(each) for each in arrays], dtype=np.intp)
        return cls(tuple(boxes), np.concatenate([np.empty((0, 4)), *arrays]), counts)

    @cached_property
    def photo(self) -> Whole:
        """(n,) each region's photo, as a number."""
        return np.repeat(np.arange(len(self.photos)), self.counts)

    @cached_property
    def starts(self) -> Whole:
        """(photos,) where each photo's regions begin."""
        return np.cumsum(self.counts) - self.counts

    def numbers(self, items: Sequence[Item]) -> Whole:
        """(items,) the number of each item's photo."""
        number = {photo: place for place, photo in enumerate(self.photos)}
        unknown = next((item.photo for item in items if item.photo not in number), None)
        if unknown is not None:
            raise DeixisError(f"photo {unknown!r} has phrases to localise, but no regions were given for it")
        return np.array([number[item.photo] for item in items], dtype=np.intp)


def distinct_phrases(items: Sequence[Item]) -> dict[str, Whole]:
    """The distinct phrases in the order of their first mentions, each with its places among the items.

    Examples
    --------
    >>> phrases = ["A dog", "a cat", "dog"]
    >>> items = [Item("7", n, (0, 5), phrase, (), ((0, 0, 9, 9),)) for n, phrase in enumerate(phrases)]
    >>> {phrase: places.tolist() for phrase, places in distinct_phrases(items).items()}
    {'dog': [0, 2], 'cat': [1]}
    """
    places: dict[str, list[int]] = {}
    for place, item in enumerate(items):
        places.setdefault(distinct_phrase(item.phrase), []).append(place)
    return {phrase: np.array(found, dtype=np.intp) for phrase, found in places.items()}


def usual_words(items: Sequence[Item]) -> list[str]:
    """How each distinct phrase is usually written, in lower case: "a dog", which a model knows better than "dog".

    Examples
    --------
    >>> phrases = ["A dog", "the dog", "a dog", "Two cats"]
    >>> usual_words([Item("7", n, (0, 5), phrase, (), ((0, 0, 9, 9),)) for n, phrase in enumerate(phrases)])
    ['a dog', 'two cats']
    """
    usual = []
    for places in distinct_phrases(items).values():
        written = [" ".join(items[place].phrase.lower().split()) for place in places]
        usual.append(max(written, key=written.count))  # of equally common ones the first
    return usual


@dataclass(frozen=True)
class MentionRegions:
    """The regions of each mention's photo, mention after mention, and which of them are right.

    Attributes
    ----------
    regions
        Of all photos.
    photo_of_mention
        (mentions,) as a number.
    region, mention, right
        (n,) which region it is, for which mention, and whether it is right for it.
    starts
        (mentions,) where the regions of each mention begin.
    """

    regions: Regions
    photo_of_mention: Whole
    region: Whole
    mention: Whole
    right: Flags
    starts: Whole

    @classmethod
    def of(cls, items: Sequence[Item], regions: Regions, protocol: Protocol) -> MentionRegions:
        """Lay the regions of each item's photo against its gold."""
        photo = regions.numbers(items)
        sizes = regions.counts[photo]
        starts = np.cumsum(sizes) - sizes
        mention = np.repeat(np.arange(len(items)), sizes)
        region = np.arange(len(mention)) - starts[mention] + regions.starts[photo][mention]
        right = np.zeros(len(mention), dtype=np.bool_)
        for place, item in enumerate(items):
            mine = slice(starts[place], starts[place] + sizes[place])
            overlap = geometry.iou(regions.boxes[region[mine]], item.gold(protocol))
            right[mine] = (overlap >= IOU).any(axis=1)
        return cls(regions, photo, region, mention, right, starts)

    def places(self, mentions: Whole) -> Whole:
        """Where the regions of some mentions stand here."""
        sizes = self.regions.counts[self.photo_of_mention[mentions]]
        into = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.asarray(np.repeat(self.starts[mentions], sizes) + into, dtype=np.intp)

    def ranking(self, mentions: Whole, best_first: Whole) -> PhotoRanking:
        """The regions of some mentions, given as places in their order, as average precision sees them."""
        up = np.flatnonzero(self.right[best_first])
        found = np.zeros(len(best_first), dtype=np.bool_)
        found[up[np.unique(self.mention[best_first[up]], return_index=True)[1]]] = True
        photo = self.regions.photo[self.region[best_first]]
        return PhotoRanking(found, photo, self.photo_of_mention[mentions])

    def finds(self, mentions: Whole, scores: Row, kept: Flags | None = None) -> Finds:
        """Where the mentions of a phrase are found when all regions of all photos are ranked for it.

        The regions of a photo that has several mentions of the phrase are ranked once for each. Of equal scores, those
        of the earlier mention go first, and those of photos without a mention last.

        Parameters
        ----------
        mentions
            Of the phrase.
        scores
            (regions,) of the phrase and every region.
        kept
            (regions,) which of them suppression keeps.
        """
        places = self.places(mentions)
        if kept is not None:
            places = places[kept[self.region[places]]]
        best_first = places[np.argsort(-scores[self.region[places]], kind="stable")]
        ranking = self.ranking(mentions, best_first)
        photos = len(self.regions.photos)
        if not ranking.found.any():
            return Finds(np.empty(0, dtype=np.intp), np.empty((0, photos), dtype=np.float32), ranking.mentions)
        lowest_first = -scores[self.region[best_first[ranking.found]]]  # in the order of the finds
        elsewhere = self._elsewhere(ranking.mentions, scores, -lowest_first[-1], kept)
        before = np.concatenate(
            [
                (np.cumsum(ranking.found) - ranking.found) * photos + ranking.photo,
                np.searchsorted(lowest_first, -scores[elsewhere], side="right") * photos
                + self.regions.photo[elsewhere],
            ]
        )
        finds = len(lowest_first)
        boxes = np.bincount(before, minlength=finds * photos)[: finds * photos]  # what follows the last find is cut off
        return Finds(ranking.photo[ranking.found], boxes.reshape(finds, photos).astype(np.float32), ranking.mentions)

    def _elsewhere(self, mentioned: Whole, scores: Row, lowest: float, kept: Flags | None) -> Whole:
        """The regions above a score in photos that do not mention a phrase."""
        above = np.flatnonzero(scores > lowest if kept is None else (scores > lowest) & kept)
        other = np.ones(len(self.regions.photos), dtype=np.bool_)
        other[mentioned] = False
        return above[other[self.regions.photo[above]]]
