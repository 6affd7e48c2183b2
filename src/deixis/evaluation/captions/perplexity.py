r"""Perplexity, base 2, from the log probabilities of the words of sentences.

For a sentence of :math:`L` words, including the end token (eq. 5 of m-RNN):

.. math:: \log_2 \mathrm{PPL} = -\frac{1}{L} \sum_{n=1}^{L} \log_2 P(w_n | w_{1:n-1}, I)

For a set of sentences the sum runs over all their words, so that long sentences count more (the mean of eq. 6):
:math:`2^{-\sum \log_2 P / \sum L}`. Out-of-vocabulary words are scored as the unknown word; `oov` is their percentage
(end tokens not counted). More unknown words make the task easier, so compare perplexities only at the same vocabulary.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from deixis.errors import DatasetError
from deixis.evaluation.captions.ngrams import FloatArray, IntArray, sum_by_group
from deixis.evaluation.intervals import Counts, Interval, Statistic, bootstrap_all, ratio_of


@dataclass(frozen=True, eq=False)
class PerplexityScores:
    """Perplexity of a set of sentences.

    Attributes
    ----------
    perplexity
        Perplexity over all words and end tokens.
    oov
        Percentage of unknown words; None if `unknown` was not passed.
    per_sentence
        The perplexity of each sentence.
    words
        Number of words and end tokens.
    n
        Number of photos, the units of the bootstrap.
    """

    perplexity: float
    oov: float | None
    per_sentence: FloatArray
    words: int
    n: int
    statistics: dict[str, Statistic]
    protocol: str = "base 2 over all words, end signs counted, unknown words scored as the unknown word"

    @cached_property
    def interval(self) -> dict[str, Interval]:
        """The 95 % bootstrap interval of each score, computed on first use."""
        return bootstrap_all(self.statistics, self.n)

    def as_json(self) -> dict[str, str | int | float | dict[str, list[float]] | None]:
        """Scores as plain JSON, without the values of single sentences."""
        return {
            "protocol": self.protocol,
            "n": self.n,
            "sentences": len(self.per_sentence),
            "perplexity": self.perplexity,
            "oov": self.oov,
            "interval": {name: [each.low, each.high] for name, each in self.interval.items()},
        }


def perplexity_scores(
    log_probabilities: Sequence[npt.ArrayLike],
    *,
    unknown: Sequence[int] | None = None,
    photos: Sequence[Hashable] | None = None,
    base: float = np.e,
) -> PerplexityScores:
    """Compute perplexity from the log probability of every word.

    Parameters
    ----------
    log_probabilities
        For each sentence, one number per word and a last one for the end token.
    unknown
        For each sentence, the number of out-of-vocabulary words.
    photos
        For each sentence, its photo: the units of the bootstrap. By default each sentence is a unit.
    base
        Base of the logarithms.

    Examples
    --------
    >>> scores = perplexity_scores([[-1.0, -3.0], [-2.0, -2.0, -2.0]], unknown=[0, 1], base=2)
    >>> scores.perplexity, round(scores.oov, 1), scores.per_sentence.tolist()
    (4.0, 33.3, [4.0, 4.0])
    """
    if len(log_probabilities) == 0:
        raise DatasetError("perplexity: no sentences")
    arrays = [_check_log_probabilities(number, values) for number, values in enumerate(log_probabilities)]
    lengths = np.array([len(values) for values in arrays])
    bits = -np.array([values.sum() for values in arrays]) * np.log2(base)
    units = _units(photos, len(arrays))
    n_units = int(units.max()) + 1
    statistics: dict[str, Statistic] = {
        "perplexity": _power_of_two(ratio_of(sum_by_group(units, bits, n_units), sum_by_group(units, lengths, n_units)))
    }
    if unknown is not None:
        missing = _check_unknown(unknown, lengths)
        statistics["oov"] = ratio_of(
            100 * sum_by_group(units, missing, n_units), sum_by_group(units, lengths - 1, n_units)
        )
    values = {name: float(statistic(np.ones((1, n_units)))[0]) for name, statistic in statistics.items()}
    return PerplexityScores(
        perplexity=values["perplexity"],
        oov=values.get("oov"),
        per_sentence=np.exp2(bits / lengths),
        words=int(lengths.sum()),
        n=n_units,
        statistics=statistics,
    )


def _check_log_probabilities(number: int, values: npt.ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise DatasetError(
            f"perplexity: sentence {number} (from 0) needs one log probability per word and one for the end token"
        )
    wrong = np.flatnonzero(~np.isfinite(array) | (array > 0))
    if len(wrong):
        raise DatasetError(
            f"perplexity: sentence {number}, word {wrong[0]} (from 0): {array[wrong[0]]} is not a log probability"
        )
    return array


def _check_unknown(unknown: Sequence[int], lengths: IntArray) -> IntArray:
    counts = np.asarray(unknown, dtype=np.int64)
    if counts.shape != lengths.shape:
        raise DatasetError(f"perplexity: {len(lengths)} sentences but {counts.size} counts of unknown words")
    wrong = np.flatnonzero((counts < 0) | (counts >= lengths))
    if len(wrong):
        raise DatasetError(
            f"perplexity: sentence {wrong[0]} (from 0) has {lengths[wrong[0]] - 1} words, {counts[wrong[0]]} unknown"
        )
    return counts


def _units(photos: Sequence[Hashable] | None, n_sentences: int) -> IntArray:
    if photos is None:
        return np.arange(n_sentences)
    if len(photos) != n_sentences:
        raise DatasetError(f"perplexity: {n_sentences} sentences but {len(photos)} photos")
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(photo, len(numbers)) for photo in photos], dtype=np.int64)


def _power_of_two(exponent: Statistic) -> Statistic:
    def statistic(counts: Counts) -> FloatArray:
        return np.exp2(exponent(counts))

    return statistic
