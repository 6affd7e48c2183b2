"""What a model brings to the training loop: batches, a loss, and scores on the validation split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from torch import Tensor, nn

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


@dataclass(frozen=True)
class LossValue:
    """The loss of one batch."""

    total: Tensor  # the scalar to minimize, with its gradient
    terms: Mapping[str, Tensor] = field(default_factory=dict)  # by name, for the log; without gradients


class Loss(Protocol[Batch_contra]):
    """Computes the loss of a network on a batch.

    With several processes, each one receives the whole batch. Expensive parts are shared by
    `deixis.models.training.distributed.by_shares`; the rest is written as for one process. Nothing random may follow,
    because processes draw different numbers. All learned parameters, also a temperature of the loss, belong to the
    network; what changes with the epoch is written into the batch by the sampler.

    A loss with a true attribute `static` neither waits for the GPU nor branches on values there, and its batches are
    dataclasses of tensors: its steps may be captured as a CUDA graph.
    """

    def __call__(self, network: nn.Module, batch: Batch_contra) -> LossValue:
        """Return the mean loss of a batch."""
        ...


@dataclass(frozen=True)
class Stage:
    """One training of a network: batches and loss."""

    network: nn.Module
    sampler: Sampler[Any]
    loss: Loss[Any]
    name: str = ""  # of a model that is trained in stages: the folder within the run directory
    settings: TrainSettings | None = None  # where they are not those of the run


@dataclass(frozen=True)
class DevScores:
    """Scores on the validation split."""

    monitor: str  # chooses the best epoch, higher is better; empty where nothing is chosen
    scores: Mapping[str, float]

    @property
    def value(self) -> float:
        """The monitored score; minus infinity if there is none."""
        return float(self.scores.get(self.monitor, "-inf"))


Evaluate = Callable[[], DevScores]
"""Measures the network as it is now; called in the first process only, without gradients, in `eval` mode."""
