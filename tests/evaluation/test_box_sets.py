"""F1 of sets of boxes, compared with all assignments, and scores over phrases."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.evaluation.box_sets import box_set_scores, set_f1
from deixis.evaluation.items import Item
from deixis.evaluation.predictions import Prediction, read_predictions, write_predictions
from deixis.geometry import iou


def right_by_all_assignments(boxes: np.ndarray, gold: np.ndarray) -> int:
    near = iou(boxes, gold) >= 0.5
    if len(boxes) > len(gold):
        near = near.T
    return max(
        sum(near[row, column] for row, column in enumerate(some))
        for some in permutations(range(near.shape[1]), len(near))
    )


def test_f1_counts_the_largest_assignment() -> None:
    rng, found = np.random.default_rng(0), set()
    for _ in range(60):
        gold = np.array([0, 0, 10, 10]) + rng.uniform(-2, 2, (rng.integers(1, 5), 4))
        boxes = np.array([0, 0, 10, 10]) + rng.uniform(-4, 4, (rng.integers(1, 5), 4))
        right = right_by_all_assignments(boxes, gold)
        assert set_f1(boxes, gold) == pytest.approx(2 * right / (len(boxes) + len(gold)))
        found.add(right)
    assert len(found) > 3


def test_one_gold_box_makes_one_box_right() -> None:
    assert set_f1([[0, 0, 10, 10]] * 2, [[0, 0, 10, 10]]) == pytest.approx(2 / 3)
    assert set_f1(np.zeros((0, 4)), [[0, 0, 10, 10]]) == 0


GOLD = ((0, 0, 40, 30), (50, 0, 90, 30), (0, 50, 40, 80))


def item(photo: int, boxes: int) -> Item:
    return Item(str(photo), 0, (0, 8), "some dogs", (), GOLD[:boxes])


def predict(one: Item, selected: object = None) -> Prediction:
    boxes = [[1, 1, 2, 2], GOLD[0]]
    return Prediction(one.photo, one.caption, one.span, boxes, [0.1, 0.9], selected=selected)  # type: ignore[arg-type]


def test_scores_are_means_over_the_phrases_with_as_many_gold_boxes() -> None:
    items = [item(0, 1), item(1, 1), item(2, 2), item(3, 3)]
    sets = [None, [[5, 5, 6, 6]], GOLD[:2], GOLD[1:]]
    found = box_set_scores([predict(*each) for each in zip(items, sets, strict=True)], items, rounds=200)
    expected = {"set_f1_1": 50, "set_f1_2": 100, "set_f1_3": 80, "set_f1": 70}  # without a set: the best box
    for name, value in expected.items():
        assert getattr(found, name) == pytest.approx(value)
        assert found.interval[name].low <= value <= found.interval[name].high
    assert found.interval["set_f1_1"].low == 0
    assert found.set_n == {"set_f1_1": 2, "set_f1_2": 1, "set_f1_3": 1}
    assert box_set_scores([predict(items[0])], items[:1], rounds=2).set_f1_2 is None


def test_a_missing_prediction_has_no_box() -> None:
    items = [item(0, 1), item(1, 1)]
    assert box_set_scores([predict(items[0])], items, missing="miss", rounds=2).set_f1 == 50
    with pytest.raises(DeixisError, match="no prediction"):
        box_set_scores([predict(items[0])], items)


def test_two_systems_are_compared_by_photo() -> None:
    items = [item(photo, 2) for photo in range(20)]
    one, other = [predict(each, GOLD[:2]) for each in items], [predict(each) for each in items]
    found = box_set_scores(one, items).compare(box_set_scores(other, items), rounds=100)
    assert found["set_f1_2"].difference == pytest.approx(100 / 3)
    assert set(found) == {"set_f1", "set_f1_2"}


def test_a_set_survives_writing_and_reading_and_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    write_predictions(file, [predict(item(0, 2), GOLD[:2]), predict(item(1, 1))])
    one, other = read_predictions(file)
    assert isinstance(one, Prediction)
    assert isinstance(other, Prediction)
    assert one.selected is not None
    np.testing.assert_array_equal(one.selected, GOLD[:2])
    assert other.selected is None
    for wrong in ([[3, 0, 1, 1]], [[0, 0, 1]], "boxes"):
        with pytest.raises(DeixisError, match="set must be|box 1 ends"):
            predict(item(0, 1), wrong)
