"""Interface of models and the training loop: samplers, losses, stages, and scores on the validation split."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from deixis.data.pairs import Integers
from deixis.errors import DatasetError
from deixis.evaluation.retrieval import recall_at_k
from deixis.evaluation.score_matrix import Scores
from deixis.models.photo_features import PhotoFeatures
from deixis.models.training.settings import TrainSettings

Batch = TypeVar("Batch")
Batch_co = TypeVar("Batch_co", covariant=True)
Batch_contra = TypeVar("Batch_contra", contravariant=True)


class Sampler(Protocol[Batch_co]):
    """Gives the batches of an epoch, always the same ones for the same epoch.

    A resumed run asks for its epoch again and skips the batches that it has learned from, so all randomness must come
    from the generator.
    """

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        ...

    def epoch(self, number: int, generator: np.random.Generator) -> Iterator[Batch_co]:
        """Yield the batches of an epoch, counted from 0."""
        ...


class ShuffledSampler(ABC, Generic[Batch]):
    """A sampler that draws rows in a new random order each epoch.

    A last batch of fewer than `min_rows` rows is dropped: batch norm needs two.
    """

    def __init__(self, count: int, batch_size: int, min_rows: int = 2) -> None:
        if count < min_rows:
            raise DatasetError(f"{count} examples are too few to train on; at least {min_rows} are needed")
        self._count = count
        self._batch_size = batch_size
        self._min_rows = min_rows

    def __len__(self) -> int:
        full, rest = divmod(self._count, self._batch_size)
        return full + (rest >= self._min_rows)

    def epoch(self, number: int, generator: np.random.Generator) -> Iterator[Batch]:
        order = generator.permutation(self._count)
        for batch in range(len(self)):
            yield self.make_batch(order[batch * self._batch_size :][: self._batch_size], number, generator)

    @abstractmethod
    def make_batch(self, rows: Integers, epoch: int, generator: np.random.Generator) -> Batch:
        """Return the batch of these rows."""


@dataclass(frozen=True)
class LossValue:
    """The loss of one batch."""

    total: Tensor  # the scalar to minimize, with its gradient
    terms: Mapping[str, Tensor] = field(default_factory=dict)  # by name, for the log; without gradients


class Loss(Protocol[Batch_contra]):
    """Computes the loss of a network on a batch.

    All learned parameters, also a temperature of the loss, belong to the network; what changes with the epoch is
    written into the batch by the sampler.
    """

    def __call__(self, network: Any, batch: Batch_contra) -> LossValue:
        """Return the mean loss of a batch; `network` is that of the `Stage`."""
        ...


def ranking_hinges(positive: Tensor, negatives: Tensor, margin: float) -> Tensor:
    """[m − s⁺ + s⁻]₊ for positives with scores s⁺ (n,) and negatives with scores s⁻ (n, k), −∞ for none: (n, k)."""
    return functional.relu(margin - positive[:, None] + negatives)


def contrastive_cross_entropies(
    positive: Tensor, negatives: Tensor, allowed: Tensor, label_smoothing: float = 0.0
) -> Tensor:
    """Cross entropy of each positive (n,) among the allowed ones (n, k) of the negatives, given logits: (n,).

    `label_smoothing` is spread evenly over the positive and its negatives.
    """
    # One more column instead of logaddexp, which has no gradient where no negative is allowed.
    logits = torch.cat([positive[:, None], negatives.masked_fill(~allowed, -torch.inf)], dim=1)
    mean = (positive + (negatives * allowed).sum(dim=1)) / (1 + allowed.sum(dim=1))
    return logits.logsumexp(dim=1) - ((1 - label_smoothing) * positive + label_smoothing * mean)


@dataclass(frozen=True)
class Stage:
    """One training of a network: batches and loss."""

    network: nn.Module
    sampler: Sampler[Any]
    loss: Loss[Any]
    name: str = ""  # of a model that is trained in stages: the folder within the run directory
    settings: TrainSettings | None = None  # where they are not those of the run
    choose_from: int = 0  # first epoch, counted from 0, that can be the best: before it, a term of the loss is missing


@dataclass(frozen=True)
class DevScores:
    """Scores on a validation set; the trainer adds when they were measured."""

    monitor: str  # the score that chooses the best epoch, higher is better; empty where nothing is chosen
    scores: Mapping[str, float]
    step: int = 0
    epoch: int = 0  # counted from 1

    @property
    def value(self) -> float:
        """The monitored score; minus infinity if there is none."""
        return float(self.scores.get(self.monitor, "-inf"))


def retrieval_scores(scores: Scores, photo_of_sentence: NDArray[np.integer]) -> DevScores:
    """Score retrieval; the mean of the recalls chooses the best epoch."""
    found = recall_at_k(scores, photo_of_sentence).scores
    recalls = [value for name, value in found.items() if name.startswith(("i2t_r", "t2i_r"))]
    return DevScores("mean_recall", {**found, "mean_recall": sum(recalls) / len(recalls)})


@dataclass(frozen=True)
class Validation:
    """Features of validation photos, and a function that scores a pipeline on them.

    It is called without gradients, and with the network in `eval` mode.
    """

    features: PhotoFeatures
    score: Callable[[Any], DevScores]
