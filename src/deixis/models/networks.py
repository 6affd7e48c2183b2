"""Parts that networks share: input checks, inference in blocks, and text encoders.

The text encoders come before a text branch: the LSTM of the two-branch paper (section 5.3), a GRU and a transformer.
Each takes word ids (n, length) and lengths (n,), and returns one row per text.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.language.features.base import Text, words_of
from deixis.language.vectors import WordVectors
from deixis.language.vocabulary import Vocabulary

BLOCK_ROWS = 4096

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


def check_rows(features: Any, size: int, name: str) -> Tensor:
    """Return features as a tensor with one row each; refuse those of another size."""
    rows = np.asarray(features)
    if rows.ndim != 2 or rows.shape[1] != size:
        raise DeixisError(f"features of shape {rows.shape}: a {name} has {size:,} features here, one row each")
    return torch.from_numpy(np.ascontiguousarray(rows))


@contextmanager
def eval_mode(network: nn.Module) -> Iterator[None]:
    """Switch a network to eval mode, and back at the end."""
    was_training = network.training
    if was_training:  # switching all layers takes as long as generating a word
        network.eval()
    try:
        yield
    finally:
        if was_training:
            network.train()


@torch.inference_mode()
def apply_in_blocks(network: nn.Module, embed: Any, *inputs: Tensor) -> Floats:
    """Apply a part of a network to many rows, a block at a time, in `eval` mode."""
    weight = next(network.parameters())
    blocks = [slice(start, start + BLOCK_ROWS) for start in range(0, max(len(inputs[0]), 1), BLOCK_ROWS)]
    with eval_mode(network):
        outputs = [embed(*(_move(rows[block], weight) for rows in inputs)).float().cpu() for block in blocks]
    array: Floats = torch.cat(outputs).numpy()
    return array


def _move(rows: Tensor, like: Tensor) -> Tensor:
    return rows.to(like.device, like.dtype if rows.is_floating_point() else None)


MAX_WORDS = 100
"""Longer texts are cut; the longest caption of Flickr30k is shorter."""

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
    """Base of text encoders: learned word embeddings, one for unknown words, and zeros as padding."""

    def __init__(self, shape: TextEncoderShape, size: int) -> None:
        super().__init__()
        self.size = size
        count = shape.vocabulary_size
        self.words = nn.Embedding(count + 2, shape.word_dim, padding_idx=count + 1)
        self.dropout = nn.Dropout(shape.dropout)
        # If all training words are known, the embedding of unknown words is never trained: it must be neutral.
        nn.init.zeros_(self.words.weight[count])

    @torch.no_grad()
    def init_words(self, vocabulary: Vocabulary, vectors: WordVectors) -> None:
        """Initialize the embeddings of words that have a word vector."""
        rows = vectors.rows_of(vocabulary.words)
        known = np.flatnonzero(rows >= 0)
        self.words.weight[torch.from_numpy(known)] = torch.from_numpy(np.array(vectors.matrix[rows[known]]))

    @abstractmethod
    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Encode texts: (n, size)."""


class LSTMEncoder(TextEncoder):
    """The state of an LSTM after the last word."""

    def __init__(self, shape: TextEncoderShape) -> None:
        super().__init__(shape, shape.hidden_size)
        self.recurrent = nn.LSTM(shape.word_dim, shape.hidden_size, shape.num_layers, batch_first=True)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        words = self.dropout(self.words(ids))
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (state, _) = self.recurrent(packed)
        last: Tensor = state[-1]
        return last


class GRUEncoder(TextEncoder):
    """A bidirectional GRU; the maximum of its states over the words."""

    def __init__(self, shape: TextEncoderShape) -> None:
        super().__init__(shape, 2 * shape.hidden_size)
        self.recurrent = nn.GRU(
            shape.word_dim, shape.hidden_size, shape.num_layers, batch_first=True, bidirectional=True
        )

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        words = self.dropout(self.words(ids))
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.recurrent(packed)[0], batch_first=True, padding_value=-torch.inf)
        return states.amax(dim=1)


class TransformerEncoder(TextEncoder):
    """A small transformer; the mean of its outputs over the words."""

    HEAD_DIM = 64

    def __init__(self, shape: TextEncoderShape) -> None:
        super().__init__(shape, shape.hidden_size)
        self.widen = nn.Linear(shape.word_dim, shape.hidden_size)
        layer = nn.TransformerEncoderLayer(
            shape.hidden_size,
            max(1, shape.hidden_size // self.HEAD_DIM),
            4 * shape.hidden_size,
            shape.dropout,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        norm = nn.LayerNorm(shape.hidden_size)
        self.blocks = nn.TransformerEncoder(layer, shape.num_layers, norm, enable_nested_tensor=False)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        padding = torch.arange(ids.shape[1], device=ids.device) >= lengths[:, None]
        words = self.widen(self.dropout(self.words(ids)))
        words = words + _positions(ids.shape[1], words.shape[2]).to(words)
        outputs = self.blocks(words, src_key_padding_mask=padding).masked_fill(padding[:, :, None], 0)
        mean: Tensor = outputs.sum(dim=1) / lengths[:, None]
        return mean


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


def word_ids(texts: Sequence[Text], vocabulary: Vocabulary) -> tuple[Tensor, Tensor]:
    """Return the padded word ids of texts (n, length), and their lengths (n,).

    A text without words becomes one unknown word.

    Examples
    --------
    >>> word_ids(["A red dog", ""], Vocabulary(("a", "dog"), (2, 1)))
    (tensor([[0, 2, 1],
            [2, 3, 3]]), tensor([3, 1]))
    """
    unknown, padding = len(vocabulary), len(vocabulary) + 1
    numbers = [vocabulary.encode(words_of(text), unknown)[:MAX_WORDS] or [unknown] for text in texts]
    lengths = torch.tensor([len(ids) for ids in numbers], dtype=torch.int64)
    ids = torch.full((len(numbers), int(lengths.max()) if len(numbers) else 1), padding)
    for row, known in zip(ids, numbers, strict=True):
        row[: len(known)] = torch.tensor(known)
    return ids, lengths
