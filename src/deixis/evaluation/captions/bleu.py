r"""Corpus BLEU-1 to BLEU-4 with the closest reference length, as COCO's caption evaluation computes it.

For each photo i, with candidate length :math:`c_i` and the reference length :math:`r_i` closest to it (of two
equally close ones the shorter), and for each n: :math:`m_{in}`, the n-grams of the candidate that are right, each
counted at most as often as the reference that has it most often has it, and
:math:`g_{in} = \max(0, c_i - n + 1)`, all its n-grams. Over the whole set:

.. math::
    p_n = \frac{\sum_i m_{in} + 10^{-15}}{\sum_i g_{in} + 10^{-9}}, \qquad
    \mathrm{BLEU}_N = B \cdot \Big(\prod_{n=1}^N p_n\Big)^{1/N}, \qquad
    B = \min\big(1, e^{1 - r/c}\big)

with :math:`c = \sum_i c_i` and :math:`r = \sum_i r_i` (where the ratio c / r is taken as
:math:`(c + 10^{-15}) / (r + 10^{-9})`). The two small numbers keep an empty set of n-grams from dividing by zero.
A photo's own BLEU is the same formula on that photo alone.
"""

from __future__ import annotations

import numpy as np

from deixis.evaluation.captions.arrays import FloatArray, summed
from deixis.evaluation.captions.coded import LONGEST, CaptionSet

_SMALL, _TINY = 1e-9, 1e-15


def bleu_statistics(captions: CaptionSet) -> FloatArray:
    """The counts that corpus BLEU adds up: per photo, right n-grams (4), all n-grams (4), own and closest length.

    Examples
    --------
    >>> from deixis.evaluation.captions.coded import caption_set
    >>> bleu_statistics(caption_set({"1": "a dog runs"}, {"1": ["a big dog"]})).tolist()
    [[2.0, 0.0, 0.0, 0.0, 3.0, 2.0, 1.0, 0.0, 3.0, 3.0]]
    """
    n_photos = len(captions.photos)
    length = captions.lengths[:n_photos]
    statistics = np.zeros((n_photos, 2 * LONGEST + 2))
    for n, grams in enumerate(captions.ngrams):
        most = np.zeros(np.searchsorted(grams.sentence, n_photos), dtype=np.int64)
        np.maximum.at(most, grams.of_candidate, grams.count[grams.of_reference])
        right = np.minimum(most, grams.count[: len(most)])
        statistics[:, n] = summed(grams.sentence[: len(most)], right, n_photos)
        statistics[:, LONGEST + n] = np.maximum(0, length - n)
    statistics[:, -2] = length
    statistics[:, -1] = _closest_lengths(captions)
    return statistics


def bleu_from(statistics: FloatArray) -> FloatArray:
    """BLEU-1 to BLEU-4 (last axis) from added-up or single statistics, as shares of 1.

    Examples
    --------
    >>> bleu_from(np.array([2.0, 1, 0, 0, 3, 2, 1, 0, 3, 3])).round(4).tolist()
    [0.6667, 0.5774, 0.0, 0.0]
    """
    right, guessed = statistics[..., :LONGEST], statistics[..., LONGEST : 2 * LONGEST]
    product = np.cumprod((right + _TINY) / (guessed + _SMALL), axis=-1)
    bleu = product ** (1 / np.arange(1, LONGEST + 1))
    ratio = (statistics[..., -2:-1] + _TINY) / (statistics[..., -1:] + _SMALL)
    return np.asarray(bleu * np.exp(np.minimum(0.0, 1 - 1 / ratio)))


def _closest_lengths(captions: CaptionSet) -> FloatArray:
    """For each photo the length of the reference that is closest to the candidate's, the shorter of two."""
    n_photos = len(captions.photos)
    photo, length = captions.photo_of_reference, captions.lengths[n_photos:]
    away = np.abs(length - captions.lengths[photo])
    order = np.lexsort((length, away, photo))
    first = np.searchsorted(photo[order], np.arange(n_photos))
    return length[order][first].astype(np.float64)
