from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deixis.arrays import expand_runs
from deixis.evaluation.captions.ngrams import (
    Numbering,
    count_distinct,
    distinct,
    first_of_run,
    number_distinct,
    order_by,
    sum_by_group,
)

values = st.lists(st.integers(-5, 5), max_size=30)


@given(values)
def test_distinct_and_counted_agree_with_numpy(numbers: list[int]) -> None:
    array = np.array(numbers, dtype=np.int64)
    expected, counts = np.unique(array, return_counts=True)
    assert distinct(array).tolist() == expected.tolist()
    assert [each.tolist() for each in count_distinct(array)] == [expected.tolist(), counts.tolist()]


@given(values)
def test_values_are_ranked_among_the_distinct_ones(numbers: list[int]) -> None:
    found, ranks = number_distinct(np.array(numbers, dtype=np.int64))
    kinds = sorted(set(numbers))
    assert found.tolist() == kinds
    assert ranks.tolist() == [kinds.index(number) for number in numbers]


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), max_size=30), st.booleans())
def test_order_by_sorts_rows_and_keeps_equal_ones_in_order(rows: list[tuple[int, int]], wide: bool) -> None:
    scale = 2**60 if wide else 1  # too wide for one number: the slow way
    columns = np.array([(a * scale, b) for a, b in rows], dtype=np.int64).reshape(-1, 2).T
    assert order_by(*columns).tolist() == sorted(range(len(rows)), key=rows.__getitem__)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=10))
def test_runs_are_expanded_from_their_first_number(pairs: list[tuple[int, int]]) -> None:
    first, count = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    assert expand_runs(first, count).tolist() == [a + i for a, n in pairs for i in range(n)]


@given(values)
def test_first_of_run_finds_the_first_equal_value(numbers: list[int]) -> None:
    ordered = sorted(numbers)
    assert first_of_run(np.array(ordered, dtype=np.int64)).tolist() == [ordered.index(number) for number in ordered]


def test_sums_of_nothing_are_floats() -> None:
    empty = np.zeros(0, dtype=np.int64)
    assert sum_by_group(empty, empty, 2).dtype == np.float64


def test_numbering_continues_with_the_next_number() -> None:
    ids = Numbering()
    assert ids.encode(["a", "b"]).tolist() == [0, 1]
    assert ids.encode(["b", "c"]).tolist() == [1, 2]
