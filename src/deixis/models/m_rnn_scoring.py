"""log P(w | I) of every sentence for every photo, each beginning of a sentence being read once.

What a network expects after *a man in a* is the same for all sentences that begin so. The sentences become a tree of
their beginnings; the language part is computed once for each of these and serves all photos, and the softmax, which
costs most, is taken once for each beginning and photo.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deixis.models.m_rnn import MRNNNetwork, Seen
from deixis.models.m_rnn_cells import State

Numbers = NDArray[np.int64]

ROWS_AT_A_TIME = {"cpu": 1024, "cuda": 131_072}
"""Beginnings times photos whose softmax is taken at once: with 2,500 words 10 MB on a processor, for its cache."""


@dataclass(frozen=True)
class Beginnings:
    """Sentences as a tree of their beginnings. The first beginning has no words; parents come before children.

    Attributes
    ----------
    parent, word
        For each beginning the one that is a word shorter, and its last word; for the first 0 and the start sign.
    starts
        Where the beginnings of each length begin, and the end.
    of, next_word
        For each step, a beginning and a word that some sentence goes on with: sorted by beginning.
    step, sentence
        For each word of each sentence, end signs included: the step that it is, and the sentence.
    count
        How many sentences there are.
    """

    parent: Numbers
    word: Numbers
    starts: Numbers
    of: Numbers
    next_word: Numbers
    step: Numbers
    sentence: Numbers
    count: int

    def __len__(self) -> int:
        return len(self.parent)


def beginnings(words: Numbers, lengths: Numbers, *, start: int, end: int) -> Beginnings:
    """The tree of sentences.

    Parameters
    ----------
    words, lengths
        (n, longest) and (n,): the numbers of words, and how many there are.
    start, end
        The signs.

    Examples
    --------
    >>> tree = beginnings(np.array([[4, 7], [4, 5], [4, 9]]), np.array([2, 2, 1]), start=11, end=10)
    >>> len(tree), tree.word.tolist(), tree.starts.tolist()
    (4, [11, 4, 5, 7], [0, 1, 2, 4])
    >>> len(tree.of), len(tree.step)
    (6, 8)
    """
    count, longest = words.shape
    at = np.zeros(count, dtype=np.int64)  # the beginning that each sentence has reached
    parent, word, starts = [np.zeros(1, dtype=np.int64)], [np.array([start])], [0, 1]
    origin, target, sentence = [], [], []
    kinds = max(start, end) + 1
    for place in range(longest + 1):
        there = np.flatnonzero(lengths >= place)
        written = words[there, place] if place < longest else np.full(len(there), end)
        written = np.where(lengths[there] == place, end, written)
        origin.append(at[there])
        target.append(written)
        sentence.append(there)
        goes_on = written != end
        keys, reached = np.unique(at[there][goes_on] * kinds + written[goes_on], return_inverse=True)
        if not len(keys):
            break
        at[there[goes_on]] = starts[-1] + reached
        parent.append(keys // kinds)
        word.append(keys % kinds)
        starts.append(starts[-1] + len(keys))
    steps, step = np.unique(np.concatenate(origin) * kinds + np.concatenate(target), return_inverse=True)
    return Beginnings(
        parent=np.concatenate(parent),
        word=np.concatenate(word),
        starts=np.array(starts),
        of=steps // kinds,
        next_word=steps % kinds,
        step=step,
        sentence=np.concatenate(sentence),
        count=count,
    )


def read_beginnings(network: MRNNNetwork, tree: Beginnings, added: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """What language alone gives for each beginning: V_w · w + V_r · r, and r.

    Parameters
    ----------
    network
        In `eval` mode.
    tree
        The beginnings.
    added
        (1, second_embedding): what a photo adds to embedding II, for networks whose language part sees it.
    """
    device = network.word_bias.device
    words = torch.from_numpy(tree.word).to(device)
    parents = torch.from_numpy(tree.parent).to(device)
    language, states = [], []
    before: State = network.first_state(1)
    first_of_level_before = 0
    for begin, stop in zip(tree.starts[:-1].tolist(), tree.starts[1:].tolist(), strict=True):
        state = before if begin == 0 else tuple(part[parents[begin:stop] - first_of_level_before] for part in before)
        wide = None if added is None else added.expand(stop - begin, -1)
        spoken, after, before = network.read(words[begin:stop, None], state, wide)
        language.append(spoken[:, 0])
        states.append(after[:, 0])
        first_of_level_before = begin
    return torch.cat(language), torch.cat(states)


@torch.inference_mode()
def log_probability_matrix(
    network: MRNNNetwork, seen: Seen, photos: int, tree: Beginnings, read: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """Compute log P(w | I): a row for each photo and a column for each sentence, in natural logarithms.

    Parameters
    ----------
    network
        In `eval` mode.
    seen
        What it has made of the photos.
    photos
        How many there are.
    tree
        The sentences.
    read
        What `read_beginnings` gave, to be used again; needed only where language is alone.
    """
    device = network.word_bias.device
    step, sentence = (torch.from_numpy(part).to(device) for part in (tree.step, tree.sentence))
    if network.language_alone and read is None:
        read = read_beginnings(network, tree)
    # A photo at a time where the language part sees it, or where attention looks at many cells.
    together = max(1, 16 if seen.values is not None else 256) if network.language_alone else 1
    totals = network.word_bias.new_zeros(photos, tree.count)
    for begin in range(0, photos, together):
        some = seen.take(slice(begin, begin + together))
        spoken = read_beginnings(network, tree, some.words) if read is None else read
        likely = _steps(network, some, min(together, photos - begin), tree, *spoken)
        totals[begin : begin + together].index_add_(1, sentence, likely[:, step])
    return totals


def _steps(network: MRNNNetwork, seen: Seen, photos: int, tree: Beginnings, language: Tensor, states: Tensor) -> Tensor:
    """The log-probability of each step for each photo: (photos, steps)."""
    found = language.new_empty(photos, len(tree.of))
    next_word = torch.from_numpy(tree.next_word).to(language.device)
    of = torch.from_numpy(tree.of).to(language.device)
    block = max(1, ROWS_AT_A_TIME.get(language.device.type, 1024) // photos)
    # Room that is taken once: to ask for it again and again costs as much as the softmax.
    room = language.new_empty(block * photos, len(network.word_bias))
    for begin in range(0, len(tree), block):
        first, stop = np.searchsorted(tree.of, [begin, begin + block]).tolist()
        rows, steps = slice(begin, begin + block), of[first:stop] - begin
        shown = network.before_words(network.join(language[None, rows], states[None, rows], seen))
        logits = torch.addmm(
            network.word_bias, shown.flatten(0, 1), network.words_weight.T, out=room[: shown.shape[0] * shown.shape[1]]
        )
        highest = logits.amax(1, keepdim=True)
        chosen = logits.view(*shown.shape[:2], -1)[:, steps, next_word[first:stop]]
        whole = highest[:, 0] + logits.sub_(highest).exp_().sum(1).log_()
        found[:, first:stop] = chosen - whole.view(shown.shape[:2])[:, steps]
    return found
