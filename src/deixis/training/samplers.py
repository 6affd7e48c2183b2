"""Batches as Algorithm 1 of the two-branch paper makes them, by tables that are computed once.

All that is random comes from the generator that an epoch is given. Rows of `visual` are regions or photos, rows of
`text` are phrases or sentences; the features of both are by the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deixis.data.pairs import Lists, Numbers, RegionPhrasePairs
from deixis.errors import DatasetError
from deixis.models.similarity import PAPERS as SIMILARITY
from deixis.models.similarity import SimilaritySettings
from deixis.models.two_branch import PAPERS as TWO_BRANCH
from deixis.models.two_branch import TwoBranchSettings
from deixis.training.settings import TrainSettings
from deixis.training.triplets import Batch, LabelledPairs


def _schedules() -> dict[str, TrainSettings]:
    """Those of §4.3 and §5.3; how long sentences are trained the paper does not say, so dev decides."""
    phrases = TrainSettings(epochs=8, batch_size=100, learning_rate=1e-3)
    sentences = TrainSettings(epochs=30, batch_size=500, learning_rate=1e-4, patience=5)
    made = {name: phrases if "phrases" in name else sentences for name in (*TWO_BRANCH, *SIMILARITY)}
    # Eight epochs without the neighbourhood terms, then two with them.
    made["papers/two-branch-phrases"] = TrainSettings(epochs=10, batch_size=100, learning_rate=1e-3)
    made["papers/two-branch-lstm"] = TrainSettings(epochs=30, batch_size=500, learning_rate=2e-4, patience=5)
    return made


SCHEDULES: Mapping[str, TrainSettings] = _schedules()
"""How the two-branch paper trains its networks, by their names in `PAPERS` of `two_branch` and `similarity`."""


class _Shuffled:
    """Sets of pairs in a new order each epoch. A last set of one pair is left out: batch norm cannot learn from it."""

    def __init__(self, count: int, batch_size: int) -> None:
        if count < 2:
            raise DatasetError(f"there is nothing to learn from {count} pairs")
        self._count = count
        self._batch_size = batch_size

    def __len__(self) -> int:
        """How many batches an epoch has."""
        whole, rest = divmod(self._count, self._batch_size)
        return whole + (rest > 1)

    def _sets(self, generator: np.random.Generator) -> Iterator[Numbers]:
        order = generator.permutation(self._count)
        return (order[number * self._batch_size :][: self._batch_size] for number in range(len(self)))


class RegionPhraseSampler(_Shuffled):
    """Triplet sampling for phrases: steps 1, 2 and 3c of Algorithm 1, and the candidates for 3a and 3b.

    For every pair of the set a positive region is drawn. With neighbourhood sampling the region gets a second,
    different phrase of its chain, and the phrase a second region, wherever there is one.

    Parameters
    ----------
    pairs
        Of the training split.
    settings
        Of the network.
    batch_size
        Pairs in a set.

    Examples
    --------
    >>> from deixis.data.records import Box, Caption, Mention, Photo
    >>> caption = Caption.from_text("A dog chases a ball.", (Mention(0, 5, "1"), Mention(13, 19, "2")))
    >>> photo = Photo("7", (caption,), boxes=(Box((0, 0, 40, 30), ("1",)), Box((60, 0, 70, 10), ("2",))))
    >>> pairs = RegionPhrasePairs.of_photos([photo], lambda photo_id: np.array([[0, 0, 40, 24], [50, 50, 90, 90]]))
    >>> batch = next(RegionPhraseSampler(pairs, TwoBranchSettings()).epoch(0, np.random.default_rng(0)))
    >>> batch.text.shape, batch.visual.tolist()
    (torch.Size([2]), [0, 1, 2, 3])
    """

    def __init__(self, pairs: RegionPhrasePairs, settings: TwoBranchSettings, batch_size: int = 100) -> None:
        super().__init__(len(pairs), batch_size)
        self._pairs = pairs
        self._settings = settings
        self._positives = _positives(pairs, settings)
        self._negatives = pairs.negatives(settings.negative_iou)
        phrases = pairs.phrases_of_chain
        # Where each pair's phrase stands among those of its chain, to draw another one.
        keys = phrases.owners * len(pairs.phrases) + phrases.values
        self._place = (
            np.searchsorted(keys, pairs.chain * len(pairs.phrases) + pairs.phrase) - phrases.starts[pairs.chain]
        )

    def epoch(self, number: int, generator: np.random.Generator) -> Iterator[Batch]:
        """The batches of an epoch; the first is number 0."""
        for rows in self._sets(generator):
            yield self._batch(rows, number, generator)

    def _batch(self, rows: Numbers, epoch: int, generator: np.random.Generator) -> Batch:
        pairs, count = self._pairs, len(rows)
        chain = pairs.chain[rows]
        place = generator.integers(self._positives.counts[chain])
        region = _at(self._positives, chain, place)
        twice = again = np.zeros(0, dtype=np.int64)
        if self._settings.neighbour_sampling:
            twice = np.flatnonzero(pairs.phrases_of_chain.counts[chain] > 1)
            again = np.flatnonzero(self._positives.counts[chain] > 1)
        second_phrase = _another(pairs.phrases_of_chain, chain[twice], self._place[rows][twice], generator)
        second_region = _another(self._positives, chain[again], place[again], generator)
        target, negative = self._candidates(chain, generator)

        visual, found = np.unique(np.concatenate([region, second_region, negative]), return_inverse=True)
        first, second, negative = np.split(found, [count, count + len(again)])
        group = np.concatenate([chain, chain[twice]])
        negatives = np.zeros((len(group), len(visual)), dtype=bool)
        negatives[target, negative] = True
        if self._settings.other_photos:
            shown, photo = found[: count + len(again)], pairs.region_photo
            negatives[:, shown] |= photo[visual[shown]] != photo[pairs.gold[group]][:, None]
        return Batch(
            visual=torch.from_numpy(visual),
            text=torch.from_numpy(np.concatenate([pairs.phrase[rows], second_phrase])),
            visual_targets=_columns(np.concatenate([first, first[twice]]), np.arange(len(group))),
            text_targets=_columns(np.concatenate([np.arange(count), again]), np.concatenate([first, second])),
            group=torch.from_numpy(group),
            visual_negatives=torch.from_numpy(negatives),
            visual_neighbours=_columns(
                np.concatenate([first[again], second]),
                np.concatenate([second, first[again]]),
                np.concatenate([again, again]),
            ),
            text_neighbours=_within_groups(group),
            size=count,
            neighbours=epoch >= self._settings.neighbours_from,
            same_words=self._settings.same_words,
        )

    def _candidates(self, chain: Numbers, generator: np.random.Generator) -> tuple[Numbers, Numbers]:
        """Regions that may be negatives: the place of the phrase in the set, and the region."""
        target, region = self._negatives.joined(chain)
        most = self._settings.candidates
        if most is None:
            return target, region
        order = np.lexsort([generator.random(len(target)), target])
        target = target[order]
        place = np.arange(len(target)) - np.searchsorted(target, target)
        return target[place < most], region[order][place < most]


class SentenceSampler(_Shuffled):
    """Triplet sampling for sentences (§5.1): every other photo and every sentence of another photo is a negative.

    With neighbourhood sampling every photo gets a second sentence, wherever it has one.

    Parameters
    ----------
    photo_of_sentence
        The photo, a row of the visual features, of each sentence, a row of the text features.
    settings
        Of the network.
    batch_size
        Pairs in a set.

    Examples
    --------
    >>> sampler = SentenceSampler(np.array([0, 0, 1, 1]), TwoBranchSettings(), batch_size=2)
    >>> batch = next(sampler.epoch(0, np.random.default_rng(0)))
    >>> len(sampler), batch.text.tolist(), batch.group.tolist()
    (2, [2, 0, 3, 1], [1, 0, 1, 0])
    """

    def __init__(
        self, photo_of_sentence: NDArray[np.integer], settings: TwoBranchSettings, batch_size: int = 500
    ) -> None:
        super().__init__(len(photo_of_sentence), batch_size)
        self._settings = settings
        self._photo = np.asarray(photo_of_sentence, dtype=np.int64)
        self._sentences, self._place = _sentences_of(self._photo)

    def epoch(self, number: int, generator: np.random.Generator) -> Iterator[Batch]:
        """The batches of an epoch; the first is number 0."""
        for rows in self._sets(generator):
            yield self._batch(rows, number, generator)

    def _batch(self, rows: Numbers, epoch: int, generator: np.random.Generator) -> Batch:
        photo, count = self._photo[rows], len(rows)
        twice = np.flatnonzero(self._sentences.counts[photo] > 1) if self._settings.neighbour_sampling else rows[:0]
        second = _another(self._sentences, photo[twice], self._place[rows][twice], generator)
        group = np.concatenate([photo, photo[twice]])
        visual, found = np.unique(photo, return_inverse=True)
        return Batch(
            visual=torch.from_numpy(visual),
            text=torch.from_numpy(np.concatenate([rows, second])),
            visual_targets=_columns(np.concatenate([found, found[twice]]), np.arange(len(group))),
            text_targets=_columns(np.arange(count), found),
            group=torch.from_numpy(group),
            visual_negatives=None,
            visual_neighbours=torch.zeros(0, 3, dtype=torch.int64),
            text_neighbours=_within_groups(group),
            size=count,
            neighbours=epoch >= self._settings.neighbours_from,
        )


class LabelledRegionSampler(_Shuffled):
    """Pair sampling for phrases, the second half of Algorithm 1: all positive regions, and a random negative for each.

    A phrase without a single negative region is left out, so that as many pairs match as do not.

    Parameters
    ----------
    pairs
        Of the training split.
    settings
        Of the network.
    batch_size
        Pairs of a gold box and a phrase in a set.

    Examples
    --------
    >>> from deixis.data.records import Box, Caption, Mention, Photo
    >>> caption = Caption.from_text("A dog chases a ball.", (Mention(0, 5, "1"), Mention(13, 19, "2")))
    >>> photo = Photo("7", (caption,), boxes=(Box((0, 0, 40, 30), ("1",)), Box((60, 0, 70, 10), ("2",))))
    >>> pairs = RegionPhrasePairs.of_photos([photo], lambda photo_id: np.array([[0, 0, 40, 24], [50, 50, 90, 90]]))
    >>> batch = next(LabelledRegionSampler(pairs, SimilaritySettings()).epoch(0, np.random.default_rng(0)))
    >>> batch.matches.tolist()
    [True, True, True, False, False, False]
    """

    def __init__(self, pairs: RegionPhrasePairs, settings: SimilaritySettings, batch_size: int = 100) -> None:
        negatives = pairs.negatives(settings.negative_iou)
        self._pairs = pairs.only(np.flatnonzero(negatives.counts[pairs.chain] > 0))
        self._positives = _positives(pairs, settings)
        self._negatives = negatives
        super().__init__(len(self._pairs), batch_size)

    def epoch(self, number: int, generator: np.random.Generator) -> Iterator[LabelledPairs]:
        """The batches of an epoch; the first is number 0."""
        for rows in self._sets(generator):
            chain = self._pairs.chain[rows]
            phrase, positive = self._positives.joined(chain)
            owner = chain[phrase]
            negative = _at(self._negatives, owner, generator.integers(self._negatives.counts[owner]))
            yield _labelled(positive, negative, self._pairs.phrase[rows][phrase], None)


class LabelledSentenceSampler(_Shuffled):
    """Pair sampling for sentences (§5.1): a photo with its sentence, and with a random sentence of another photo.

    Parameters
    ----------
    photo_of_sentence
        The photo, a row of the visual features, of each sentence, a row of the text features.
    batch_size
        Pairs that match in a set.

    Examples
    --------
    >>> batch = next(LabelledSentenceSampler(np.array([0, 0, 1, 1])).epoch(0, np.random.default_rng(0)))
    >>> batch.matches.tolist()
    [True, True, True, True, False, False, False, False]
    """

    def __init__(self, photo_of_sentence: NDArray[np.integer], batch_size: int = 500) -> None:
        super().__init__(len(photo_of_sentence), batch_size)
        self._photo = np.asarray(photo_of_sentence, dtype=np.int64)
        self._sentences, _ = _sentences_of(self._photo)
        if self._sentences.counts.max() == len(self._photo):
            raise DatasetError("all sentences are of one photo: none can be wrong for it")

    def epoch(self, number: int, generator: np.random.Generator) -> Iterator[LabelledPairs]:
        """The batches of an epoch; the first is number 0."""
        for rows in self._sets(generator):
            photo = self._photo[rows]
            own = self._sentences.counts[photo]
            # The sentences stand photo by photo: drawing from all others is drawing a place and leaping over its own.
            place = generator.integers(len(self._photo) - own)
            place += np.where(place >= self._sentences.starts[photo], own, 0)
            yield _labelled(photo, photo, rows, self._sentences.values[place].astype(np.int64))


def _positives(pairs: RegionPhrasePairs, settings: TwoBranchSettings | SimilaritySettings) -> Lists:
    """For each chain the regions that count as showing it."""
    if settings.positives == "single":
        return Lists(np.arange(len(pairs.gold) + 1), pairs.gold)
    return pairs.positives(settings.positive_iou)


def _sentences_of(photo: Numbers) -> tuple[Lists, Numbers]:
    """The sentences of each photo, and where each sentence stands among those of its photo."""
    order = np.argsort(photo, kind="stable")
    sentences = Lists.of(photo[order], order, int(photo.max()) + 1)
    place = np.empty(len(photo), dtype=np.int64)
    place[order] = np.arange(len(photo)) - sentences.starts[photo[order]]
    return sentences, place


def _at(lists: Lists, rows: Numbers, places: Numbers) -> Numbers:
    """A value of each of some lists."""
    return np.asarray(lists.values[lists.starts[rows] + places], dtype=np.int64)


def _another(lists: Lists, rows: Numbers, places: Numbers, generator: np.random.Generator) -> Numbers:
    """A random value of each of some lists, but not the one at its place; each has two or more."""
    drawn = generator.integers(lists.counts[rows] - 1) if len(rows) else rows
    return _at(lists, rows, drawn + (drawn >= places))


def _within_groups(group: Numbers) -> Tensor:
    """(B, 2): each text, and each other one of its group."""
    _, owner = np.unique(group, return_inverse=True)
    members = Lists.of(np.sort(owner), np.argsort(owner, kind="stable"), int(owner.max()) + 1)
    text, other = members.joined(owner)
    return _columns(text[text != other], other[text != other])


def _columns(*columns: Numbers) -> Tensor:
    return torch.from_numpy(np.stack(columns, axis=1))


def _labelled(visual: Numbers, wrong_visual: Numbers, text: Numbers, wrong_text: Numbers | None) -> LabelledPairs:
    """Pairs that match, followed by as many that do not."""
    regions, region = np.unique(np.concatenate([visual, wrong_visual]), return_inverse=True)
    texts, phrase = np.unique(np.concatenate([text, text if wrong_text is None else wrong_text]), return_inverse=True)
    matches = np.arange(len(region)) < len(visual)
    return LabelledPairs(
        torch.from_numpy(regions), torch.from_numpy(texts), _columns(region, phrase), torch.from_numpy(matches)
    )
