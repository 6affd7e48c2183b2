r"""ROUGE-L: the longest common subsequence of the candidate and each reference.

With :math:`P = \max_j \mathrm{LCS}(c, s_j) / |c|` and :math:`R = \max_j \mathrm{LCS}(c, s_j) / |s_j|`, each over all
references of the photo,

.. math:: \mathrm{ROUGE}_L = \frac{(1 + β^2) P R}{R + β^2 P}, \qquad β = 1.2

and the score of the set is the mean over photos, as in COCO's caption evaluation. A sentence without words counts
there as one empty word; so it does here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deixis.evaluation.captions.arrays import FloatArray
from deixis.evaluation.captions.coded import CaptionSet

_BETA = 1.2


def rouge_l(captions: CaptionSet) -> FloatArray:
    """ROUGE-L of each photo's candidate, as a share of 1.

    Examples
    --------
    >>> from deixis.evaluation.captions.coded import caption_set
    >>> rouge_l(caption_set({"1": "a dog runs"}, {"1": ["a big dog", "it runs"]})).round(4).tolist()
    [0.6667]
    """
    pairs = zip(captions.candidates, captions.references, strict=True)
    return np.array([_score(candidate, references) for candidate, references in pairs])


def _score(candidate: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    candidate = candidate or [""]
    places: dict[str, int] = {}
    for place, word in enumerate(candidate):
        places[word] = places.get(word, 0) | 1 << place
    precision = recall = 0.0
    for reference in references:
        reference = reference or [""]
        common = _common(places, len(candidate), reference)
        precision = max(precision, common / len(candidate))
        recall = max(recall, common / len(reference))
    if precision == 0:
        return 0.0
    return (1 + _BETA**2) * precision * recall / (recall + _BETA**2 * precision)


def _common(places: dict[str, int], length: int, reference: Sequence[str]) -> int:
    """The length of the longest common subsequence, a row of the usual table at a time.

    A bit of `row` is 0 where the table grows by one (Hyyrö 2004); `places` has the bits where each word stands.
    """
    whole = row = (1 << length) - 1
    for word in reference:
        same = row & places.get(word, 0)
        if same:
            row = (row + same) | (row - same)
    return length - (row & whole).bit_count()
