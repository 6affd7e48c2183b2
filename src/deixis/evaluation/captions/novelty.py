"""How much of what a captioner says is its own: novel sentences and diversity.

`novel` is the share of generated sentences that are no training caption once both are tokenised (m-RNN counts 71 % on
COCO). *distinct-n* (Li et al. 2016) is the number of distinct n-grams of all generated sentences over the number of
all their n-grams.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from deixis.errors import DatasetError
from deixis.evaluation.captions.arrays import BoolArray, distinct
from deixis.evaluation.captions.coded import CaptionSet
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


def distinct_share(captions: CaptionSet, n: int) -> float:
    """Distinct n-grams of the candidates over all of them, as a share of 1; 0 where none is long enough.

    Examples
    --------
    >>> from deixis.evaluation.captions.coded import caption_set
    >>> distinct_share(caption_set({"1": "a dog", "2": "a cat"}, {"1": ["a"], "2": ["b"]}), 1)
    0.75
    """
    grams = captions.ngrams[n - 1]
    upto = np.searchsorted(grams.sentence, len(captions.photos))
    return len(distinct(grams.gram[:upto])) / max(1, int(grams.count[:upto].sum()))
