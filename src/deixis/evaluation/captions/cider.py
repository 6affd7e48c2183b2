r"""CIDEr and CIDEr-D: how well a caption agrees with all references, rare n-grams counting more.

Each sentence s becomes, for n = 1 … 4, a vector of its n-grams ω: how often s has ω, times
:math:`\log N - \log \max(1, d_ω)`, where N is the number of photos and :math:`d_ω` the number of photos with ω in
at least one reference. With candidate vector :math:`g_n(c)` and reference vectors :math:`g_n(s_j)`, j = 1 … m:

.. math::
    \mathrm{CIDEr} = \frac{10}{4m} \sum_{n,j} \frac{g_n(c) \cdot g_n(s_j)}{\|g_n(c)\| \, \|g_n(s_j)\|}, \qquad
    \mathrm{CIDErD} = \frac{10}{4m} \sum_{n,j} e^{-\frac{(l(c) - l(s_j))^2}{2 \cdot 6^2}}
    \frac{\min(g_n(c), g_n(s_j)) \cdot g_n(s_j)}{\|g_n(c)\| \, \|g_n(s_j)\|}

and the score of the set is the mean over photos. The first is what Vedantam et al. (2015) define, without their
stemming and with the factor 10 of their program; the second is their CIDEr-D. **The class named `Cider` in COCO's
caption evaluation (coco-caption, pycocoevalcap) computes CIDEr-D**, so published "CIDEr" figures on COCO are to be
set beside `cider_d`. Like that program, the length l is the number of bigrams.

The d of a set of one photo are all 1 and log N is 0: both scores are then 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deixis.evaluation.captions.arrays import FloatArray, distinct, summed
from deixis.evaluation.captions.coded import LONGEST, CaptionSet, Ngrams

SIGMA = 6.0
SCALE = 10.0


class Cider(NamedTuple):
    """Both scores of each photo, on the scale of the authors' program (0 to 10)."""

    cider: FloatArray
    cider_d: FloatArray


def cider(captions: CaptionSet) -> Cider:
    """CIDEr and CIDEr-D of each photo's candidate; document frequencies are those of the references given.

    Examples
    --------
    >>> from deixis.evaluation.captions.coded import caption_set
    >>> two = caption_set({"1": "a dog", "2": "red cats"}, {"1": ["a dog"], "2": ["two red cats run"]})
    >>> [each.round(3).tolist() for each in cider(two)]
    [[5.0, 3.211], [5.0, 3.038]]
    """
    n_photos = len(captions.photos)
    per_reference = np.zeros((2, len(captions.photo_of_reference)))
    for grams in captions.ngrams:
        per_reference += _similarities(captions, grams)
    bigrams = np.maximum(0, captions.lengths - 1)
    longer = bigrams[captions.photo_of_reference] - bigrams[n_photos:]
    per_reference[1] *= np.exp(-(longer**2) / (2 * SIGMA**2))
    references = np.bincount(captions.photo_of_reference, minlength=n_photos)
    plain, damped = (
        SCALE / LONGEST * summed(captions.photo_of_reference, values, n_photos) / references for values in per_reference
    )
    return Cider(plain, damped)


def _similarities(captions: CaptionSet, grams: Ngrams) -> FloatArray:
    """The cosine of each reference with its candidate for one n: as it is, and clipped to the reference."""
    n_photos = len(captions.photos)
    weight = grams.count * _idf(captions, grams)[grams.gram]
    norm = np.sqrt(summed(grams.sentence, weight**2, len(captions.photo_of_sentence)))
    reference = grams.sentence[grams.of_reference] - n_photos
    of_candidate, of_reference = weight[grams.of_candidate], weight[grams.of_reference]
    n_references = len(captions.photo_of_reference)
    products = np.stack(
        [
            summed(reference, of_candidate * of_reference, n_references),
            summed(reference, np.minimum(of_candidate, of_reference) * of_reference, n_references),
        ]
    )
    norms = norm[captions.photo_of_reference] * norm[n_photos:]
    return np.asarray(np.divide(products, norms, out=np.zeros_like(products), where=norms > 0))


def _idf(captions: CaptionSet, grams: Ngrams) -> FloatArray:
    """The weight of each n-gram: log of the photos over those with the n-gram in a reference."""
    n_photos = len(captions.photos)
    first_reference = np.searchsorted(grams.sentence, n_photos)
    photo = captions.photo_of_sentence[grams.sentence[first_reference:]]
    in_photo = distinct(photo * max(1, grams.kinds) + grams.gram[first_reference:])
    frequency = np.bincount(in_photo % max(1, grams.kinds), minlength=grams.kinds)
    return np.asarray(np.log(n_photos) - np.log(np.maximum(1, frequency)))
