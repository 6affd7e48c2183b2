"""Predictions laid against their golds: what is right in each ranking, and which mentions are ranked together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deixis.evaluation.drawn_precision import PhotoRanking
from deixis.evaluation.localization_items import Item, Protocol, distinct_phrase, types_in_order
from deixis.evaluation.predictions import Matched, PhraseElsewhere
from deixis.evaluation.ranked_boxes import (
    Flags,
    RankedBoxes,
    Whole,
    first_of_each,
    first_right,
    kept_by_nms,
    rank_boxes,
    right_boxes,
)

_NO_BOXES = np.empty((0, 4)), np.empty(0)


@dataclass(frozen=True)
class Group:
    """Mentions ranked together: their places among the items, and where their boxes stand, the best first."""

    mentions: Whole
    boxes: Whole


@dataclass(frozen=True)
class Localized:
    """Every ranking of boxes and what is right in it: first those of the items, then phrases elsewhere.

    Attributes
    ----------
    ranked, right
        The boxes of all rankings, and which of them are right.
    """

    items: Sequence[Item]
    elsewhere: Sequence[PhraseElsewhere]
    ranked: RankedBoxes
    right: Flags

    @classmethod
    def of(cls, matched: Matched, items: Sequence[Item], protocol: Protocol) -> Localized:
        """Rank the boxes of every prediction and look which are right."""
        given = [*matched.by_item, *matched.elsewhere]
        ranked = rank_boxes([_NO_BOXES if each is None else (each.boxes, each.scores) for each in given])
        golds = [item.gold(protocol) for item in items]
        right = right_boxes(ranked, golds + [_NO_BOXES[0]] * len(matched.elsewhere))
        return cls(items, matched.elsewhere, ranked, right)

    @cached_property
    def photo_of_ranking(self) -> Whole:
        """(rankings,) a number for each ranking's photo, from 0 in the order of the items."""
        photos = [item.photo for item in self.items] + [regions.photo for regions in self.elsewhere]
        number = {photo: place for place, photo in enumerate(dict.fromkeys(photos))}
        return np.array([number[photo] for photo in photos], dtype=np.intp)

    @property
    def photo_of_item(self) -> Whole:
        """(items,) the number of each item's photo."""
        return self.photo_of_ranking[: len(self.items)]

    @property
    def photos(self) -> int:
        """How many photos there are."""
        return int(self.photo_of_item.max()) + 1

    @cached_property
    def first(self) -> Whole:
        """(items,) the rank, from 0, of each item's first right box."""
        return first_right(self.ranked, self.right)[: len(self.items)]

    @cached_property
    def first_nms(self) -> Whole:
        """(items,) the rank, from 0, of the first right box among those that suppression keeps."""
        return first_right(self.ranked, self.right, self._kept)[: len(self.items)]

    @cached_property
    def _kept(self) -> Flags:
        return kept_by_nms(self.ranked)

    @cached_property
    def _found(self) -> Flags:
        """Which boxes find their mention: the first right one of each ranking."""
        return first_of_each(self.ranked, self.right)

    @cached_property
    def _found_nms(self) -> Flags:
        return first_of_each(self.ranked, self.right & self._kept)

    @property
    def given(self) -> Whole:
        """(items,) how many boxes each item was given."""
        return self.ranked.sizes[: len(self.items)]

    @cached_property
    def phrases(self) -> dict[str, Group]:
        """The mentions of each distinct phrase, its regions elsewhere ranked with theirs."""
        mentions = _places_by_phrase(item.phrase for item in self.items)
        elsewhere = _places_by_phrase(regions.phrase for regions in self.elsewhere)
        begin = len(self.items)
        return {
            phrase: self._group(places, [begin + place for place in elsewhere.get(phrase, [])])
            for phrase, places in mentions.items()
        }

    @cached_property
    def types(self) -> dict[str, Group]:
        """The mentions of each type, all ranked together."""
        return {
            kind: self._group([place for place, item in enumerate(self.items) if kind in item.types], [])
            for kind in types_in_order(self.items)
        }

    def photos_ranked_for_a_phrase(self) -> float:
        """The mean, over distinct phrases, of the number of photos whose regions were ranked for it."""
        pairs = {(distinct_phrase(item.phrase), item.photo) for item in self.items}
        pairs |= {(distinct_phrase(regions.phrase), regions.photo) for regions in self.elsewhere}
        return len(pairs) / len({phrase for phrase, _ in pairs})

    def ranking(self, group: Group, *, suppressed: bool = False) -> PhotoRanking:
        """The group's boxes as average precision sees them, before or after suppression."""
        boxes = group.boxes[self._kept[group.boxes]] if suppressed else group.boxes
        found = self._found_nms if suppressed else self._found
        photo = self.photo_of_ranking[self.ranked.owner[boxes]]
        return PhotoRanking(found[boxes], photo, self.photo_of_ranking[group.mentions])

    def _group(self, mentions: list[int], elsewhere: list[int]) -> Group:
        return Group(np.array(mentions, dtype=np.intp), self._best_first(mentions + elsewhere))

    def _best_first(self, rankings: list[int]) -> Whole:
        """Where the boxes of some rankings stand, the best of them all first."""
        sizes = self.ranked.sizes[rankings]
        into = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        boxes: Whole = np.repeat(self.ranked.starts[rankings], sizes) + into
        return boxes[np.argsort(-self.ranked.scores[boxes], kind="stable")]


def _places_by_phrase(phrases: Iterable[str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, phrase in enumerate(phrases):
        places.setdefault(distinct_phrase(phrase), []).append(place)
    return places
