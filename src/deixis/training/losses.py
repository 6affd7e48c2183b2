"""What training makes small: eq. 6 and eq. 7 of the two-branch paper, and two losses beyond it.

A loss over a `Batch` takes vectors of unit length, (V, d) of its `visual` and (T, d) of its `text`. `MatchingObjective`
and `LogisticObjective` bring features, network and loss together as the loop wants them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from deixis.errors import DeixisError
from deixis.models.similarity import SimilarityNetwork
from deixis.models.two_branch import TwoBranchNetwork, TwoBranchSettings
from deixis.training.base import LossValue
from deixis.training.distributed import by_shares
from deixis.training.triplets import Batch, LabelledPairs, distance, distance_of_cosine, hardest_negatives

N = TypeVar("N", bound=nn.Module)

Features = Tensor | NDArray[np.floating] | NDArray[np.integer]
"""A row for each region, photo or text; may be memory-mapped, and in half precision."""


@dataclass(frozen=True)
class Candidates:
    """Targets with their positives, (P, d) each, and of a pool (N, d) which are negatives for each target, (P, N)."""

    targets: Tensor
    positives: Tensor
    pool: Tensor
    allowed: Tensor


def to_text(visual: Tensor, text: Tensor, batch: Batch) -> Candidates:
    """Regions or photos as targets, with their texts and the texts of other groups."""
    target, positive = batch.visual_targets.T
    return Candidates(_taken(visual, target), _taken(text, positive), text, batch.text_negatives[positive])


def to_visual(visual: Tensor, text: Tensor, batch: Batch) -> Candidates:
    """Texts as targets, with the regions or photos they name and those they do not."""
    target, positive = batch.text_targets.T
    return Candidates(_taken(text, target), _taken(visual, positive), visual, batch.visual_negatives_of(target))


def among_visual(visual: Tensor, batch: Batch) -> Candidates:
    """Regions as targets, with other regions of the same phrase and regions that it does not name (eq. 4)."""
    target, positive, shared = batch.visual_neighbours.T
    return Candidates(_taken(visual, target), _taken(visual, positive), visual, batch.visual_negatives_of(shared))


def among_text(text: Tensor, batch: Batch) -> Candidates:
    """Texts as targets, with other texts of their group and texts of other groups (eq. 5)."""
    target, positive = batch.text_neighbours.T
    return Candidates(_taken(text, target), _taken(text, positive), text, batch.text_negatives[target])


def _taken(vectors: Tensor, places: Tensor) -> Tensor:
    """Some of the vectors. Indexing in brackets would sort the places to add up gradients, one kernel after another."""
    return vectors.index_select(0, places)


class MatchingLoss(Protocol):
    """A loss over the vectors of a batch."""

    def __call__(self, visual: Tensor, text: Tensor, batch: Batch) -> LossValue:
        """From the vectors of `batch.visual` (V, d) and `batch.text` (T, d)."""
        ...


@dataclass(frozen=True)
class TripletLoss:
    """Eq. 6: [m + d(target, positive) − d(target, negative)]₊ over four kinds of triplets, weighted.

    The sum over all triplets, divided by the number of pairs that the batch was made from.

    Attributes
    ----------
    visual_to_text, text_to_visual, visual_neighbours, text_neighbours
        λ₁ to λ₄. Terms of weight 0 are not computed.
    margin
        m.
    most_negatives
        K of Algorithm 1: for each target and positive, only the hardest negatives count.

    Examples
    --------
    >>> both = torch.tensor([[0, 0], [1, 1]])
    >>> batch = Batch(torch.arange(2), torch.arange(2), both, both, torch.arange(2), ~torch.eye(2, dtype=torch.bool),
    ...               torch.empty(0, 3, dtype=torch.int64), torch.empty(0, 2, dtype=torch.int64), size=2)
    >>> loss = TripletLoss(1.0, 4.0, margin=0.5)
    >>> [round(loss(torch.eye(2), text, batch).total.item(), 2) for text in (torch.eye(2), torch.eye(2).flip(0))]
    [0.0, 9.57]
    """

    visual_to_text: float
    text_to_visual: float
    visual_neighbours: float = 0.0
    text_neighbours: float = 0.0
    margin: float = 0.05
    most_negatives: int = 30

    def __call__(self, visual: Tensor, text: Tensor, batch: Batch) -> LossValue:
        """From the vectors of `batch.visual` (V, d) and `batch.text` (T, d)."""
        terms: dict[str, Tensor] = {}
        if self.visual_to_text:
            terms["visual_to_text"] = self.visual_to_text * self._hinges(to_text(visual, text, batch))
        if self.text_to_visual:
            terms["text_to_visual"] = self.text_to_visual * self._hinges(to_visual(visual, text, batch))
        if batch.neighbours:
            if self.visual_neighbours:
                terms["visual_neighbours"] = self.visual_neighbours * self._hinges(among_visual(visual, batch))
            if self.text_neighbours:
                terms["text_neighbours"] = self.text_neighbours * self._hinges(among_text(text, batch))
        terms = {name: term / batch.size for name, term in terms.items()}
        return LossValue(torch.stack(list(terms.values())).sum(), {name: term.detach() for name, term in terms.items()})

    def _hinges(self, among: Candidates) -> Tensor:
        """The sum for one kind of triplet."""
        mined = hardest_negatives(among.targets, among.pool, among.allowed, self.most_negatives)
        near = distance(among.targets, among.positives)[:, None]
        # Where there is no negative left it is infinitely far, and adds nothing.
        return functional.relu(self.margin + near - distance_of_cosine(mined.nearness)).sum()


@dataclass(frozen=True)
class HardestLoss:
    """[m − s(target, positive) + s(target, hardest negative)]₊, s the cosine: the means of both directions, added.

    After Faghri et al., VSE++ (BMVC 2018). A target without any negative adds 0.

    Examples
    --------
    >>> both = torch.tensor([[0, 0], [1, 1]])
    >>> batch = Batch(torch.arange(2), torch.arange(2), both, both, torch.arange(2), ~torch.eye(2, dtype=torch.bool),
    ...               torch.empty(0, 3, dtype=torch.int64), torch.empty(0, 2, dtype=torch.int64), size=2)
    >>> sides = torch.eye(2), torch.eye(2).flip(0)
    >>> [round(HardestLoss()(torch.eye(2), text, batch).total.item(), 2) for text in sides]
    [0.0, 2.4]
    """

    margin: float = 0.2

    def __call__(self, visual: Tensor, text: Tensor, batch: Batch) -> LossValue:
        """From the vectors of `batch.visual` (V, d) and `batch.text` (T, d)."""
        return LossValue(
            self._hinges(to_text(visual, text, batch)).mean() + self._hinges(to_visual(visual, text, batch)).mean()
        )

    def _hinges(self, among: Candidates) -> Tensor:
        mined = hardest_negatives(among.targets, among.pool, among.allowed, 1)
        near = (among.targets * among.positives).sum(dim=1)
        return functional.relu(self.margin - near + mined.nearness[:, 0])


@dataclass(frozen=True)
class SoftmaxLoss:
    """Cross entropy of choosing the positive among it and the negatives, by cosine over a learned temperature.

    The mean over the targets of each direction, and of both directions: the InfoNCE of van den Oord et al. (2018).

    Attributes
    ----------
    log_temperature
        Belongs to the network, which learns it. The temperature counts as no lower than `LEAST_TEMPERATURE`.
    label_smoothing
        This share of the wish is spread evenly over the positive and the negatives.

    Examples
    --------
    >>> both = torch.tensor([[0, 0], [1, 1]])
    >>> batch = Batch(torch.arange(2), torch.arange(2), both, both, torch.arange(2), ~torch.eye(2, dtype=torch.bool),
    ...               torch.empty(0, 3, dtype=torch.int64), torch.empty(0, 2, dtype=torch.int64), size=2)
    >>> loss = SoftmaxLoss(torch.tensor(0.0))
    >>> [round(loss(torch.eye(2), text, batch).total.item(), 2) for text in (torch.eye(2), torch.eye(2).flip(0))]
    [0.31, 1.31]
    """

    log_temperature: Tensor
    label_smoothing: float = 0.0

    LEAST_TEMPERATURE = 0.01

    def __call__(self, visual: Tensor, text: Tensor, batch: Batch) -> LossValue:
        """From the vectors of `batch.visual` (V, d) and `batch.text` (T, d)."""
        sides = to_text(visual, text, batch), to_visual(visual, text, batch)
        return LossValue(
            sum((self._cross_entropies(among).mean() for among in sides), visual.new_zeros(())) / 2,
            {"temperature": self.log_temperature.detach().exp()},
        )

    def _cross_entropies(self, among: Candidates) -> Tensor:
        scale = (-self.log_temperature).exp().clamp(max=1 / self.LEAST_TEMPERATURE)
        right = scale * (among.targets * among.positives).sum(dim=1)
        wrong = scale * (among.targets @ among.pool.T)
        # As one more column and not by logaddexp: where no negative is allowed, that has no gradient.
        offered = torch.cat([right[:, None], wrong.masked_fill(~among.allowed, -torch.inf)], dim=1)
        mean = (right + (wrong * among.allowed).sum(dim=1)) / (1 + among.allowed.sum(dim=1))
        wished = (1 - self.label_smoothing) * right + self.label_smoothing * mean
        return offered.logsumexp(dim=1) - wished


def logistic_loss(scores: Tensor, matches: Tensor) -> Tensor:
    """Eq. 7: log(1 + exp(−z·p)) for pairs with scores p, where z is +1 for a match and −1 for others. The mean.

    Examples
    --------
    >>> round(logistic_loss(torch.tensor([0.0, 2.0]), torch.tensor([True, False])).item(), 2)
    1.41
    """
    return functional.softplus(torch.where(matches, -scores, scores)).mean()


def matching_loss(settings: TwoBranchSettings, log_temperature: Tensor | None = None) -> MatchingLoss:
    """The loss that the settings of a network ask for.

    Examples
    --------
    >>> matching_loss(TwoBranchSettings()).most_negatives
    30
    """
    if settings.loss == "triplet":
        return TripletLoss(
            settings.visual_to_text,
            settings.text_to_visual,
            settings.visual_neighbours,
            settings.text_neighbours,
            settings.margin,
            settings.most_negatives,
        )
    if settings.loss == "hardest":
        return HardestLoss(settings.margin)
    if log_temperature is None:
        raise DeixisError("loss=softmax: the network has no temperature; make it with the same settings")
    return SoftmaxLoss(log_temperature, settings.label_smoothing)


@dataclass(frozen=True)
class MatchingObjective:
    """How wrong an embedding network is about a batch, as the loop asks it.

    Attributes
    ----------
    settings
        Of the network.
    visual
        Features of all regions or photos, by the rows that batches name.
    text
        The same of all phrases or sentences: one array of features, or what `word_ids` gives.

    Examples
    --------
    >>> from deixis.training.samplers import SentenceSampler
    >>> settings = TwoBranchSettings(hidden=8, dimension=4)
    >>> batch = next(SentenceSampler(np.array([0, 0, 1, 1]), settings).epoch(0, np.random.default_rng(0)))
    >>> objective = MatchingObjective(settings, np.eye(2, 5), [np.eye(4, 3)])
    >>> sorted(objective(TwoBranchNetwork(5, 3, settings), batch).terms)
    ['text_to_visual', 'visual_to_text']
    """

    settings: TwoBranchSettings
    visual: Features
    text: Sequence[Features]

    @property
    def static(self) -> bool:
        """Whether nothing has to wait for the GPU: features lie there, and no reader asks how long sentences are."""
        return self.settings.reader == "none" and all(
            isinstance(side, Tensor) and side.is_cuda for side in (self.visual, *self.text)
        )

    def __call__(self, network: nn.Module, batch: Batch) -> LossValue:
        """The loss over a batch."""
        two = _of_kind(network, TwoBranchNetwork)
        here = batch.to(next(two.parameters()).device)
        visual = by_shares(two.embed_visual, _rows(self.visual, batch.visual, here.visual.device))
        text = by_shares(two.embed_text, *(_rows(side, batch.text, here.text.device) for side in self.text))
        # Distances in half precision would be noise as large as the margin.
        with torch.autocast(here.visual.device.type, enabled=False):
            return matching_loss(self.settings, two.log_temperature)(visual.float(), text.float(), here)


@dataclass(frozen=True)
class LogisticObjective:
    """How wrong a similarity network is about a batch, as the loop asks it.

    Attributes
    ----------
    visual
        Features of all regions or photos, by the rows that batches name.
    text
        The same of all phrases or sentences.

    Examples
    --------
    >>> from deixis.models.similarity import SimilaritySettings
    >>> from deixis.training.samplers import LabelledSentenceSampler
    >>> batch = next(LabelledSentenceSampler(np.array([0, 0, 1, 1])).epoch(0, np.random.default_rng(0)))
    >>> objective = LogisticObjective(np.eye(2, 5), np.eye(4, 3))
    >>> objective(SimilarityNetwork(5, 3, SimilaritySettings()), batch).total.shape
    torch.Size([])
    """

    visual: Features
    text: Features

    def __call__(self, network: nn.Module, batch: LabelledPairs) -> LossValue:
        """The loss over a batch."""
        similarity = _of_kind(network, SimilarityNetwork)
        here = batch.to(next(similarity.parameters()).device)
        visual = by_shares(similarity.embed_visual, _rows(self.visual, batch.visual, here.visual.device))
        text = by_shares(similarity.embed_text, _rows(self.text, batch.text, here.text.device))
        regions, phrases = here.pairs.T
        scores = by_shares(similarity.fuse, visual[regions], text[phrases])
        return LossValue(logistic_loss(scores.float(), here.matches))


def _rows(features: Features, rows: Tensor, device: torch.device) -> Tensor:
    """Some rows of features, in single precision where they are no whole numbers and no autocast asks for less."""
    if isinstance(features, Tensor):
        taken = features.index_select(0, rows.to(features.device, non_blocking=True))
    else:
        taken = torch.from_numpy(features[rows])
    as_they_are = not taken.is_floating_point() or torch.is_autocast_enabled(device.type)
    return taken.to(device, None if as_they_are else torch.float32)


def _of_kind(network: nn.Module, kind: type[N]) -> N:
    if not isinstance(network, kind):
        raise TypeError(f"a {kind.__name__} is needed, not a {type(network).__name__}")
    return network
