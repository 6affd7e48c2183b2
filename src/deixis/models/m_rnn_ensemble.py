"""Several m-RNNs that write together: at each word the mean of what they find likely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Self

import numpy as np
import torch
from torch import Tensor

from deixis.errors import DeixisError
from deixis.models.decoding import Decoding, Generated, decode, start_ids
from deixis.models.decoding_search import Growing
from deixis.models.m_rnn import Seen
from deixis.models.m_rnn_cells import State
from deixis.models.m_rnn_model import MRNN, Photos
from deixis.models.m_rnn_quick import QuickMRNN


@dataclass(frozen=True)
class SeenByAll:
    """What each network has made of the same photos."""

    parts: tuple[Seen, ...]

    def take(self, rows: Tensor | slice) -> Self:
        """Some of the photos, each as often as it is asked for."""
        return type(self)(tuple(part.take(rows) for part in self.parts))


class WritingTogether:
    """What says which word is likely next: the mean of the probabilities of several networks."""

    def __init__(self, writers: Sequence[QuickMRNN]) -> None:
        self._writers = list(writers)
        self.unknown, self.end, self.start = writers[0].unknown, writers[0].end, writers[0].start
        ends = accumulate((len(writer.first_state(1)) for writer in writers), initial=0)
        self._parts = [slice(begin, end) for begin, end in pairwise(ends)]

    def first_state(self, rows: int) -> State:
        """The states before any word, one network's after another's."""
        return tuple(part for writer in self._writers for part in writer.first_state(rows))

    def next_words(self, seen: SeenByAll, words: Tensor, state: State, growing: Growing) -> tuple[Tensor, State]:
        """Log-probabilities of what follows each word, and the state after it; as `QuickMRNN` gives them."""
        found = [
            writer.next_words(part, words, state[own], growing)
            for writer, part, own in zip(self._writers, seen.parts, self._parts, strict=True)
        ]
        likely = torch.stack([each for each, _ in found]).logsumexp(0) - float(np.log(len(found)))
        return likely, tuple(part for _, after in found for part in after)


class Ensemble:
    """Models that write together.

    Parameters
    ----------
    models
        With the same words, on the same device; they see the same photos.

    Examples
    --------
    >>> from deixis.language.vocabulary import Vocabulary
    >>> models = [MRNN(8, Vocabulary(("a", "dog", "runs"), (3, 2, 1))) for _ in range(2)]
    >>> len(Ensemble(models).generate(np.eye(8)[:2], Decoding(beam=3)))
    2
    """

    def __init__(self, models: Sequence[MRNN]) -> None:
        if not models:
            raise DeixisError("an ensemble needs at least one model")
        if any(model.vocabulary.words != models[0].vocabulary.words for model in models):
            raise DeixisError("the models of an ensemble must know the same words")
        self.models = tuple(models)

    def generate(self, photos: Photos, how: Decoding | None = None, start: str = "") -> list[list[Generated]]:
        """Make up sentences: for each photo a list, the best first; as `MRNN.generate`."""
        first = self.models[0]
        how = how or Decoding(longest=first.settings.longest)
        seen = [model.prepare_writing(photos) for model in self.models]
        together = WritingTogether([model.writer() for model in self.models])
        by_all = SeenByAll(tuple(each.seen for each in seen))
        return decode(together, by_all, seen[0].count, first.vocabulary, how, start_ids(start, first.vocabulary))
