"""How much of what a captioner says is its own: novel sentences and diversity.

`novel` is the share of generated sentences that are no training caption once both are tokenised (m-RNN counts 71 % on
COCO). *distinct-n* (Li et al. 2016) is the number of distinct n-grams of all generated sentences over the number of
all their n-grams.

Drawing a sentence twice makes a set less diverse, so the diversity of drawings lies far below that of the set: of 1,000
captions distinct-1 is 13.8 and that of drawings 10.6. Intervals of diversity therefore draw what each sentence adds to
the set, its *pseudo-value* n · D - (n - 1) · D without the sentence (the jackknife of Quenouille and Tukey).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from deixis.errors import DatasetError
from deixis.evaluation.captions.arrays import BoolArray, FloatArray, summed
from deixis.evaluation.captions.coded import CaptionSet
from deixis.evaluation.intervals import Statistic, mean_of
from deixis.tokens import words


def novel_sentences(sentences: Iterable[Sequence[str]], training: Iterable[str]) -> BoolArray:
    """Tell for each sentence, given as words, whether it is none of the training captions.

    Examples
    --------
    >>> novel_sentences([["a", "dog"], ["two", "dogs"]], training=["A dog."]).tolist()
    [False, True]
    """
    if isinstance(training, str):
        raise DatasetError("training captions: a list of sentences is needed, not one text")
    known = {tuple(words(caption)) for caption in training}
    if not known:
        raise DatasetError("training captions: there are none, so that no sentence could be known")
    return np.array([tuple(sentence) not in known for sentence in sentences], dtype=bool)


@dataclass(frozen=True, eq=False)
class Diversity:
    """How diverse the candidates are: as a whole, and without each of them.

    Attributes
    ----------
    value
        The diversity of all.
    without
        (candidates,) the diversity of all but one.
    """

    value: float
    without: FloatArray

    @property
    def statistic(self) -> Statistic:
        """The diversity as a statistic over photos: the mean of the drawn photos' pseudo-values, centred on `value`."""
        added = (len(self.without) - 1) * (self.value - self.without)
        return mean_of(self.value + added - added.mean())


def distinct_share(captions: CaptionSet, n: int) -> Diversity:
    """Distinct n-grams of the candidates over all of them, as a share of 1; 0 where none is long enough.

    Examples
    --------
    >>> from deixis.evaluation.captions.coded import caption_set
    >>> found = distinct_share(caption_set({"1": "a dog", "2": "a cat"}, {"1": ["a"], "2": ["b"]}), 1)
    >>> found.value, found.without.tolist()
    (0.75, [1.0, 1.0])
    """
    grams, photos = captions.ngrams[n - 1], len(captions.photos)
    upto = np.searchsorted(grams.sentence, photos)
    sentence, gram = grams.sentence[:upto], grams.gram[:upto]
    having = np.bincount(gram, minlength=grams.kinds)
    kinds, own_kinds = np.count_nonzero(having), summed(sentence, having[gram] == 1, photos)
    own_total = summed(sentence, grams.count[:upto], photos)
    total = own_total.sum()
    return Diversity(float(kinds / max(1, total)), (kinds - own_kinds) / np.maximum(1, total - own_total))


def distinct_sentences(captions: CaptionSet) -> Diversity:
    """How many different sentences the candidates are.

    Examples
    --------
    >>> from deixis.evaluation.captions.coded import caption_set
    >>> distinct_sentences(caption_set({"1": "A dog.", "2": "a dog"}, {"1": ["a"], "2": ["b"]})).value
    1.0
    """
    times = Counter(map(tuple, captions.candidates))
    alone = np.array([times[tuple(sentence)] == 1 for sentence in captions.candidates], dtype=np.float64)
    return Diversity(float(len(times)), len(times) - alone)
