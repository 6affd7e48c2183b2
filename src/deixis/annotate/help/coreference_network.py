"""The network of `deixis.annotate.help.coreference` while it learns; the same sums, in torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from deixis.annotate.help.mention_facts import ABOUT_EACH, ABOUT_TWO


@dataclass(frozen=True)
class Batch:
    """Mentions of some photos, and pairs of them.

    Attributes
    ----------
    heads, around
        Where the vectors of their words are: (mentions,), and (mentions, most) inside, before and after them.
    each
        (mentions, `ABOUT_EACH`).
    pairs, two, same
        (pairs, 2) rows of the mentions, (pairs, `ABOUT_TWO`), and (pairs,) whether they name the same.
    """

    heads: Tensor
    around: tuple[Tensor, ...]
    each: Tensor
    pairs: Tensor
    two: Tensor
    same: Tensor


class Network(nn.Module):
    """Two layers over word vectors that are learned with them."""

    def __init__(self, rows: int, dimension: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.vectors = nn.Embedding(rows, dimension, padding_idx=0)
        nn.init.normal_(self.vectors.weight, std=0.1)
        self.mention = nn.Linear(4 * dimension + ABOUT_EACH, hidden)
        self.pair = nn.Linear(2 * hidden + ABOUT_TWO, hidden)
        self.last = nn.Linear(hidden, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: Batch) -> Tensor:
        """The logarithm of the odds that the pairs are the same."""
        around = [self._mean(places) for places in batch.around]
        words = self.dropout(torch.cat([self.vectors(batch.heads), *around], dim=1))
        mentions = functional.relu(self.mention(torch.cat([words, batch.each], dim=1)))
        one, other = mentions[batch.pairs[:, 0]], mentions[batch.pairs[:, 1]]
        both = torch.cat([one * other, (one - other).abs(), batch.two], dim=1)
        hidden = self.dropout(functional.relu(self.pair(self.dropout(both))))
        found: Tensor = self.last(hidden)[:, 0]
        return found

    def _mean(self, places: Tensor) -> Tensor:
        there = (places > 0).float()[..., None]
        total: Tensor = (self.vectors(places) * there).sum(dim=1) / there.sum(dim=1).clamp(min=1)
        return total

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy over pairs."""
        return functional.binary_cross_entropy_with_logits(self(batch), batch.same)

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """What `deixis.annotate.help.coreference.Coreference` takes."""
        named = {
            "vectors": self.vectors.weight,
            "mention_w": self.mention.weight.T,
            "mention_b": self.mention.bias,
            "pair_w": self.pair.weight.T,
            "pair_b": self.pair.bias,
            "last_w": self.last.weight[0],
            "last_b": self.last.bias,
        }
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in named.items()}
