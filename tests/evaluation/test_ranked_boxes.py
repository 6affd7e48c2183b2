"""Rankings of boxes against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis import geometry
from deixis.evaluation.ranked_boxes import (
    NEVER,
    average_precision,
    first_right,
    kept_by_nms,
    rank_boxes,
    right_boxes,
)

whole = st.integers(0, 6)
side = st.tuples(whole, whole).map(sorted)
box = st.tuples(side, side).map(lambda s: [s[0][0], s[1][0], s[0][1], s[1][1]])
ranking = st.lists(st.tuples(box, st.sampled_from([0.0, 0.5, 1.0])), max_size=12)


def arrays(pairs: list[tuple[list[int], float]]) -> tuple[geometry.Boxes, np.ndarray]:
    boxes = np.array([given_box for given_box, _ in pairs], dtype=np.float64).reshape(-1, 4)
    return boxes, np.array([score for _, score in pairs], dtype=np.float64)


def plain_average_precision(found: list[bool], positives: int, rule: str) -> float:
    """Precision and recall at every place; at a recall, the best precision at that recall or beyond."""
    curve = []
    for place in range(1, len(found) + 1):
        hits = sum(found[:place])
        curve.append((hits, hits / place))

    def precision_at(hits_needed: float) -> float:
        return max((precision for hits, precision in curve if hits >= hits_needed), default=0.0)

    if rule == "11-point":
        return sum(precision_at(tenth * positives / 10) for tenth in range(11)) / 11
    return sum(precision_at(hits) for hits in range(1, positives + 1)) / positives


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=30), st.integers(1, 20), st.sampled_from(["area", "11-point"]))
def test_average_precision_is_what_a_plain_loop_over_recalls_gives(found: list[bool], more: int, rule: str) -> None:
    positives = sum(found) + more - 1 or 1
    expected = plain_average_precision(found, positives, rule)
    assert average_precision(np.array(found, dtype=bool), positives, rule) == pytest.approx(expected)


def test_three_of_ten_reach_a_recall_of_three_tenths() -> None:
    found = np.array([True] * 3)
    assert average_precision(found, 10, "11-point") == pytest.approx(4 / 11)


@settings(deadline=None)
@given(st.lists(ranking, min_size=1, max_size=6))
def test_suppression_of_many_rankings_keeps_what_geometry_keeps_of_each(
    rankings: list[list[tuple[list[int], float]]],
) -> None:
    given_arrays = [arrays(pairs) for pairs in rankings]
    ranked = rank_boxes(given_arrays)
    kept = kept_by_nms(ranked)
    for (boxes, scores), part in zip(given_arrays, ranked.slices(), strict=True):
        expected = boxes[geometry.nms(boxes, scores)] if len(boxes) else boxes
        assert ranked.boxes[part][kept[part]].tolist() == expected.tolist()


def test_suppression_is_the_same_when_rankings_do_not_fit_into_one_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(3)
    corners = rng.random((40, 30, 2, 2)) * 50
    rankings = [
        (np.concatenate([np.sort(c, axis=1)[:, 0], np.sort(c, axis=1)[:, 1]], axis=1)[:n], rng.random(n))
        for n, c in zip(rng.integers(0, 30, 40), corners, strict=True)
    ]
    ranked = rank_boxes(rankings)
    at_once = kept_by_nms(ranked)
    monkeypatch.setattr("deixis.evaluation.ranked_boxes._CELLS_AT_ONCE", 100)
    assert (kept_by_nms(ranked) == at_once).all()


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(ranking, st.lists(box, min_size=1, max_size=3)), min_size=1, max_size=5))
def test_the_first_right_box_is_where_a_plain_loop_finds_it(
    cases: list[tuple[list[tuple[list[int], float]], list[list[int]]]],
) -> None:
    ranked = rank_boxes([arrays(pairs) for pairs, _ in cases])
    first = first_right(ranked, right_boxes(ranked, [np.array(gold, float) for _, gold in cases]))
    for (pairs, golds), rank in zip(cases, first.tolist(), strict=True):
        best_first = sorted(pairs, key=lambda pair: -pair[1])
        right = [
            place
            for place, (predicted, _) in enumerate(best_first)
            if any(geometry.iou([predicted], [gold])[0, 0] >= 0.5 for gold in golds)
        ]
        assert rank == (right[0] if right else NEVER)


def test_ties_go_to_the_box_given_first() -> None:
    ranked = rank_boxes([(np.array([[0.0, 0, 1, 1], [0, 0, 2, 2], [0, 0, 3, 3]]), np.array([1.0, 2, 2]))])
    assert ranked.boxes[:, 2].tolist() == [2, 3, 1]
