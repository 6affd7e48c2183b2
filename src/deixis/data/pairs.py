"""Regions and the phrases that name them: what region–phrase models learn from.

Everything that samplers need is here as columns: which phrase goes with which box, and how much every proposal of the
photo overlaps that box. The features of regions and phrases are kept elsewhere, by the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from deixis import geometry
from deixis.data.records import Caption, Mention, Photo
from deixis.errors import DatasetError

Numbers = npt.NDArray[np.int64]


class Phrased(Protocol):
    """A phrase made of mentions, such as a relation between two of them; its box is the union of theirs."""

    @property
    def text(self) -> str:
        """Its words."""
        ...

    @property
    def mentions(self) -> tuple[Mention, ...]:
        """Those that it is made of."""
        ...


@dataclass(frozen=True)
class Lists:
    """Lists of numbers of different lengths, end to end.

    Examples
    --------
    >>> lists = Lists(np.array([0, 2, 2, 3]), np.array([7, 8, 9]))
    >>> lists[0].tolist(), lists[1].tolist(), lists.counts.tolist()
    ([7, 8], [], [2, 0, 1])
    """

    starts: Numbers
    values: npt.NDArray[np.integer]

    @classmethod
    def of(cls, owner: Numbers, values: npt.NDArray[np.integer], count: int) -> Lists:
        """The values of each owner from 0 to `count` − 1; the owners must be sorted."""
        return cls(np.searchsorted(owner, np.arange(count + 1)), values)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> npt.NDArray[np.integer]:
        return self.values[self.starts[row] : self.starts[row + 1]]

    @cached_property
    def counts(self) -> Numbers:
        """How long each list is."""
        return np.diff(self.starts)

    @cached_property
    def owners(self) -> Numbers:
        """The list that each value is in."""
        return np.repeat(np.arange(len(self)), self.counts)

    def joined(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """The values of some lists, end to end; and before them, for each, its list's place among `rows`.

        Examples
        --------
        >>> Lists(np.array([0, 2, 2, 3]), np.array([7, 8, 9])).joined(np.array([2, 0]))
        (array([0, 1, 1]), array([9, 7, 8]))
        """
        counts = self.counts[rows]
        places = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        return places, self.values[self.starts[rows][places] + within].astype(np.int64)


@dataclass(frozen=True)
class RegionPhrasePairs:
    """Pairs of a phrase and the box of what it names, with all regions of the photos that they are in.

    A *region* is a row of `boxes`. The regions of a photo stand together: first the gold boxes, one for each chain,
    then the proposals in the order they were given. Chains of a photo whose boxes have the same union count as one
    here, for the two-branch paper takes phrases of one region for phrases of one chain.

    Attributes
    ----------
    photos
        Ids of the photos, in the order of the data set.
    phrases
        The different phrases, in lower case with single spaces, by the alphabet.
    photo, caption, span
        Of each pair: the place of its photo in `photos`, of its caption among all captions of the photo, and the
        offsets of its first and last code point there (n, 2); of a relation, from its first mention to its last.
    phrase, chain
        Of each pair: the place of its phrase in `phrases`, and the number of its chain over all photos.
    boxes : array of float64, (regions, 4)
    region_starts
        Where the regions of each photo begin, and the end.
    gold
        The region of each chain's own box.
    overlaps : Lists
        For each chain, the proposals of its photo that share a pixel with its box.
    ious : array of float32
        How much, value for value of `overlaps`.

    Examples
    --------
    >>> from deixis.data.records import Box
    >>> caption = Caption.from_text("A dog chases a ball.", (Mention(0, 5, "1"), Mention(13, 19, "2")))
    >>> photo = Photo("7", (caption,), boxes=(Box((0, 0, 40, 30), ("1",)), Box((60, 0, 70, 10), ("2",))))
    >>> pairs = RegionPhrasePairs.of_photos([photo], lambda photo_id: np.array([[0, 0, 40, 24], [50, 50, 90, 90]]))
    >>> [pairs.phrases[phrase] for phrase in pairs.phrase]
    ['a dog', 'a ball']
    >>> pairs.positives(0.7)[0].tolist(), pairs.negatives(0.3)[0].tolist()
    ([0, 2], [3])
    """

    photos: tuple[str, ...]
    phrases: tuple[str, ...]
    photo: Numbers
    caption: Numbers
    span: Numbers
    phrase: Numbers
    chain: Numbers
    boxes: geometry.Boxes
    region_starts: Numbers
    gold: Numbers
    overlaps: Lists
    ious: npt.NDArray[np.float32]

    @classmethod
    def of_photos(
        cls,
        photos: Iterable[Photo],
        proposals: Callable[[str], npt.ArrayLike],
        *,
        more_phrases: Callable[[Caption, Sequence[Mention]], Iterable[Phrased]] | None = None,
        region_phrases: bool = False,
    ) -> RegionPhrasePairs:
        """All pairs that photos hold, such as those of ``Dataset.split("train")``.

        Parameters
        ----------
        photos
            Photos without any pair are left out. Captions about another photo make no pairs, nor do mentions without
            a chain or whose chain has no box.
        proposals
            The boxes proposed for a photo, by its id: (k, 4), pixels of the photo; k may be 0.
        more_phrases
            Phrases made of mentions, to be added to the mentions themselves. It is given a caption and those of its
            mentions that have boxes; ``lambda caption, mentions: Sentence.of_caption(caption).relations(mentions)``
            gives those of Flickr30k Entities.
        region_phrases
            Also take captions that describe a single region and were never meant as sentences.
        """
        builder = _Builder(more_phrases, region_phrases)
        for photo in photos:
            builder.add(photo, proposals)
        return builder.finish()

    def __len__(self) -> int:
        """How many pairs there are."""
        return len(self.phrase)

    @cached_property
    def region_photo(self) -> Numbers:
        """The photo of each region."""
        return np.repeat(np.arange(len(self.photos)), np.diff(self.region_starts))

    @cached_property
    def first_proposal(self) -> Numbers:
        """The region of each photo's first proposal: its k-th proposal is that plus k."""
        golds = np.bincount(self.region_photo[self.gold], minlength=len(self.photos))
        return np.asarray(self.region_starts[:-1] + golds)

    def positives(self, least: float) -> Lists:
        """For each chain, the regions that show it: its own box, then the proposals with an IoU of `least` or more."""
        near = self.ious >= least
        owners = np.concatenate([np.arange(len(self.gold)), self.overlaps.owners[near]])
        regions = np.concatenate([self.gold, self.overlaps.values[near]])
        order = np.argsort(owners, kind="stable")
        return Lists.of(owners[order], regions[order], len(self.gold))

    def negatives(self, below: float) -> Lists:
        """For each chain, the proposals of its photo with an IoU below `below`."""
        photo = self.region_photo[self.gold]
        first, end = self.first_proposal[photo], self.region_starts[photo + 1]
        starts = np.concatenate([[0], np.cumsum(end - first)])
        far = np.ones(starts[-1], dtype=bool)
        near = self.ious >= below
        owners = self.overlaps.owners[near]
        far[starts[owners] + self.overlaps.values[near] - first[owners]] = False
        chains = np.repeat(np.arange(len(self.gold)), end - first)
        regions = np.arange(starts[-1]) + np.repeat(first - starts[:-1], end - first)
        return Lists.of(chains[far], regions[far].astype(np.int32), len(self.gold))

    @cached_property
    def phrases_of_chain(self) -> Lists:
        """The different phrases of each chain."""
        both = np.unique(np.stack([self.chain, self.phrase], axis=1), axis=0)
        return Lists.of(both[:, 0], both[:, 1], len(self.gold))

    def resampled(self, most: int, seed: int = 0) -> RegionPhrasePairs:
        """At most so many regions, drawn at random, for each phrase, and one pair for each of them.

        Flickr30k Entities learns from sets with `most` 1 and 10, in which common phrases do not drown the others. The
        regions and phrases keep their numbers.

        Examples
        --------
        >>> from deixis.data.records import Box
        >>> caption = Caption.from_text("a dog, a dog", (Mention(0, 5, "1"), Mention(7, 12, "2")))
        >>> photo = Photo("7", (caption,), boxes=(Box((0, 0, 4, 3), ("1",)), Box((6, 0, 7, 10), ("2",))))
        >>> pairs = RegionPhrasePairs.of_photos([photo], lambda photo_id: np.zeros((0, 4)))
        >>> len(pairs.resampled(1)), len(pairs.resampled(10))
        (1, 2)
        """
        if most < 1:
            raise DatasetError(f"resampling: {most} regions for each phrase leave nothing to learn from")
        shuffled = np.random.default_rng(seed).permutation(len(self))
        _, first = np.unique(np.stack([self.phrase, self.chain], axis=1)[shuffled], axis=0, return_index=True)
        different = shuffled[np.sort(first)]
        by_phrase = different[np.argsort(self.phrase[different], kind="stable")]
        phrase = self.phrase[by_phrase]
        place = np.arange(len(phrase)) - np.searchsorted(phrase, phrase)
        return self.only(np.sort(by_phrase[place < most]))

    def only(self, rows: Numbers) -> RegionPhrasePairs:
        """Some of the pairs. The regions and phrases keep their numbers."""
        columns = {name: getattr(self, name)[rows] for name in ("photo", "caption", "span", "phrase", "chain")}
        return replace(self, **columns)


def set_sizes(chunks: RegionPhrasePairs, augmented: RegionPhrasePairs | None = None) -> list[tuple[str, int]]:
    """The sizes of the training sets, row by row as in Table 2 of Flickr30k Entities.

    Examples
    --------
    >>> from deixis.data.records import Box
    >>> caption = Caption.from_text("a dog, a dog", (Mention(0, 5, "1"), Mention(7, 12, "2")))
    >>> photo = Photo("7", (caption,), boxes=(Box((0, 0, 4, 3), ("1",)), Box((6, 0, 7, 10), ("2",))))
    >>> set_sizes(RegionPhrasePairs.of_photos([photo], lambda photo_id: np.zeros((0, 4))))
    [('All NP chunks', 2), ('Resampled, N = 1', 1), ('Resampled, N = 10', 2)]
    """
    rows = []
    for name, pairs in (("All NP chunks", chunks), ("All augmented phrases", augmented)):
        if pairs is not None:
            rows.append((name, len(pairs)))
            rows += [(f"Resampled, N = {most}", len(pairs.resampled(most))) for most in (1, 10)]
    return rows


class _Builder:
    """Takes in photos one by one and makes the columns of their pairs."""

    def __init__(
        self,
        more_phrases: Callable[[Caption, Sequence[Mention]], Iterable[Phrased]] | None,
        region_phrases: bool,
    ) -> None:
        self.more_phrases = more_phrases
        self.region_phrases = region_phrases
        self.photos: list[str] = []
        self.texts: list[str] = []
        self.rows: list[tuple[int, int, int, int, int]] = []
        self.boxes: list[geometry.Boxes] = []
        self.gold: list[int] = []
        self.overlaps: list[tuple[Numbers, Numbers, npt.NDArray[np.float32]]] = []
        self.region_starts = [0]

    def add(self, photo: Photo, proposals: Callable[[str], npt.ArrayLike]) -> None:
        """Take in a photo."""
        chain_of_box: dict[tuple[float, ...], int] = {}
        first_chain = len(self.gold)
        for place, text, start, end, box in self._named_boxes(photo):
            chain = chain_of_box.setdefault(tuple(box.tolist()), first_chain + len(chain_of_box))
            self.texts.append(" ".join(text.lower().split()))
            self.rows.append((len(self.photos), place, start, end, chain))
        if chain_of_box:
            self._add_regions(np.array(list(chain_of_box)), _checked(proposals(photo.id), photo.id))
            self.photos.append(photo.id)

    def _named_boxes(self, photo: Photo) -> Iterator[tuple[int, str, int, int, geometry.Boxes]]:
        """The caption, the text, its place in the caption, and the box of every phrase that has one."""
        boxes_of = _boxes_of_chains(photo)
        for place, caption in enumerate(photo.captions):
            if not caption.related or (caption.region_phrase and not self.region_phrases):
                continue
            boxed = [mention for mention in caption.mentions if mention.chain in boxes_of]
            named: list[tuple[str, tuple[Mention, ...]]] = [(caption.phrase(mention), (mention,)) for mention in boxed]
            if self.more_phrases is not None:
                named += [(phrase.text, phrase.mentions) for phrase in self.more_phrases(caption, boxed)]
            for text, mentions in named:
                box = geometry.union(np.concatenate([boxes_of[mention.chain] for mention in mentions]))
                if geometry.area(box) > 0:
                    start, end = min(m.start for m in mentions), max(m.end for m in mentions)
                    yield place, text, start, end, box

    def _add_regions(self, gold: geometry.Boxes, proposed: geometry.Boxes) -> None:
        first, first_chain = self.region_starts[-1], len(self.gold)
        ious = geometry.iou(gold, proposed)
        chains, columns = np.nonzero(ious)
        self.overlaps.append((chains + first_chain, columns + first + len(gold), ious[chains, columns].astype("f4")))
        self.gold += range(first, first + len(gold))
        self.boxes += [gold, proposed]
        self.region_starts.append(first + len(gold) + len(proposed))

    def finish(self) -> RegionPhrasePairs:
        """The columns of all that was taken in."""
        if not self.rows:
            raise DatasetError("no phrase has a box: there are no pairs of a region and a phrase")
        columns = np.array(self.rows, dtype=np.int64)
        phrases, phrase = np.unique(np.array(self.texts, dtype=object), return_inverse=True)
        owners, regions, ious = (np.concatenate(parts) for parts in zip(*self.overlaps, strict=True))
        return RegionPhrasePairs(
            photos=tuple(self.photos),
            phrases=tuple(phrases),
            photo=columns[:, 0],
            caption=columns[:, 1],
            span=columns[:, 2:4],
            phrase=phrase,
            chain=columns[:, 4],
            boxes=np.concatenate(self.boxes),
            region_starts=np.array(self.region_starts),
            gold=np.array(self.gold),
            overlaps=Lists.of(owners, regions.astype(np.int32), len(self.gold)),
            ious=ious,
        )


def _boxes_of_chains(photo: Photo) -> dict[str | None, geometry.Boxes]:
    found: dict[str | None, list[tuple[float, float, float, float]]] = {}
    for box in photo.boxes:
        for chain in box.chains:
            found.setdefault(chain, []).append(box.xyxy)
    return {chain: np.array(boxes, dtype=np.float64) for chain, boxes in found.items()}


def _checked(proposals: npt.ArrayLike, photo_id: str) -> geometry.Boxes:
    boxes = np.asarray(proposals, dtype=np.float64)
    if boxes.size == 0:
        return np.zeros((0, 4))
    if boxes.ndim != 2 or boxes.shape[1] != 4 or not np.isfinite(boxes).all():
        raise DatasetError(f"photo {photo_id}: proposals must be rows of four finite numbers, not {boxes.shape}")
    return boxes
