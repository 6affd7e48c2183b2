"""Containment of the boxes of nested phrases."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.evaluation.nesting import COVERED, compare_nesting, nesting_scores
from deixis.evaluation.predictions import NegativePrediction, Prediction


def share(inner: np.ndarray, outer: np.ndarray) -> float:
    """Share of a box that lies in another, by counting pixels."""
    grid = np.zeros((60, 60), dtype=int)
    grid[int(inner[1]) : int(inner[3]), int(inner[0]) : int(inner[2])] += 1
    total = grid.sum()
    grid[int(outer[1]) : int(outer[3]), int(outer[0]) : int(outer[2])] += 1
    return float((grid == 2).sum() / total)


SPANS = [(0, 20), (0, 5), (8, 20), (8, 12), (15, 20), (25, 30), (33, 50), (33, 36)]
PARENTS = {1: 0, 2: 0, 3: 2, 4: 2, 7: 6}


def random_predictions(seed: int, photos: int = 6) -> list[Prediction]:
    rng = np.random.default_rng(seed)
    found = []
    for photo in range(photos):
        for caption in range(2):
            for span in SPANS:
                corners = rng.integers(0, 40, size=(3, 2))
                boxes = np.hstack([corners, corners + rng.integers(1, 20, size=(3, 2))]).astype(float)
                found.append(Prediction(str(photo), caption, span, boxes, rng.permutation(3).astype(float)))
    return found


def test_shares_equal_a_plain_loop_over_captions() -> None:
    predictions = random_predictions(0)
    nested, others = [], []
    for begin in range(0, len(predictions), len(SPANS)):
        boxes = [each.boxes[np.argmax(each.scores)] for each in predictions[begin : begin + len(SPANS)]]
        nested += [share(boxes[child], boxes[parent]) for child, parent in PARENTS.items()]
        for parent in set(PARENTS.values()):
            start, end = SPANS[parent]
            others += [share(boxes[row], boxes[parent]) for row, (s, e) in enumerate(SPANS) if e <= start or end <= s]
    found = nesting_scores(predictions)
    assert found.contained == pytest.approx(100 * np.mean(nested))
    assert found.covered == pytest.approx(100 * np.mean(np.array(nested) >= COVERED))
    assert found.other_contained == pytest.approx(100 * np.mean(others))
    assert (found.n, found.photos) == (len(nested), 6)
    assert nesting_scores(predictions[::-1]).contained == pytest.approx(found.contained)
    for name, bounds in found.interval.items():
        assert bounds.low <= getattr(found, name) <= bounds.high


def test_boxes_in_the_boxes_around_them_score_100() -> None:
    outer = Prediction("1", 0, (0, 20), [[0, 0, 50, 50]], [1])
    inner = Prediction("1", 0, (0, 5), [[10, 10, 20, 20]], [1])
    found = nesting_scores([outer, inner, NegativePrediction("2", "a dog", [[0, 0, 1, 1]], [1])])
    assert (found.contained, found.covered, found.other_contained) == (100, 100, None)


def test_without_nested_phrases_there_is_nothing_to_score() -> None:
    with pytest.raises(DeixisError, match="nested"):
        nesting_scores([Prediction("1", 0, (0, 5), [[0, 0, 5, 5]], [1]), Prediction("1", 1, (0, 9), [], [])])


def test_two_systems_are_compared_on_the_same_phrases() -> None:
    first, second = random_predictions(0), random_predictions(1)
    found = compare_nesting(first, second[::-1], rounds=100)
    expected = nesting_scores(first).contained - nesting_scores(second).contained
    assert found["contained"].difference == pytest.approx(expected)
    with pytest.raises(DeixisError, match="different phrases"):
        compare_nesting(first, second[:-1])
