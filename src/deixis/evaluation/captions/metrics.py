"""BLEU, CIDEr, ROUGE-L, novelty and diversity of a `CaptionSet`, as COCO's caption evaluation computes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deixis.arrays import BoolArray, FloatArray
from deixis.errors import DatasetError
from deixis.evaluation.captions.ngrams import CIDER_SCALE, MAX_NGRAM, CaptionSet, sum_by_group
from deixis.evaluation.intervals import Statistic, mean_of
from deixis.tokens import words

_SMALL, _TINY = 1e-9, 1e-15


def bleu_statistics(captions: CaptionSet) -> FloatArray:
    """Return the counts behind BLEU per photo: correct n-grams (4), all n-grams (4), own length, closest length."""
    n_photos = len(captions.photos)
    length = captions.lengths[:n_photos]
    statistics = np.zeros((n_photos, 2 * MAX_NGRAM + 2))
    for n in range(MAX_NGRAM):
        counts = captions.comparison.counts[n]
        shared, common = captions.comparison.common_counts(n + 1)
        correct = np.zeros(len(counts.gram), dtype=np.int64)
        np.maximum.at(correct, shared.own, common)
        statistics[:, n] = sum_by_group(counts.sentence, correct, n_photos)
        statistics[:, MAX_NGRAM + n] = np.maximum(0, length - n)
    statistics[:, -2] = length
    statistics[:, -1] = _closest_lengths(captions)
    return statistics


def bleu_from(statistics: FloatArray) -> FloatArray:
    """Compute BLEU-1 to BLEU-4 (last axis) from single or summed counts, as fractions of 1."""
    correct, total = statistics[..., :MAX_NGRAM], statistics[..., MAX_NGRAM : 2 * MAX_NGRAM]
    product = np.cumprod((correct + _TINY) / (total + _SMALL), axis=-1)
    bleu = product ** (1 / np.arange(1, MAX_NGRAM + 1))
    ratio = (statistics[..., -2:-1] + _TINY) / (statistics[..., -1:] + _SMALL)
    return np.asarray(bleu * np.exp(np.minimum(0.0, 1 - 1 / ratio)))


def _closest_lengths(captions: CaptionSet) -> FloatArray:
    """The reference length closest to the candidate's for each photo, the shorter of two equally close ones."""
    n_photos = len(captions.photos)
    photo, length = captions.photo_of_reference, captions.lengths[n_photos:]
    away = np.abs(length - captions.lengths[photo])
    order = np.lexsort((length, away, photo))
    first = np.searchsorted(photo[order], np.arange(n_photos))
    return length[order][first].astype(np.float64)


class Cider(NamedTuple):
    """CIDEr and CIDEr-D of each photo, on the scale of the authors' program (0 to 10)."""

    cider: FloatArray
    cider_d: FloatArray


def cider(captions: CaptionSet) -> Cider:
    """Compute CIDEr and CIDEr-D of each photo, with the document frequencies of these references."""
    compared, photo = captions.comparison, captions.photo_of_reference
    references = np.bincount(photo, minlength=len(captions.photos))
    pairs = (compared.cider(clipped=clipped) for clipped in (False, True))
    return Cider(*(CIDER_SCALE * sum_by_group(photo, each, len(captions.photos)) / references for each in pairs))


_BETA = 1.2


def rouge_l(captions: CaptionSet) -> FloatArray:
    """Compute ROUGE-L of each photo, as a fraction of 1."""
    pairs = zip(captions.candidates, captions.references, strict=True)
    return np.array([_rouge_l(candidate, references) for candidate, references in pairs])


def _rouge_l(candidate: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    candidate = candidate or [""]
    positions: dict[str, int] = {}
    for position, word in enumerate(candidate):
        positions[word] = positions.get(word, 0) | 1 << position
    precision = recall = 0.0
    for reference in references:
        reference = reference or [""]
        common = _common_length(positions, len(candidate), reference)
        precision = max(precision, common / len(candidate))
        recall = max(recall, common / len(reference))
    if precision == 0:
        return 0.0
    return (1 + _BETA**2) * precision * recall / (recall + _BETA**2 * precision)


def _common_length(positions: dict[str, int], length: int, reference: Sequence[str]) -> int:
    """Length of the longest common subsequence, by bit-parallel dynamic programming (Hyyrö 2004).

    A bit of `row` is 0 where the table of the usual algorithm grows by one; `positions` has a bit for each occurrence
    of a word in the candidate.
    """
    mask = row = (1 << length) - 1
    for word in reference:
        same = row & positions.get(word, 0)
        if same:
            row = (row + same) | (row - same)
    return length - (row & mask).bit_count()


def novel_sentences(sentences: Iterable[Sequence[str]], training: Iterable[str]) -> BoolArray:
    """Return whether each sentence (a list of words) differs from all training captions once they are tokenized."""
    if isinstance(training, str):
        raise DatasetError("training: pass a list of captions, not one string")
    known = {tuple(words(caption)) for caption in training}
    if not known:
        raise DatasetError("training: the list of captions is empty")
    return np.array([tuple(sentence) not in known for sentence in sentences], dtype=bool)


@dataclass(frozen=True, eq=False)
class Diversity:
    """Diversity of the candidates, with the leave-one-out values for its interval.

    A bootstrap sample repeats sentences and is therefore less diverse than the set: for 1,000 captions, distinct-1 is
    13.8 and that of bootstrap samples 10.6. Intervals of diversity draw jackknife pseudo-values instead:
    n · D - (n - 1) · D without the sentence (Quenouille, Tukey).
    """

    value: float  # diversity of all candidates
    without: FloatArray  # (candidates,) diversity without each candidate

    @property
    def statistic(self) -> Statistic:
        """Mean of the pseudo-values of the drawn photos, centred on `value`."""
        added = (len(self.without) - 1) * (self.value - self.without)
        return mean_of(self.value + added - added.mean())


def distinct_share(captions: CaptionSet, n: int) -> Diversity:
    """Compute distinct-n (Li et al. 2016): distinct n-grams over all n-grams of the candidates, in percent."""
    counts, photos = captions.comparison.counts[n - 1], len(captions.photos)
    having = np.bincount(counts.gram)
    kinds, own_kinds = np.count_nonzero(having), sum_by_group(counts.sentence, having[counts.gram] == 1, photos)
    own_total = sum_by_group(counts.sentence, counts.count, photos)
    total = own_total.sum()
    without = (kinds - own_kinds) / np.maximum(1, total - own_total)
    return Diversity(100 * float(kinds / max(1, total)), 100 * without)


def distinct_sentences(captions: CaptionSet) -> Diversity:
    """Count the different candidate sentences."""
    times = Counter(map(tuple, captions.candidates))
    alone = np.array([times[tuple(sentence)] == 1 for sentence in captions.candidates], dtype=np.float64)
    return Diversity(float(len(times)), len(times) - alone)
