"""The same network for writing a word at a time: what follows from a word alone is looked up and not computed.

After a word has been chosen, its embeddings, what they add to the multimodal layer and what they add to the gates of a
recurrent layer are rows of tables. What is left is one product with the state, attention and the softmax.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from deixis.models.m_rnn import MRNNNetwork, Seen
from deixis.models.m_rnn_cells import TANH_INNER, TANH_OUTER, GatedRecurrence, State


class QuickMRNN:
    """Writes as its network does, in about half the time.

    Its state is its own: what the recurrent layer will add to the next word, and with gates what these act on.

    Parameters
    ----------
    network
        Its weights are copied: when they change, this must be made anew.

    Examples
    --------
    >>> from deixis.models.m_rnn import MRNNSettings
    >>> network = MRNNNetwork(8, 10, MRNNSettings()).eval()
    >>> quick, words = QuickMRNN(network), torch.tensor([[4, 7], [1, 1]])
    >>> with torch.inference_mode():
    ...     seen = quick.ready(network.see(torch.ones(2, 8)))
    ...     likely, state = quick.next_words(seen, words, quick.first_state(4))
    >>> likely.shape
    torch.Size([4, 12])
    """

    @torch.inference_mode()
    def __init__(self, network: MRNNNetwork) -> None:
        self.unknown, self.end, self.start = network.unknown, network.end, network.start
        self._network = network
        self._kind = network.settings.recurrent
        first = network.first.weight
        second = first if network.second is None else network.second(first)
        spoken = network.from_state.bias.expand(len(first), -1)
        if network.from_word is not None:
            spoken = spoken + network.from_word(first if network.settings.word_from == "first" else second)
        # The factors of the scaled tanh are in the weights before and after it.
        self._spoken = TANH_INNER * spoken
        self._inputs, self._from_word, recurrent, self._bias = _recurrent_parts(network, second)
        multiplied = [recurrent, TANH_INNER * network.from_state.weight]
        if network.attention is not None:
            width = network.settings.attention_size // network.settings.attention_heads
            multiplied.append(network.attention.to_query.weight / width**0.5)
            self._from_values = TANH_INNER * network.attention.from_values.weight.T
        self._sizes = [len(part) for part in multiplied]
        self._from_state = torch.cat(multiplied).T.contiguous()
        weight = first[: len(network.word_bias)] if network.to_words is None else network.to_words.weight
        if network.to_embedding is not None:
            self._to_embedding = TANH_OUTER * network.to_embedding.weight.T
        else:
            weight = TANH_OUTER * weight
        # Some rows times this are twice as fast as times the weights as they are stored.
        self._to_words, self._word_bias = weight.T.contiguous(), network.word_bias.clone()

    def first_state(self, rows: int) -> State:
        """The state before any word."""
        added = self._bias.expand(rows, -1)
        size = self._network.settings.recurrent_size
        return (added,) if self._kind == "relu" else (added, added.new_zeros(rows, size))

    def ready(self, seen: Seen) -> Seen:
        """What the network has made of photos, as `next_words` takes it."""
        words, multimodal = seen.words, seen.multimodal
        if words is not None:
            if self._network.from_word is not None and self._network.settings.word_from == "second":
                spoken = self._network.from_word(words)
                multimodal = spoken if multimodal is None else multimodal + spoken
            words = words if self._kind == "relu" else functional.linear(words, self._from_word)
        return replace(seen, words=words, multimodal=None if multimodal is None else TANH_INNER * multimodal)

    def next_words(self, seen: Seen, words: Tensor, state: State, alive: Tensor | None = None) -> tuple[Tensor, State]:
        """Log-probabilities of what follows each word, (rows, words, unknown and end), and the state after it.

        Parameters
        ----------
        seen
            What `ready` gave, a row for each photo.
        words
            (photos, n): the last word of each sentence.
        state
            Before these words, photos · n rows.
        alive
            (photos · n,): which rows are asked for; all where it is None. The state is that of all.
        """
        each = functional.embedding(words, self._inputs)
        if seen.words is not None:
            each = each + seen.words[:, None]
        now, kept = self._recur(each.flatten(0, 1), state)
        added, multimodal, *questions = (now @ self._from_state).split_with_sizes(self._sizes, 1)
        multimodal = multimodal.view(*words.shape, -1) + functional.embedding(words, self._spoken)
        if seen.multimodal is not None:
            multimodal = multimodal + seen.multimodal[:, None]
        if questions:
            multimodal = multimodal + self._looked_at(seen, questions[0].view(*words.shape, -1))
        multimodal = multimodal.flatten(0, 1)
        likely = self._written(multimodal if alive is None else multimodal[alive])
        return likely, (added, *kept) if self._kind == "relu" else (added + self._bias, *kept)

    def _looked_at(self, seen: Seen, questions: Tensor) -> Tensor:
        """What attention adds to the multimodal layer."""
        assert seen.keys is not None and seen.values is not None  # noqa: S101, PT018 - the network has attention
        several = questions.view(*questions.shape[:2], seen.keys.shape[1], -1).transpose(1, 2)
        found = (several @ seen.keys.mT).softmax(-1) @ seen.values
        return found.transpose(1, 2).flatten(2) @ self._from_values

    def _written(self, multimodal: Tensor) -> Tensor:
        shown = multimodal.tanh()
        if self._network.to_embedding is not None:
            shown = shown @ self._to_embedding
        return torch.addmm(self._word_bias, shown, self._to_words).log_softmax(-1)

    def _recur(self, word: Tensor, state: State) -> tuple[Tensor, State]:
        """What the recurrent layer shows, and what it keeps besides."""
        added = state[0]
        if self._kind == "relu":
            return torch.relu(word + added), ()
        if self._kind == "lstm":
            let_in, forget, new, let_out = (word + added).chunk(4, 1)
            cell = forget.sigmoid() * state[1] + let_in.sigmoid() * new.tanh()
            return let_out.sigmoid() * cell.tanh(), (cell,)
        gates = word.chunk(3, 1), added.chunk(3, 1)
        reset, keep = (torch.sigmoid(one + other) for one, other in zip(gates[0][:2], gates[1][:2], strict=True))
        now = torch.lerp(torch.tanh(gates[0][2] + reset * gates[1][2]), state[1], keep)
        return now, (now,)


def _recurrent_parts(network: MRNNNetwork, second: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What each word adds to the recurrent layer, by which words and the state are multiplied for it, and its bias."""
    layer = network.recurrent
    if not isinstance(layer, GatedRecurrence):
        return second.contiguous(), second.new_zeros(0), layer.weight, second.new_zeros(len(layer.weight))
    from_word, from_state, word_bias, state_bias = (
        getattr(layer.layer, name) for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    )
    return functional.linear(second, from_word, word_bias), from_word, from_state, state_bias
