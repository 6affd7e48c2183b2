"""The captioner's network: an m-RNN with an LSTM, which attends twice to the cells of the photo's feature map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from deixis.models.captioner.spec import CaptionerSettings
from deixis.models.m_rnn.network import MRNNNetwork, Recurrence, State, VisualContext, scaled_tanh
from deixis.models.networks import TransformerBlock, init_glorot
from deixis.runtime import Array

_CELL_DROPOUT = 0.1
"""Dropout within the layers over cells."""


class LSTMRecurrence(Recurrence):
    """An LSTM in place of eq. 2 of m-RNN."""

    state_parts = 2

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(hidden_size, 4 * hidden_size)
        self.layer = nn.LSTM(input_size, hidden_size, batch_first=True)

    def project(self, words: Tensor) -> Tensor:
        layer: Any = self.layer
        return functional.linear(words, layer.weight_ih_l0, layer.bias_ih_l0 + layer.bias_hh_l0)

    def step(self, projected: Tensor, state: State) -> State:
        """The equations that `torch.nn.LSTM` states."""
        layer: Any = self.layer
        gates = projected + functional.linear(state[0], layer.weight_hh_l0)
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, -1)
        cell = forget_gate.sigmoid() * state[1] + input_gate.sigmoid() * candidate.tanh()
        return output_gate.sigmoid() * cell.tanh(), cell

    def forward(self, words: Tensor, state: State) -> tuple[Tensor, State]:
        hidden, cell = (part[None].contiguous() for part in state)
        states, last = self.layer(words, (hidden, cell))
        return states, tuple(part[0] for part in last)


class CellEncoder(nn.Module):
    """Keys and values of the cells of a feature map, optionally after transformer layers over all cells of a photo."""

    def __init__(self, cell_size: int, settings: CaptionerSettings) -> None:
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

    def __init__(self, query_size: int, settings: CaptionerSettings) -> None:
        super().__init__()
        self.heads, self.head_size = settings.attention_heads, settings.attention_dim // settings.attention_heads
        self.to_query = nn.Linear(query_size, settings.attention_dim, bias=False)
        self.from_values = nn.Linear(settings.attention_dim, settings.multimodal_dim, bias=False)

    def forward(self, rows: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """From rows (n, t, query_size), the attended values (n, t, multimodal_dim)."""
        queries = _split_heads(self.to_query(rows), self.heads, self.head_size) * self.head_size**-0.5
        attended = ((queries @ keys).softmax(-1) @ values).transpose(1, 2)
        joined = attended.reshape(attended.shape[0], attended.shape[1], self.heads * self.head_size)
        return self.from_values(joined)


def _split_heads(rows: Tensor, heads: int, head_size: int) -> Tensor:
    """(n, t, heads · head_size) as (n, heads, t, head_size)."""
    return rows.view(rows.shape[0], rows.shape[1], heads, head_size).transpose(1, 2)  # n may be 0


@dataclass(frozen=True)
class CellContext(VisualContext):
    """Contribution of photos to every word, with keys and values of their cells."""

    keys: Tensor | None = None  # (n, heads, head_size, cells)
    values: Tensor | None = None  # (n, heads, cells, head_size)


class CaptionerNetwork(MRNNNetwork):
    """An m-RNN whose multimodal layer also takes the cells that it attends to.

    The query is r(t), which does not depend on the photo, so that the language part is still shared by all photos.
    """

    attends = True
    cell_mean: Tensor
    cell_scale: Tensor

    def __init__(self, photo_size: int, vocabulary_size: int, settings: CaptionerSettings, cell_size: int) -> None:
        recurrent = LSTMRecurrence(settings.embedding_dim, settings.hidden_size)
        super().__init__(photo_size, vocabulary_size, settings.m_rnn, recurrent, settings.dropout)
        self.cells = CellEncoder(cell_size, settings)
        self.attention = CellAttention(settings.hidden_size, settings)
        self.second_attention = CellAttention(settings.multimodal_dim, settings) if settings.second_attention else None
        self.add_statistics("cell", cell_size)
        # Transformer layers and the second attention add nothing before training.
        init_glorot(self.cells)
        for part in self.cells.modules():
            if isinstance(part, TransformerBlock):
                nn.init.zeros_(part.self_attn.out_proj.weight)
                nn.init.zeros_(part.linear2.weight)
        init_glorot(self.attention)
        if self.second_attention is not None:
            init_glorot(self.second_attention)
            nn.init.zeros_(self.second_attention.from_values.weight)

    def visual_context(self, *photos: Tensor) -> CellContext:
        """From vectors (n, photo_size) and cells (n, k, cell_size), what every word needs of them."""
        vectors, cells = photos
        cells = (cells - self.cell_mean) / self.cell_scale
        return CellContext(*self.image_terms(vectors), *self.cells(self.dropout(cells)))

    def multimodal_layer(self, language: Tensor, states: Tensor, context: VisualContext) -> Tensor:
        """Eq. 3 of m-RNN, plus the cells that r(t) attends to.

        With a second attention, g(m(t) + the cells that m(t) attends to).
        """
        parts: Any = context
        language = language + parts.multimodal[:, None]
        multimodal = scaled_tanh(language + self.attention(states, parts.keys, parts.values))
        if self.second_attention is None:
            return multimodal
        return scaled_tanh(multimodal + self.second_attention(multimodal, parts.keys, parts.values))

    def photo_arrays(self) -> tuple[dict[str, Array], dict[str, Array]]:
        photos, context = super().photo_arrays()
        photos["cells"] = Array("photos", "cells", len(self.cell_mean))
        context["keys"] = Array("photos", self.attention.heads, self.attention.head_size, "cells")
        context["values"] = Array("photos", self.attention.heads, "cells", self.attention.head_size)
        return photos, context

    def to_context(self, parts: Any, *, skip: bool = False) -> CellContext:
        return CellContext(None, *parts)

    def negative_log_likelihood(self, context: VisualContext, words: Tensor, counts: Tensor) -> Tensor:
        """Compute −log P (n,) of the first `counts` words and end tokens of generated sentences (n, length)."""
        inputs, targets, _ = self.add_boundary_tokens(words, counts)
        real = torch.arange(inputs.shape[1], device=inputs.device) < counts[:, None]
        return self.token_losses(context, inputs, targets, real)[:, 1]
