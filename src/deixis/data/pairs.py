"""Region–phrase pairs: the training data of models that match phrases with regions.

The columns hold what samplers need: the box of each phrase, and the IoU of each region proposal with that box. Features
of regions and phrases are stored elsewhere, under the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from deixis import geometry
from deixis.arrays import expand_runs
from deixis.data.records import Caption, Mention, Photo
from deixis.errors import DatasetError
from deixis.tokens import distinct_phrase

Integers = npt.NDArray[np.int64]


class MentionPhrase(Protocol):
    """A phrase that combines mentions, such as a relation between two. Its box is the union of their boxes."""

    @property
    def text(self) -> str: ...

    @property
    def mentions(self) -> tuple[Mention, ...]: ...


@dataclass(frozen=True)
class RaggedArray:
    """Rows of different lengths in one array."""

    starts: Integers
    values: npt.NDArray[np.integer]

    @classmethod
    def from_owners(cls, owners: Integers, values: npt.NDArray[np.integer], count: int) -> RaggedArray:
        """Group values by their owner, 0 to `count` − 1. The owners must be sorted."""
        return cls(np.searchsorted(owners, np.arange(count + 1)), values)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> npt.NDArray[np.integer]:
        return self.values[self.starts[row] : self.starts[row + 1]]

    @cached_property
    def counts(self) -> Integers:
        return np.diff(self.starts)

    @cached_property
    def owners(self) -> Integers:
        """Row of each value."""
        return np.repeat(np.arange(len(self)), self.counts)

    def gather(self, rows: Integers) -> tuple[Integers, Integers]:
        """Concatenate some rows. Return the position in `rows` of each value, and the values."""
        counts = self.counts[rows]
        values = self.values[expand_runs(self.starts[rows], counts)].astype(np.int64)
        return np.repeat(np.arange(len(rows)), counts), values


@dataclass(frozen=True)
class RegionPhrasePairs:
    """Pairs of a phrase and its box, with all regions of their photos.

    A *region* is a row of `boxes`. The regions of a photo are consecutive: first the gold boxes, one per chain, then
    the proposals in their order. Chains of a photo whose boxes have the same union are merged, because the two-branch
    paper treats phrases of one region as phrases of one chain.
    """

    photos: tuple[str, ...]  # ids, in the order of the data set
    phrases: tuple[str, ...]  # distinct ones in lower case with single spaces, sorted
    # For each pair:
    photo: Integers  # index in `photos`
    caption: Integers  # index in the photo
    span: Integers  # start and end in the caption (n, 2); a relation spans from its first to its last mention
    phrase: Integers  # index in `phrases`
    chain: Integers  # number over all photos
    # For each region:
    boxes: geometry.Boxes
    region_starts: Integers  # first region of each photo, and the end
    # For each chain:
    gold: Integers  # region of its gold box
    overlaps: RaggedArray  # proposals that overlap its box
    ious: npt.NDArray[np.float32]  # IoU of each value of `overlaps`

    @classmethod
    def from_photos(
        cls,
        photos: Iterable[Photo],
        proposals: Callable[[str], npt.ArrayLike],
        *,
        more_phrases: Callable[[Caption, Sequence[Mention]], Iterable[MentionPhrase]] | None = None,
    ) -> RegionPhrasePairs:
        """Collect the pairs of photos. `proposals` returns the boxes (k, 4) of a photo id.

        Captions about another photo or about a single region, mentions without a chain, chains without a box and photos
        without pairs are skipped. `more_phrases` returns additional phrases, such as relations, for a caption and its
        mentions with boxes.
        """
        ids: list[str] = []
        texts: list[str] = []
        rows: list[tuple[int, int, int, int, int]] = []
        boxes: list[geometry.Boxes] = []
        gold: list[int] = []
        overlaps: list[tuple[Integers, Integers, npt.NDArray[np.float32]]] = []
        region_starts = [0]
        for photo in photos:
            chain_of_box: dict[tuple[float, ...], int] = {}
            for caption, text, start, end, box in _phrases_with_box(photo, more_phrases):
                chain = chain_of_box.setdefault(tuple(box.tolist()), len(gold) + len(chain_of_box))
                texts.append(" ".join(text.lower().split()))
                rows.append((len(ids), caption, start, end, chain))
            if not chain_of_box:
                continue
            own, proposed = np.array(list(chain_of_box)), _check_proposals(proposals(photo.id), photo.id)
            ious, first = geometry.iou(own, proposed), region_starts[-1]
            chains, columns = np.nonzero(ious)
            overlaps.append((chains + len(gold), columns + first + len(own), ious[chains, columns].astype("f4")))
            gold += range(first, first + len(own))
            boxes += [own, proposed]
            region_starts.append(first + len(own) + len(proposed))
            ids.append(photo.id)
        if not rows:
            raise DatasetError("no phrase has a box, so there are no region–phrase pairs")
        pairs = np.array(rows, dtype=np.int64)
        phrases, phrase = np.unique(np.array(texts, dtype=object), return_inverse=True)
        owners, regions, overlap_ious = (np.concatenate(parts) for parts in zip(*overlaps, strict=True))
        return cls(
            photos=tuple(ids),
            phrases=tuple(phrases),
            photo=pairs[:, 0],
            caption=pairs[:, 1],
            span=pairs[:, 2:4],
            phrase=phrase,
            chain=pairs[:, 4],
            boxes=np.concatenate(boxes),
            region_starts=np.array(region_starts),
            gold=np.array(gold),
            overlaps=RaggedArray.from_owners(owners, regions.astype(np.int32), len(gold)),
            ious=overlap_ious,
        )

    def __len__(self) -> int:
        return len(self.phrase)

    @cached_property
    def region_photo(self) -> Integers:
        return np.repeat(np.arange(len(self.photos)), np.diff(self.region_starts))

    @cached_property
    def first_proposal(self) -> Integers:
        golds = np.bincount(self.region_photo[self.gold], minlength=len(self.photos))
        return np.asarray(self.region_starts[:-1] + golds)

    def positives(self, min_iou: float) -> RaggedArray:
        """For each chain, the gold box and the proposals with an IoU of at least `min_iou`."""
        near = self.ious >= min_iou
        owners = np.concatenate([np.arange(len(self.gold)), self.overlaps.owners[near]])
        regions = np.concatenate([self.gold, self.overlaps.values[near]])
        order = np.argsort(owners, kind="stable")
        return RaggedArray.from_owners(owners[order], regions[order], len(self.gold))

    def negatives(self, max_iou: float) -> RaggedArray:
        """For each chain, the proposals of its photo with an IoU below `max_iou`."""
        photo = self.region_photo[self.gold]
        first, end = self.first_proposal[photo], self.region_starts[photo + 1]
        starts = np.concatenate([[0], np.cumsum(end - first)])
        far = np.ones(starts[-1], dtype=bool)
        near = self.ious >= max_iou
        owners = self.overlaps.owners[near]
        far[starts[owners] + self.overlaps.values[near] - first[owners]] = False
        chains = np.repeat(np.arange(len(self.gold)), end - first)
        regions = expand_runs(first, end - first)
        return RaggedArray.from_owners(chains[far], regions[far].astype(np.int32), len(self.gold))

    @cached_property
    def phrases_of_chain(self) -> RaggedArray:
        both = np.unique(np.stack([self.chain, self.phrase], axis=1), axis=0)
        return RaggedArray.from_owners(both[:, 0], both[:, 1], len(self.gold))

    def resample(self, max_regions: int, seed: int = 0) -> RegionPhrasePairs:
        """Draw at most `max_regions` regions for each distinct phrase, and keep one pair for each.

        Flickr30k Entities trains on sets with 1 and 10 regions, so that common phrases do not dominate. Phrases that
        differ in an article are one, as in its Table 5. Regions and phrases keep their numbers.
        """
        if max_regions < 1:
            raise DatasetError(f"resampling: {max_regions} regions per phrase; at least 1 is required")
        shuffled = np.random.default_rng(seed).permutation(len(self))
        numbers: dict[str, int] = {}
        distinct = np.array([numbers.setdefault(distinct_phrase(phrase), len(numbers)) for phrase in self.phrases])
        group = distinct[self.phrase]
        _, first = np.unique(np.stack([group, self.chain], axis=1)[shuffled], axis=0, return_index=True)
        different = shuffled[np.sort(first)]
        by_phrase = different[np.argsort(group[different], kind="stable")]
        phrase = group[by_phrase]
        rank = np.arange(len(phrase)) - np.searchsorted(phrase, phrase)
        return self.select(np.sort(by_phrase[rank < max_regions]))

    def select(self, rows: Integers) -> RegionPhrasePairs:
        """Return some of the pairs. Regions and phrases keep their numbers."""
        columns = {name: getattr(self, name)[rows] for name in ("photo", "caption", "span", "phrase", "chain")}
        return replace(self, **columns)


def training_set_sizes(chunks: RegionPhrasePairs, augmented: RegionPhrasePairs | None = None) -> list[tuple[str, int]]:
    """Return the sizes of the training sets, as in Table 2 of Flickr30k Entities."""
    rows = []
    for name, pairs in (("All NP chunks", chunks), ("All augmented phrases", augmented)):
        if pairs is not None:
            rows.append((name, len(pairs)))
            rows += [(f"Resampled, N = {count}", len(pairs.resample(count))) for count in (1, 10)]
    return rows


def _phrases_with_box(
    photo: Photo, more_phrases: Callable[[Caption, Sequence[Mention]], Iterable[MentionPhrase]] | None
) -> Iterator[tuple[int, str, int, int, geometry.Boxes]]:
    """Yield caption index, text, start, end and box of each phrase that has a box."""
    box_of = photo.union_boxes()
    for index, caption in enumerate(photo.captions):
        if not caption.related or caption.region_phrase:
            continue
        boxed = [mention for mention in caption.mentions if mention.chain in box_of]
        phrases: list[tuple[str, tuple[Mention, ...]]] = [(caption.phrase(each), (each,)) for each in boxed]
        if more_phrases is not None:
            phrases += [(phrase.text, phrase.mentions) for phrase in more_phrases(caption, boxed)]
        for text, mentions in phrases:
            box = geometry.union([box_of[mention.chain] for mention in mentions if mention.chain is not None])
            if geometry.area(box) > 0:
                yield index, text, min(m.start for m in mentions), max(m.end for m in mentions), box


def _check_proposals(proposals: npt.ArrayLike, photo_id: str) -> geometry.Boxes:
    boxes = np.asarray(proposals, dtype=np.float64)
    if boxes.size == 0:
        return np.zeros((0, 4))
    if boxes.ndim != 2 or boxes.shape[1] != 4 or not np.isfinite(boxes).all():
        raise DatasetError(f"photo {photo_id}: proposals must be rows of four finite numbers, not {boxes.shape}")
    return boxes
