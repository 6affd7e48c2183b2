"""Learning the weights of a `SequenceModel`: the averaged structured perceptron.

Each sentence is decoded with the weights so far; where the path is wrong, the features of the true labels gain one
and those of the wrong labels lose one. What is kept is the average of the weights over all steps, scaled to whole
numbers of one byte. The order of the sentences is drawn from a seed: the same data gives the same model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from deixis.language.sequence import Rows, SequenceModel, best_path, margin_for

_LARGEST = 127
# A few weights are far larger than all others (the commonest words); they may be cut so that the others keep detail.
_KEPT_WHOLE = 99.99


class Labelled(NamedTuple):
    """A training sentence: the feature rows of its tokens, and the numbers of their labels."""

    rows: Rows | npt.NDArray[np.int32]
    labels: npt.NDArray[np.int64]


class _Averaged:
    """A table of weights that also knows its average over all steps so far."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.now = np.zeros(shape, dtype=np.float32)
        self._weighted = np.zeros(shape, dtype=np.float64)

    def add(self, where: Any, amount: float, step: int) -> None:
        np.add.at(self.now, where, amount)
        np.add.at(self._weighted, where, amount * step)

    def average(self, steps: int) -> npt.NDArray[np.float64]:
        return self.now - self._weighted / steps


def learn(
    sentences: Sequence[Labelled],
    labels: Sequence[str],
    *,
    bits: int,
    epochs: int,
    seed: int,
    about: dict[str, Any],
    after_epoch: Callable[[int, float], None] | None = None,
) -> SequenceModel:
    """Learn a model from labelled sentences.

    Parameters
    ----------
    sentences : sequence of Labelled
    labels : sequence of str
        The labels that the numbers in `sentences` stand for.
    bits : int
        The table of weights has ``2 ** bits`` rows.
    epochs, seed : int
        Passes over the sentences, and the seed of their order.
    about : dict
        Kept in the model: what it was learned from.
    after_epoch : callable, optional
        Called with the number of the pass and the share of tokens that were right before learning from them.

    Returns
    -------
    SequenceModel

    Examples
    --------
    >>> rows = np.array([[0], [1]])
    >>> model = learn([Labelled(rows, np.array([0, 1]))], ["B", "O"], bits=1, epochs=3, seed=0, about={})
    >>> model.decode(rows)
    ['B', 'O']
    """
    weights = _Averaged((2**bits, len(labels)))
    transitions = _Averaged((len(labels) + 1, len(labels)))
    order = np.random.default_rng(seed)
    start = len(labels)
    step = 0
    for epoch in range(epochs):
        wrong = total = 0
        for number in order.permutation(len(sentences)):
            step += 1
            rows, gold = sentences[number]
            steps = transitions.now
            path = best_path(weights.now[rows].sum(axis=1), steps.tolist(), margin_for(steps))
            guess = np.array(path, dtype=np.int64)
            missed = np.flatnonzero(guess != gold)
            wrong += len(missed)
            total += len(gold)
            if len(missed):
                for labels_of, amount in ((gold, 1.0), (guess, -1.0)):
                    weights.add((rows[missed], labels_of[missed, None]), amount, step)
                    transitions.add((np.concatenate([[start], labels_of[:-1]]), labels_of), amount, step)
        if after_epoch is not None:
            after_epoch(epoch, 1 - wrong / max(total, 1))
    return _in_whole_numbers(weights.average(step + 1), transitions.average(step + 1), labels, about)


def _in_whole_numbers(
    weights: npt.NDArray[np.float64],
    transitions: npt.NDArray[np.float64],
    labels: Sequence[str],
    about: dict[str, Any],
) -> SequenceModel:
    """Scale so that all but the very largest weights fit in a byte."""
    sizes = np.abs(weights[weights != 0])
    largest = float(np.percentile(sizes, _KEPT_WHOLE)) if sizes.size else 1.0
    scale = _LARGEST / largest
    bytes_ = np.clip(np.rint(weights * scale), -_LARGEST, _LARGEST).astype(np.int8)
    return SequenceModel(tuple(labels), bytes_, np.rint(transitions * scale).astype(np.int32), about)
