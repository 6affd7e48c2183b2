"""The m-RNN network for generating one word at a time, with everything that depends on the word alone precomputed.

Once a word is chosen, what its embeddings contribute to the recurrent and to the multimodal layer are rows of tables.
What remains of a step are two products with the state, the attention and the softmax.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from deixis.models.m_rnn.decoding import BeamRows
from deixis.models.m_rnn.network import (
    TANH_INNER,
    TANH_OUTER,
    CellAttention,
    GatedRecurrence,
    MRNNNetwork,
    State,
    VisualContext,
    require_cells,
)


class FastMRNN:
    """Computes what its network computes, in less than half the time.

    The weights of the network are copied: make another one when they have changed.

    Examples
    --------
    >>> from deixis.models.m_rnn.spec import MRNNSettings
    >>> network = MRNNNetwork(8, 10, MRNNSettings()).eval()
    >>> fast, words = FastMRNN(network), torch.tensor([4, 7, 1, 1])
    >>> with torch.inference_mode():
    ...     context = fast.visual_context(torch.ones(2, 8))
    ...     log_p, state = fast.step(context, words, fast.initial_state(4), BeamRows(photos=2, width=2))
    >>> log_p.shape
    torch.Size([4, 12])
    """

    @torch.inference_mode()
    def __init__(self, network: MRNNNetwork) -> None:
        self.unknown, self.end, self.start = network.unknown, network.end, network.start
        self._network = network
        self._cell = network.settings.recurrent_cell
        first = network.first.weight
        second = first if network.second is None else network.second(first)
        language = network.from_state.bias.expand(len(first), -1)
        if network.from_word is not None:
            language = language + network.from_word(
                first if network.settings.multimodal_word_input == "first" else second
            )
        # The factors of the scaled tanh are in the weights before and after it. All weights are stored transposed:
        # products of a few rows with them are twice as fast.
        language, from_state = TANH_INNER * language, [TANH_INNER * network.from_state.weight]
        self._sizes = [network.settings.multimodal_dim]
        if network.attention is not None:
            head_size = network.settings.attention_dim // network.settings.attention_heads
            from_state.append(network.attention.to_query.weight / head_size**0.5)
            self._sizes.append(network.settings.attention_dim)
            self._from_values = TANH_INNER * network.attention.from_values.weight.T.contiguous()
            self._to_cells, mean_value = _cell_weights(network, network.attention)
            language = language - mean_value @ self._from_values
        # Queries depend on the state only.
        self._language = functional.pad(language, (0, sum(self._sizes[1:])))
        self._from_state = torch.cat(from_state).T.contiguous()
        self._inputs, self._from_word, recurrent, self._state_bias = _recurrent_weights(network, second)
        self._recurrent = recurrent.T.contiguous()
        weight = network.output_weight
        if network.to_embedding is not None:
            self._to_embedding = TANH_OUTER * network.to_embedding.weight.T.contiguous()
        else:
            weight = TANH_OUTER * weight
        self._to_words, self._word_bias = weight.T.contiguous(), network.word_bias.clone()

    def initial_state(self, rows: int) -> State:
        """The state before the first word."""
        return self._network.initial_state(rows)

    def visual_context(self, photos: Tensor, cells: Tensor | None = None) -> VisualContext:
        """As `MRNNNetwork.visual_context`, for `step`; keys are (n, heads, size, k)."""
        multimodal, words = self._network.image_terms(photos)
        if words is not None:
            if self._network.from_word is not None and self._network.settings.multimodal_word_input == "second":
                language = self._network.from_word(words)
                multimodal = language if multimodal is None else multimodal + language
            words = words if self._cell == "relu" else functional.linear(words, self._from_word)
        multimodal = None if multimodal is None else TANH_INNER * multimodal
        if self._network.attention is None:
            return VisualContext(multimodal, words)
        heads = self._network.settings.attention_heads
        both = require_cells(cells) @ self._to_cells
        both = both.view(*both.shape[:2], 2, heads, -1)
        keys, values = both.permute(2, 0, 3, 4, 1)[0], both.permute(2, 0, 3, 1, 4)[1]
        return VisualContext(multimodal, words, keys.contiguous(), values.contiguous())

    def step(self, context: VisualContext, words: Tensor, state: State, rows: BeamRows) -> tuple[Tensor, State]:
        """Log-probabilities (rows, known words, unknown word, end token) of the next word, and the state after `words`.

        `context` has a row per photo, `words` is the last word of each sentence, and `rows` says which photo it belongs
        to.
        """
        word = self._inputs.index_select(0, words)
        if context.words is not None:
            word += rows.expand(context.words)
        state = self._recur(word, state)
        language = self._language.index_select(0, words).addmm_(state[0], self._from_state)
        multimodal, *queries = language.split_with_sizes(self._sizes, 1)
        if context.multimodal is not None:
            multimodal += rows.expand(context.multimodal)
        if queries:
            multimodal.addmm_(self._attend(context, queries[0], rows), self._from_values)
        return self._log_softmax(multimodal), state

    def _attend(self, context: VisualContext, queries: Tensor, rows: BeamRows) -> Tensor:
        assert context.keys is not None and context.values is not None  # noqa: S101, PT018 - the network has attention
        photos, heads, size, _ = context.keys.shape
        grouped = rows.group(queries).view(photos, -1, heads, size).transpose(1, 2)
        weights = grouped.reshape(photos * heads, -1, size).bmm(context.keys.flatten(0, 1)).softmax(-1)
        attended = weights.bmm(context.values.flatten(0, 1)).view(photos, heads, -1, size).transpose(1, 2)
        return rows.ungroup(attended.reshape(photos, -1, heads * size))

    def _log_softmax(self, multimodal: Tensor) -> Tensor:
        features = multimodal.tanh_()
        if self._network.to_embedding is not None:
            features = features @ self._to_embedding
        return torch.addmm(self._word_bias, features, self._to_words).log_softmax(-1)

    def _recur(self, word: Tensor, state: State) -> State:
        """The state after a word; its first part is the layer's output."""
        if self._cell == "relu":
            return (word.addmm_(state[0], self._recurrent).relu_(),)
        size = state[0].shape[1]
        if self._cell == "lstm":
            gates, candidate = word.addmm_(state[0], self._recurrent).split_with_sizes([3 * size, size], 1)
            input_gate, forget_gate, output_gate = gates.sigmoid_().chunk(3, 1)
            cell = (forget_gate * state[1]).addcmul_(input_gate, candidate.tanh_())
            return cell.tanh().mul_(output_gate), cell
        hidden = torch.addmm(self._state_bias, state[0], self._recurrent)
        reset, update = (word[:, : 2 * size] + hidden[:, : 2 * size]).sigmoid_().chunk(2, 1)
        candidate = torch.addcmul(word[:, 2 * size :], reset, hidden[:, 2 * size :]).tanh_()
        return (candidate + update * (state[0] - candidate),)


def _cell_weights(network: MRNNNetwork, attention: CellAttention) -> tuple[Tensor, Tensor]:
    """Weights of keys and values for cells that are not centred, and the value of the mean cell.

    The mean shifts all keys of a query alike, which the softmax ignores, and all values alike, which is corrected once
    for all words.
    """
    weight = torch.cat([attention.to_key.weight, attention.to_value.weight])
    if not network.settings.standardize_images:
        return weight.T.contiguous(), weight.new_zeros(len(weight) // 2)
    weight = weight / network.cell_scale
    return weight.T.contiguous(), weight.chunk(2)[1] @ network.cell_mean


def _recurrent_weights(network: MRNNNetwork, second: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The input of each word to the recurrent layer, the weights of words and of the state, and the state's bias.

    The gates of an LSTM are reordered: input, forget, output, candidate.
    """
    layer = network.recurrent
    if not isinstance(layer, GatedRecurrence):
        return second.contiguous(), second.new_zeros(0), layer.weight, second.new_zeros(0)
    from_word, from_state, word_bias, state_bias = (
        getattr(layer.layer, name) for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    )
    if network.settings.recurrent_cell == "gru":
        return functional.linear(second, from_word, word_bias), from_word, from_state, state_bias
    input_gate, forget_gate, candidate, output_gate = torch.arange(len(word_bias), device=word_bias.device).chunk(4)
    order = torch.cat([input_gate, forget_gate, output_gate, candidate])
    from_word, from_state, bias = from_word[order], from_state[order], (word_bias + state_bias)[order]
    return functional.linear(second, from_word, bias), from_word, from_state, state_bias
