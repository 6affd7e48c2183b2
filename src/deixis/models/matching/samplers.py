"""Batches of Algorithm 1 of the two-branch paper, sampled from tables that are computed once.

Steps are numbered as in the paper: 1 shuffles pairs into batches (`ShuffledSampler`), 2 augments positive regions, 3a
and 3b are negatives of both directions, and 3c is neighbourhood sampling, i for regions and ii for phrases.

Rows of `visual` are regions or photos, rows of `text` are phrases or sentences, as in the feature arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deixis.data.pairs import Integers, RaggedArray, RegionPhrasePairs
from deixis.errors import DatasetError
from deixis.models.matching.spec import SimilaritySettings, TwoBranchSettings
from deixis.models.training.objective import ShuffledSampler


@dataclass(frozen=True)
class TripletBatch:
    """Rows to embed, and the triplets among them. All other indices are positions in `visual` and `text`."""

    visual: Tensor  # (V,) rows of the features to embed, all different
    text: Tensor  # (T,) rows of the features to embed
    visual_targets: Tensor  # (P, 2) a visual target and a positive text
    text_targets: Tensor  # (Q, 2) a text target and a positive visual
    group: Tensor  # (T,) texts of one group (a chain, or the sentences of a photo) are not negatives of each other
    visual_negatives: Tensor | None  # (T, V) of bool; None if a group is a row of `visual` and all others negatives
    visual_neighbours: Tensor  # (A, 3) a visual target, another visual of the same text, and that text
    text_neighbours: Tensor  # (B, 2) a text target, and another text of its group
    size: int  # number of pairs that the batch was made from
    neighbours: bool = True  # whether neighbourhood constraints are used in this epoch
    identical_text_is_negative: bool = True  # whether the same row of `text` in another group is a negative

    @property
    def text_negatives(self) -> Tensor:
        """(T, T) of bool: whether a text is a negative for the targets of another (step 3a)."""
        other = self.group[:, None] != self.group
        return other if self.identical_text_is_negative else other & (self.text[:, None] != self.text)

    def visual_negatives_of(self, texts: Tensor) -> Tensor:
        """Return (len(texts), V) of bool: whether a visual is a negative of each of some texts (step 3b)."""
        if self.visual_negatives is None:
            return self.group[texts][:, None] != self.visual
        return self.visual_negatives[texts]


@dataclass(frozen=True)
class LabelledPairs:
    """Rows to embed, and labelled pairs of them, for the similarity network."""

    visual: Tensor  # (V,) rows of the features to embed
    text: Tensor  # (T,)
    pairs: Tensor  # (N, 2) positions in `visual` and `text`
    matches: Tensor  # (N,) of bool; half of the pairs match


def hardest_negatives(targets: Tensor, pool: Tensor, allowed: Tensor, count: int) -> Tensor:
    """Return the cosines of each target with its nearest allowed negatives: the K hardest of steps 3a and 3b.

    For a target and its positive, the loss of a triplet decreases with the distance of the negative, so the nearest
    negatives have the highest loss. `targets` (P, d) and `pool` (N, d) have unit length, `allowed` is (P, N); `count`
    is K of Algorithm 1. The result is (P, K), the hardest first, and −∞ where there are fewer negatives.
    """
    cosines = (targets @ pool.T).masked_fill(~allowed, -torch.inf)
    return cosines.topk(min(count, cosines.shape[1]), dim=1).values


def distance_of_cosine(cosine: Tensor) -> Tensor:
    """Return the Euclidean distance of unit vectors from their cosine; its gradient is 0 where they are equal."""
    # The square root has no derivative at 0.
    return (2 - 2 * cosine).clamp(min=torch.finfo(cosine.dtype).tiny).sqrt()


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Return the Euclidean distance along the last axis; its gradient is 0 where vectors are equal."""
    return torch.linalg.vector_norm(a - b, dim=-1)


class RegionPhraseSampler(ShuffledSampler[TripletBatch]):
    """Triplet sampling for phrases, the first part of Algorithm 1.

    A positive region is drawn for every pair of the set. With neighbourhood sampling, the region gets a second phrase
    of its chain and the phrase a second region, if there is one. The control draws as many pairs at random instead.
    """

    def __init__(self, pairs: RegionPhrasePairs, settings: TwoBranchSettings, batch_size: int = 100) -> None:
        super().__init__(len(pairs), batch_size)
        self._pairs = pairs
        self._settings = settings
        self._positives = _positives(pairs, settings)
        self._negatives = pairs.negatives(settings.negative_iou)
        phrases = pairs.phrases_of_chain
        # Position of the phrase of each pair among those of its chain, to draw another one.
        count = len(pairs.phrases)
        keys = phrases.owners * count + phrases.values
        self._position = np.searchsorted(keys, pairs.chain * count + pairs.phrase) - phrases.starts[pairs.chain]

    def make_batch(self, rows: Integers, epoch: int, generator: np.random.Generator) -> TripletBatch:
        pairs, size = self._pairs, len(rows)
        chain = pairs.chain[rows]
        twice = again = np.zeros(0, dtype=np.int64)
        if self._settings.neighbour_sampling:
            twice = np.flatnonzero(pairs.phrases_of_chain.counts[chain] > 1)  # step 3c i: regions with a second phrase
            again = np.flatnonzero(self._positives.counts[chain] > 1)  # step 3c ii: phrases with a second region
        visual_targets, text_targets = size + len(twice), size + len(again)
        if self._settings.random_partners:
            rows = np.append(rows, generator.integers(len(pairs), size=max(len(twice), len(again))))
            chain, twice, again = pairs.chain[rows], twice[:0], again[:0]
        count = len(rows)
        position = generator.integers(self._positives.counts[chain])
        region = _at(self._positives, chain, position)  # step 2
        second_phrase = _another(pairs.phrases_of_chain, chain[twice], self._position[rows][twice], generator)
        second_region = _another(self._positives, chain[again], position[again], generator)
        target, negative = self._candidates(chain, generator)  # step 3b

        visual, found = np.unique(np.concatenate([region, second_region, negative]), return_inverse=True)
        first, second, negative = np.split(found, [count, count + len(again)])
        group, text = np.concatenate([chain, chain[twice]]), np.concatenate([pairs.phrase[rows], second_phrase])
        negatives = np.zeros((len(group), len(visual)), dtype=bool)
        negatives[target, negative] = True
        if self._settings.negatives_from == "batch":
            shown, photo = found[: count + len(again)], pairs.region_photo
            negatives[:, shown] |= photo[visual[shown]] != photo[pairs.gold[group]][:, None]
        return TripletBatch(
            visual=torch.from_numpy(visual),
            text=torch.from_numpy(text),
            visual_targets=_columns(np.concatenate([first, first[twice]]), np.arange(len(group)))[:visual_targets],
            text_targets=_columns(np.concatenate([np.arange(count), again]), np.concatenate([first, second]))[
                :text_targets
            ],
            group=torch.from_numpy(group),
            visual_negatives=torch.from_numpy(negatives),
            visual_neighbours=_columns(
                np.concatenate([first[again], second]),
                np.concatenate([second, first[again]]),
                np.concatenate([again, again]),
            ),
            text_neighbours=_within_groups(group, text),
            size=size,
            neighbours=epoch >= self._settings.neighbour_start_epoch,
            identical_text_is_negative=self._settings.identical_text_is_negative,
        )

    def _candidates(self, chain: Integers, generator: np.random.Generator) -> tuple[Integers, Integers]:
        """Return candidate negatives: the position of the phrase in the set, and the region."""
        target, region = self._negatives.gather(chain)
        limit = self._settings.max_candidates
        if limit is None:
            return target, region
        order = np.lexsort([generator.random(len(target)), target])
        target = target[order]
        position = np.arange(len(target)) - np.searchsorted(target, target)
        return target[position < limit], region[order][position < limit]


class SentenceSampler(ShuffledSampler[TripletBatch]):
    """Triplet sampling for sentences (section 5.1): other photos, and sentences of other photos, are negatives.

    With neighbourhood sampling, every photo gets a second sentence, if it has one.
    """

    def __init__(
        self, photo_of_sentence: NDArray[np.integer], settings: TwoBranchSettings, batch_size: int = 500
    ) -> None:
        super().__init__(len(photo_of_sentence), batch_size)
        self._settings = settings
        self._photo = np.asarray(photo_of_sentence, dtype=np.int64)
        self._sentences, self._position = _sentences_of(self._photo)

    def make_batch(self, rows: Integers, epoch: int, generator: np.random.Generator) -> TripletBatch:
        photo, count = self._photo[rows], len(rows)
        twice = np.flatnonzero(self._sentences.counts[photo] > 1) if self._settings.neighbour_sampling else rows[:0]
        if self._settings.random_partners:
            rows = np.append(rows, generator.integers(len(self._photo), size=len(twice)))
            photo, twice = self._photo[rows], twice[:0]
        second = _another(self._sentences, photo[twice], self._position[rows][twice], generator)
        group, text = np.concatenate([photo, photo[twice]]), np.concatenate([rows, second])
        visual, found = np.unique(photo, return_inverse=True)
        return TripletBatch(
            visual=torch.from_numpy(visual),
            text=torch.from_numpy(text),
            visual_targets=_columns(np.concatenate([found, found[twice]]), np.arange(len(group))),
            text_targets=_columns(np.arange(count), found[:count]),
            group=torch.from_numpy(group),
            visual_negatives=None,
            visual_neighbours=torch.zeros(0, 3, dtype=torch.int64),
            text_neighbours=_within_groups(group, text),
            size=count,
            neighbours=epoch >= self._settings.neighbour_start_epoch,
        )


class LabelledRegionSampler(ShuffledSampler[LabelledPairs]):
    """Pair sampling for phrases, the second part of Algorithm 1: all positive regions, and a random negative for each.

    Phrases without a negative region are skipped, so that half of the pairs match. `batch_size` counts pairs of a gold
    box and a phrase.
    """

    def __init__(self, pairs: RegionPhrasePairs, settings: SimilaritySettings, batch_size: int = 100) -> None:
        negatives = pairs.negatives(settings.negative_iou)
        self._pairs = pairs.select(np.flatnonzero(negatives.counts[pairs.chain] > 0))
        self._positives = _positives(pairs, settings)
        self._negatives = negatives
        super().__init__(len(self._pairs), batch_size)

    def make_batch(self, rows: Integers, epoch: int, generator: np.random.Generator) -> LabelledPairs:
        chain = self._pairs.chain[rows]
        phrase, positive = self._positives.gather(chain)  # step 2 of pair sampling
        owner = chain[phrase]  # step 3: a random negative of each
        negative = _at(self._negatives, owner, generator.integers(self._negatives.counts[owner]))
        text = self._pairs.phrase[rows][phrase]
        return _labelled(positive, negative, text, text)


class LabelledSentenceSampler(ShuffledSampler[LabelledPairs]):
    """Pair sampling for sentences (section 5.1): a photo with its sentence, and with one of another photo."""

    def __init__(self, photo_of_sentence: NDArray[np.integer], batch_size: int = 500) -> None:
        super().__init__(len(photo_of_sentence), batch_size)
        self._photo = np.asarray(photo_of_sentence, dtype=np.int64)
        self._sentences, _ = _sentences_of(self._photo)
        if self._sentences.counts.max() == len(self._photo):
            raise DatasetError("all sentences belong to one photo: there are no negatives")

    def make_batch(self, rows: Integers, epoch: int, generator: np.random.Generator) -> LabelledPairs:
        photo = self._photo[rows]
        own = self._sentences.counts[photo]
        # Sentences are sorted by photo: draw a position among all others, and skip those of the photo itself.
        position = generator.integers(len(self._photo) - own)
        position += np.where(position >= self._sentences.starts[photo], own, 0)
        return _labelled(photo, photo, rows, self._sentences.values[position].astype(np.int64))


def _positives(pairs: RegionPhrasePairs, settings: TwoBranchSettings | SimilaritySettings) -> RaggedArray:
    """The positive regions of each chain."""
    if settings.positives == "single":
        return RaggedArray(np.arange(len(pairs.gold) + 1), pairs.gold)
    return pairs.positives(settings.positive_iou)


def _sentences_of(photo: Integers) -> tuple[RaggedArray, Integers]:
    """The sentences of each photo, and the position of each sentence among those of its photo."""
    order = np.argsort(photo, kind="stable")
    sentences = RaggedArray.from_owners(photo[order], order, int(photo.max()) + 1)
    position = np.empty(len(photo), dtype=np.int64)
    position[order] = np.arange(len(photo)) - sentences.starts[photo[order]]
    return sentences, position


def _at(lists: RaggedArray, rows: Integers, positions: Integers) -> Integers:
    """One value of each of some lists."""
    return np.asarray(lists.values[lists.starts[rows] + positions], dtype=np.int64)


def _another(lists: RaggedArray, rows: Integers, positions: Integers, generator: np.random.Generator) -> Integers:
    """Draw a value of each of some lists, but not the one at its position; each has two or more."""
    drawn = generator.integers(lists.counts[rows] - 1) if len(rows) else rows
    return _at(lists, rows, drawn + (drawn >= positions))


def _within_groups(group: Integers, rows: Integers) -> Tensor:
    """Return (B, 2): each text, and each other one of its group; `rows` tells which positions hold the same text."""
    _, owner = np.unique(group, return_inverse=True)
    members = RaggedArray.from_owners(np.sort(owner), np.argsort(owner, kind="stable"), int(owner.max()) + 1)
    text, other = members.gather(owner)
    differ = rows[text] != rows[other]
    return _columns(text[differ], other[differ])


def _columns(*columns: Integers) -> Tensor:
    return torch.from_numpy(np.stack(columns, axis=1))


def _labelled(visual: Integers, wrong_visual: Integers, text: Integers, wrong_text: Integers) -> LabelledPairs:
    """Return matching pairs, followed by as many that do not match."""
    regions, region = np.unique(np.concatenate([visual, wrong_visual]), return_inverse=True)
    texts, phrase = np.unique(np.concatenate([text, wrong_text]), return_inverse=True)
    matches = np.arange(len(region)) < len(visual)
    return LabelledPairs(
        torch.from_numpy(regions), torch.from_numpy(texts), _columns(region, phrase), torch.from_numpy(matches)
    )
