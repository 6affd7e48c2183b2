"""Retrieval (section 5, eq. 7): log P(w | I) of every sentence for every photo.

What a network predicts after *a man in a* is the same for all sentences that start so. Sentences become a tree of their
prefixes: the language part is computed once per prefix and serves all photos, and the softmax, which costs most, is
computed once per prefix and photo.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deixis.models.m_rnn.network import MRNNNetwork, State, VisualContext

IntArray = NDArray[np.int64]

_ROWS_PER_BLOCK = {"cpu": 1024, "cuda": 131_072}
"""Prefixes times photos per softmax: with 2,500 words 10 MB on a CPU, which its cache holds."""


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


def read_prefixes(network: MRNNNetwork, tree: PrefixTree, added: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """V_w · w + V_r · r, and r, after each prefix; `added` (1, dim) is what a photo adds to embedding II."""
    device = network.word_bias.device
    words = torch.from_numpy(tree.word).to(device)
    parents = torch.from_numpy(tree.parent).to(device)
    language, states = [], []
    previous: State = network.initial_state(1)
    previous_start = 0
    for start, stop in zip(tree.starts[:-1].tolist(), tree.starts[1:].tolist(), strict=True):
        state = previous if start == 0 else tuple(part[parents[start:stop] - previous_start] for part in previous)
        expanded = None if added is None else added.expand(stop - start, -1)
        level, level_states, previous = network.read_words(words[start:stop, None], state, expanded)
        language.append(level[:, 0])
        states.append(level_states[:, 0])
        previous_start = start
    return torch.cat(language), torch.cat(states)


@torch.inference_mode()
def log_probability_matrix(
    network: MRNNNetwork,
    context: VisualContext,
    photos: int,
    tree: PrefixTree,
    prefixes: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Compute log P(w | I), photos × sentences, with a network in eval mode.

    `prefixes` is what `read_prefixes` gave, to use it again, if the language part does not depend on the image.
    """
    device = network.word_bias.device
    step, sentence = (torch.from_numpy(part).to(device) for part in (tree.step, tree.sentence))
    if network.language_ignores_image and prefixes is None:
        prefixes = read_prefixes(network, tree)
    # One photo at a time if the language part depends on it, and few if attention has many cells.
    together = (16 if context.values is not None else 256) if network.language_ignores_image else 1
    totals = network.word_bias.new_zeros(photos, tree.count)
    for start in range(0, photos, together):
        some = context.take(slice(start, start + together))
        read = read_prefixes(network, tree, some.words) if prefixes is None else prefixes
        log_p = _step_log_probabilities(network, some, min(together, photos - start), tree, *read)
        totals[start : start + together].index_add_(1, sentence, log_p[:, step])
    return totals


def _step_log_probabilities(
    network: MRNNNetwork, context: VisualContext, photos: int, tree: PrefixTree, language: Tensor, states: Tensor
) -> Tensor:
    """Log-probability of each step for each photo: (photos, steps)."""
    log_p = language.new_empty(photos, len(tree.origin))
    next_word = torch.from_numpy(tree.next_word).to(language.device)
    origin = torch.from_numpy(tree.origin).to(language.device)
    block = max(1, _ROWS_PER_BLOCK.get(language.device.type, 1024) // photos)
    # Allocated once: allocating it for each block costs as much as the softmax.
    buffer = language.new_empty(block * photos, len(network.word_bias))
    for start in range(0, len(tree), block):
        first, stop = np.searchsorted(tree.origin, [start, start + block]).tolist()
        rows, steps = slice(start, start + block), origin[first:stop] - start
        multimodal = network.multimodal_layer(language[None, rows], states[None, rows], context)
        features = network.output_features(multimodal)
        logits = torch.addmm(
            network.word_bias,
            features.flatten(0, 1),
            network.output_weight.T,
            out=buffer[: features.shape[0] * features.shape[1]],
        )
        highest = logits.amax(1, keepdim=True)
        chosen = logits.view(*features.shape[:2], -1)[:, steps, next_word[first:stop]]
        log_sums = highest[:, 0] + logits.sub_(highest).exp_().sum(1).log_()
        log_p[:, first:stop] = chosen - log_sums.view(features.shape[:2])[:, steps]
    return log_p
