"""The same network for writing a word at a time: what follows from a word alone is looked up and not computed.

After a word has been chosen, its embeddings, what they add to the multimodal layer and what they add to the gates of a
recurrent layer are rows of tables. What is left is one product with the state and the softmax.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from deixis.models.m_rnn import MRNNNetwork, Seen, scaled_tanh
from deixis.models.m_rnn_cells import GatedRecurrence, State


class QuickMRNN:
    """Writes as its network does, in about half the time; for networks whose language part knows nothing of the photo.

    Its state is its own: what the recurrent layer will add to the next word, and with gates what these act on.

    Parameters
    ----------
    network
        Its weights are copied: when they change, this must be made anew.

    Examples
    --------
    >>> from deixis.models.m_rnn import MRNNSettings
    >>> network = MRNNNetwork(8, 10, MRNNSettings()).eval()
    >>> quick, seen, words = QuickMRNN(network), network.see(torch.ones(2, 8)), torch.tensor([4, 7])
    >>> with torch.inference_mode():
    ...     ours, theirs = (each.next_words(seen, words, each.first_state(2))[0] for each in (quick, network))
    >>> bool(torch.allclose(ours, theirs, atol=1e-5))
    True
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
        self._spoken = spoken.contiguous()
        self._inputs, recurrent, self._bias = _recurrent_parts(network, second)
        self._size = len(recurrent)
        self._from_state = torch.cat([recurrent, network.from_state.weight]).T.contiguous()
        written = network.word_bias
        weight = first[: len(written)] if network.to_words is None else network.to_words.weight
        # Some rows times this are twice as fast as times the weights as they are stored.
        self._to_words, self._word_bias = weight.T.contiguous(), written.clone()

    def first_state(self, rows: int) -> State:
        """The state before any word."""
        added = self._bias.expand(rows, -1)
        size = self._network.settings.recurrent_size
        return (added,) if self._kind == "relu" else (added, added.new_zeros(rows, size))

    def next_words(self, seen: Seen, words: Tensor, state: State) -> tuple[Tensor, State]:
        """Log-probabilities of what follows one word for each row, (n, words, unknown and end)."""
        now, kept = self._recur(functional.embedding(words, self._inputs), state)
        products = now @ self._from_state
        added, language = (
            products[:, : self._size],
            products[:, self._size :] + functional.embedding(words, self._spoken),
        )
        if seen.cells is not None:
            multimodal = self._network.join(language[:, None], now[:, None], seen)[:, 0]
        else:
            multimodal = scaled_tanh(language if seen.multimodal is None else language + seen.multimodal)
        if self._network.to_embedding is not None:
            multimodal = self._network.to_embedding(multimodal)
        likely = torch.addmm(self._word_bias, multimodal, self._to_words).log_softmax(-1)
        return likely, (added, *kept) if self._kind == "relu" else (added + self._bias, *kept)

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


def _recurrent_parts(network: MRNNNetwork, second: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What each word adds to the recurrent layer, by which the state is multiplied for the same, and its bias."""
    layer = network.recurrent
    if not isinstance(layer, GatedRecurrence):
        return second.contiguous(), layer.weight, second.new_zeros(len(layer.weight))
    from_word, from_state, word_bias, state_bias = (
        getattr(layer.layer, name) for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    )
    return functional.linear(second, from_word, word_bias), from_state, state_bias
