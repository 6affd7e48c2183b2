"""Scores, medians, curves and comparisons made of ranks."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.evaluation.retrieval_result import Ranking, RetrievalResult, compare_results, recall_curve


def result_of(ranks, units=None, ks=(1, 5), protocol="test"):
    units = np.arange(len(ranks)) if units is None else np.asarray(units)
    photos = int(units.max()) + 1
    ranking = Ranking(np.asarray(ranks, dtype=float), np.full(len(ranks), 20), units, photos)
    return RetrievalResult(photos, ks, {"x": ranking}, protocol)


@settings(deadline=None)
@given(st.data())
def test_a_drawing_gives_the_scores_of_the_queries_written_out_as_often_as_drawn(data):
    queries = data.draw(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4)), min_size=1, max_size=15))
    ranks, units = zip(*queries, strict=True)
    result = result_of(ranks, units)
    counts = data.draw(st.lists(st.integers(0, 3), min_size=result.n, max_size=result.n))
    drawn = [rank for rank, unit in queries for _ in range(counts[unit])]
    if not drawn:
        return
    found = {name: s(np.array([counts], dtype=float))[0] for name, s in result.statistics.items()}
    assert found["x_r1"] == pytest.approx(100 * sum(rank <= 1 for rank in drawn) / len(drawn))
    assert found["x_r5"] == pytest.approx(100 * sum(rank <= 5 for rank in drawn) / len(drawn))
    assert found["x_medr"] == np.median(drawn)
    assert found["x_meanr"] == pytest.approx(np.mean(drawn))


def test_scores_are_attributes_by_their_json_names():
    result = result_of([1, 6])
    assert result.x_r1 == 50
    with pytest.raises(AttributeError, match="x_r7"):
        _ = result.x_r7
    assert copy.copy(result).x_r1 == 50


def test_intervals_draw_photos_not_sentences():
    hits = np.repeat(np.arange(40) % 2, 25)
    together = result_of(np.where(hits, 1, 9), units=np.repeat(np.arange(40), 25)).interval["x_r1"]
    alone = result_of(np.where(hits, 1, 9)).interval["x_r1"]
    assert together.high - together.low > 3 * (alone.high - alone.low)


def test_queries_without_a_rank_count_as_misses_and_leave_ranks_without_interval():
    result = result_of([1, 2, np.inf, 3])
    assert result.x_r5 == 75
    assert result.x_medr == 2.5
    assert result.interval["x_medr"] is None
    document = result.as_json()
    assert document["x_meanr"] is None
    assert document["x_medr"] == 2.5


def test_the_curve_is_that_of_the_plain_loop():
    rng = np.random.default_rng(0)
    candidates = rng.integers(1, 400, size=50)
    ranks = np.minimum(rng.integers(1, 100, size=50), candidates).astype(float)
    ranks[3] = np.inf
    curve = recall_curve(Ranking(ranks, candidates, np.arange(50), 50), range(101))
    for percentage, recall in zip(curve.percentages, curve.recall, strict=True):
        found = sum(100 * rank <= percentage * count for rank, count in zip(ranks, candidates, strict=True))
        assert recall == pytest.approx(100 * found / 50)
    assert curve.recall[0] == 0
    assert curve.recall[100] == 98


def test_a_curve_has_an_interval_at_each_point():
    curve = recall_curve(Ranking(np.arange(1.0, 21), np.full(20, 20), np.arange(20), 20), (5, 50, 100))
    assert curve.recall == (5, 50, 100)
    assert all(each.low <= value <= each.high for each, value in zip(curve.interval, curve.recall, strict=True))


def test_a_curve_beyond_the_list_is_refused():
    ranking = Ranking(np.ones(1), np.ones(1, dtype=int), np.zeros(1, dtype=int), 1)
    for percentages in ((), (101,), (-1,), (float("nan"),)):
        with pytest.raises(DeixisError, match="from 0 to 100"):
            recall_curve(ranking, percentages)


def test_only_results_of_the_same_queries_are_compared():
    a = result_of([1, 2, 3])
    with pytest.raises(DeixisError, match="same photos, protocol and Ks"):
        compare_results(a, result_of([1, 2]))
    with pytest.raises(DeixisError, match="same photos, protocol and Ks"):
        compare_results(a, result_of([1, 2, 3], protocol="another"))
    with pytest.raises(DeixisError, match="not asked the same queries"):
        compare_results(result_of([1, 2, 3], [0, 0, 1]), result_of([1, 2, 3], [0, 1, 1]))


def test_ranks_that_do_not_exist_are_not_compared():
    found = compare_results(result_of([1, 2, np.inf]), result_of([1, 2, 3]), rounds=50)
    assert set(found) == {"x_r1", "x_r5"}
    assert found["x_r5"].difference == pytest.approx(-100 / 3)
