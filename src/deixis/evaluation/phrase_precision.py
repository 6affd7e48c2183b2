"""Average precision of phrases over the regions of all photos, as Flickr30k Entities describes it.

The same score as that of `deixis.evaluation.grounding` when every phrase is predicted in every photo, but from blocks
of scores instead of predictions: for models that score any phrase against any region.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from deixis.errors import DeixisError
from deixis.evaluation.drawn_precision import Finds, PhotoRanking, around, mean_precision, mean_precision_of_finds
from deixis.evaluation.group_scores import NO_DRAWING, ONE_PHOTO
from deixis.evaluation.intervals import Interval, Statistic, bootstrap_all, bootstrap_held, where_held
from deixis.evaluation.localization_items import PROTOCOLS, Item, Protocol, types_in_order
from deixis.evaluation.phrase_regions import MentionRegions, Regions, Row, distinct_phrases
from deixis.evaluation.ranked_boxes import ApRule, Flags, Whole
from deixis.evaluation.scores import ScoreBlocks, Scores, as_blocks, blocks_of, check_finite, comparable
from deixis.evaluation.shared_suppression import Neighbours


@dataclass(frozen=True)
class GroupPrecision:
    """Average precision, in percent, of one phrase or one type.

    Attributes
    ----------
    n, photos
        Mentions, and in how many photos.
    ap, ap_nms
        Before and after suppression; `ap_nms` is None where none was wanted.
    interval, no_interval
        Of each score, set around it, or None and why there is none.
    """

    n: int
    photos: int
    ap: float
    ap_nms: float | None
    interval: Mapping[str, Interval | None]
    no_interval: str | None

    def as_json(self) -> dict[str, object]:
        """Plain values for JSON; intervals as [low, high]."""
        intervals = {name: [found.low, found.high] if found else None for name, found in self.interval.items()}
        return {**vars(self), "interval": intervals}


@dataclass(frozen=True)
class PhrasePrecision:
    """How well phrases rank the regions of all photos; all scores in percent.

    Attributes
    ----------
    protocol, ap_rule
        How it was scored.
    n, phrases, photos, regions
        Mentions, distinct phrases, photos, and all their regions.
    ap, ap_nms
        Mean over distinct phrases of the average precision, before and after suppression in each photo.
    macro_ap, macro_ap_nms, by_type
        Of types, over the photos that mention them, as `deixis.evaluation.grounding` has them: a type is no phrase that
        could be looked for in other photos.
    by_phrase
        The commonest distinct phrases.
    interval
        Of each score by name: as wide as the middle 95 % of what drawings of the photos, with replacement, would give,
        and set around the score (see `deixis.evaluation.drawn_precision.around`).
    """

    protocol: Protocol
    ap_rule: ApRule
    n: int
    phrases: int
    photos: int
    regions: int
    ap: float
    ap_nms: float | None
    macro_ap: float | None
    macro_ap_nms: float | None
    by_type: Mapping[str, GroupPrecision]
    by_phrase: Mapping[str, GroupPrecision]
    interval: Mapping[str, Interval]

    def as_json(self) -> dict[str, object]:
        """Plain values for JSON; intervals as [low, high]."""
        plain = dict(vars(self))
        for name in ("by_type", "by_phrase"):
            plain[name] = {group: scores.as_json() for group, scores in plain[name].items()}
        plain["interval"] = {name: [found.low, found.high] for name, found in self.interval.items()}
        return plain


def phrase_precision(
    scores: Scores,
    items: Sequence[Item],
    regions: Regions,
    *,
    protocol: Protocol = "union",
    ap_rule: ApRule = "area",
    nms: bool = True,
    phrases: int = 24,
    rounds: int = 1000,
    seed: int = 0,
) -> PhrasePrecision:
    """Rank the regions of all photos for each distinct phrase.

    Parameters
    ----------
    scores
        Phrases × regions, higher is better: an array, or `ScoreBlocks` that are computed a few phrases at a time. A row
        for each of `distinct_phrases(items)`, in this order (`usual_words(items)` says how to write them), a column for
        each of `regions`. float32 is quickest.
    items
        What there is to localise, from `localization_items`.
    regions
        The candidate boxes of all photos, those without any item too.
    protocol, ap_rule, phrases, rounds, seed
        As for `localization`.
    nms
        Whether to score after suppression too, which takes most of the time.

    Examples
    --------
    The dog is found first in photo 7; for the cat a region of photo 7 comes before that of photo 8.

    >>> items = [
    ...     Item("7", 0, (0, 5), "A dog", ("animals",), ((0, 0, 40, 30),)),
    ...     Item("8", 0, (0, 5), "A cat", ("animals",), ((50, 0, 90, 30),)),
    ... ]
    >>> regions = Regions.of({"7": [[0, 0, 40, 25]], "8": [[50, 0, 90, 25]]})
    >>> phrase_precision([[0.9, 0.2], [0.8, 0.7]], items, regions).ap
    75.0
    """
    groups = distinct_phrases(items)
    blocks = _checked(scores, groups, regions, protocol)
    mentions = MentionRegions.of(items, regions, protocol)
    ranked = _rank(blocks, list(groups.values()), mentions, nms=nms)
    kinds = _types(items, ranked)
    photos = len(regions.photos)
    statistics = {name: mean_precision_of_finds(finds, photos, ap_rule) for name, finds in ranked.finds.items()}
    if kinds:
        for name in ranked.finds:
            statistics[f"macro_{name}"] = mean_precision(
                [kind.rankings[name] for kind in kinds.values()], photos, ap_rule
            )
    once = np.ones((1, photos))
    found = {name: float(statistic(once)[0]) for name, statistic in statistics.items()}
    types = {
        kind: _Group(
            each.mentions, {name: mean_precision([one], photos, ap_rule) for name, one in each.rankings.items()}
        )
        for kind, each in kinds.items()
    }
    commonest = sorted(groups, key=lambda phrase: (-len(groups[phrase]), phrase))[:phrases]
    number_of = {phrase: number for number, phrase in enumerate(groups)}
    common = {
        phrase: _Group(groups[phrase], ranked.of_phrase(number_of[phrase], photos, ap_rule)) for phrase in commonest
    }
    return PhrasePrecision(
        protocol=protocol,
        ap_rule=ap_rule,
        n=len(items),
        phrases=len(groups),
        photos=photos,
        regions=len(regions.boxes),
        ap=found["ap"],
        ap_nms=found.get("ap_nms"),
        macro_ap=found.get("macro_ap"),
        macro_ap_nms=found.get("macro_ap_nms"),
        by_type=_group_precisions(types, mentions, rounds=rounds, seed=seed),
        by_phrase=_group_precisions(common, mentions, rounds=rounds, seed=seed),
        interval={
            name: around(found[name], drawn)
            for name, drawn in bootstrap_all(statistics, photos, rounds=rounds, seed=seed).items()
        },
    )


@dataclass(frozen=True)
class _Ranked:
    """What is kept of all rankings.

    Attributes
    ----------
    finds
        By the name of the score, those of each phrase.
    scores, kept
        (n,) of the regions of all mentions: their scores for the mention's phrase, and whether suppression keeps them.
    """

    mentions: MentionRegions
    finds: Mapping[str, list[Finds]]
    scores: Row
    kept: Flags

    def of_phrase(self, number: int, photos: int, rule: ApRule) -> dict[str, Statistic]:
        """The scores of one phrase."""
        return {name: mean_precision_of_finds([finds[number]], photos, rule) for name, finds in self.finds.items()}

    def of_mentions(self, mentions: Whole, name: str) -> PhotoRanking:
        """The ranking of the regions of some mentions of any phrases, and of no others."""
        places = self.mentions.places(mentions)
        if name == "ap_nms":
            places = places[self.kept[places]]
        return self.mentions.ranking(mentions, places[np.argsort(-self.scores[places], kind="stable")])


@dataclass(frozen=True)
class _Type:
    """The mentions of a type, and their rankings by the name of the score."""

    mentions: Whole
    rankings: Mapping[str, PhotoRanking]


def _types(items: Sequence[Item], ranked: _Ranked) -> dict[str, _Type]:
    found = {}
    for kind in types_in_order(items):
        places = np.array([place for place, item in enumerate(items) if kind in item.types], dtype=np.intp)
        found[kind] = _Type(places, {name: ranked.of_mentions(places, name) for name in ranked.finds})
    return found


def _rank(blocks: ScoreBlocks, groups: Sequence[Whole], mentions: MentionRegions, *, nms: bool) -> _Ranked:
    """Go through all scores once, a few phrases at a time."""
    regions = mentions.regions
    near = Neighbours.of(regions.boxes, regions.counts) if nms else None
    finds: dict[str, list[Finds]] = {"ap": [], "ap_nms": []} if nms else {"ap": []}
    own_scores, own_kept = np.empty(len(mentions.region)), np.ones(len(mentions.region), dtype=np.bool_)
    for begin, block in blocks_of(blocks):
        scores = comparable(block if block.dtype.kind == "f" else block.astype(np.float64))
        check_finite(scores, begin, "scores")
        kept = None if near is None else near.kept(scores)
        for row, group in enumerate(groups[begin : begin + len(scores)]):
            places = mentions.places(group)
            own_scores[places] = scores[row, mentions.region[places]]
            finds["ap"].append(mentions.finds(group, scores[row]))
            if kept is not None:
                own_kept[places] = kept[row, mentions.region[places]]
                finds["ap_nms"].append(mentions.finds(group, scores[row], kept[row]))
    return _Ranked(mentions, finds, own_scores, own_kept)


@dataclass(frozen=True)
class _Group:
    """Mentions that are scored by themselves, and their scores as statistics."""

    mentions: Whole
    statistics: Mapping[str, Statistic]


def _group_precisions(
    groups: Mapping[str, _Group], mentions: MentionRegions, *, rounds: int, seed: int
) -> dict[str, GroupPrecision]:
    photos = len(mentions.regions.photos)
    held = {
        name: np.bincount(mentions.photo_of_mention[each.mentions], minlength=photos) for name, each in groups.items()
    }
    statistics = {
        (name, score): where_held(statistic, held[name])
        for name, group in groups.items()
        if np.count_nonzero(held[name]) > 1
        for score, statistic in group.statistics.items()
    }
    drawn = bootstrap_held(statistics, photos, rounds=rounds, seed=seed)
    once = np.ones((1, photos))
    found = {}
    for name, group in groups.items():
        scores = {score: float(statistic(once)[0]) for score, statistic in group.statistics.items()}
        interval = {score: _around(value, drawn.get((name, score))) for score, value in scores.items()}
        in_photos = int(np.count_nonzero(held[name]))
        reason = ONE_PHOTO if in_photos == 1 else NO_DRAWING
        found[name] = GroupPrecision(
            n=len(group.mentions),
            photos=in_photos,
            ap=scores["ap"],
            ap_nms=scores.get("ap_nms"),
            interval=interval,
            no_interval=None if interval["ap"] else reason,
        )
    return found


def _around(score: float, drawn: Interval | None) -> Interval | None:
    return None if drawn is None else around(score, drawn)


def _checked(scores: Scores, groups: Mapping[str, Whole], regions: Regions, protocol: str) -> ScoreBlocks:
    if protocol not in PROTOCOLS:
        raise DeixisError(f"there is no protocol {protocol!r}: choose {' or '.join(PROTOCOLS)}")
    if not groups:
        raise DeixisError("there is no phrase to localise: no mention has a chain with a box")
    # An array is cut into blocks here, because suppression needs room for each block.
    blocks = scores if isinstance(scores, ScoreBlocks) else replace(as_blocks(scores), rows_at_once=None)
    wanted = (len(groups), len(regions.boxes))
    if blocks.shape != wanted:
        raise DeixisError(
            f"scores: {wanted[0]:,} distinct phrases × {wanted[1]:,} regions are needed, "
            f"not {blocks.shape[0]:,} × {blocks.shape[1]:,}"
        )
    return blocks
