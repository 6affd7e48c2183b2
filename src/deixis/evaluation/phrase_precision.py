"""Average precision of phrases over the regions of all photos, as Flickr30k Entities describes it.

This equals `localization` with every phrase predicted in every photo, but is computed from blocks of scores instead of
predictions, for models that score any phrase against any region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from deixis import geometry
from deixis.arrays import AnyArray, BoolArray, IntArray, expand_runs
from deixis.errors import DeixisError
from deixis.evaluation.average_precision import ApRule, Hits, PhotoRanking, mean_precision
from deixis.evaluation.intervals import GroupScores, Result, bootstrap_groups, values_of
from deixis.evaluation.items import Item, Protocol, check_protocol, distinct_phrases, indices_by_type, most_frequent
from deixis.evaluation.ranked_boxes import IOU, Overlaps
from deixis.evaluation.score_matrix import ScoreBlocks, Scores, as_blocks, as_comparable, check_finite, iterate_blocks
from deixis.geometry import Boxes


@dataclass(frozen=True)
class CandidateBoxes:
    """The candidate boxes of all photos."""

    photos: tuple[str, ...]  # photo ids
    boxes: Boxes  # (n, 4) boxes, photo by photo
    counts: IntArray  # (photos,) number of boxes of each photo

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.photos) or int(self.counts.sum()) != len(self.boxes):
            raise DeixisError(
                f"{len(self.photos):,} photos and {len(self.boxes):,} regions, but counts for "
                f"{len(self.counts):,} photos that add up to {int(self.counts.sum()):,}"
            )

    @classmethod
    def from_boxes(cls, boxes: dict[str, npt.ArrayLike]) -> CandidateBoxes:
        """Build from the boxes by photo id; a photo may have none."""
        arrays = [np.asarray(each, dtype=np.float64).reshape(-1, 4) for each in boxes.values()]
        counts = np.array([len(each) for each in arrays], dtype=np.intp)
        return cls(tuple(boxes), np.concatenate([np.empty((0, 4)), *arrays]), counts)

    @cached_property
    def photo(self) -> IntArray:
        """(n,) photo index of each region."""
        return np.repeat(np.arange(len(self.photos)), self.counts)

    @cached_property
    def starts(self) -> IntArray:
        """(photos,) first region of each photo."""
        return np.cumsum(self.counts) - self.counts

    def photo_indices(self, items: Sequence[Item]) -> IntArray:
        """(items,) photo index of each item."""
        number = {photo: index for index, photo in enumerate(self.photos)}
        unknown = next((item.photo for item in items if item.photo not in number), None)
        if unknown is not None:
            raise DeixisError(f"photo {unknown!r} has phrases to localize, but no regions")
        return np.array([number[item.photo] for item in items], dtype=np.intp)


@dataclass(frozen=True)
class MentionCandidates:
    """The candidate regions of each mention (those of its photo), and which of them are correct."""

    regions: CandidateBoxes  # the regions of all photos
    photo_of_mention: IntArray  # (mentions,) photo index
    # (n,) index of the region, index of the mention, and whether the region is correct for it
    region: IntArray
    mention: IntArray
    correct: BoolArray
    starts: IntArray  # (mentions,) first candidate of each mention

    @classmethod
    def from_items(cls, items: Sequence[Item], regions: CandidateBoxes, protocol: Protocol) -> MentionCandidates:
        """Compare the regions of the photo of each item with its gold boxes."""
        photo = regions.photo_indices(items)
        sizes = regions.counts[photo]
        starts = np.cumsum(sizes) - sizes
        mention = np.repeat(np.arange(len(items)), sizes)
        region = np.arange(len(mention)) - starts[mention] + regions.starts[photo][mention]
        correct = np.zeros(len(mention), dtype=np.bool_)
        for index, item in enumerate(items):
            own = slice(starts[index], starts[index] + sizes[index])
            overlap = geometry.iou(regions.boxes[region[own]], item.gold(protocol))
            correct[own] = (overlap >= IOU).any(axis=1)
        return cls(regions, photo, region, mention, correct, starts)

    def indices(self, mentions: IntArray) -> IntArray:
        """Indices of the candidates of some mentions."""
        return expand_runs(self.starts[mentions], self.regions.counts[self.photo_of_mention[mentions]])

    def ranking(self, mentions: IntArray, best_first: IntArray) -> PhotoRanking:
        """The ranking of the candidates of some mentions, in the order `best_first`, for average precision."""
        correct = np.flatnonzero(self.correct[best_first])
        found = np.zeros(len(best_first), dtype=np.bool_)
        found[correct[np.unique(self.mention[best_first[correct]], return_index=True)[1]]] = True
        photo = self.regions.photo[self.region[best_first]]
        return PhotoRanking(found, photo, self.photo_of_mention[mentions])

    def hits(self, mentions: IntArray, scores: AnyArray, kept: BoolArray | None = None) -> Hits:
        """The hits of a phrase when the regions of all photos are ranked for it.

        A photo with several mentions of the phrase is ranked once for each. Of equal scores, the regions of the earlier
        mention come first, and those of photos without a mention last.
        """
        candidates = self.indices(mentions)
        if kept is not None:
            candidates = candidates[kept[self.region[candidates]]]
        best_first = candidates[np.argsort(-scores[self.region[candidates]], kind="stable")]
        ranking = self.ranking(mentions, best_first)
        photos = len(self.regions.photos)
        if not ranking.found.any():
            return Hits(np.empty(0, dtype=np.intp), np.empty((0, photos), dtype=np.float32), ranking.mentions)
        lowest_first = -scores[self.region[best_first[ranking.found]]]  # in the order of the hits
        unmentioned = self._unmentioned(ranking.mentions, scores, -lowest_first[-1], kept)
        before = np.concatenate(
            [
                (np.cumsum(ranking.found) - ranking.found) * photos + ranking.photo,
                np.searchsorted(lowest_first, -scores[unmentioned], side="right") * photos
                + self.regions.photo[unmentioned],
            ]
        )
        hits = len(lowest_first)
        boxes = np.bincount(before, minlength=hits * photos)[: hits * photos]  # without the boxes after the last hit
        return Hits(ranking.photo[ranking.found], boxes.reshape(hits, photos).astype(np.float32), ranking.mentions)

    def _unmentioned(self, mentioned: IntArray, scores: AnyArray, lowest: float, kept: BoolArray | None) -> IntArray:
        """The regions above a score in photos without a mention."""
        above = np.flatnonzero(scores > lowest if kept is None else (scores > lowest) & kept)
        other = np.ones(len(self.regions.photos), dtype=np.bool_)
        other[mentioned] = False
        return above[other[self.regions.photo[above]]]


def phrase_precision(
    scores: Scores,
    items: Sequence[Item],
    regions: CandidateBoxes,
    *,
    protocol: Protocol = "union",
    ap_rule: ApRule = "area",
    rounds: int = 1000,
) -> Result:
    """Compute the average precision of each distinct phrase over the regions of all photos.

    `scores` has a row for each of `distinct_phrases(items)` (`typical_wording(items)` is their text) and a column for
    each of `regions`; float32 is fastest. NMS takes most of the time. Other arguments are those of `localization`.

    The result has, in percent, `ap` and `ap_nms`, means over distinct phrases before and after NMS in each photo, and
    `macro_ap` and `macro_ap_nms` of types over the photos that mention them, as in `localization`: a type is not a
    phrase that could be searched for in other photos. Intervals are those of `intervals.centre_interval`. `by_type` and
    `by_phrase` (the 24 most frequent phrases) have the scores of groups.
    """
    groups = distinct_phrases(items)
    check_protocol(protocol)
    blocks = _check_scores(scores, groups, regions)
    mentions = MentionCandidates.from_items(items, regions, protocol)
    hits, rank_mentions = _rank(blocks, list(groups.values()), mentions)
    photos = len(regions.photos)
    statistics = {name: mean_precision(of_phrases, photos, ap_rule) for name, of_phrases in hits.items()}

    types = indices_by_type(items)
    rankings = {name: {kind: rank_mentions(name, types[kind]) for kind in types} for name in hits}
    if types:
        for name, of_type in rankings.items():
            statistics[f"macro_{name}"] = mean_precision(list(of_type.values()), photos, ap_rule)
    row_of = {phrase: row for row, phrase in enumerate(groups)}

    def score_groups(
        names: Iterable[str], indices: Mapping[str, IntArray], ranking: Callable[[str, str], PhotoRanking | Hits]
    ) -> dict[str, GroupScores]:
        with_photos = {
            group: (
                mentions.photo_of_mention[indices[group]],
                {name: mean_precision([ranking(name, group)], photos, ap_rule) for name in hits},
            )
            for group in names
        }
        return bootstrap_groups(with_photos, photos, rounds=rounds, centred=True)

    common = most_frequent(groups, 24)
    about = {
        "protocol": protocol,
        "ap_rule": ap_rule,
        "n": len(items),
        "phrases": len(groups),
        "photos": photos,
        "regions": len(regions.boxes),
        "by_type": score_groups(types, types, lambda name, kind: rankings[name][kind]),
        "by_phrase": score_groups(common, groups, lambda name, phrase: hits[name][row_of[phrase]]),
    }
    absent = {"macro_ap": None, "macro_ap_nms": None}
    return Result.of(about, statistics, photos, rounds=rounds, centred=statistics.keys(), others=absent)


def average_precisions(scores: Scores, items: Sequence[Item], regions: CandidateBoxes) -> dict[str, dict[str, float]]:
    """Compute `ap` and `ap_nms`, in percent, of every distinct phrase over the regions of all photos.

    Arguments are those of `phrase_precision`. There are no intervals, which take longest for thousands of phrases.
    """
    groups = distinct_phrases(items)
    blocks = _check_scores(scores, groups, regions)
    hits, _ = _rank(blocks, list(groups.values()), MentionCandidates.from_items(items, regions, "union"))
    photos = len(regions.photos)
    return {
        phrase: values_of({name: mean_precision([found[row]], photos, "area") for name, found in hits.items()}, photos)
        for row, phrase in enumerate(groups)
    }


def photo_precisions(scores: Scores, items: Sequence[Item], regions: CandidateBoxes) -> dict[str, dict[str, float]]:
    """As `average_precisions`, but each photo is ranked once for a phrase, and each of its gold boxes is found once.

    Mentions of a phrase in a photo with the same gold box (the union of a chain's boxes) count once; a region finds the
    gold box that it overlaps most, of those that no earlier region has found.
    """
    groups = distinct_phrases(items)
    blocks = _check_scores(scores, groups, regions)
    overlaps, photo_of = Overlaps.from_boxes(regions.boxes, regions.counts), regions.photo_indices(items)
    gold: list[list[tuple[int, geometry.Boxes]]] = []  # for each phrase its photos with their distinct gold boxes
    for group in groups.values():
        boxes = {(int(photo_of[index]), tuple(items[index].gold("union")[0].tolist())): None for index in group}
        photos = dict.fromkeys(photo for photo, _ in boxes)
        gold.append([(photo, np.array([box for other, box in boxes if other == photo])) for photo in photos])
    found: dict[str, dict[str, float]] = {}
    names = list(groups)
    for begin, values in _float_blocks(blocks):
        kept = overlaps.kept(values)
        for row, (phrase, golds) in enumerate(zip(names[begin:], gold[begin : begin + len(values)], strict=False)):
            found[phrase] = {
                "ap": _photo_precision(values[row], golds, regions, None),
                "ap_nms": _photo_precision(values[row], golds, regions, kept[row]),
            }
    return found


def _photo_precision(
    scores: AnyArray, gold: Sequence[tuple[int, geometry.Boxes]], regions: CandidateBoxes, kept: BoolArray | None
) -> float:
    """Area under the curve of precision and recall of one phrase, in percent."""
    hits: list[int] = []  # the regions that find a gold box
    for photo, boxes in gold:
        own = regions.starts[photo] + np.arange(regions.counts[photo])
        own = own if kept is None else own[kept[own]]
        own = own[np.argsort(-scores[own], kind="stable")]
        overlap = geometry.iou(regions.boxes[own], boxes)
        for rank in np.flatnonzero((overlap >= IOU).any(axis=1)).tolist():
            nearest = int(overlap[rank].argmax())
            if overlap[rank, nearest] >= IOU:
                hits.append(int(own[rank]))
                overlap[:, nearest] = 0
    if not hits:
        return 0.0
    at_least = np.flatnonzero(scores >= scores[hits].min() if kept is None else (scores >= scores[hits].min()) & kept)
    ranked = at_least[np.argsort(-scores[at_least], kind="stable")]
    ranks = np.flatnonzero(np.isin(ranked, hits)) + 1
    precision = np.arange(1, len(ranks) + 1) / ranks
    interpolated = np.maximum.accumulate(precision[::-1])[::-1]
    return float(100 * interpolated.sum() / sum(len(boxes) for _, boxes in gold))


def _rank(
    blocks: ScoreBlocks, groups: Sequence[IntArray], mentions: MentionCandidates
) -> tuple[dict[str, list[Hits]], Callable[[str, IntArray], PhotoRanking]]:
    """Rank all phrases in one pass over the scores.

    Returns the hits of each phrase before and after NMS (`ap`, `ap_nms`), and a function that ranks the candidates of
    some mentions of any phrases.
    """
    regions = mentions.regions
    overlaps = Overlaps.from_boxes(regions.boxes, regions.counts)
    hits: dict[str, list[Hits]] = {"ap": [], "ap_nms": []}
    # For the candidates of all mentions: their scores for the phrase of the mention, and whether NMS keeps them
    own_scores, own_kept = np.empty(len(mentions.region)), np.ones(len(mentions.region), dtype=np.bool_)
    for begin, scores in _float_blocks(blocks):
        kept = overlaps.kept(scores)
        for row, group in enumerate(groups[begin : begin + len(scores)]):
            candidates = mentions.indices(group)
            own_scores[candidates] = scores[row, mentions.region[candidates]]
            own_kept[candidates] = kept[row, mentions.region[candidates]]
            hits["ap"].append(mentions.hits(group, scores[row]))
            hits["ap_nms"].append(mentions.hits(group, scores[row], kept[row]))

    def rank_mentions(name: str, indices: IntArray) -> PhotoRanking:
        candidates = mentions.indices(indices)
        if name == "ap_nms":
            candidates = candidates[own_kept[candidates]]
        return mentions.ranking(indices, candidates[np.argsort(-own_scores[candidates], kind="stable")])

    return hits, rank_mentions


def _float_blocks(blocks: ScoreBlocks) -> Iterator[tuple[int, AnyArray]]:
    """Checked blocks of scores with the index of their first row."""
    for begin, block in iterate_blocks(blocks):
        scores = as_comparable(block if block.dtype.kind == "f" else block.astype(np.float64))
        check_finite(scores, begin, "scores")
        yield begin, scores


def _check_scores(scores: Scores, groups: Mapping[str, IntArray], regions: CandidateBoxes) -> ScoreBlocks:
    if not groups:
        raise DeixisError("no phrases to localize: no mention has a chain with a box")
    # Split arrays into blocks, because NMS needs memory for each block.
    blocks = scores if isinstance(scores, ScoreBlocks) else replace(as_blocks(scores), rows_at_once=None)
    shape = (len(groups), len(regions.boxes))
    if blocks.shape != shape:
        raise DeixisError(
            f"scores: must have {shape[0]:,} distinct phrases × {shape[1]:,} regions, "
            f"not {blocks.shape[0]:,} × {blocks.shape[1]:,}"
        )
    return blocks
