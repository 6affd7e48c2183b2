"""Objective of m-RNN training: the cost of eq. 6 (section 4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deixis.errors import DatasetError
from deixis.models.m_rnn.network import MRNNNetwork
from deixis.models.training.objective import LossValue

_LOG_2 = float(np.log(2))

_BATCHES_PER_POOL = 50
"""Batches whose captions are sorted by length together, so that there is little padding."""


class CaptionSampler:
    """Batches of captions (their rows) of similar length, shuffled each epoch."""

    def __init__(self, lengths: NDArray[np.integer] | Tensor, batch_size: int = 64) -> None:
        self._lengths = np.asarray(lengths)
        self._batch_size = batch_size
        if not len(self._lengths):
            raise DatasetError("there is no caption to train on")

    def __len__(self) -> int:
        return -(-len(self._lengths) // self._batch_size)

    def epoch(self, number: int, generator: np.random.Generator) -> Iterator[Tensor]:
        order = generator.permutation(len(self._lengths))
        pool = _BATCHES_PER_POOL * self._batch_size
        batches: list[NDArray[np.int64]] = []
        for start in range(0, len(order), pool):
            some = order[start : start + pool]
            # A stable sort leaves captions of one length in their random order.
            some = some[np.argsort(self._lengths[some], kind="stable")]
            batches += [some[first : first + self._batch_size] for first in range(0, len(some), self._batch_size)]
        for index in generator.permutation(len(batches)):
            yield torch.from_numpy(batches[index])


@dataclass(frozen=True)
class LikelihoodObjective:
    """Eq. 6 without its second term: −log₂ P of the words of a batch, with end tokens, over their number.

    The second term, λ‖θ‖², is the optimizer's `weight_decay`, whose gradient is that of λ = weight_decay / 2.
    """

    photos: tuple[Tensor, ...]  # input of the network for all photos: their vectors
    photo_of_caption: Tensor  # the row of each caption's photo
    words: Tensor  # padded word ids of all captions
    lengths: Tensor  # their numbers of words
    smoothing: float = 0.0  # share of the target probability that is spread over all words

    def __call__(self, network: MRNNNetwork, batch: Tensor) -> LossValue:
        device = network.word_bias.device
        lengths = self.lengths[batch]
        words = self.words[batch, : int(lengths.max())].to(device)
        inputs = photo_inputs(self.photos, self.rows_of(batch), device)
        smoothing = self.smoothing if network.training else 0.0
        losses = network.sentence_losses(network.visual_context(*inputs), words, lengths.to(device), smoothing)
        loss, nll, count = losses.sum(0) / _LOG_2  # nats to bits
        count = count * _LOG_2  # a number of words
        return LossValue(loss / count, {"perplexity": (nll / count).detach().exp2()})

    def rows_of(self, captions: Tensor) -> Tensor:
        """Return the rows of the photos of captions."""
        return self.photo_of_caption[captions]


def photo_inputs(photos: tuple[Tensor, ...], rows: Tensor, device: torch.device) -> list[Tensor]:
    """Input of the network for some photos, in single precision."""
    return [part[rows.to(part.device)].to(device, torch.float32) for part in photos]
