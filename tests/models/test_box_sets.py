"""Selection of one box for each thing that a phrase names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from deixis.evaluation.box_sets import set_f1
from deixis.models.box_sets import BoxSetSettings, RegionMembers, fit_box_sets

EVERYTHING = [0, 0, 100, 50]
LEFT, RIGHT = [0, 0, 40, 50], [60, 0, 100, 50]
SETTINGS = BoxSetSettings(min_probability=0.4, max_iou=0.5, max_containment=0.9)


def phrase(*boxes: list[int], probabilities: list[float]) -> RegionMembers:
    return RegionMembers(np.array(EVERYTHING), np.array(boxes, dtype=float).reshape(-1, 4), np.array(probabilities))


def select(*boxes: list[int], probabilities: list[float], settings: BoxSetSettings = SETTINGS) -> list[list[float]]:
    return phrase(*boxes, probabilities=probabilities).select(settings).boxes.tolist()


def test_probable_boxes_are_selected_in_order_of_probability() -> None:
    found = phrase(LEFT, RIGHT, [0, 0, 9, 9], probabilities=[0.6, 0.8, 0.39]).select(SETTINGS)
    assert found.boxes.tolist() == [RIGHT, LEFT]
    assert found.probabilities is not None
    assert found.probabilities.tolist() == [0.8, 0.6]


def test_the_box_around_everything_is_returned_unless_two_boxes_are_selected() -> None:
    assert select(probabilities=[]) == [EVERYTHING]
    assert select(LEFT, RIGHT, probabilities=[0.9, 0.3]) == [EVERYTHING]
    assert select(LEFT, [0, 0, 38, 50], probabilities=[0.9, 0.8]) == [EVERYTHING]  # the same thing twice
    assert phrase(LEFT, probabilities=[0.9]).select(SETTINGS).probabilities is None


def test_no_more_boxes_are_selected_than_the_phrase_says() -> None:
    several = phrase(LEFT, RIGHT, [45, 0, 55, 50], probabilities=[0.9, 0.8, 0.2])
    assert replace(several, count=1).select(SETTINGS).boxes.tolist() == [EVERYTHING]
    assert replace(several, count=2).select(SETTINGS).boxes.tolist() == [LEFT, RIGHT]
    counted = replace(SETTINGS, min_counted=0.1)  # applies to phrases that state a number, and only to them
    assert len(replace(several, count=3).select(counted).boxes) == 3
    assert len(several.select(counted).boxes) == 2


def test_a_box_that_contains_a_more_probable_box_is_left_out() -> None:
    assert select(EVERYTHING, LEFT, RIGHT, probabilities=[0.6, 0.7, 0.8]) == [RIGHT, LEFT]
    assert select(EVERYTHING, LEFT, RIGHT, probabilities=[0.9, 0.7, 0.8]) == [EVERYTHING]
    apart = BoxSetSettings(min_probability=0.4, max_iou=0.5, max_containment=1.1)
    assert select(EVERYTHING, LEFT, RIGHT, probabilities=[0.9, 0.7, 0.8], settings=apart) == [EVERYTHING, RIGHT, LEFT]


def test_the_fitted_settings_select_the_gold_boxes() -> None:
    """Things have probabilities around 0.25, other regions around 0.15; a thing may be inside another."""
    rng, inner, gold = np.random.default_rng(0), [5, 5, 25, 25], np.array([LEFT, [5, 5, 25, 25], RIGHT])
    examples = []
    for _ in range(40):
        chances = np.array([0.25, 0.25, 0.25, 0.15, 0.15]) + rng.uniform(-0.04, 0.04, 5)
        boxes = LEFT, inner, RIGHT, EVERYTHING, [45, 0, 55, 50]
        examples.append((phrase(*boxes, probabilities=chances.tolist()), gold))
    assert np.mean([set_f1(one.select(SETTINGS).boxes, gold) for one, _ in examples]) < 0.5
    fitted = fit_box_sets(examples)
    assert np.mean([set_f1(one.select(fitted).boxes, gold) for one, _ in examples]) > 0.95
    assert 0.15 < fitted.min_probability < 0.25
    assert fitted.max_containment > 1
