"""Retrieval (section 5, eq. 7): log P(w | I) of every sentence for every photo.

What a network predicts after *a man in a* is the same for all sentences that start so. Sentences become a tree of their
prefixes: the language part is computed once per prefix and serves all photos, and the softmax, which costs most, is
computed once per prefix and photo.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats, IntArray
from deixis.models.m_rnn.decoding import Context, take_photos
from deixis.runtime.devices import cpu_threads

if TYPE_CHECKING:
    from deixis.models.m_rnn.model import WordSteps

ROWS_PER_BLOCK = {"cpu": 1024, "cuda": 65_536}
"""Prefixes times photos per softmax: with 2,500 words 10 MB on a CPU, which its cache holds."""

_PHOTOS_PER_BLOCK = 16


Prefixes = tuple[Floats, ...]
"""State of the network after each prefix: V_w · w + V_r · r, and r if the multimodal layer needs it too."""


@dataclass(frozen=True)
class PrefixTree:
    """Sentences as a tree of their prefixes. The first prefix is empty; parents come before children."""

    # For each prefix the one without its last word, and that word; for the empty prefix 0 and the start token.
    parent: IntArray
    word: IntArray
    # Index of the first prefix of each length, and the number of prefixes.
    starts: IntArray
    # For each step: a prefix and a word that follows it in a sentence; sorted by prefix.
    origin: IntArray
    next_word: IntArray
    # For each word of each sentence, with its end token: the step it is, and the sentence.
    step: IntArray
    sentence: IntArray
    count: int  # number of sentences

    def __len__(self) -> int:
        return len(self.parent)

    @classmethod
    def from_sentences(cls, words: IntArray, lengths: IntArray, *, start: int, end: int) -> PrefixTree:
        """Build the tree of sentences, given as padded word ids (n, length) and numbers of words (n,)."""
        count, longest = words.shape
        at = np.zeros(count, dtype=np.int64)  # the prefix that each sentence has reached
        parent, word, starts = [np.zeros(1, dtype=np.int64)], [np.array([start])], [0, 1]
        origin, target, sentence = [], [], []
        ids = max(start, end) + 1
        for position in range(longest + 1):
            there = np.flatnonzero(lengths >= position)
            following = words[there, position] if position < longest else np.full(len(there), end)
            following = np.where(lengths[there] == position, end, following)
            origin.append(at[there])
            target.append(following)
            sentence.append(there)
            continues = following != end
            keys, reached = np.unique(at[there][continues] * ids + following[continues], return_inverse=True)
            if not len(keys):
                break
            at[there[continues]] = starts[-1] + reached
            parent.append(keys // ids)
            word.append(keys % ids)
            starts.append(starts[-1] + len(keys))
        steps, step = np.unique(np.concatenate(origin) * ids + np.concatenate(target), return_inverse=True)
        return cls(
            parent=np.concatenate(parent),
            word=np.concatenate(word),
            starts=np.array(starts),
            origin=steps // ids,
            next_word=steps % ids,
            step=step,
            sentence=np.concatenate(sentence),
            count=count,
        )


def read_prefixes(words: WordSteps, tree: PrefixTree, photo: Context = ()) -> Prefixes:
    """Read each prefix; `photo` is the context of one photo, if what is read depends on it."""
    read = []
    previous, previous_start = words.initial_state(1, 1), 0
    for start, stop in zip(tree.starts[:-1].tolist(), tree.starts[1:].tolist(), strict=True):
        if start:
            previous = tuple(part[:, tree.parent[start:stop] - previous_start] for part in previous)
        level, previous = words.read_word(tree.word[None, start:stop], previous, photo)
        read.append(level)
        previous_start = start
    return tuple(np.concatenate(part, 1) for part in zip(*read, strict=True))


def log_probability_matrix(
    words: WordSteps, context: Context, photos: int, tree: PrefixTree, prefixes: Prefixes | None = None
) -> NDArray[np.float64]:
    """Compute log P(w | I), photos × sentences.

    `prefixes` is what `read_prefixes` gave, to use it again, if the language part does not depend on the image.
    """
    if prefixes is None and words.ignores_image:
        prefixes = read_prefixes(words, tree)
    if prefixes is not None and not context:  # all photos are the same
        return np.repeat(_sentence_log_probabilities(words, context, min(photos, 1), tree, prefixes), photos, 0)
    together = 1 if prefixes is None else _PHOTOS_PER_BLOCK

    def score(start: int) -> NDArray[np.float64]:
        some = take_photos(context, slice(start, start + together))
        read = prefixes or read_prefixes(words, tree, some)
        return _sentence_log_probabilities(words, some, min(together, photos - start), tree, read)

    starts = range(0, photos, together)
    with ThreadPoolExecutor(cpu_threads() if words.functions.has_sessions else 1) as threads:
        return np.concatenate([np.zeros((0, tree.count)), *threads.map(score, starts)])


def _sentence_log_probabilities(
    words: WordSteps, context: Context, photos: int, tree: PrefixTree, prefixes: Prefixes
) -> NDArray[np.float64]:
    """Log-probabilities of sentences for each photo: the sum of those of their steps."""
    steps = _step_log_probabilities(words, context, photos, tree, prefixes)
    totals = np.zeros((photos, tree.count))
    for total, row in zip(totals, steps, strict=True):
        total += np.bincount(tree.sentence, row[tree.step], tree.count)
    return totals


def _step_log_probabilities(
    words: WordSteps, context: Context, photos: int, tree: PrefixTree, prefixes: Prefixes
) -> Floats:
    """Log-probability of each step for each photo: (photos, steps)."""
    block = max(1, ROWS_PER_BLOCK.get(words.functions.device, 1024) // max(1, photos))
    found = [np.zeros((photos, 0), np.float32)]
    for start in range(0, len(tree), block) if photos else ():
        first, stop = np.searchsorted(tree.origin, [start, start + block]).tolist()
        chosen = (tree.origin[first:stop] - start) * (words.end + 1) + tree.next_word[first:stop]
        rows = slice(start, start + block)
        chosen = np.broadcast_to(chosen, (photos, len(chosen)))
        found.append(words.score_words(chosen, tuple(part[:, rows] for part in prefixes), context))
    return np.concatenate(found, 1)
