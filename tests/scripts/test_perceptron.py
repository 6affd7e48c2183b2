"""Learning sequence models."""

from __future__ import annotations

import numpy as np
from perceptron import LabelledSentence, _Averaged, learn


def toy_sentences() -> list[LabelledSentence]:
    """Row 0 is always label 0, row 1 always 1; row 2 repeats the label before it."""
    sentences = []
    for rows in ([0, 2, 2], [1, 2, 2], [0, 1, 2, 2], [1, 0, 2, 2]):
        labels: list[int] = []
        for row in rows:
            labels.append(row if row < 2 else labels[-1])
        sentences.append(LabelledSentence(np.array(rows)[:, None], np.array(labels)))
    return sentences


def test_transitions_are_learned() -> None:
    model = learn(toy_sentences(), ["x", "y"], bits=2, epochs=20, seed=0, about={})
    assert model.decode(np.array([[1], [2], [2], [0], [2]])) == ["y", "y", "y", "x", "x"]


def test_the_average_is_over_the_weights_after_every_step() -> None:
    chance = np.random.default_rng(0)
    averaged = _Averaged((3, 2))
    states = [averaged.current.copy()]
    for step in range(1, 9):
        averaged.add((chance.integers(3, size=4), chance.integers(2, size=4)), 1.0, step)
        states.append(averaged.current.copy())
    np.testing.assert_allclose(averaged.average(len(states)), np.mean(states, axis=0))
