"""Networks that read words: an LSTM as in the two-branch paper (§5.3), and two that go beyond it.

Each takes the numbers of words (n, longest) and how many there are (n,), and gives a row for each text. They stand
before the text branch, and learn with it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from deixis.language.features.base import Text, words_of
from deixis.language.vectors import WordVectors
from deixis.language.vocabulary import Vocabulary

LONGEST = 100
"""Words after these are not read; the longest caption of Flickr30k has fewer."""

Kind = Literal["lstm", "gru", "transformer"]


@dataclass(frozen=True)
class EncoderShape:
    """What an encoder is made of.

    Attributes
    ----------
    kind
        lstm (its last state), gru (in both directions, the greatest of each number over the words) or transformer (the
        mean over the words).
    vocabulary
        How many words are known.
    word_size
        Numbers in the vector of a word.
    hidden
        Numbers in the state; a gru has so many in each direction.
    layers
        How many stand one over the other.
    dropout
        Of word vectors, and within a transformer.
    """

    kind: Kind
    vocabulary: int
    word_size: int = 256
    hidden: int = 512
    layers: int = 1
    dropout: float = 0.0


class TextEncoder(nn.Module, ABC):
    """What all encoders have: a learned vector for each word, one for unknown words, and one of zeros after the end."""

    def __init__(self, shape: EncoderShape, size: int) -> None:
        super().__init__()
        self.size = size
        self.words = nn.Embedding(shape.vocabulary + 2, shape.word_size, padding_idx=shape.vocabulary + 1)
        self.dropout = nn.Dropout(shape.dropout)
        # Unknown words say nothing until some have been seen; with all training words known, none ever are.
        nn.init.zeros_(self.words.weight[shape.vocabulary])

    @torch.no_grad()
    def start_from(self, vocabulary: Vocabulary, vectors: WordVectors) -> None:
        """Let the words that have a vector begin with it."""
        rows = vectors.rows_of(vocabulary.words)
        known = np.flatnonzero(rows >= 0)
        self.words.weight[torch.from_numpy(known)] = torch.from_numpy(np.array(vectors.matrix[rows[known]]))

    @abstractmethod
    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """A row for each text, (n, size)."""


class LSTMEncoder(TextEncoder):
    """The state of an LSTM after the last word."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__(shape, shape.hidden)
        self.recurrent = nn.LSTM(shape.word_size, shape.hidden, shape.layers, batch_first=True)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """A row for each text, (n, hidden)."""
        words = self.dropout(self.words(ids))
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (state, _) = self.recurrent(packed)
        last: Tensor = state[-1]
        return last


class GRUEncoder(TextEncoder):
    """A GRU in both directions; of each number of its states the greatest over the words."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__(shape, 2 * shape.hidden)
        self.recurrent = nn.GRU(shape.word_size, shape.hidden, shape.layers, batch_first=True, bidirectional=True)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """A row for each text, (n, 2 · hidden)."""
        words = self.dropout(self.words(ids))
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.recurrent(packed)[0], batch_first=True, padding_value=-torch.inf)
        return states.amax(dim=1)


class TransformerEncoder(TextEncoder):
    """A small transformer; the mean of its words."""

    HEAD = 64

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__(shape, shape.hidden)
        self.widen = nn.Linear(shape.word_size, shape.hidden)
        layer = nn.TransformerEncoderLayer(
            shape.hidden,
            max(1, shape.hidden // self.HEAD),
            4 * shape.hidden,
            shape.dropout,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.blocks = nn.TransformerEncoder(layer, shape.layers, nn.LayerNorm(shape.hidden), enable_nested_tensor=False)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """A row for each text, (n, hidden)."""
        after_end = torch.arange(ids.shape[1], device=ids.device) >= lengths[:, None]
        words = self.widen(self.dropout(self.words(ids)))
        words = words + _waves(ids.shape[1], words.shape[2]).to(words)
        read = self.blocks(words, src_key_padding_mask=after_end).masked_fill(after_end[:, :, None], 0)
        mean: Tensor = read.sum(dim=1) / lengths[:, None]
        return mean


def _waves(count: int, size: int) -> Tensor:
    """Where a word stands, as sines and cosines of different lengths: (count, size)."""
    slowness = torch.exp(-math.log(10000.0) * torch.arange(0, size, 2) / size)
    angles = torch.arange(count)[:, None] * slowness
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :size]


def make_encoder(shape: EncoderShape) -> TextEncoder:
    """An encoder of this shape, not yet trained.

    Examples
    --------
    >>> encoder = make_encoder(EncoderShape("lstm", vocabulary=2))
    >>> encoder(*word_ids(["a dog", "a"], Vocabulary(("a", "dog"), (2, 1)))).shape
    torch.Size([2, 512])
    """
    kinds: dict[str, type[LSTMEncoder] | type[GRUEncoder] | type[TransformerEncoder]] = {
        "lstm": LSTMEncoder,
        "gru": GRUEncoder,
        "transformer": TransformerEncoder,
    }
    return kinds[shape.kind](shape)


def word_ids(texts: Sequence[Text], vocabulary: Vocabulary) -> tuple[Tensor, Tensor]:
    """Texts as encoders take them: the numbers of their words (n, longest), and how many there are (n,).

    A text without any word is read as one unknown word.

    Examples
    --------
    >>> word_ids(["A red dog", ""], Vocabulary(("a", "dog"), (2, 1)))
    (tensor([[0, 2, 1],
            [2, 3, 3]]), tensor([3, 1]))
    """
    unknown, after_end = len(vocabulary), len(vocabulary) + 1
    numbers = [vocabulary.encode(words_of(text), unknown)[:LONGEST] or [unknown] for text in texts]
    lengths = torch.tensor([len(ids) for ids in numbers], dtype=torch.int64)
    ids = torch.full((len(numbers), int(lengths.max()) if len(numbers) else 1), after_end)
    for row, known in zip(ids, numbers, strict=True):
        row[: len(known)] = torch.tensor(known)
    return ids, lengths
