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
        (T, V) of bool: whether a visual is a negative for a text. None where groups are rows of the visual features,
        and every visual of another group is a negative.
    visual_neighbours
        (A, 3): a visual target, another visual of the same text, and that text.
    text_neighbours
        (B, 2): a text target, and another text of its group.
    size
        How many pairs the batch was made from.
    neighbours
        Whether neighbourhood constraints count by now.
    same_words
        Whether the same row of `text` in another group is a negative.
    """

    visual: Tensor
    text: Tensor
    visual_targets: Tensor
    text_targets: Tensor
    group: Tensor
    visual_negatives: Tensor | None
    visual_neighbours: Tensor
    text_neighbours: Tensor
    size: int
    neighbours: bool = True
    same_words: bool = True

    @property
    def text_negatives(self) -> Tensor:
        """(T, T) of bool: whether a text is a negative for all that goes with another."""
        other = self.group[:, None] != self.group
        return other if self.same_words else other & (self.text[:, None] != self.text)

    def visual_negatives_of(self, texts: Tensor) -> Tensor:
        """(len(texts), V) of bool: whether a visual is a negative for each of some texts."""
        if self.visual_negatives is None:
            return self.group[texts][:, None] != self.visual
        return self.visual_negatives[texts]

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
    """Negatives for each of P targets, (P, k), the hardest first.

    Attributes
    ----------
    nearness
        Their dot products with the target, through which gradients flow; -inf where there is no negative left.
    places
        Where they stand in the pool.
    """

    nearness: Tensor
    places: Tensor


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
    >>> mined.places.tolist(), round(mined.nearness.item(), 2)
    ([[1]], 0.71)
    """
    nearness = (targets @ pool.T).masked_fill(~allowed, -torch.inf)
    return Mined(*nearness.topk(min(most, nearness.shape[1]), dim=1))


def distance_of_cosine(cosine: Tensor) -> Tensor:
    """Euclidean distance of vectors of unit length, from their dot product. Where both are the same its gradient is 0.

    Examples
    --------
    >>> distance_of_cosine(torch.tensor([0.5, -1.0, -torch.inf])).tolist()
    [1.0, 2.0, inf]
    """
    # Not from 0 itself, where the root has no slope.
    return (2 - 2 * cosine).clamp(min=torch.finfo(cosine.dtype).tiny).sqrt()


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distance along the last axis, not squared. Where both are the same its gradient is 0.

    Examples
    --------
    >>> distance(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])).item()
    5.0
    """
    length: Tensor = torch.linalg.vector_norm(a - b, dim=-1)
    return length
