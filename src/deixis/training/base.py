"""What a model brings to the loop: batches to learn from, a loss, and a measure of how good it has become."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from torch import Tensor, nn

Batch = TypeVar("Batch")
Batch_co = TypeVar("Batch_co", covariant=True)
Batch_contra = TypeVar("Batch_contra", contravariant=True)


class Sampler(Protocol[Batch_co]):
    """Gives the batches of an epoch, the same ones whenever it is asked for the same epoch.

    A run that was killed goes on by asking for its epoch again and passing over what was already learnt from, so
    everything random must come from the generator that is handed over.
    """

    def __len__(self) -> int:
        """How many batches an epoch has."""
        ...

    def epoch(self, number: int, generator: np.random.Generator) -> Iterator[Batch_co]:
        """The batches of an epoch; the first is number 0."""
        ...


@dataclass(frozen=True)
class LossValue:
    """What a loss says of one batch.

    Attributes
    ----------
    total
        What is made smaller: one number, with its gradient.
    terms
        What it is made of, by name, for the log; without gradients.
    """

    total: Tensor
    terms: Mapping[str, Tensor] = field(default_factory=dict)


class Loss(Protocol[Batch_contra]):
    """Says how wrong a network is about a batch.

    Among several processes every one is given the whole batch. What is worth sharing is computed by
    `deixis.training.distributed.by_shares`, and the loss is then written as if there were one process. It draws
    nothing at random after that: processes draw differently. All weights that are learnt, a temperature of the loss
    too, belong to the network; what changes from epoch to epoch, the sampler writes into the batch.

    Where it has an attribute `static` that is true, it neither waits for the GPU nor chooses by what it finds there,
    and batches are dataclasses of tensors: steps may then be recorded and replayed.
    """

    def __call__(self, network: nn.Module, batch: Batch_contra) -> LossValue:
        """The mean loss over a batch."""
        ...


@dataclass(frozen=True)
class DevScores:
    """How good a model is on dev.

    Attributes
    ----------
    watched
        The name of the score by which the best model is chosen; higher is better.
    scores
        All scores by name.
    """

    watched: str
    scores: Mapping[str, float]

    @property
    def value(self) -> float:
        """The score that is watched; less than any other where there is none."""
        return float(self.scores.get(self.watched, "-inf"))


Evaluate = Callable[[], DevScores]
"""Measures the network on dev, as it is now; called in the first process only, without gradients, in `eval` mode."""
