"""Bootstrap intervals against plain loops and known properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.evaluation import intervals
from deixis.evaluation.intervals import NO_SAMPLE, ONE_PHOTO, bootstrap, bootstrap_groups, compare, mean_of, ratio_of

values_and_counts = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(-100, 100), min_size=n, max_size=n),
        st.lists(st.integers(0, 4), min_size=n, max_size=n),
        st.lists(st.integers(0, 4), min_size=n, max_size=n),
    )
)


@given(values_and_counts)
def test_a_mean_equals_that_of_the_expanded_sample(problem):
    values, counts, _ = problem
    drawn = [value for value, count in zip(values, counts, strict=True) for _ in range(count)]
    if drawn:
        assert mean_of(values)(np.array([counts], float))[0] == pytest.approx(np.mean(drawn), abs=1e-9)


@given(values_and_counts)
def test_a_ratio_equals_that_of_the_expanded_sums(problem):
    tops, counts, bottoms = problem
    top = sum(t * c for t, c in zip(tops, counts, strict=True))
    bottom = sum(b * c for b, c in zip(bottoms, counts, strict=True))
    expected = top / bottom if bottom else 0.0
    assert ratio_of(tops, bottoms)(np.array([counts], float))[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("n", "rounds", "cells"), [(1, 3, 100), (7, 50, 20), (7, 50, 1), (30, 10, 10_000)])
def test_every_sample_has_as_many_units_as_the_data(n, rounds, cells, monkeypatch):
    monkeypatch.setattr(intervals, "_CELLS_PER_BATCH", cells)
    samples = np.concatenate(list(intervals._samples(n, rounds, seed=1)))
    assert samples.shape == (rounds, n)
    assert (samples.sum(axis=1) == n).all()
    assert (samples >= 0).all()


def test_the_interval_agrees_with_a_plain_loop():
    values = np.random.default_rng(0).normal(size=15)
    samples = np.concatenate(list(intervals._samples(15, 400, seed=9)))
    means = [sum(v * c for v, c in zip(values, row, strict=True)) / 15 for row in samples]
    found = bootstrap(mean_of(values), 15, rounds=400, seed=9)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])))


def test_the_seed_determines_the_interval():
    statistic = mean_of(np.arange(50.0))
    assert bootstrap(statistic, 50, seed=3) == bootstrap(statistic, 50, seed=3)
    assert bootstrap(statistic, 50, seed=3) != bootstrap(statistic, 50, seed=4)


def test_samples_without_a_query_of_the_group_are_left_out():
    """Only photos 3 and 5 have queries."""
    values, photo = [8.0, 2.0], [3, 5]
    rng = np.random.default_rng(2)
    means = []
    for drawn in rng.integers(0, 6, size=(300, 6)).tolist():
        scored = [value for value, own in zip(values, photo, strict=True) for _ in range(drawn.count(own))]
        if scored:
            means.append(sum(scored) / len(scored))
    assert len(means) < 300
    statistic = ratio_of(np.bincount(photo, values, 6), np.bincount(photo, minlength=6))
    found = bootstrap_groups({"two": (np.array(photo), {"mean": statistic})}, 6, rounds=300, seed=2)["two"]
    bounds = found.interval["mean"]
    assert (bounds.low, bounds.high) == pytest.approx(np.quantile(means, [0.025, 0.975]))
    assert (found.photos, found.no_interval) == (2, None)


def test_a_group_in_one_photo_or_in_no_sample_has_no_interval_but_a_reason():
    statistic = {"mean": mean_of(np.arange(7.0))}
    groups = {"one": (np.array([3, 3]), statistic), "never": (np.array([4, 5]), statistic)}
    seed = next(n for n in range(99) if not {4, 5} & set(np.random.default_rng(n).integers(0, 7, size=7).tolist()))
    found = bootstrap_groups(groups, 7, rounds=1, seed=seed)
    assert [(each.photos, each.interval["mean"], each.no_interval) for each in found.values()] == [
        (1, None, ONE_PHOTO),
        (2, None, NO_SAMPLE),
    ]


def test_a_system_and_itself_do_not_differ():
    found = compare(mean_of(np.arange(30.0)), mean_of(np.arange(30.0)), 30, rounds=100)
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_a_comparison_is_paired():
    noise = np.random.default_rng(5).normal(scale=50, size=200)
    found = compare(mean_of(noise + 1), mean_of(noise), 200, rounds=500)
    assert found.difference == pytest.approx(1)
    assert found.low == pytest.approx(1)
    assert found.p == pytest.approx(2 / 501)


def test_exchanging_the_systems_negates_the_difference():
    rng = np.random.default_rng(6)
    a, b = mean_of(rng.normal(size=80)), mean_of(rng.normal(size=80))
    there, back = compare(a, b, 80, rounds=999), compare(b, a, 80, rounds=999)
    assert there.difference == pytest.approx(-back.difference)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.p == back.p


def test_equally_good_systems_are_rarely_significantly_different():
    rng = np.random.default_rng(7)
    called = 0
    for trial in range(200):
        both = rng.normal(size=(2, 60))
        called += compare(mean_of(both[0]), mean_of(both[1]), 60, rounds=300, seed=trial).p < 0.05
    assert called / 200 <= 0.11


def test_zero_units_are_an_error():
    with pytest.raises(ValueError, match="unit"):
        bootstrap(mean_of([]), 0)
