"""Several m-RNNs that generate together, which the paper does not have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.models.m_rnn.decoding import Context, Decoding, GeneratedSentence, Ids, State, best_of, decode, encode_start
from deixis.models.m_rnn.model import MRNN, Photos, WordSteps


class Ensemble:
    """Several m-RNNs that generate together: the probability of a word is the mean of theirs.

    They need the same vocabulary and image features.
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
        prepared = [model.prepare_visual(photos) for model in self.models]
        network = _MeanNetwork([model.words for model in self.models], [len(each.context) for each in prepared])
        context = tuple(part for each in prepared for part in each.context)
        ids = encode_start(start, first.vocabulary, decoding.max_length)
        return decode(network, context, prepared[0].count, first.vocabulary, decoding, ids)


class _MeanNetwork:
    """A `NextWordModel`: the mean of the probabilities of several networks.

    Context and state have the parts of all networks; `contexts` is the number of parts of each.
    """

    def __init__(self, networks: Sequence[WordSteps], contexts: Sequence[int]) -> None:
        self.unknown, self.end, self.start = networks[0].unknown, networks[0].end, networks[0].start
        states = [network.settings.state_parts for network in networks]
        self._networks = list(zip(networks, _slices(contexts), _slices(states), strict=True))

    def initial_state(self, photos: int, width: int) -> State:
        return tuple(part for network, _, _ in self._networks for part in network.initial_state(photos, width))

    def step(self, context: Context, words: Ids, state: State) -> tuple[Floats, State]:
        steps = [network.step(context[seen], words, state[own]) for network, seen, own in self._networks]
        log_p = np.logaddexp.reduce([each for each, _ in steps]) - np.float32(np.log(len(steps)))
        return log_p, tuple(part for _, after in steps for part in after)

    def best_words(self, context: Context, words: Ids, state: State, count: int) -> tuple[Floats, Ids, State]:
        log_p, state = self.step(context, words, state)
        return *best_of(log_p, count), state


def _slices(counts: Sequence[int]) -> list[slice]:
    return [slice(start, end) for start, end in pairwise(accumulate(counts, initial=0))]
