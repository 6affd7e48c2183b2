"""The same network for writing a word at a time: what follows from a word alone is looked up and not computed.

After a word has been chosen, what its embeddings add to the recurrent and to the multimodal layer are rows of tables.
What is left are two products with the state, attention and the softmax.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from deixis.models.decoding_search import Growing
from deixis.models.m_rnn import MRNNNetwork, Seen
from deixis.models.m_rnn_attention import CellAttention, needed
from deixis.models.m_rnn_cells import TANH_INNER, TANH_OUTER, GatedRecurrence, State


class QuickMRNN:
    """Writes as its network does, in less than half the time.

    Parameters
    ----------
    network
        Its weights are copied: when they change, this must be made anew.

    Examples
    --------
    >>> from deixis.models.m_rnn import MRNNSettings
    >>> network = MRNNNetwork(8, 10, MRNNSettings()).eval()
    >>> quick, words = QuickMRNN(network), torch.tensor([4, 7, 1, 1])
    >>> with torch.inference_mode():
    ...     seen = quick.see(torch.ones(2, 8))
    ...     likely, state = quick.next_words(seen, words, quick.first_state(4), Growing(photos=2, width=2))
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
        # The factors of the scaled tanh are in the weights before and after it. All are stored as they are multiplied:
        # some rows times them are twice as fast.
        spoken, from_state = TANH_INNER * spoken, [TANH_INNER * network.from_state.weight]
        self._sizes = [network.settings.multimodal_size]
        if network.attention is not None:
            width = network.settings.attention_size // network.settings.attention_heads
            from_state.append(network.attention.to_query.weight / width**0.5)
            self._sizes.append(network.settings.attention_size)
            self._from_values = TANH_INNER * network.attention.from_values.weight.T.contiguous()
            self._to_cells, usual = _cell_parts(network, network.attention)
            spoken = spoken - usual @ self._from_values
        # A word asks no questions of its own.
        self._spoken = functional.pad(spoken, (0, sum(self._sizes[1:])))
        self._from_state = torch.cat(from_state).T.contiguous()
        self._inputs, self._from_word, recurrent, self._state_bias = _recurrent_parts(network, second)
        self._recurrent = recurrent.T.contiguous()
        weight = network.words_weight
        if network.to_embedding is not None:
            self._to_embedding = TANH_OUTER * network.to_embedding.weight.T.contiguous()
        else:
            weight = TANH_OUTER * weight
        self._to_words, self._word_bias = weight.T.contiguous(), network.word_bias.clone()

    def first_state(self, rows: int) -> State:
        """The state before any word."""
        return self._network.first_state(rows)

    def see(self, photos: Tensor, cells: Tensor | None = None) -> Seen:
        """What `next_words` takes of photos: vectors (n, photo_size), and with attention their cells (n, k, cell_size).

        Keys are (n, heads, numbers, k), as the product with questions takes them best.
        """
        multimodal, words = self._network.photo_terms(photos)
        if words is not None:
            if self._network.from_word is not None and self._network.settings.word_from == "second":
                spoken = self._network.from_word(words)
                multimodal = spoken if multimodal is None else multimodal + spoken
            words = words if self._kind == "relu" else functional.linear(words, self._from_word)
        multimodal = None if multimodal is None else TANH_INNER * multimodal
        if self._network.attention is None:
            return Seen(multimodal, words)
        heads = self._network.settings.attention_heads
        both = needed(cells) @ self._to_cells
        both = both.view(*both.shape[:2], 2, heads, -1)
        keys, values = both.permute(2, 0, 3, 4, 1)[0], both.permute(2, 0, 3, 1, 4)[1]
        return Seen(multimodal, words, keys.contiguous(), values.contiguous())

    def next_words(self, seen: Seen, words: Tensor, state: State, growing: Growing) -> tuple[Tensor, State]:
        """Log-probabilities of what follows each word, (rows, words, unknown and end), and the state after it.

        Parameters
        ----------
        seen
            What `see` gave, a row for each photo.
        words
            (rows,): the last word of each sentence.
        state
            Before these words.
        growing
            Of which photos the sentences are.
        """
        word = self._inputs.index_select(0, words)
        if seen.words is not None:
            word += growing.of_photos(seen.words)
        state = self._recur(word, state)
        spoken = self._spoken.index_select(0, words).addmm_(state[0], self._from_state)
        multimodal, *questions = spoken.split_with_sizes(self._sizes, 1)
        if seen.multimodal is not None:
            multimodal += growing.of_photos(seen.multimodal)
        if questions:
            multimodal.addmm_(self._looked_at(seen, questions[0], growing), self._from_values)
        return self._written(multimodal), state

    def _looked_at(self, seen: Seen, questions: Tensor, growing: Growing) -> Tensor:
        """What attention finds for each sentence."""
        assert seen.keys is not None and seen.values is not None  # noqa: S101, PT018 - the network has attention
        photos, heads, size, _ = seen.keys.shape
        several = growing.by_photo(questions).view(photos, -1, heads, size).transpose(1, 2)
        likeness = several.reshape(photos * heads, -1, size).bmm(seen.keys.flatten(0, 1)).softmax(-1)
        found = likeness.bmm(seen.values.flatten(0, 1)).view(photos, heads, -1, size).transpose(1, 2)
        return growing.one_after_another(found.reshape(photos, -1, heads * size))

    def _written(self, multimodal: Tensor) -> Tensor:
        shown = multimodal.tanh_()
        if self._network.to_embedding is not None:
            shown = shown @ self._to_embedding
        return torch.addmm(self._word_bias, shown, self._to_words).log_softmax(-1)

    def _recur(self, word: Tensor, state: State) -> State:
        """The state after a word; what the recurrent layer shows is its first part."""
        if self._kind == "relu":
            return (word.addmm_(state[0], self._recurrent).relu_(),)
        size = state[0].shape[1]
        if self._kind == "lstm":
            gates, new = word.addmm_(state[0], self._recurrent).split_with_sizes([3 * size, size], 1)
            let_in, forget, let_out = gates.sigmoid_().chunk(3, 1)
            cell = (forget * state[1]).addcmul_(let_in, new.tanh_())
            return cell.tanh().mul_(let_out), cell
        kept = torch.addmm(self._state_bias, state[0], self._recurrent)
        reset, keep = (word[:, : 2 * size] + kept[:, : 2 * size]).sigmoid_().chunk(2, 1)
        new = torch.addcmul(word[:, 2 * size :], reset, kept[:, 2 * size :]).tanh_()
        return (new + keep * (state[0] - new),)


def _cell_parts(network: MRNNNetwork, attention: CellAttention) -> tuple[Tensor, Tensor]:
    """By what cells are multiplied to give keys and values, and what is too much in the values.

    Cells are taken as they are, not less their mean: that changes all keys of a question alike, which the softmax does
    not see, and all values alike.
    """
    weight = torch.cat([attention.to_key.weight, attention.to_value.weight])
    if not network.settings.standardise:
        return weight.T.contiguous(), weight.new_zeros(len(weight) // 2)
    weight = weight / network.cell_scale
    return weight.T.contiguous(), weight.chunk(2)[1] @ network.cell_mean


def _recurrent_parts(network: MRNNNetwork, second: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What each word adds to the recurrent layer, by which words and the state are multiplied for it, and its bias.

    The gates of an LSTM are brought into another order: those that let in, forget and let out, then what is new.
    """
    layer = network.recurrent
    if not isinstance(layer, GatedRecurrence):
        return second.contiguous(), second.new_zeros(0), layer.weight, second.new_zeros(0)
    from_word, from_state, word_bias, state_bias = (
        getattr(layer.layer, name) for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    )
    if network.settings.recurrent == "gru":
        return functional.linear(second, from_word, word_bias), from_word, from_state, state_bias
    let_in, forget, new, let_out = torch.arange(len(word_bias), device=word_bias.device).chunk(4)
    order = torch.cat([let_in, forget, let_out, new])
    from_word, from_state, bias = from_word[order], from_state[order], (word_bias + state_bias)[order]
    return functional.linear(second, from_word, bias), from_word, from_state, state_bias
