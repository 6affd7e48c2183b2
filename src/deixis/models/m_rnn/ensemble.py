"""Several m-RNNs that generate together, which the paper does not have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Self

import numpy as np
import torch
from torch import Tensor

from deixis.errors import DeixisError
from deixis.models.m_rnn.decoding import BeamRows, Decoding, GeneratedSentence, decode, encode_start
from deixis.models.m_rnn.fast_network import FastMRNN
from deixis.models.m_rnn.model import MRNN, Photos
from deixis.models.m_rnn.network import State, VisualContext


class Ensemble:
    """Several m-RNNs that generate together: the probability of a word is the mean of theirs.

    They need the same vocabulary, device and image features.
    """

    def __init__(self, models: Sequence[MRNN]) -> None:
        if not models:
            raise DeixisError("an ensemble needs at least one model")
        if any(model.vocabulary.words != models[0].vocabulary.words for model in models):
            raise DeixisError("the models of an ensemble must have the same vocabulary")
        self.models = tuple(models)

    def generate(
        self, photos: Photos, decoding: Decoding | None = None, start: str = ""
    ) -> list[list[GeneratedSentence]]:
        """As `MRNN.generate`."""
        first = self.models[0]
        decoding = decoding or Decoding(max_length=first.settings.max_length)
        prepared = [model.prepare_generation(photos) for model in self.models]
        network = _MeanNetwork([model.fast_network() for model in self.models])
        context = _EnsembleContext(tuple(each.context for each in prepared))
        ids = encode_start(start, first.vocabulary, decoding.max_length)
        return decode(network, context, prepared[0].count, first.vocabulary, decoding, ids)


@dataclass(frozen=True)
class _EnsembleContext:
    parts: tuple[VisualContext, ...]

    def take(self, rows: Tensor | slice) -> Self:
        return type(self)(tuple(part.take(rows) for part in self.parts))


class _MeanNetwork:
    """A `NextWordModel`: the mean of the probabilities of several networks."""

    def __init__(self, networks: Sequence[FastMRNN]) -> None:
        self._networks = networks
        self.unknown, self.end, self.start = networks[0].unknown, networks[0].end, networks[0].start
        ends = accumulate((len(network.initial_state(1)) for network in networks), initial=0)
        self._states = [slice(start, end) for start, end in pairwise(ends)]

    def initial_state(self, rows: int) -> State:
        return tuple(part for network in self._networks for part in network.initial_state(rows))

    def step(self, context: _EnsembleContext, words: Tensor, state: State, rows: BeamRows) -> tuple[Tensor, State]:
        steps = [
            network.step(part, words, state[own], rows)
            for network, part, own in zip(self._networks, context.parts, self._states, strict=True)
        ]
        log_p = torch.stack([each for each, _ in steps]).logsumexp(0) - float(np.log(len(steps)))
        return log_p, tuple(part for _, after in steps for part in after)
