"""σ, KS and α over box distances, against plain loops."""

from __future__ import annotations

import json
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis import geometry
from deixis.errors import DeixisError
from deixis.evaluation.agreement import DrawnBoxes, box_agreement, giou, set_distance

XYXY = tuple[float, float, float, float]

whole = st.integers(0, 6)
side = st.tuples(whole, whole).filter(lambda s: s[0] != s[1]).map(sorted)
box = st.tuples(side, side).map(lambda s: (s[0][0], s[1][0], s[0][1], s[1][1]))
sets = st.lists(box, max_size=4)


def plain_giou(a: XYXY, b: XYXY) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    around = (max(a[2], b[2]) - min(a[0], b[0])) * (max(a[3], b[3]) - min(a[1], b[1]))
    return shared / union - (around - union) / around


def plain_distance(a: list[XYXY], b: list[XYXY]) -> float:
    few, many = sorted((a, b), key=len)
    if not many:
        return 0.0
    totals = [
        sum((1 - plain_giou(x, y)) / 2 for x, y in zip(few, order, strict=True))
        for order in permutations(many, len(few))
    ]
    return (min(totals) + len(many) - len(few)) / len(many)


@given(st.lists(box, min_size=1, max_size=4), st.lists(box, min_size=1, max_size=4))
def test_giou_agrees_with_its_definition(a: list[XYXY], b: list[XYXY]) -> None:
    expected = [[plain_giou(x, y) for y in b] for x in a]
    assert giou(a, b) == pytest.approx(np.array(expected))


def test_giou_of_boxes_without_area_is_defined() -> None:
    assert giou([[1, 1, 1, 1]], [[1, 1, 1, 1], [1, 1, 1, 4], [3, 3, 3, 3]]).tolist() == [[1, -1, -1]]


@given(sets, sets)
def test_the_distance_of_two_sets_is_that_of_the_best_matching(a: list[XYXY], b: list[XYXY]) -> None:
    distance = set_distance(a, b)
    assert distance == pytest.approx(plain_distance(a, b))
    assert distance == pytest.approx(set_distance(b, a))
    assert 0 <= distance <= 1
    assert set_distance(a, list(reversed(a))) == pytest.approx(0)


@settings(max_examples=60)
@given(st.lists(st.lists(sets, min_size=1, max_size=3), min_size=2, max_size=6))
def test_the_measures_agree_with_plain_loops(items: list[list[list[XYXY]]]) -> None:
    drawn = [
        DrawnBoxes(f"p{number // 2}", str(number), str(who), boxes)
        for number, annotations in enumerate(items)
        for who, boxes in enumerate(annotations)
    ]
    observed = [plain_distance(a, b) for annotations in items for a, b in combinations(annotations, 2)]
    expected = [
        plain_distance(a.boxes.tolist(), b.boxes.tolist()) for a, b in combinations(drawn, 2) if a.item != b.item
    ]
    if not observed or max(expected) < 1e-9:
        return
    found = box_agreement(drawn, rounds=2)

    def share_up_to(distances: list[float], limit: float) -> float:
        return sum(distance <= limit + 1e-9 for distance in distances) / len(distances)

    small = [share_up_to(expected, distance) < 0.05 for distance in observed]
    assert found.sigma == pytest.approx(np.mean(small))
    leads = [share_up_to(observed, x) - share_up_to(expected, x) for x in observed + expected]
    assert found.ks == pytest.approx(max(0.0, *leads))
    assert found.alpha == pytest.approx(1 - np.mean(observed) / np.mean(expected))
    assert (found.pairs, found.expected_pairs) == (len(observed), len(expected))
    json.dumps(found.as_json(), allow_nan=False)


def scattered(noise: float, annotators: int = 2, photos: int = 60) -> list[DrawnBoxes]:
    """One box at a random position of each photo, drawn by all annotators with some noise."""
    rng = np.random.default_rng(1)
    drawn = []
    for photo in range(photos):
        corner = rng.random(2) * 400
        for who in range(annotators):
            moved = corner + rng.normal(size=2) * noise
            boxes = np.array([[*moved, *(moved + 60)]])
            drawn.append(DrawnBoxes(str(photo), "1", str(who), boxes, size=(500, 500)))
    return drawn


def test_less_noise_means_more_agreement() -> None:
    careful, hasty, blind = (box_agreement(scattered(noise), expected_pairs=1000) for noise in (1, 40, 4000))
    assert careful.sigma == 1.0
    assert careful.ks > 0.95
    assert careful.sigma > hasty.sigma > blind.sigma
    assert careful.ks > hasty.ks > blind.ks
    assert careful.alpha > hasty.alpha > blind.alpha
    assert careful.interval["sigma"].low > blind.interval["sigma"].high


def test_boxes_are_compared_relative_to_the_size_of_their_photos() -> None:
    small = [DrawnBoxes("a", "1", who, np.array([[0.0, 0, 50, 50]]), size=(100, 100)) for who in "xy"]
    large = [DrawnBoxes("b", "1", who, np.array([[0.0, 0, 500, 500]]), size=(1000, 1000)) for who in "xy"]
    with pytest.raises(DeixisError, match="same boxes"):
        box_agreement(small + large)


def test_two_empty_annotations_agree_and_an_empty_and_a_box_disagree() -> None:
    nothing, something = np.empty((0, 4)), np.array([[0.0, 0, 10, 10]])
    drawn = [DrawnBoxes("a", "1", who, nothing) for who in "xy"]
    drawn += [DrawnBoxes("b", "1", "x", nothing), DrawnBoxes("b", "1", "y", something)]
    assert box_agreement(drawn).mean_iou == 0.5


def test_an_item_with_one_annotator_counts_only_in_chance() -> None:
    drawn = scattered(1)
    alone = DrawnBoxes("extra", "1", "0", np.array([[0.0, 0, 9, 9]]), size=(500, 500))
    found = box_agreement([*drawn, alone])
    assert (found.pairs, found.items, found.alone, found.photos) == (60, 60, 1, 60)


def test_chance_is_sampled_if_there_are_too_many_pairs() -> None:
    drawn = scattered(20)
    every, some = box_agreement(drawn, expected_pairs=10**6), box_agreement(drawn, expected_pairs=500)
    assert (every.expected_pairs, some.expected_pairs) == (120 * 119 // 2 - 60, 500)
    assert some.ks == pytest.approx(every.ks, abs=0.1)
    assert some.as_json() == box_agreement(drawn, expected_pairs=500).as_json()


def test_invalid_annotations_are_errors() -> None:
    one = DrawnBoxes("a", "1", "x", np.array([[0.0, 0, 1, 1]]))
    with pytest.raises(DeixisError, match="two annotators"):
        box_agreement([one])
    with pytest.raises(DeixisError, match="photo a, item 1.*annotator x"):
        box_agreement([one, one])
    with pytest.raises(DeixisError, match="two items"):
        box_agreement([one, DrawnBoxes("a", "1", "y", one.boxes)])
    with pytest.raises(DeixisError, match="size"):
        box_agreement([one, DrawnBoxes("b", "1", "y", one.boxes, size=(9, 9))])
    with pytest.raises(DeixisError, match="photo a, item 1, annotator x"):
        DrawnBoxes("a", "1", "x", np.array([[5.0, 0, 1, 1]]))
    with pytest.raises(DeixisError, match="finite"):
        DrawnBoxes("a", "1", "x", np.array([[np.nan, 0, 1, 1]]))


def test_matched_iou_is_not_corrected_for_chance() -> None:
    a, b = np.array([[0.0, 0, 10, 10], [50, 50, 60, 60]]), np.array([[0.0, 0, 10, 5]])
    drawn = [DrawnBoxes("a", "1", "x", a), DrawnBoxes("a", "1", "y", b), DrawnBoxes("b", "1", "x", a + 7)]
    assert box_agreement(drawn).mean_iou == pytest.approx(geometry.iou(a[:1], b)[0, 0] / 2)
