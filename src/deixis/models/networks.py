"""Parts that torch networks share: batches of tensors, word embeddings and text encoders.

The text encoders come before a text branch: the LSTM of the two-branch paper (section 5.3), a GRU and a transformer.
Each takes words, as ids (n, length) to train word embeddings or as vectors (n, length, word_dim), and lengths (n,), and
returns one row per text.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from deixis.arrays import Floats
from deixis.language.vectors import WordVectors
from deixis.language.vocabulary import Vocabulary, WordTable
from deixis.models.base import word_ids
from deixis.tokens import Text

B = TypeVar("B")


def tensor_fields(batch: Any) -> dict[str, Tensor]:
    """Return the fields of a dataclass that are tensors."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def move_tensors(batch: B, device: str | torch.device) -> B:
    """Copy a dataclass of tensors, and of other such dataclasses, to a device."""
    moved: dict[str, Any] = {
        name: tensor.to(device, non_blocking=True) for name, tensor in tensor_fields(batch).items()
    }
    for field in fields(batch):  # type: ignore[arg-type] # a dataclass
        part = getattr(batch, field.name)
        if is_dataclass(part):
            moved[field.name] = move_tensors(part, device)
    return replace(batch, **moved)  # type: ignore[type-var]


class WordEmbedding(nn.Embedding):
    """Learned rows of the words of a vocabulary and of the unknown word, zeros as padding, and optional frozen vectors.

    Takes word ids as `WordTable.encode` gives them, for training; or the vectors of `WordTable.vectors`, which it
    returns unchanged. The weights are `WordTable.learned`.
    """

    frozen: Tensor | None

    def __init__(self, vocabulary_size: int, word_dim: int) -> None:
        super().__init__(vocabulary_size + 2, word_dim, padding_idx=vocabulary_size + 1)
        # If all training words are known, the embedding of unknown words is never trained: it must be neutral.
        nn.init.zeros_(self.weight[vocabulary_size])
        self.delta_dropout = 0.0
        self._frozen_by_id: Callable[[], Floats] | None = None
        self.register_buffer("frozen", None, persistent=False)

    @torch.no_grad()
    def init_from(self, vocabulary: Vocabulary, vectors: WordVectors) -> None:
        """Initialize the rows of words that have a word vector."""
        rows = torch.from_numpy(vectors.rows_of(vocabulary.words))
        known = (rows >= 0).nonzero()[:, 0]
        self.weight[known] = torch.from_numpy(vectors.take(rows[known].numpy()))

    def add_frozen(self, frozen_by_id: Callable[[], Floats], delta_dropout: float) -> None:
        """Add frozen vectors, from `WordTable.frozen_by_id`; the weights become differences from them, at first zero.

        In training, the difference of a word is dropped with probability `delta_dropout`, so that the network learns to
        read frozen vectors alone, as words have that are not in the training texts.
        """
        nn.init.zeros_(self.weight)
        self.delta_dropout = delta_dropout
        self._frozen_by_id = frozen_by_id

    def forward(self, words: Tensor) -> Tensor:
        """Vectors (…, word_dim) of word ids (…); vectors are returned unchanged."""
        if words.is_floating_point():
            return words
        if self._frozen_by_id is None:
            return super().forward(words)
        if self.frozen is None:  # made when it is needed: inference passes vectors
            with torch.inference_mode(False):
                self.frozen = torch.from_numpy(self._frozen_by_id()).to(self.weight)
        assert self.padding_idx is not None  # noqa: S101 - for type checkers
        delta = super().forward(words.clamp(max=self.padding_idx))
        if self.training and self.delta_dropout:
            kept = torch.rand(words.shape, device=words.device) >= self.delta_dropout
            delta = delta * kept[..., None]
        return self.frozen[words] + delta


def init_glorot(network: nn.Module) -> None:
    """Initialize all linear layers, as TensorFlow does by default: Glorot uniform weights, biases of 0."""
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def recurrent_states(layer: nn.RNNBase, vectors: Tensor, lengths: Tensor, total_length: int | None = None) -> Tensor:
    """States of a recurrent layer after each word (n, length, size), zeros beyond the length of a text."""
    packed = pack_padded_sequence(vectors, lengths.cpu(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=total_length)[0]


def last_states(layer: nn.RNNBase, vectors: Tensor, lengths: Tensor) -> Tensor:
    """State of a recurrent layer after the last word of each text: (n, size)."""
    states = recurrent_states(layer, vectors, lengths)
    return states[torch.arange(vectors.shape[0], device=vectors.device), lengths.to(vectors.device) - 1]


Kind = Literal["lstm", "gru", "transformer"]


@dataclass(frozen=True)
class TextEncoderShape:
    """Shape of a text encoder."""

    kind: Kind  # lstm: its last state; gru: maximum over the words; transformer: mean over the words
    vocabulary_size: int
    word_dim: int = 256
    hidden_size: int = 512  # of a gru, in each direction
    num_layers: int = 1
    dropout: float = 0.0  # of word embeddings, and within a transformer


class TextEncoder(nn.Module, ABC):
    """Base of text encoders, with the embeddings of words."""

    def __init__(self, shape: TextEncoderShape, size: int) -> None:
        super().__init__()
        self.size = size
        self.words = WordEmbedding(shape.vocabulary_size, shape.word_dim)
        self.dropout = nn.Dropout(shape.dropout)

    @abstractmethod
    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Encode texts, (n, size), from word ids (n, length) or word vectors (n, length, word_dim)."""


class LSTMEncoder(TextEncoder):
    """The state of an LSTM after the last word."""

    def __init__(self, shape: TextEncoderShape) -> None:
        super().__init__(shape, shape.hidden_size)
        self.recurrent = nn.LSTM(shape.word_dim, shape.hidden_size, shape.num_layers, batch_first=True)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        vectors = self.dropout(self.words(words))
        return last_states(self.recurrent, vectors, lengths)


class GRUEncoder(TextEncoder):
    """A bidirectional GRU; the maximum of its states over the words."""

    def __init__(self, shape: TextEncoderShape) -> None:
        super().__init__(shape, 2 * shape.hidden_size)
        self.recurrent = nn.GRU(
            shape.word_dim, shape.hidden_size, shape.num_layers, batch_first=True, bidirectional=True
        )

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        vectors = self.dropout(self.words(words))
        states = recurrent_states(self.recurrent, vectors, lengths)
        padding = torch.arange(states.shape[1], device=words.device) >= lengths.to(words.device)[:, None]
        return states.masked_fill(padding[:, :, None], -torch.inf).amax(dim=1)


class TransformerEncoder(TextEncoder):
    """A small transformer; the mean of its outputs over the words."""

    def __init__(self, shape: TextEncoderShape) -> None:
        super().__init__(shape, shape.hidden_size)
        self.widen = nn.Linear(shape.word_dim, shape.hidden_size)
        self.blocks = nn.ModuleList(TransformerBlock(shape.hidden_size, shape.dropout) for _ in range(shape.num_layers))
        self.norm = nn.LayerNorm(shape.hidden_size)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        is_word = torch.arange(words.shape[1], device=words.device) < lengths.to(words.device)[:, None]
        vectors = self.widen(self.dropout(self.words(words)))
        vectors = vectors + _positions(words.shape[1], vectors.shape[2]).to(vectors)
        for block in self.blocks:
            vectors = block(vectors, is_word)
        outputs = self.norm(vectors).masked_fill(~is_word[:, :, None], 0)
        return outputs.sum(dim=1) / lengths.to(words.device)[:, None]


class TransformerBlock(nn.TransformerEncoderLayer):
    """Pre-norm attention and MLP, computed so that the export takes any number of rows, which torch's own does not."""

    HEAD_DIM = 64

    def __init__(self, size: int, dropout: float, expansion: int = 4) -> None:
        heads = next(count for count in range(max(1, size // self.HEAD_DIM), 0, -1) if size % count == 0)
        inner = expansion * size
        super().__init__(size, heads, inner, dropout, activation="gelu", batch_first=True, norm_first=True)

    def forward(self, rows: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override] # fewer arguments
        """Transform rows (b, n, size), of which those in `mask` (b, n) are attended to; without it, all."""
        rows = rows + self.dropout1(self._attend(self.norm1(rows), mask))
        inner = self.dropout(functional.gelu(self.linear1(self.norm2(rows))))
        return rows + self.dropout2(self.linear2(inner))

    def _attend(self, rows: Tensor, mask: Tensor | None) -> Tensor:
        layer = self.self_attn
        projected = functional.linear(rows, layer.in_proj_weight, layer.in_proj_bias)
        heads = projected.view(*rows.shape[:2], 3, layer.num_heads, layer.head_dim)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        dropout = layer.dropout if self.training else 0.0
        attended_to = None if mask is None else mask[:, None, None, :]
        joined = functional.scaled_dot_product_attention(query, key, value, attended_to, dropout)
        return layer.out_proj(joined.transpose(1, 2).flatten(2))


def _positions(count: int, size: int) -> Tensor:
    """Sinusoidal position encodings: (count, size)."""
    frequencies = torch.exp(-math.log(10000.0) * torch.arange(0, size, 2) / size)
    angles = torch.arange(count)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :size]


def make_text_encoder(shape: TextEncoderShape) -> TextEncoder:
    kinds: dict[str, type[LSTMEncoder] | type[GRUEncoder] | type[TransformerEncoder]] = {
        "lstm": LSTMEncoder,
        "gru": GRUEncoder,
        "transformer": TransformerEncoder,
    }
    return kinds[shape.kind](shape)


def word_tensors(texts: Sequence[Text], vocabulary: Vocabulary | WordTable) -> tuple[Tensor, Tensor]:
    """Return word ids and lengths as `word_ids` does, as tensors."""
    ids, lengths = word_ids(texts, vocabulary)
    return torch.from_numpy(ids), torch.from_numpy(lengths)
