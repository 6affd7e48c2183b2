"""BLEU, CIDEr, ROUGE-L, novelty and diversity of a `CaptionSet`, as COCO's caption evaluation computes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deixis.arrays import BoolArray, FloatArray
from deixis.errors import DatasetError
from deixis.evaluation.captions.ngrams import MAX_NGRAM, CaptionSet, Ngrams, distinct, sum_by_group
from deixis.evaluation.intervals import Statistic, mean_of
from deixis.tokens import words

_SMALL, _TINY = 1e-9, 1e-15


def bleu_statistics(captions: CaptionSet) -> FloatArray:
    """Return the counts behind BLEU per photo: correct n-grams (4), all n-grams (4), own length, closest length."""
    n_photos = len(captions.photos)
    length = captions.lengths[:n_photos]
    statistics = np.zeros((n_photos, 2 * MAX_NGRAM + 2))
    for n, grams in enumerate(captions.ngrams):
        clip = np.zeros(np.searchsorted(grams.sentence, n_photos), dtype=np.int64)
        np.maximum.at(clip, grams.of_candidate, grams.count[grams.of_reference])
        correct = np.minimum(clip, grams.count[: len(clip)])
        statistics[:, n] = sum_by_group(grams.sentence[: len(clip)], correct, n_photos)
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


SIGMA = 6.0
SCALE = 10.0


class Cider(NamedTuple):
    """CIDEr and CIDEr-D of each photo, on the scale of the authors' program (0 to 10)."""

    cider: FloatArray
    cider_d: FloatArray


def cider(captions: CaptionSet) -> Cider:
    """Compute CIDEr and CIDEr-D of each photo, with the document frequencies of these references."""
    n_photos = len(captions.photos)
    per_reference = np.zeros((2, len(captions.photo_of_reference)))
    for grams in captions.ngrams:
        per_reference += _similarities(captions, grams)
    bigrams = np.maximum(0, captions.lengths - 1)
    longer = bigrams[captions.photo_of_reference] - bigrams[n_photos:]
    per_reference[1] *= np.exp(-(longer**2) / (2 * SIGMA**2))
    references = np.bincount(captions.photo_of_reference, minlength=n_photos)
    plain, damped = (
        SCALE / MAX_NGRAM * sum_by_group(captions.photo_of_reference, values, n_photos) / references
        for values in per_reference
    )
    return Cider(plain, damped)


def _similarities(captions: CaptionSet, grams: Ngrams) -> FloatArray:
    """Cosine similarity of each reference and its candidate for one n: plain, and clipped to the reference."""
    n_photos = len(captions.photos)
    weight = grams.count * _idf(captions, grams)[grams.gram]
    norm = np.sqrt(sum_by_group(grams.sentence, weight**2, len(captions.photo_of_sentence)))
    reference = grams.sentence[grams.of_reference] - n_photos
    of_candidate, of_reference = weight[grams.of_candidate], weight[grams.of_reference]
    n_references = len(captions.photo_of_reference)
    products = np.stack(
        [
            sum_by_group(reference, of_candidate * of_reference, n_references),
            sum_by_group(reference, np.minimum(of_candidate, of_reference) * of_reference, n_references),
        ]
    )
    norms = norm[captions.photo_of_reference] * norm[n_photos:]
    return np.asarray(np.divide(products, norms, out=np.zeros_like(products), where=norms > 0))


def _idf(captions: CaptionSet, grams: Ngrams) -> FloatArray:
    """Weight of each n-gram: the logarithm of the number of photos over those with the n-gram in a reference."""
    n_photos = len(captions.photos)
    first_reference = np.searchsorted(grams.sentence, n_photos)
    photo = captions.photo_of_sentence[grams.sentence[first_reference:]]
    in_photo = distinct(photo * max(1, grams.kinds) + grams.gram[first_reference:])
    frequency = np.bincount(in_photo % max(1, grams.kinds), minlength=grams.kinds)
    return np.asarray(np.log(n_photos) - np.log(np.maximum(1, frequency)))


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
    """Compute distinct-n (Li et al. 2016): distinct n-grams over all n-grams of the candidates, as a fraction of 1."""
    grams, photos = captions.ngrams[n - 1], len(captions.photos)
    upto = np.searchsorted(grams.sentence, photos)
    sentence, gram = grams.sentence[:upto], grams.gram[:upto]
    having = np.bincount(gram, minlength=grams.kinds)
    kinds, own_kinds = np.count_nonzero(having), sum_by_group(sentence, having[gram] == 1, photos)
    own_total = sum_by_group(sentence, grams.count[:upto], photos)
    total = own_total.sum()
    return Diversity(float(kinds / max(1, total)), (kinds - own_kinds) / np.maximum(1, total - own_total))


def distinct_sentences(captions: CaptionSet) -> Diversity:
    """Count the different candidate sentences."""
    times = Counter(map(tuple, captions.candidates))
    alone = np.array([times[tuple(sentence)] == 1 for sentence in captions.candidates], dtype=np.float64)
    return Diversity(float(len(times)), len(times) - alone)
