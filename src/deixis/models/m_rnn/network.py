"""The m-RNN network (section 3): the probability of a word given the words before it and a photo.

Each word passes five layers: word embeddings I and II, the recurrent layer, the multimodal layer and the softmax.
Symbols are those of the paper: w(t) word embedding II, r(t) recurrent state, I image feature, m(t) multimodal layer.

Training reads whole sentences (`MRNNNetwork.forward`), inference one word at a time (`MRNNNetwork.functions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional

from deixis.errors import DeixisError
from deixis.models.m_rnn.spec import MRNNSettings
from deixis.models.networks import init_glorot
from deixis.runtime import Array, Function

State = tuple[Tensor, ...]
"""State of the recurrent layer. The first part is the output of the layer, r."""

TANH_OUTER, TANH_INNER = 1.7159, 2 / 3


def scaled_tanh(x: Tensor) -> Tensor:
    """Eq. 4: g(x) = 1.7159 · tanh(2x / 3)."""
    return TANH_OUTER * torch.tanh(x * TANH_INNER)


class Recurrence(nn.Module):
    """A recurrent layer whose input is projected before the steps, because it does not depend on them."""

    state_parts: ClassVar[int] = 1

    def __init__(self, hidden_size: int, projected_size: int) -> None:
        super().__init__()
        self.hidden_size, self.projected_size = hidden_size, projected_size

    def project(self, words: Tensor) -> Tensor:
        """Project words (…, input_size) to what they add to the layer (…, projected_size)."""
        return words

    def step(self, projected: Tensor, state: State) -> State:
        """Return the state after one more word."""
        raise AssertionError("a subclass has its equations here")

    def forward(self, words: Tensor, state: State) -> tuple[Tensor, State]:
        """From w (n, t, input_size), the states r (n, t, hidden_size) and the last state."""
        states = []
        for w in self.project(words).unbind(1):
            state = self.step(w, state)
            states.append(state[0])
        return torch.stack(states, 1), state


class SimpleRecurrence(Recurrence):
    """Eq. 2: r(t) = f(U_r · r(t − 1) + w(t)), with r(0) = 0; f is a ReLU, or one of footnote 3."""

    def __init__(self, size: int, nonlinearity: str = "relu") -> None:
        super().__init__(size, size)
        self.nonlinearity = {"relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": scaled_tanh}[nonlinearity]
        self.weight = nn.Parameter(torch.empty(size, size))  # U_r
        nn.init.orthogonal_(self.weight)

    def step(self, projected: Tensor, state: State) -> State:
        return (self.nonlinearity(projected + functional.linear(state[0], self.weight)),)


@dataclass(frozen=True)
class VisualContext:
    """Image terms of every word: computed once per photo, one row each; None for unused inputs."""

    words: Tensor | None = None  # (n, second_embedding_dim), added to word embedding II
    multimodal: Tensor | None = None  # V_I · I (n, multimodal_dim), an input of the multimodal layer

    @property
    def parts(self) -> State:
        return tuple(part for part in vars(self).values() if part is not None)

    def repeat(self, times: int) -> Self:
        """Each photo this number of times in a row."""
        parts = {name: part.repeat_interleave(times, 0) for name, part in vars(self).items() if part is not None}
        return replace(self, **parts)


class MRNNNetwork(nn.Module):
    """The network of Fig. 2(b).

    Word ids are those of the vocabulary, followed by the unknown word, the end token and the start token. The start
    token is never generated and the end token never read, so padding after the end of a sentence has no effect.

    A subclass may give another recurrent layer and dropout, which the paper does not have.
    """

    attends: ClassVar[bool] = False
    """Whether the multimodal layer depends on the state in another way than by V_r · r."""
    photo_mean: Tensor
    photo_scale: Tensor

    def __init__(
        self,
        photo_size: int,
        vocabulary_size: int,
        settings: MRNNSettings,
        recurrent: Recurrence | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.unknown, self.end, self.start = (vocabulary_size + offset for offset in range(3))
        second, multimodal = settings.second_embedding_dim, settings.multimodal_dim
        first = second if settings.single_embedding else settings.first_embedding_dim
        self.first = nn.Embedding(vocabulary_size + 3, first)  # embedding I
        self.second = None if settings.single_embedding else nn.Linear(first, second)  # embedding II
        self.recurrent = recurrent or SimpleRecurrence(second, settings.recurrence)
        self.from_word: nn.Linear | None = None  # V_w
        if settings.multimodal_word_input != "none":
            word_dim = first if settings.multimodal_word_input == "first" else second
            self.from_word = nn.Linear(word_dim, multimodal, bias=False)
        self.from_state = nn.Linear(self.recurrent.hidden_size, multimodal)  # V_r
        self.from_photo: nn.Linear | None = None  # V_I
        self.photo_to_word: nn.Linear | None = None
        if settings.refines_images:
            self.from_photo = nn.Linear(photo_size, multimodal, bias=False)
        if settings.image_input in ("recurrent", "both"):
            self.photo_to_word = nn.Linear(photo_size, second, bias=False)
        outputs = vocabulary_size + 2
        has_bias = settings.tied_projection == "relu"
        self.to_embedding = nn.Linear(multimodal, first, bias=has_bias) if settings.tie_word_weights else None
        self.to_words = None if settings.tie_word_weights else nn.Linear(multimodal, outputs, bias=False)
        self.word_bias = nn.Parameter(torch.zeros(outputs))
        self.dropout = nn.Dropout(dropout)
        self.add_statistics("photo", photo_size)
        nn.init.normal_(self.first.weight, std=self.first.embedding_dim**-0.5)  # about unit length
        init_glorot(self)
        if self.photo_to_word is not None:
            # Image features are about 1 each: with the usual gain they would dominate the word embeddings.
            nn.init.xavier_uniform_(self.photo_to_word.weight, gain=self.photo_to_word.in_features**-0.5)

    def add_statistics(self, name: str, size: int) -> None:
        """Add the buffers that features are standardized by."""
        self.register_buffer(f"{name}_mean", torch.zeros(size))
        self.register_buffer(f"{name}_scale", torch.ones(size))

    @torch.no_grad()
    def set_statistics(self, name: str, mean: ArrayLike, scale: ArrayLike) -> None:
        """Set what features are standardized by."""
        getattr(self, f"{name}_mean").copy_(torch.as_tensor(mean))
        getattr(self, f"{name}_scale").copy_(torch.as_tensor(scale))

    # The image

    def visual_context(self, *photos: Tensor) -> VisualContext:
        """From vectors I (n, photo_size), what every word needs of them."""
        return VisualContext(*self.image_terms(photos[0]))

    def image_terms(self, photos: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The image's inputs to word embedding II and to the multimodal layer, V_I · I."""
        if self.settings.standardize_images:
            photos = (photos - self.photo_mean) / self.photo_scale
        photos = self.dropout(photos)
        multimodal = None if self.from_photo is None else self.from_photo(photos)
        words = None if self.photo_to_word is None else self.photo_to_word(photos)
        if self.settings.image_input == "both-shared" and multimodal is not None:
            words = multimodal[:, : self.settings.second_embedding_dim]
        return words, multimodal

    def refine(self, photos: Tensor) -> Tensor:
        """Section 8: g(V_I · I), the refined image features (n, multimodal_dim)."""
        _, multimodal = self.image_terms(photos)
        if multimodal is None:
            raise DeixisError(f"image_input={self.settings.image_input}: the image does not feed the multimodal layer")
        return scaled_tanh(multimodal)

    # Words

    def initial_state(self, rows: int) -> State:
        return (self.word_bias.new_zeros(rows, self.recurrent.hidden_size),) * self.recurrent.state_parts

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
        """Eq. 3: m(t) = g(V_w · w(t) + V_r · r(t) + V_I · I); the first two terms are `language`."""
        if context.multimodal is not None:
            language = language + context.multimodal[:, None]
        return scaled_tanh(language)

    def logits(self, multimodal: Tensor) -> Tensor:
        """Inputs of the softmax (…, known words, unknown word, end token) from m (…, multimodal_dim)."""
        return functional.linear(self.output_features(multimodal), self.output_weight, self.word_bias)

    def output_features(self, multimodal: Tensor) -> Tensor:
        """Input of `output_weight`: m, or with tied weights m mapped into embedding I."""
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

        The terms of photos and words are computed once: `photo_terms`, `word_terms`. `step` gives the
        log-probabilities of all next words, `best_words` of the most probable ones. Retrieval does the two halves of a
        step separately: `read_word` up to the multimodal layer, and `score_words` from there on.
        """
        hidden, multimodal = self.recurrent.hidden_size, self.settings.multimodal_dim
        size = self.recurrent.projected_size + (0 if self.from_word is None else multimodal)
        photos, context = self.photo_arrays()
        words = {"terms": Array("photos", "width", size)}
        parts = range(self.recurrent.state_parts)
        before = {f"state_{part}": Array("photos", "width", hidden) for part in parts}
        after = {f"next_state_{part}": Array("photos", "width", hidden) for part in parts}
        log_p = Array("photos", "width", len(self.word_bias))
        best = {name: Array("photos", "width", "best", dtype=kind) for name, kind in _BEST.items()}
        states = {"states": Array("texts", "prefixes", hidden)} if self.attends else {}
        read = {name: array for name, array in context.items() if name == "words"}
        scored = {name: array for name, array in context.items() if name != "words"}
        found = [
            Function("word_terms", {"words": Array("rows", dtype="int64")}, {"terms": Array("rows", size)}),
            Function("step", words | before | context, {"log_p": log_p, **after}),
            Function(
                "best_words",
                {"count": Array(1, dtype="int64", example=2), **words, **before, **context},
                {**best, **after},
            ),
            Function("read_word", words | before | read, {"language": Array("photos", "width", multimodal), **after}),
            Function(
                "score_words",
                {
                    "chosen": Array("photos", "scores", dtype="int64"),
                    "language": Array("texts", "prefixes", multimodal),
                    **states,
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

    def photo_arrays(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """Inputs and results of `photo_terms`; the results have the names of `VisualContext`."""
        settings, context = self.settings, {}
        if not settings.language_ignores_image:
            context["words"] = Array("photos", self.recurrent.projected_size)
        if self.from_photo is not None or (context and self._words_feed_multimodal):
            context["multimodal"] = Array("photos", settings.multimodal_dim)
        return {"vectors": Array("photos", len(self.photo_mean))}, context

    @property
    def _words_feed_multimodal(self) -> bool:
        """Whether V_w multiplies embedding II, to which the image may be added."""
        return self.from_word is not None and self.settings.multimodal_word_input == "second"

    def photo_terms(self, *photos: Tensor) -> State:
        """Image terms of every step: the parts of `VisualContext` that are used.

        `words` is what the image adds to embedding II, projected as the words are.
        """
        context = self.visual_context(*photos)
        multimodal, words = context.multimodal, context.words
        if words is not None:
            if self.from_word is not None and self._words_feed_multimodal:
                language = self.from_word(words)
                multimodal = language if multimodal is None else multimodal + language
            words = self.recurrent.project(words) - self.recurrent.project(torch.zeros_like(words))
        return replace(context, words=words, multimodal=multimodal).parts

    def word_terms(self, words: Tensor) -> Tensor:
        """Word terms (n, size) of every step: of the recurrent and, with biases, of the multimodal layer."""
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
        context = self.to_context(inputs[len(state) :])
        return self.logits(self.multimodal_layer(language, state[0], context)).log_softmax(-1), *state

    def best_words(self, count: Tensor, terms: Tensor, *inputs: Tensor) -> State:
        """As `step`, for the `count` (1,) most probable words: log-probabilities, ids, and the state."""
        log_p, *state = self.step(terms, *inputs)
        return *log_p.topk(count, 2), *state  # type: ignore[arg-type] # a tensor, so that the graph has it as input

    def read_word(self, terms: Tensor, *inputs: Tensor) -> State:
        """The first half of a step: V_w · w(t) + V_r · r(t), and the state."""
        parts, size = self.recurrent.state_parts, self.recurrent.projected_size
        state, context = inputs[:parts], inputs[parts:]
        projected = terms[..., :size]
        if not self.settings.language_ignores_image:
            projected = projected + context[0][:, None]
        state = self.recurrent.step(projected, state)
        if self.from_word is None:
            return self.from_state(state[0]), *state
        return functional.linear(state[0], self.from_state.weight) + terms[..., size:], *state

    def score_words(self, chosen: Tensor, language: Tensor, *inputs: Tensor) -> Tensor:
        """The second half of a step: log-probabilities (photos, scores) of some words after some prefixes.

        `language` is what `read_word` gave for prefixes: (photos, prefixes, …), or (1, prefixes, …) if all photos have
        the same; r(t) follows it if the network attends. Then come the terms of photos but for `words`. `chosen` are
        numbers prefix · words + word.
        """
        states, context = (inputs[0], inputs[1:]) if self.attends else (language, inputs)
        parts = self.to_context(context, skip=not self.settings.language_ignores_image)
        log_p = self.logits(self.multimodal_layer(language, states, parts)).log_softmax(-1)
        return log_p.flatten(1).gather(1, chosen)

    def to_context(self, parts: Sequence[Tensor], *, skip: bool = False) -> VisualContext:
        """The terms of photos by name; `skip` if those of embedding II are not among them."""
        return VisualContext(**dict(zip(list(self.photo_arrays()[1])[skip:], parts, strict=True)))

    # The cost of sentences (section 4)

    def sentence_losses(self, context: VisualContext, words: Tensor, lengths: Tensor, smoothing: float = 0.0) -> Tensor:
        """For each sentence (n, 3): the smoothed loss, −log P (nats), both summed over its words, and their number.

        Words are padded ids (n, length). The end token counts as a word.
        """
        return self.token_losses(context, *self.add_boundary_tokens(words, lengths), smoothing)

    def token_losses(
        self, context: VisualContext, inputs: Tensor, targets: Tensor, real: Tensor, smoothing: float = 0.0
    ) -> Tensor:
        """As `sentence_losses`, over the targets (n, length) that are real."""
        language, states, _ = self.read_words(inputs, self.initial_state(len(inputs)), context.words)
        # Padding is dropped before the softmax, which costs more than everything else.
        log_p = self.logits(self.multimodal_layer(language, states, context)[real]).float().log_softmax(-1)
        nll = -log_p.gather(1, targets[real][:, None])[:, 0]
        loss = (1 - smoothing) * nll - smoothing * log_p.mean(1) if smoothing else nll
        columns = torch.stack([loss, nll, torch.ones_like(loss)], dim=1)
        return columns.new_zeros(*real.shape, 3).masked_scatter(real[:, :, None], columns).sum(1)

    def add_boundary_tokens(self, words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs (start token and words), targets (words and end token), and which of them are not padding."""
        tokens = words.new_full((2, len(words), 1), self.start)
        tokens[1] = self.end
        positions = torch.arange(words.shape[1] + 1, device=words.device)
        inputs, targets = torch.cat([tokens[0], words], 1), torch.cat([words, tokens[1]], 1)
        return inputs, targets.where(positions < lengths[:, None], self.end), positions <= lengths[:, None]


_BEST = {"log_p": "float32", "best": "int64"}
"""Results of `best_words` and their types."""
