"""Batches of positive pairs, and the hardest negatives of each: Algorithm 1 of the two-branch paper, by matrices.

*Visual* stands for regions or photos and *text* for phrases or sentences. A target, a positive that goes with it and a
negative that does not make a triplet.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Rows to embed, and how they go together. All others are places in `visual` and `text`, not rows of features.

    Attributes
    ----------
    visual, text
        (V,) and (T,): rows of the features to embed. Of `visual` no row comes twice.
    visual_targets
        (P, 2): a visual target and a text that is positive for it.
    text_targets
        (Q, 2): a text target and a visual that is positive for it.
    group
        (T,): texts of one group, a coreference chain or the sentences of one photo, are never negatives of each other.
    visual_negatives
        (T, V) of bool: whether a visual is a negative for a text.
    visual_neighbours
        (A, 3): a visual target, another visual of the same text, and that text.
    size
        How many pairs the batch was made from.
    epoch
        In which it is learned from, counted from 0.
    same_words
        Whether the same row of `text` in another group is a negative.
    """

    visual: Tensor
    text: Tensor
    visual_targets: Tensor
    text_targets: Tensor
    group: Tensor
    visual_negatives: Tensor
    visual_neighbours: Tensor
    size: int
    epoch: int = 0
    same_words: bool = True

    @property
    def text_negatives(self) -> Tensor:
        """(T, T) of bool: whether a text is a negative for all that goes with another."""
        other = self.group[:, None] != self.group
        return other if self.same_words else other & (self.text[:, None] != self.text)

    @property
    def text_neighbours(self) -> Tensor:
        """(B, 2): a text target, and another text of its group."""
        return (self.group[:, None] == self.group).fill_diagonal_(False).nonzero()

    def to(self, device: str | torch.device) -> Self:
        """The same on another device."""
        return replace(self, **_moved(self, device))


@dataclass(frozen=True)
class LabelledPairs:
    """Rows to embed, and pairs of them that match or do not: what the similarity network learns from.

    Attributes
    ----------
    visual, text
        (V,) and (T,): rows of the features to embed.
    pairs
        (N, 2): places in `visual` and `text`.
    matches
        (N,) of bool: as many are true as are false.
    """

    visual: Tensor
    text: Tensor
    pairs: Tensor
    matches: Tensor

    def to(self, device: str | torch.device) -> Self:
        """The same on another device."""
        return replace(self, **_moved(self, device))


def _moved(batch: Batch | LabelledPairs, device: str | torch.device) -> dict[str, Any]:
    """The tensors of a batch on another device, by name."""
    values = ((field.name, getattr(batch, field.name)) for field in fields(batch))
    return {name: value.to(device) for name, value in values if isinstance(value, Tensor)}


class Mined(NamedTuple):
    """Negatives for each of P targets: places in the pool, (P, k), and which of these are negatives at all."""

    places: Tensor
    kept: Tensor


@torch.no_grad()
def hardest_negatives(targets: Tensor, pool: Tensor, allowed: Tensor, most: int) -> Mined:
    """The nearest allowed negatives of each target, at most so many.

    For a target and its positive the loss of a triplet falls with the distance of the negative, so the nearest
    negatives are those with the highest loss. Those whose loss is 0 are among them only where no others are left.

    Parameters
    ----------
    targets
        (P, d), of unit length.
    pool
        (N, d), of unit length.
    allowed
        (P, N) of bool.
    most
        K of Algorithm 1.

    Examples
    --------
    >>> pool = torch.nn.functional.normalize(torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]))
    >>> mined = hardest_negatives(pool[:1], pool, torch.tensor([[False, True, True]]), most=1)
    >>> mined.places.tolist(), mined.kept.tolist()
    ([[1]], [[True]])
    """
    nearness = (targets @ pool.T).masked_fill_(~allowed, -torch.inf)
    nearest = nearness.topk(min(most, nearness.shape[1]), dim=1)
    return Mined(nearest.indices, nearest.values > -torch.inf)


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distance along the last axis, not squared. Where both are the same its gradient is 0.

    Examples
    --------
    >>> distance(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])).item()
    5.0
    """
    length: Tensor = torch.linalg.vector_norm(a - b, dim=-1)
    return length
