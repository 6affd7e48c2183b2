"""The network of the m-RNN paper: the probability of a word, given the words before it and a photo.

`docs/models/m-rnn.md` has the choices that the paper leaves open. `deixis.models.m_rnn_model` makes a model of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from deixis.errors import DeixisError
from deixis.models.m_rnn_attention import CellAttention, needed
from deixis.models.m_rnn_cells import GatedRecurrence, ReluRecurrence, State, scaled_tanh


@dataclass(frozen=True)
class MRNNSettings:
    """What can be chosen. The defaults are the paper's m-RNN; `PAPERS` has its others by name.

    Attributes
    ----------
    first_embedding
        Numbers in word embedding I.
    second_embedding
        Numbers in word embedding II, or in the only one.
    one_embedding
        One embedding layer, of `second_embedding` numbers.
    recurrent
        relu (eq. 2), lstm or gru.
    recurrent_size
        Numbers in the recurrent layer; with relu as many as in embedding II.
    multimodal_size
        Numbers in the multimodal layer.
    word_from
        Which embedding goes into the multimodal layer: second, first or none.
    photo_into
        Where the photo goes in: multimodal, recurrent (through embedding II), both, both-shared (with the same weights)
        or nowhere.
    shared_words
        The weights of words that are read are those of words that are written, transposed (m-RNN-shared).
    standardise
        Bring each number of a photo to mean 0 and deviation 1 over the training photos.
    attention
        Look at the cells of the photo's feature map too, at each word at others.
    attention_size
        Numbers in which cells are compared with the state, all heads together.
    attention_heads
        Ways of looking at once.
    dropout
        Of embedding II, of the states, of the photo and its cells and of the multimodal layer.
    word_dropout
        This share of the words that are read becomes unknown, while learning.
    scheduled_sampling
        This share of the words that are read becomes what the network itself draws there, while learning.
    label_smoothing
        This share of the wish is spread evenly over all words, while learning.
    min_count
        Words that are rarer in training are unknown.
    longest
        Words in a sentence that is made up, at most.
    reference_photos
        Training photos over which the probability of a sentence is normalised (eq. 7).
    """

    first_embedding: int = 128
    second_embedding: int = 256
    one_embedding: bool = False
    recurrent: Literal["relu", "lstm", "gru"] = "relu"
    recurrent_size: int = 256
    multimodal_size: int = 512
    word_from: Literal["second", "first", "none"] = "second"
    photo_into: Literal["multimodal", "recurrent", "both", "both-shared", "nowhere"] = "multimodal"
    shared_words: bool = False
    standardise: bool = True
    attention: bool = False
    attention_size: int = 256
    attention_heads: int = 1
    dropout: float = 0.0
    word_dropout: float = 0.0
    scheduled_sampling: float = 0.0
    label_smoothing: float = 0.0
    min_count: int = 5
    longest: int = 30
    reference_photos: int = 200

    def __post_init__(self) -> None:
        sizes = ("first_embedding", "second_embedding", "recurrent_size", "multimodal_size", "attention_size")
        for name in (*sizes, "attention_heads", "min_count", "longest", "reference_photos"):
            if getattr(self, name) < 1:
                raise DeixisError(f"{name}={getattr(self, name)}: must be 1 or more")
        for name in ("dropout", "word_dropout", "scheduled_sampling", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise DeixisError(f"{name}={getattr(self, name)}: must be at least 0 and less than 1")
        if self.recurrent == "relu" and self.recurrent_size != self.second_embedding:
            raise DeixisError(
                f"recurrent_size={self.recurrent_size}: with recurrent=relu it must be second_embedding, "
                f"{self.second_embedding} (eq. 2 adds the two)"
            )
        if self.attention_size % self.attention_heads:
            raise DeixisError(f"attention_heads={self.attention_heads}: must divide attention_size")
        if self.one_embedding and self.word_from == "first":
            raise DeixisError("word_from=first: with one_embedding=true there is only one, called second")
        if self.photo_into == "both-shared" and self.multimodal_size < self.second_embedding:
            raise DeixisError("photo_into=both-shared: multimodal_size must not be less than second_embedding")


def _papers() -> dict[str, MRNNSettings]:
    full = MRNNSettings()
    return {
        "papers/m-rnn": full,
        "papers/m-rnn-shared": replace(full, shared_words=True),
        "papers/m-rnn-no-emb-input": replace(full, word_from="none"),
        "papers/m-rnn-one-layer-emb": replace(full, one_embedding=True),
        "papers/m-rnn-emb-one-input": replace(full, word_from="first"),
        "papers/m-rnn-vis-in-rnn": replace(full, photo_into="recurrent"),
        "papers/m-rnn-vis-in-rnn-both": replace(full, photo_into="both"),
        "papers/m-rnn-vis-in-rnn-both-shared": replace(full, photo_into="both-shared"),
        "papers/rnn-base": replace(full, photo_into="nowhere"),
    }


PAPERS: Mapping[str, MRNNSettings] = _papers()
"""The m-RNN paper's own networks: §3, §8, Table 9 and RNN-Base of Table 1. `deixis.training.captions.SCHEDULES` has
their epochs, batches and learning rates by the same names."""


@dataclass(frozen=True)
class Seen:
    """What a network has made of photos, for all words of a sentence; a row each, and nothing where nothing goes in.

    Attributes
    ----------
    multimodal
        (n, multimodal_size): V_I · I.
    words
        (n, second_embedding): what is added to embedding II.
    keys, values
        (n, heads, cells, numbers): what attention finds cells by, and what it then gets.
    """

    multimodal: Tensor | None = None
    words: Tensor | None = None
    keys: Tensor | None = None
    values: Tensor | None = None

    def take(self, rows: Tensor | slice) -> Self:
        """Some of the photos, each as often as it is asked for."""
        return self._with_each(lambda part: part[rows])

    def repeat(self, times: int) -> Self:
        """Each photo so many times, one after another."""
        return self._with_each(lambda part: part.repeat_interleave(times, 0))

    def _with_each(self, change: Callable[[Tensor], Tensor]) -> Self:
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: change(part) for name, part in parts.items() if part is not None})


class MRNNNetwork(nn.Module):
    """Five layers for each word: two embeddings, a recurrent, a multimodal and a softmax layer.

    Words have the numbers of the vocabulary; after them come the unknown word, the end sign and the start sign. The
    start sign is never written and the end sign never read: where a sentence is shorter than others, what is read after
    its end changes nothing.

    Parameters
    ----------
    photo_size
        Numbers in the vector of a photo or region.
    vocabulary_size
        How many words are known.
    settings
        As for the model.
    cell_size
        Numbers in a cell of a feature map; for attention only.

    Examples
    --------
    >>> network = MRNNNetwork(8, 10, MRNNSettings())
    >>> logits, state = network(network.see(torch.ones(2, 8)), torch.tensor([[network.start, 4, 7]] * 2))
    >>> logits.shape, state[0].shape
    (torch.Size([2, 3, 12]), torch.Size([2, 256]))
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
        self.unknown, self.end, self.start = (vocabulary_size + place for place in range(3))
        second, multimodal = settings.second_embedding, settings.multimodal_size
        first = second if settings.one_embedding else settings.first_embedding
        self.first = nn.Embedding(vocabulary_size + 3, first)
        self.second = None if settings.one_embedding else nn.Linear(first, second)
        self.recurrent = _recurrence(settings)
        self.from_word: nn.Linear | None = None
        if settings.word_from != "none":
            self.from_word = nn.Linear(first if settings.word_from == "first" else second, multimodal, bias=False)
        self.from_state = nn.Linear(settings.recurrent_size, multimodal)
        self.from_photo: nn.Linear | None = None
        self.photo_to_word: nn.Linear | None = None
        if settings.photo_into in ("multimodal", "both", "both-shared"):
            self.from_photo = nn.Linear(photo_size, multimodal, bias=False)
        if settings.photo_into in ("recurrent", "both"):
            self.photo_to_word = nn.Linear(photo_size, second, bias=False)
        self.attention: CellAttention | None = None
        if settings.attention:
            sizes = {"size": settings.attention_size, "heads": settings.attention_heads, "result_size": multimodal}
            self.attention = CellAttention(settings.recurrent_size, cell_size, **sizes)
        written = vocabulary_size + 2
        self.to_embedding = nn.Linear(multimodal, first, bias=False) if settings.shared_words else None
        self.to_words = None if settings.shared_words else nn.Linear(multimodal, written, bias=False)
        self.word_bias = nn.Parameter(torch.zeros(written))
        self.dropout = nn.Dropout(settings.dropout)
        for name, size in (("photo", photo_size), ("cell", cell_size)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_scale", torch.ones(size))
        self._begin()

    def _begin(self) -> None:
        """Weights to begin with: Glorot's for layers; words of about unit length, and what photos add to them too."""
        for name, part in self.named_modules():
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                if part.bias is not None:
                    nn.init.zeros_(part.bias)
            elif name == "first":
                nn.init.normal_(self.first.weight, std=self.first.embedding_dim**-0.5)
        if self.photo_to_word is not None:
            # Else a photo, whose numbers are about 1 each, would drown the words.
            nn.init.xavier_uniform_(self.photo_to_word.weight, gain=self.photo_to_word.in_features**-0.5)

    @property
    def language_alone(self) -> bool:
        """Whether embeddings and recurrent layer know nothing of the photo, so that they serve all photos."""
        return self.settings.photo_into in ("multimodal", "nowhere")

    def see(self, photos: Tensor, cells: Tensor | None = None) -> Seen:
        """What photos add to each word: vectors (n, photo_size), and with attention their cells (n, k, cell_size)."""
        multimodal, words = self.photo_terms(photos)
        if self.attention is None:
            return Seen(multimodal, words)
        cells = needed(cells)
        if self.settings.standardise:
            cells = (cells - self.cell_mean) / self.cell_scale
        return Seen(multimodal, words, *self.attention.prepare(self.dropout(cells)))

    def photo_terms(self, photos: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """What goes into the multimodal layer, and into embedding II."""
        if self.settings.standardise:
            photos = (photos - self.photo_mean) / self.photo_scale
        photos = self.dropout(photos)
        multimodal = None if self.from_photo is None else self.from_photo(photos)
        words = None if self.photo_to_word is None else self.photo_to_word(photos)
        if self.settings.photo_into == "both-shared" and multimodal is not None:
            words = multimodal[:, : self.settings.second_embedding]
        return multimodal, words

    def refined(self, photos: Tensor) -> Tensor:
        """§8.1: g(V_I · I), the photo as the multimodal layer would show it without any word."""
        multimodal, _ = self.photo_terms(photos)
        if multimodal is None:
            raise DeixisError(f"photo_into={self.settings.photo_into}: no photo goes into the multimodal layer")
        return scaled_tanh(multimodal)

    def first_state(self, rows: int) -> State:
        """The state before any word."""
        count = 2 if self.settings.recurrent == "lstm" else 1
        return tuple(self.word_bias.new_zeros(rows, self.settings.recurrent_size) for _ in range(count))

    def read(self, words: Tensor, state: State, added: Tensor | None = None) -> tuple[Tensor, Tensor, State]:
        """What language alone gives: V_w · w(t) + V_r · r(t), r(t) itself, and the state after the last word.

        Parameters
        ----------
        words
            (n, t): numbers of words.
        state
            Before these words.
        added
            (n, second_embedding): what a photo adds to embedding II.
        """
        first = self.first(words)
        second = first if self.second is None else self.second(first)
        if added is not None:
            second = second + added[:, None]
        second = self.dropout(second)
        states, state = self.recurrent(second, state)
        language = self.from_state(self.dropout(states))
        if self.from_word is not None:
            language = language + self.from_word(first if self.settings.word_from == "first" else second)
        return language, states, state

    def join(self, language: Tensor, states: Tensor, seen: Seen) -> Tensor:
        """Eq. 3: the multimodal layer (n, t, multimodal_size), from what `read` gave and from photos."""
        if seen.multimodal is not None:
            language = language + seen.multimodal[:, None]
        if self.attention is not None and seen.keys is not None and seen.values is not None:
            language = language + self.attention(states, seen.keys, seen.values)
        return scaled_tanh(language)

    def write(self, multimodal: Tensor) -> Tensor:
        """What the softmax is of: (…, words, unknown and end) from (…, multimodal_size)."""
        return functional.linear(self.before_words(multimodal), self.words_weight, self.word_bias)

    def before_words(self, multimodal: Tensor) -> Tensor:
        """What `words_weight` is multiplied by."""
        multimodal = self.dropout(multimodal)
        return multimodal if self.to_embedding is None else self.to_embedding(multimodal)

    @property
    def words_weight(self) -> Tensor:
        """A row for each word that can be written, the unknown word and the end sign."""
        return self.first.weight[: len(self.word_bias)] if self.to_words is None else self.to_words.weight

    def forward(self, seen: Seen, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """What the softmax is of, after each of the words (n, t) that are read, and the state after the last."""
        state = self.first_state(len(words)) if state is None else state
        language, states, state = self.read(words, state, seen.words)
        return self.write(self.join(language, states, seen)), state

    def sentence_losses(self, seen: Seen, words: Tensor, lengths: Tensor, smoothing: float = 0.0) -> Tensor:
        """For each sentence (n, 3): the loss summed over its words, that without smoothing, and how many words.

        Parameters
        ----------
        seen
            The photo of each sentence.
        words, lengths
            (n, longest) and (n,), as `deixis.models.text_encoders.word_ids` gives them. The end sign counts as a word.
        smoothing
            Label smoothing.
        """
        read, written, real = self.signed(words, lengths)
        if self.training:
            read = self._disturbed(seen, read)
        return self._losses(seen, read, written, real, smoothing)

    def surprise(self, seen: Seen, words: Tensor, written: Tensor) -> Tensor:
        """Minus the log-probability (n,) of the first `written` words and end signs of each sentence (n, longest).

        For sentences that the network has made up: nothing is disturbed while learning, but for dropout.
        """
        read, targets, _ = self.signed(words, written)
        real = torch.arange(read.shape[1], device=read.device) < written[:, None]
        return self._losses(seen, read, targets, real)[:, 1]

    def _losses(self, seen: Seen, read: Tensor, written: Tensor, real: Tensor, smoothing: float = 0.0) -> Tensor:
        language, states, _ = self.read(read, self.first_state(len(read)), seen.words)
        # Only real words reach the softmax, which costs more than all the rest.
        likely = self.write(self.join(language, states, seen)[real]).float().log_softmax(-1)
        surprise = -likely.gather(1, written[real][:, None])[:, 0]
        loss = (1 - smoothing) * surprise - smoothing * likely.mean(1) if smoothing else surprise
        columns = torch.stack([loss, surprise, torch.ones_like(loss)], dim=1)
        return columns.new_zeros(*real.shape, 3).masked_scatter(real[:, :, None], columns).sum(1)

    def _disturbed(self, seen: Seen, read: Tensor) -> Tensor:
        """What is read, with some words lost and some as the network would have written them."""
        after_start = read[:, 1:]
        if share := self.settings.scheduled_sampling:
            with torch.no_grad():
                likely = self(seen, read[:, :-1])[0].softmax(-1)
            drawn = likely.flatten(0, 1).float().multinomial(1).view_as(after_start)
            # An end sign is never read: what it would stand for stays as it is.
            taken = (torch.rand(drawn.shape, device=read.device) < share) & (drawn != self.end)
            after_start = drawn.where(taken, after_start)
        if share := self.settings.word_dropout:
            lost = torch.rand(after_start.shape, device=read.device) < share
            after_start = after_start.masked_fill(lost, self.unknown)
        return torch.cat([read[:, :1], after_start], 1)

    def signed(self, words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sentences as they are read, after the start sign; as they are written, before the end sign; what is real."""
        signs = words.new_full((2, len(words), 1), self.start)
        signs[1] = self.end
        places = torch.arange(words.shape[1] + 1, device=words.device)
        read, written = torch.cat([signs[0], words], 1), torch.cat([words, signs[1]], 1)
        return read, written.where(places < lengths[:, None], self.end), places <= lengths[:, None]


def _recurrence(settings: MRNNSettings) -> ReluRecurrence | GatedRecurrence:
    if settings.recurrent == "relu":
        return ReluRecurrence(settings.recurrent_size)
    return GatedRecurrence(settings.recurrent, settings.second_embedding, settings.recurrent_size)
