"""Krippendorff's α: his examples and plain loops."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.evaluation.agreement import Judgement, krippendorff_alpha


def in_rows(*rows: str) -> list[Judgement]:
    """One row of answers for each annotator, each item in a photo of its own; a dot is an item without an answer."""
    return [
        Judgement(str(place), str(place), str(who), answer)
        for who, row in enumerate(rows)
        for place, answer in enumerate(row.split())
        if answer != "."
    ]


# Four observers, twelve units (Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011)
EXAMPLE = in_rows(
    "1 2 3 3 2 1 4 1 2 . . .", "1 2 3 3 2 2 4 1 2 5 . 3", ". 3 3 3 2 3 4 2 2 5 1 .", "1 2 3 3 2 4 4 1 2 5 1 ."
)


def test_alpha_agrees_with_his_example_with_missing_answers() -> None:
    found = krippendorff_alpha(EXAMPLE)
    assert round(found.coefficient, 3) == 0.743
    assert (found.n, found.answers, found.left_out) == (11, 40, 1)
    low, high = found.as_json()["interval"]["coefficient"]
    assert low < found.coefficient < high
    json.dumps(found.as_json(), allow_nan=False)


def test_alpha_of_numbers_agrees_with_his_example() -> None:
    numbers = [replace(each, answer=int(str(each.answer))) for each in EXAMPLE]
    assert round(krippendorff_alpha(numbers, interval=True).coefficient, 3) == 0.849


def test_invalid_judgements_are_errors() -> None:
    with pytest.raises(DeixisError, match="two annotators"):
        krippendorff_alpha(in_rows("a . b", ". a ."))
    with pytest.raises(DeixisError, match="photo 0, item 0"):
        krippendorff_alpha(in_rows("a") * 2)
    for nothing in (None, float("nan")):
        with pytest.raises(DeixisError, match="photo 1, item 1"):
            krippendorff_alpha([Judgement("1", "1", "ann", nothing)])
    with pytest.raises(DeixisError, match="'yes' is not a number"):
        krippendorff_alpha(in_rows("1", "yes"), interval=True)


@given(st.lists(st.lists(st.sampled_from("ab."), min_size=3, max_size=3), min_size=1, max_size=7))
def test_alpha_agrees_with_a_plain_loop(table: list[list[str]]) -> None:
    records = [
        Judgement(f"p{item // 2}", str(item), str(who), what)
        for item, row in enumerate(table)
        for who, what in enumerate(row)
        if what != "."
    ]
    units = [[what for what in row if what != "."] for row in table]
    units = [row for row in units if len(row) >= 2]
    if not units:
        return
    values = [what for row in units for what in row]
    pairs_of = [list(permutations(row, 2)) for row in units]
    observed = sum(
        len(row) * sum(a == b for a, b in pairs) / len(pairs) for row, pairs in zip(units, pairs_of, strict=True)
    ) / len(values)
    pairs = list(permutations(values, 2))
    expected = sum(a == b for a, b in pairs) / len(pairs)
    found = krippendorff_alpha(records, rounds=2)
    assert (found.observed, found.expected) == (pytest.approx(observed), pytest.approx(expected))
    same = len(set(values)) == 1
    assert found.coefficient == (None if same else pytest.approx(1 - (1 - observed) / (1 - expected)))


def test_photos_are_the_units_of_the_bootstrap() -> None:
    """Two photos, one of full agreement and one of none: the interval reaches from one to the other."""
    records = []
    for item in range(100):
        first = "a" if item % 2 else "b"
        photo = "alike" if item < 50 else "unlike"
        second = first if photo == "alike" else "ab"[first == "a"]
        records += [Judgement(photo, str(item), "0", first), Judgement(photo, str(item), "1", second)]
    found = krippendorff_alpha(records).interval["coefficient"]
    assert found.low == pytest.approx(-1, abs=0.05)
    assert found.high == pytest.approx(1)
