"""The recurrent layers that an m-RNN can have, the paper's and gated ones in its place; and its activation."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

State = tuple[Tensor, ...]
"""What a recurrent layer hands on from word to word; each tensor has a row for each sentence."""

TANH_OUTER, TANH_INNER = 1.7159, 2 / 3
"""The factors of eq. 4."""


def scaled_tanh(x: Tensor) -> Tensor:
    """Eq. 4: 1.7159 · tanh(2x / 3).

    Examples
    --------
    >>> round(scaled_tanh(torch.tensor(1.0)).item(), 3)
    1.0
    """
    return TANH_OUTER * torch.tanh(x * TANH_INNER)


class ReluRecurrence(nn.Module):
    """Eq. 2: r(t) = relu(U_r · r(t − 1) + w(t)); before the first word r is 0.

    Examples
    --------
    >>> layer = ReluRecurrence(2)
    >>> _ = nn.init.eye_(layer.weight)
    >>> layer(torch.tensor([[[1.0, -1.0], [2.0, 3.0]]]), (torch.zeros(1, 2),))[0].tolist()
    [[[1.0, 0.0], [3.0, 3.0]]]
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, size))
        nn.init.orthogonal_(self.weight)

    def forward(self, words: Tensor, state: State) -> tuple[Tensor, State]:
        """From the words of sentences (n, t, size), the state after each, and after the last."""
        (now,) = state
        after = []
        for word in words.unbind(1):
            now = torch.relu(word + now @ self.weight.T)
            after.append(now)
        return torch.stack(after, 1), (now,)


class GatedRecurrence(nn.Module):
    """An LSTM or a GRU in the place of eq. 2."""

    def __init__(self, kind: Literal["lstm", "gru"], inputs: int, size: int) -> None:
        super().__init__()
        made = {"lstm": nn.LSTM, "gru": nn.GRU}[kind]
        self.layer: nn.LSTM | nn.GRU = made(inputs, size, batch_first=True)

    def forward(self, words: Tensor, state: State) -> tuple[Tensor, State]:
        """From the words of sentences (n, t, inputs), the state after each, and after the last."""
        first = tuple(part[None].contiguous() for part in state)
        given: Any = first if isinstance(self.layer, nn.LSTM) else first[0]
        after, last = self.layer(words, given)
        return after, tuple(part[0] for part in (last if isinstance(last, tuple) else (last,)))
