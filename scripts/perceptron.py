"""Averaged structured perceptron: training of a `SequenceModel`.

Each sentence is decoded with the current weights; where the path is wrong, the weights of the features of the true
labels are raised by one and those of the predicted labels lowered by one. The result is the average of the weights over
all steps, scaled to int8. The seed determines the order of the sentences and thus the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from deixis.arrays import IntArray
from deixis.language.tagger import SequenceModel, best_path, margin_for

_LARGEST = 127
# A few weights, of very frequent words, are far larger than all others; they are clipped to keep precision.
_CLIP_PERCENTILE = 99.99


class LabelledSentence(NamedTuple):
    """A training sentence: feature rows and label numbers of its tokens."""

    rows: IntArray | npt.NDArray[np.int32]
    labels: npt.NDArray[np.int64]


class _Averaged:
    """A weight table with its average over all steps."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.current = np.zeros(shape, dtype=np.float32)
        self._weighted = np.zeros(shape, dtype=np.float64)

    def add(self, where: Any, amount: float, step: int) -> None:
        np.add.at(self.current, where, amount)
        np.add.at(self._weighted, where, amount * step)

    def average(self, steps: int) -> npt.NDArray[np.float64]:
        return self.current - self._weighted / steps


def learn(
    sentences: Sequence[LabelledSentence],
    labels: Sequence[str],
    *,
    bits: int,
    epochs: int,
    seed: int,
    about: dict[str, Any],
    after_epoch: Callable[[int, float], None] | None = None,
) -> SequenceModel:
    """Train a model on labelled sentences.

    Parameters
    ----------
    sentences : sequence of LabelledSentence
    labels : sequence of str
        The labels of the numbers in `sentences`.
    bits : int
        The weight table has ``2 ** bits`` rows.
    epochs, seed : int
        Number of epochs, and random seed of the order of the sentences.
    about : dict
        Description of the training data, stored in the model.
    after_epoch : callable, optional
        Called with the epoch and the fraction of tokens that were correct before their update.

    Returns
    -------
    SequenceModel

    Examples
    --------
    >>> rows = np.array([[0], [1]])
    >>> model = learn([LabelledSentence(rows, np.array([0, 1]))], ["B", "O"], bits=1, epochs=3, seed=0, about={})
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
            steps = transitions.current
            path = best_path(weights.current[rows].sum(axis=1), steps.tolist(), margin_for(steps))
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
    return _quantize(weights.average(step + 1), transitions.average(step + 1), labels, about)


def _quantize(
    weights: npt.NDArray[np.float64], transitions: npt.NDArray[np.float64], labels: Sequence[str], about: dict[str, Any]
) -> SequenceModel:
    """Scale to int8, clipping only the very largest weights."""
    sizes = np.abs(weights[weights != 0])
    largest = float(np.percentile(sizes, _CLIP_PERCENTILE)) if sizes.size else 1.0
    scale = _LARGEST / largest
    bytes_ = np.clip(np.rint(weights * scale), -_LARGEST, _LARGEST).astype(np.int8)
    return SequenceModel(tuple(labels), bytes_, np.rint(transitions * scale).astype(np.int32), about)
