"""The m-RNN network (section 3): the probability of a word given the words before it and a photo.

Each word passes five layers: word embeddings I and II, the recurrent layer, the multimodal layer and the softmax.
Symbols are those of the paper: w(t) word embedding II, r(t) recurrent state, I image feature, m(t) multimodal layer.

Training reads whole sentences (`MRNNNetwork.forward`), inference one word at a time (`MRNNNetwork.functions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional

from deixis.errors import DeixisError
from deixis.models.m_rnn.spec import MRNNSettings
from deixis.models.networks import TransformerBlock
from deixis.runtime import Array, Function

State = tuple[Tensor, ...]
"""State of the recurrent layer: r, or (h, c) for an LSTM. The first part is the output of the layer."""

TANH_OUTER, TANH_INNER = 1.7159, 2 / 3

_CELL_DROPOUT = 0.1
"""Dropout within the layers over cells."""


def scaled_tanh(x: Tensor) -> Tensor:
    """Eq. 4: g(x) = 1.7159 · tanh(2x / 3)."""
    return TANH_OUTER * torch.tanh(x * TANH_INNER)


class ReluRecurrence(nn.Module):
    """Eq. 2: r(t) = relu(U_r · r(t − 1) + w(t)), with r(0) = 0."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, size))  # U_r
        nn.init.orthogonal_(self.weight)

    def project(self, words: Tensor) -> Tensor:
        """What words (…, size) add to the layer."""
        return words

    def step(self, projected: Tensor, state: State) -> State:
        """The state after one more word."""
        return (torch.relu(projected + functional.linear(state[0], self.weight)),)

    def forward(self, words: Tensor, state: State) -> tuple[Tensor, State]:
        """From w (n, t, size), the states r (n, t, size) and the last state."""
        states = []
        for w in self.project(words).unbind(1):
            state = self.step(w, state)
            states.append(state[0])
        return torch.stack(states, 1), state


class GatedRecurrence(nn.Module):
    """An LSTM or a GRU instead of eq. 2."""

    def __init__(self, kind: Literal["lstm", "gru"], input_size: int, hidden_size: int) -> None:
        super().__init__()
        layer = {"lstm": nn.LSTM, "gru": nn.GRU}[kind]
        self.layer: nn.LSTM | nn.GRU = layer(input_size, hidden_size, batch_first=True)

    def project(self, words: Tensor) -> Tensor:
        """What words (…, input_size) add to the gates."""
        weight, _, bias, state_bias = self._weights
        return functional.linear(words, weight, bias + state_bias if isinstance(self.layer, nn.LSTM) else bias)

    def step(self, projected: Tensor, state: State) -> State:
        """The state after one more word: the equations that `torch.nn.LSTM` and `torch.nn.GRU` state."""
        _, weight, _, bias = self._weights
        if isinstance(self.layer, nn.LSTM):
            gates = projected + functional.linear(state[0], weight)
            input_gate, forget_gate, candidate, output_gate = gates.chunk(4, -1)
            cell = forget_gate.sigmoid() * state[1] + input_gate.sigmoid() * candidate.tanh()
            return output_gate.sigmoid() * cell.tanh(), cell
        hidden = functional.linear(state[0], weight, bias)
        both = 2 * self.layer.hidden_size
        reset, update = (projected[..., :both] + hidden[..., :both]).sigmoid().chunk(2, -1)
        candidate = (projected[..., both:] + reset * hidden[..., both:]).tanh()
        return (candidate + update * (state[0] - candidate),)

    @property
    def _weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Weights of words and of the state, and their biases."""
        layer: Any = self.layer
        return layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0

    def forward(self, words: Tensor, state: State) -> tuple[Tensor, State]:
        """From w (n, t, input_size), the states (n, t, hidden_size) and the last state."""
        first = tuple(part[None].contiguous() for part in state)
        initial: Any = first if isinstance(self.layer, nn.LSTM) else first[0]
        states, last = self.layer(words, initial)
        return states, tuple(part[0] for part in (last if isinstance(last, tuple) else (last,)))


class CellEncoder(nn.Module):
    """Keys and values of the cells of a feature map, optionally after transformer layers over all cells of a photo."""

    def __init__(self, cell_size: int, settings: MRNNSettings) -> None:
        super().__init__()
        self.heads, self.head_size = settings.attention_heads, settings.attention_dim // settings.attention_heads
        width = settings.cell_dim if settings.cell_layers else cell_size
        self.project = nn.Linear(cell_size, width) if settings.cell_layers else None
        self.layers = nn.ModuleList(
            TransformerBlock(width, _CELL_DROPOUT, expansion=2) for _ in range(settings.cell_layers)
        )
        self.norm = nn.LayerNorm(width) if settings.cell_layers else None
        self.to_key = nn.Linear(width, settings.attention_dim, bias=False)
        self.to_value = nn.Linear(width, settings.attention_dim, bias=False)

    def forward(self, cells: Tensor) -> tuple[Tensor, Tensor]:
        """From cells (n, k, cell_size), keys (n, heads, head_size, k) and values (n, heads, k, head_size)."""
        if self.project is not None and self.norm is not None:
            cells = self.project(cells)
            for layer in self.layers:
                cells = layer(cells)
            cells = self.norm(cells)
        keys, values = (_split_heads(part(cells), self.heads, self.head_size) for part in (self.to_key, self.to_value))
        return keys.transpose(2, 3), values


class CellAttention(nn.Module):
    """Multi-head dot-product attention over the cells of a feature map, whose keys and values are given."""

    def __init__(self, query_size: int, settings: MRNNSettings) -> None:
        super().__init__()
        self.heads, self.head_size = settings.attention_heads, settings.attention_dim // settings.attention_heads
        self.to_query = nn.Linear(query_size, settings.attention_dim, bias=False)
        self.from_values = nn.Linear(settings.attention_dim, settings.multimodal_dim, bias=False)

    def forward(self, rows: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """From rows (n, t, query_size), the attended values (n, t, multimodal_dim)."""
        queries = _split_heads(self.to_query(rows), self.heads, self.head_size) * self.head_size**-0.5
        attended = ((queries @ keys).softmax(-1) @ values).transpose(1, 2)
        joined = attended.reshape(attended.shape[0], attended.shape[1], self.heads * self.head_size)
        return self.from_values(joined)  # type: ignore[no-any-return]


def _split_heads(rows: Tensor, heads: int, head_size: int) -> Tensor:
    """(n, t, heads · head_size) as (n, heads, t, head_size)."""
    return rows.view(rows.shape[0], rows.shape[1], heads, head_size).transpose(1, 2)  # n may be 0


def require_cells(cells: Tensor | None) -> Tensor:
    if cells is None:
        raise DeixisError("attention=true: needs the cells of feature maps; vectors alone are not enough")
    return cells


@dataclass(frozen=True)
class VisualContext:
    """What photos contribute to every word: computed once per photo, one row each; None for unused inputs."""

    multimodal: Tensor | None = None  # V_I · I (n, multimodal_dim), an input of the multimodal layer
    words: Tensor | None = None  # (n, second_embedding_dim), added to word embedding II
    keys: Tensor | None = None  # (n, heads, head_size, cells), of the attention
    values: Tensor | None = None  # (n, heads, cells, head_size)

    def take(self, rows: Tensor | slice) -> Self:
        return self._map(lambda part: part[rows])

    def repeat(self, times: int) -> Self:
        """Each photo this number of times in a row."""
        return self._map(lambda part: part.repeat_interleave(times, 0))

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        return replace(self, **{name: change(part) for name, part in vars(self).items() if part is not None})


class MRNNNetwork(nn.Module):
    """The network of Fig. 2(b).

    Word ids are those of the vocabulary, followed by the unknown word, the end token and the start token. The start
    token is never generated and the end token never read, so padding after the end of a sentence has no effect.
    `photo_size` is the size of the image feature I, `cell_size` that of a cell of a feature map, with attention.
    """

    photo_mean: Tensor
    photo_scale: Tensor
    cell_mean: Tensor
    cell_scale: Tensor

    def __init__(self, photo_size: int, vocabulary_size: int, settings: MRNNSettings, cell_size: int = 0) -> None:
        super().__init__()
        if settings.attention and not cell_size:
            raise DeixisError("attention=true: needs the cells of feature maps, and there are none")
        self.settings = settings
        self.unknown, self.end, self.start = (vocabulary_size + offset for offset in range(3))
        second, multimodal = settings.second_embedding_dim, settings.multimodal_dim
        first = second if settings.single_embedding else settings.first_embedding_dim
        self.first = nn.Embedding(vocabulary_size + 3, first)  # embedding I
        self.second = None if settings.single_embedding else nn.Linear(first, second)  # embedding II
        self.recurrent: ReluRecurrence | GatedRecurrence
        if settings.recurrent_cell == "relu":
            self.recurrent = ReluRecurrence(settings.hidden_size)
        else:
            self.recurrent = GatedRecurrence(settings.recurrent_cell, second, settings.hidden_size)
        self.from_word: nn.Linear | None = None  # V_w
        if settings.multimodal_word_input != "none":
            word_dim = first if settings.multimodal_word_input == "first" else second
            self.from_word = nn.Linear(word_dim, multimodal, bias=False)
        self.from_state = nn.Linear(settings.hidden_size, multimodal)  # V_r
        self.from_photo: nn.Linear | None = None  # V_I
        self.photo_to_word: nn.Linear | None = None
        if settings.refines_images:
            self.from_photo = nn.Linear(photo_size, multimodal, bias=False)
        if settings.image_input in ("recurrent", "both"):
            self.photo_to_word = nn.Linear(photo_size, second, bias=False)
        self.cells: CellEncoder | None = None
        self.attention: CellAttention | None = None
        self.second_attention: CellAttention | None = None
        if settings.attention:
            self.cells = CellEncoder(cell_size, settings)
            self.attention = CellAttention(settings.hidden_size, settings)
        if settings.second_attention:
            self.second_attention = CellAttention(multimodal, settings)
        outputs = vocabulary_size + 2
        has_bias = settings.tied_projection == "relu"
        self.to_embedding = nn.Linear(multimodal, first, bias=has_bias) if settings.tie_word_weights else None
        self.to_words = None if settings.tie_word_weights else nn.Linear(multimodal, outputs, bias=False)
        self.word_bias = nn.Parameter(torch.zeros(outputs))
        self.dropout = nn.Dropout(settings.dropout)
        for name, size in (("photo", photo_size), ("cell", cell_size)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_scale", torch.ones(size))
        self._initialize()

    def _initialize(self) -> None:
        """Glorot initialization of layers; word embeddings of about unit length.

        Transformer layers and the second attention add nothing before training.
        """
        for name, part in self.named_modules():
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                if part.bias is not None:
                    nn.init.zeros_(part.bias)
            elif name == "first":
                nn.init.normal_(self.first.weight, std=self.first.embedding_dim**-0.5)
        if self.photo_to_word is not None:
            # Image features are about 1 each: with the usual gain they would dominate the word embeddings.
            nn.init.xavier_uniform_(self.photo_to_word.weight, gain=self.photo_to_word.in_features**-0.5)
        for part in self.modules():
            if isinstance(part, TransformerBlock):
                nn.init.zeros_(part.self_attn.out_proj.weight)
                nn.init.zeros_(part.linear2.weight)
        if self.second_attention is not None:
            nn.init.zeros_(self.second_attention.from_values.weight)

    @torch.no_grad()
    def set_statistics(self, name: Literal["photo", "cell"], mean: ArrayLike, scale: ArrayLike) -> None:
        """Set what features of photos or cells are standardized by."""
        getattr(self, f"{name}_mean").copy_(torch.as_tensor(mean))
        getattr(self, f"{name}_scale").copy_(torch.as_tensor(scale))

    # The image

    def visual_context(self, photos: Tensor, cells: Tensor | None = None) -> VisualContext:
        """From vectors I (n, photo_size), and with attention cells (n, k, cell_size), what every word needs of them."""
        multimodal, words = self.image_terms(photos)
        if self.cells is None:
            return VisualContext(multimodal, words)
        cells = require_cells(cells)
        if self.settings.standardize_images:
            cells = (cells - self.cell_mean) / self.cell_scale
        return VisualContext(multimodal, words, *self.cells(self.dropout(cells)))

    def image_terms(self, photos: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The image's inputs to the multimodal layer, V_I · I, and to word embedding II."""
        if self.settings.standardize_images:
            photos = (photos - self.photo_mean) / self.photo_scale
        photos = self.dropout(photos)
        multimodal = None if self.from_photo is None else self.from_photo(photos)
        words = None if self.photo_to_word is None else self.photo_to_word(photos)
        if self.settings.image_input == "both-shared" and multimodal is not None:
            words = multimodal[:, : self.settings.second_embedding_dim]
        return multimodal, words

    def refine(self, photos: Tensor) -> Tensor:
        """Section 8: g(V_I · I), the refined image features (n, multimodal_dim)."""
        multimodal, _ = self.image_terms(photos)
        if multimodal is None:
            raise DeixisError(f"image_input={self.settings.image_input}: the image does not feed the multimodal layer")
        return scaled_tanh(multimodal)

    # Words

    def initial_state(self, rows: int) -> State:
        return tuple(
            self.word_bias.new_zeros(rows, self.settings.hidden_size) for _ in range(self.settings.state_parts)
        )

    def read_words(self, words: Tensor, state: State, added: Tensor | None = None) -> tuple[Tensor, Tensor, State]:
        """Embeddings and recurrent layer, from word ids (n, t) and what the image adds to embedding II.

        Gives V_w · w(t) + V_r · r(t), r(t), and the state after the last word.
        """
        first, second = self._embed(words)
        if added is not None:
            second = second + added[:, None]
        second = self.dropout(second)
        states, last = self.recurrent(second, state)
        language = self.from_state(self.dropout(states))
        if self.from_word is not None:
            language = language + self.from_word(first if self.settings.multimodal_word_input == "first" else second)
        return language, states, last

    def _embed(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Word embeddings I and II."""
        first = self.first(words)
        return first, first if self.second is None else self.second(first)

    def multimodal_layer(self, language: Tensor, states: Tensor, context: VisualContext) -> Tensor:
        """Eq. 3: m(t) = g(V_w · w(t) + V_r · r(t) + V_I · I), plus the cells that r(t) attends to.

        With a second attention, g(m(t) + the cells that m(t) attends to).
        """
        if context.multimodal is not None:
            language = language + context.multimodal[:, None]
        if self.attention is None or context.keys is None or context.values is None:
            return scaled_tanh(language)
        multimodal = scaled_tanh(language + self.attention(states, context.keys, context.values))
        if self.second_attention is None:
            return multimodal
        return scaled_tanh(multimodal + self.second_attention(multimodal, context.keys, context.values))

    def logits(self, multimodal: Tensor) -> Tensor:
        """Inputs of the softmax (…, known words, unknown word, end token) from m (…, multimodal_dim)."""
        return functional.linear(self.output_features(multimodal), self.output_weight, self.word_bias)

    def output_features(self, multimodal: Tensor) -> Tensor:
        """What `output_weight` is multiplied with: m, or with tied weights m mapped into embedding I."""
        multimodal = self.dropout(multimodal)
        if self.to_embedding is None:
            return multimodal
        mapped: Tensor = self.to_embedding(multimodal)
        return mapped if self.settings.tied_projection == "linear" else torch.relu(mapped)

    @property
    def output_weight(self) -> Tensor:
        """One row per known word, unknown word and end token."""
        return self.first.weight[: len(self.word_bias)] if self.to_words is None else self.to_words.weight

    def forward(self, context: VisualContext, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Logits after each of the words (n, t), and the state after the last one."""
        state = self.initial_state(len(words)) if state is None else state
        language, states, state = self.read_words(words, state, context.words)
        return self.logits(self.multimodal_layer(language, states, context)), state

    # Inference, one word at a time

    def functions(self) -> list[Function]:
        """Inference functions. Sentences are grouped by photo: (photos, width).

        What photos and words add to every step is computed once: `photo_terms`, `word_terms`. `step` gives the
        log-probabilities of all next words, `best_words` of the most probable ones. Retrieval does the two halves of a
        step separately: `read_word` up to the multimodal layer, and `score_words` from there on.
        """
        hidden, multimodal = self.settings.hidden_size, self.settings.multimodal_dim
        size, count = self._projected_size + (0 if self.from_word is None else multimodal), len(self.word_bias)
        photos, context = self._photo_arrays()
        words = {"terms": Array("photos", "width", size)}
        parts = range(self.settings.state_parts)
        before = {f"state_{part}": Array("photos", "width", hidden) for part in parts}
        after = {f"next_state_{part}": Array("photos", "width", hidden) for part in parts}
        read = {name: array for name, array in context.items() if name == "words"}
        scored = {name: array for name, array in context.items() if name != "words"}
        found = [
            Function("word_terms", {"words": Array("rows", dtype="int64")}, {"terms": Array("rows", size)}),
            Function("step", words | before | context, {"log_p": Array("photos", "width", count), **after}),
            Function(
                "best_words",
                {"count": Array(1, dtype="int64", example=2), **words, **before, **context},
                {"log_p": Array("photos", "width", "best"), "best": Array("photos", "width", "best", dtype="int64")}
                | after,
            ),
            Function("read_word", words | before | read, {"language": Array("photos", "width", multimodal), **after}),
            Function(
                "score_words",
                {
                    "chosen": Array("photos", "scores", dtype="int64"),
                    "language": Array("texts", "prefixes", multimodal),
                    **({} if self.attention is None else {"states": Array("texts", "prefixes", hidden)}),
                    **scored,
                },
                {"log_p": Array("photos", "scores")},
                sizes={"photos": 2, "texts": 2},
            ),
        ]
        if context:
            found.append(Function("photo_terms", photos, context))
        if self.from_photo is not None:
            vectors = {"vectors": photos["vectors"]}
            found.append(Function("refine", vectors, {"refined": Array("photos", multimodal)}))
        return found

    def _photo_arrays(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """Inputs and results of `photo_terms`; the results have the names of `VisualContext`."""
        settings, context = self.settings, {}
        photos = {"vectors": Array("photos", len(self.photo_mean))}
        if not settings.language_ignores_image:
            context["words"] = Array("photos", self._projected_size)
        if self.from_photo is not None or (context and self._words_feed_multimodal):
            context["multimodal"] = Array("photos", settings.multimodal_dim)
        if self.attention is not None:
            photos["cells"] = Array("photos", "cells", len(self.cell_mean))
            context["keys"] = Array("photos", self.attention.heads, self.attention.head_size, "cells")
            context["values"] = Array("photos", self.attention.heads, "cells", self.attention.head_size)
        return photos, context

    @property
    def _projected_size(self) -> int:
        gates = {"relu": 1, "lstm": 4, "gru": 3}[self.settings.recurrent_cell]
        return gates * self.settings.hidden_size

    @property
    def _words_feed_multimodal(self) -> bool:
        """Whether V_w multiplies embedding II, to which the image may be added."""
        return self.from_word is not None and self.settings.multimodal_word_input == "second"

    def photo_terms(self, photos: Tensor, cells: Tensor | None = None) -> State:
        """What photos add to every step: `words`, `multimodal`, `keys` and `values`, as far as they are used.

        `words` is what the image adds to embedding II, projected as the words are.
        """
        context = self.visual_context(photos, cells)
        multimodal, words = context.multimodal, context.words
        if words is not None:
            if self.from_word is not None and self._words_feed_multimodal:
                language = self.from_word(words)
                multimodal = language if multimodal is None else multimodal + language
            words = self.recurrent.project(words) - self.recurrent.project(torch.zeros_like(words))
        return tuple(part for part in (words, multimodal, context.keys, context.values) if part is not None)

    def word_terms(self, words: Tensor) -> Tensor:
        """What words (n,) add to every step (n, size): to the recurrent and, with biases, to the multimodal layer."""
        first, second = self._embed(words)
        terms = self.recurrent.project(second)
        if self.from_word is None:
            return terms
        language = self.from_word(first if self.settings.multimodal_word_input == "first" else second)
        return torch.cat([terms, language + self.from_state.bias], 1)

    def step(self, terms: Tensor, *inputs: Tensor) -> State:
        """Read a word of each sentence: log-probabilities of the next words (photos, width, words), and the state.

        Inputs are the terms of the words (photos, width, size), the state before them (photos, width, hidden_size), and
        the terms of the photos.
        """
        language, *state = self.read_word(terms, *inputs)
        context = self._to_context(inputs[len(state) :])
        return self.logits(self.multimodal_layer(language, state[0], context)).log_softmax(-1), *state

    def best_words(self, count: Tensor, terms: Tensor, *inputs: Tensor) -> State:
        """As `step`, for the `count` (1,) most probable words: log-probabilities, ids, and the state."""
        log_p, *state = self.step(terms, *inputs)
        return *log_p.topk(count, 2), *state  # type: ignore[arg-type] # a tensor, so that the graph has it as input

    def read_word(self, terms: Tensor, *inputs: Tensor) -> State:
        """The first half of a step: V_w · w(t) + V_r · r(t), and the state."""
        state, context = inputs[: self.settings.state_parts], inputs[self.settings.state_parts :]
        projected = terms[..., : self._projected_size]
        if not self.settings.language_ignores_image:
            projected = projected + context[0][:, None]
        state = self.recurrent.step(projected, state)
        if self.from_word is None:
            return self.from_state(state[0]), *state
        language = functional.linear(state[0], self.from_state.weight)
        return language + terms[..., self._projected_size :], *state

    def score_words(self, chosen: Tensor, language: Tensor, *inputs: Tensor) -> Tensor:
        """The second half of a step: log-probabilities (photos, scores) of some words after some prefixes.

        `language` is what `read_word` gave for prefixes: (photos, prefixes, …), or (1, prefixes, …) if all photos have
        the same; with attention, r(t) follows it. Then come the terms of photos but for `words`. `chosen` are numbers
        prefix · words + word.
        """
        states, context = (language, inputs) if self.attention is None else (inputs[0], inputs[1:])
        parts = self._to_context(context, skip=not self.settings.language_ignores_image)
        log_p = self.logits(self.multimodal_layer(language, states, parts)).log_softmax(-1)
        return log_p.flatten(1).gather(1, chosen)

    def _to_context(self, parts: Sequence[Tensor], *, skip: bool = False) -> VisualContext:
        """The terms of photos by name; `skip` if those of embedding II are not among them."""
        names = list(self._photo_arrays()[1])[skip:]
        return VisualContext(**dict(zip(names, parts, strict=True)))

    # The cost of sentences (section 4)

    def sentence_losses(self, context: VisualContext, words: Tensor, lengths: Tensor, smoothing: float = 0.0) -> Tensor:
        """For each sentence (n, 3): the smoothed loss, −log P (nats), both summed over its words, and their number.

        Words are padded ids (n, length). The end token counts as a word.
        """
        inputs, targets, real = self.add_boundary_tokens(words, lengths)
        if self.training:
            inputs = self._corrupt(context, inputs)
        return self._losses(context, inputs, targets, real, smoothing)

    def negative_log_likelihood(self, context: VisualContext, words: Tensor, counts: Tensor) -> Tensor:
        """Compute −log P (n,) of the first `counts` words and end tokens of generated sentences (n, length)."""
        inputs, targets, _ = self.add_boundary_tokens(words, counts)
        real = torch.arange(inputs.shape[1], device=inputs.device) < counts[:, None]
        return self._losses(context, inputs, targets, real)[:, 1]

    def add_boundary_tokens(self, words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs (start token and words), targets (words and end token), and which of them are not padding."""
        tokens = words.new_full((2, len(words), 1), self.start)
        tokens[1] = self.end
        positions = torch.arange(words.shape[1] + 1, device=words.device)
        inputs, targets = torch.cat([tokens[0], words], 1), torch.cat([words, tokens[1]], 1)
        return inputs, targets.where(positions < lengths[:, None], self.end), positions <= lengths[:, None]

    def _losses(
        self, context: VisualContext, inputs: Tensor, targets: Tensor, real: Tensor, smoothing: float = 0.0
    ) -> Tensor:
        language, states, _ = self.read_words(inputs, self.initial_state(len(inputs)), context.words)
        # Padding is dropped before the softmax, which costs more than everything else.
        log_p = self.logits(self.multimodal_layer(language, states, context)[real]).float().log_softmax(-1)
        nll = -log_p.gather(1, targets[real][:, None])[:, 0]
        loss = (1 - smoothing) * nll - smoothing * log_p.mean(1) if smoothing else nll
        columns = torch.stack([loss, nll, torch.ones_like(loss)], dim=1)
        return columns.new_zeros(*real.shape, 3).masked_scatter(real[:, :, None], columns).sum(1)

    def _corrupt(self, context: VisualContext, inputs: Tensor) -> Tensor:
        """Scheduled sampling and word dropout."""
        words = inputs[:, 1:]
        if share := self.settings.scheduled_sampling:
            with torch.no_grad():
                probabilities = self(context, inputs[:, :-1])[0].softmax(-1)
            sampled = probabilities.flatten(0, 1).float().multinomial(1).view_as(words)
            # The end token is never read, so a sampled one is not used.
            used = (torch.rand(sampled.shape, device=inputs.device) < share) & (sampled != self.end)
            words = sampled.where(used, words)
        if share := self.settings.word_dropout:
            dropped = torch.rand(words.shape, device=inputs.device) < share
            words = words.masked_fill(dropped, self.unknown)
        return torch.cat([inputs[:, :1], words], 1)
