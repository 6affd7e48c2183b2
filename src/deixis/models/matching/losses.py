"""Losses: eq. 6 and eq. 7 of the two-branch paper, and a softmax.

A loss on a `TripletBatch` takes unit vectors, (V, d) of its `visual` and (T, d) of its `text`. `MatchingObjective` and
`LogisticObjective` combine features, network and loss for the training loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from deixis.errors import DeixisError
from deixis.models.matching.networks import SimilarityNetwork, TwoBranchNetwork
from deixis.models.matching.samplers import LabelledPairs, TripletBatch, distance, distance_of_cosine, hardest_negatives
from deixis.models.matching.spec import TwoBranchSettings
from deixis.models.networks import move_tensors
from deixis.models.training.objective import LossValue, contrastive_cross_entropies, ranking_hinges

Features = Tensor | NDArray[np.floating] | NDArray[np.integer]
"""One row per region, photo or text; may be memory-mapped, and in half precision."""


@dataclass(frozen=True)
class Triplets:
    """Targets and their positives (P, d), a pool (N, d), and which of the pool are negatives of each target (P, N)."""

    targets: Tensor
    positives: Tensor
    pool: Tensor
    allowed: Tensor


def to_text(visual: Tensor, text: Tensor, batch: TripletBatch) -> Triplets:
    """Eq. 1: targets are regions or photos; positives their texts; negatives the texts of other groups."""
    target, positive = batch.visual_targets.T
    return Triplets(_take(visual, target), _take(text, positive), text, batch.text_negatives[positive])


def to_visual(visual: Tensor, text: Tensor, batch: TripletBatch) -> Triplets:
    """Eq. 2: targets are texts; positives the regions or photos that they name; negatives other ones."""
    target, positive = batch.text_targets.T
    return Triplets(_take(text, target), _take(visual, positive), visual, batch.visual_negatives_of(target))


def among_visual(visual: Tensor, batch: TripletBatch) -> Triplets:
    """Eq. 4: targets are regions; positives other regions of the same phrase; negatives regions it does not name."""
    target, positive, shared = batch.visual_neighbours.T
    return Triplets(_take(visual, target), _take(visual, positive), visual, batch.visual_negatives_of(shared))


def among_text(text: Tensor, batch: TripletBatch) -> Triplets:
    """Eq. 5: targets are texts; positives other texts of their group; negatives texts of other groups."""
    target, positive = batch.text_neighbours.T
    return Triplets(_take(text, target), _take(text, positive), text, batch.text_negatives[target])


def _take(vectors: Tensor, positions: Tensor) -> Tensor:
    """Select vectors. The gradient of indexing by brackets would sort the positions, which takes several kernels."""
    return vectors.index_select(0, positions)


class MatchingLoss(Protocol):
    """A loss of the vectors of `batch.visual` (V, d) and `batch.text` (T, d)."""

    def __call__(self, visual: Tensor, text: Tensor, batch: TripletBatch) -> LossValue: ...


@dataclass(frozen=True)
class TripletLoss:
    """Eq. 6: the weighted sum of [m + d(target, positive) − d(target, negative)]₊ over four kinds of triplets.

    The sum is divided by the number of pairs that the batch was made from. Terms of weight 0 are not computed.
    """

    visual_to_text: float  # λ₁
    text_to_visual: float  # λ₂
    visual_neighbours: float = 0.0  # λ₃
    text_neighbours: float = 0.0  # λ₄
    margin: float = 0.05  # m
    max_negatives: int = 30  # K of Algorithm 1: only the hardest negatives of each target and positive are used

    def __call__(self, visual: Tensor, text: Tensor, batch: TripletBatch) -> LossValue:
        terms: dict[str, Tensor] = {}
        if self.visual_to_text:
            terms["visual_to_text"] = self.visual_to_text * self._hinges(to_text(visual, text, batch))  # eq. 1
        if self.text_to_visual:
            terms["text_to_visual"] = self.text_to_visual * self._hinges(to_visual(visual, text, batch))  # eq. 2
        if self.visual_neighbours and batch.neighbours:
            terms["visual_neighbours"] = self.visual_neighbours * self._hinges(among_visual(visual, batch))  # eq. 4
        if self.text_neighbours and batch.neighbours:
            terms["text_neighbours"] = self.text_neighbours * self._hinges(among_text(text, batch))  # eq. 5
        terms = {name: term / batch.size for name, term in terms.items()}
        return LossValue(torch.stack(list(terms.values())).sum(), {name: term.detach() for name, term in terms.items()})

    def _hinges(self, triplets: Triplets) -> Tensor:
        cosines = hardest_negatives(triplets.targets, triplets.pool, triplets.allowed, self.max_negatives)
        near, far = distance(triplets.targets, triplets.positives), distance_of_cosine(cosines)
        return ranking_hinges(-near, -far, self.margin).sum()


@dataclass(frozen=True)
class SoftmaxLoss:
    """InfoNCE (van den Oord et al., 2018): cross entropy of the positive among the negatives, mean of both directions.

    Logits are cosines divided by a learned temperature, which is clamped at `MIN_TEMPERATURE`.
    """

    log_temperature: Tensor
    label_smoothing: float = 0.0
    MIN_TEMPERATURE = 0.01

    def __call__(self, visual: Tensor, text: Tensor, batch: TripletBatch) -> LossValue:
        sides = to_text(visual, text, batch), to_visual(visual, text, batch)
        return LossValue(
            sum((self._cross_entropies(triplets).mean() for triplets in sides), visual.new_zeros(())) / 2,
            {"temperature": self.log_temperature.detach().exp()},
        )

    def _cross_entropies(self, triplets: Triplets) -> Tensor:
        scale = (-self.log_temperature).exp().clamp(max=1 / self.MIN_TEMPERATURE)
        positive = scale * (triplets.targets * triplets.positives).sum(dim=1)
        negatives = scale * (triplets.targets @ triplets.pool.T)
        return contrastive_cross_entropies(positive, negatives, triplets.allowed, self.label_smoothing)


def logistic_loss(scores: Tensor, matches: Tensor) -> Tensor:
    """Eq. 7: the mean of log(1 + exp(−z·p)) over pairs with scores p, where z is +1 for a match and −1 otherwise."""
    return functional.softplus(torch.where(matches, -scores, scores)).mean()


def matching_loss(settings: TwoBranchSettings, log_temperature: Tensor | None = None) -> MatchingLoss:
    """Return the loss that the settings choose."""
    if settings.loss == "triplet":
        return TripletLoss(
            settings.visual_to_text_weight,
            settings.text_to_visual_weight,
            settings.visual_neighbour_weight,
            settings.text_neighbour_weight,
            settings.margin,
            settings.max_negatives,
        )
    if log_temperature is None:
        raise DeixisError("loss=softmax: the network has no temperature; build it with the same settings")
    return SoftmaxLoss(log_temperature, settings.label_smoothing)


@dataclass(frozen=True)
class MatchingObjective:
    """The loss of an embedding network on the batches of a data set."""

    settings: TwoBranchSettings
    visual: Features  # of all regions or photos
    text: Sequence[Features]  # of all phrases or sentences; or their word ids and lengths

    def __call__(self, network: TwoBranchNetwork, batch: TripletBatch) -> LossValue:
        here = move_tensors(batch, next(network.parameters()).device)
        visual = network.embed_visual(_rows(self.visual, batch.visual, here.visual.device))
        text = network.embed_text(*(_rows(side, batch.text, here.text.device) for side in self.text))
        # In half precision, the rounding error of distances is as large as the margin.
        with torch.autocast(here.visual.device.type, enabled=False):
            return matching_loss(self.settings, network.log_temperature)(visual.float(), text.float(), here)


@dataclass(frozen=True)
class LogisticObjective:
    """The loss of a similarity network on the batches of a data set."""

    visual: Features
    text: Features

    def __call__(self, network: SimilarityNetwork, batch: LabelledPairs) -> LossValue:
        here = move_tensors(batch, next(network.parameters()).device)
        visual = network.embed_visual(_rows(self.visual, batch.visual, here.visual.device))
        text = network.embed_text(_rows(self.text, batch.text, here.text.device))
        regions, phrases = here.pairs.T
        scores = network.fuse(visual[regions], text[phrases])
        return LossValue(logistic_loss(scores.float(), here.matches))


def _rows(features: Features, rows: Tensor, device: torch.device) -> Tensor:
    """Select rows of features, in single precision unless they are integers or autocast is enabled."""
    if isinstance(features, Tensor):
        taken = features.index_select(0, rows.to(features.device, non_blocking=True))
    else:
        taken = torch.from_numpy(features[rows])
    keep_type = not taken.is_floating_point() or torch.is_autocast_enabled(device.type)
    return taken.to(device, None if keep_type else torch.float32)
