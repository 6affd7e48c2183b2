"""Cohen's κ, Fleiss' κ and Krippendorff's α: the literature's examples and plain loops."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.evaluation.agreement import Judgement, NoCategory, cohen_kappa, fleiss_kappa, krippendorff_alpha


def judgements(table: dict[str, dict[str, object]]) -> list[Judgement]:
    """Annotator -> item -> answer, each item in a photo of its own."""
    return [Judgement(item, item, who, what) for who, answers in table.items() for item, what in answers.items()]


def in_rows(*rows: str) -> list[Judgement]:
    """One row of answers for each annotator; a dot stands for an item that was not shown."""
    return [
        Judgement(str(place), str(place), str(who), NoCategory.NOT_SHOWN if answer == "." else answer)
        for who, row in enumerate(rows)
        for place, answer in enumerate(row.split())
    ]


def test_cohens_kappa_of_the_textbook_table_of_fifty_is_two_fifths() -> None:
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: p_o = 0.7, p_e = 0.5."""
    ann = "y " * 25 + "n " * 25
    bob = "y " * 20 + "n " * 5 + "y " * 10 + "n " * 15
    found = cohen_kappa(in_rows(ann, bob), ("0", "1"))
    assert (found.observed, found.expected, found.n) == (pytest.approx(0.7), pytest.approx(0.5), 50)
    assert found.coefficient == pytest.approx(0.4)
    low, high = found.as_json()["interval"]["coefficient"]
    assert 0 < low < 0.4 < high < 0.7
    json.dumps(found.as_json(), allow_nan=False)


def test_fleiss_kappa_of_fourteen_raters_and_ten_subjects() -> None:
    """The usual textbook example of Fleiss' κ: 0.378, 0.213 and 0.210."""
    counts = [
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ]
    records = []
    for item, row in enumerate(counts):
        answers = [category for category, times in enumerate(row) for _ in range(times)]
        records += [Judgement(str(item), str(item), str(who), answer) for who, answer in enumerate(answers)]
    found = fleiss_kappa(records)
    assert round(found.observed, 3) == 0.378
    assert round(found.expected, 3) == 0.213
    assert found.coefficient is not None
    assert round(found.coefficient, 3) == 0.210


def test_krippendorffs_alpha_agrees_with_his_example_with_missing_answers() -> None:
    """Four observers, twelve units (Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011): 0.743."""
    found = krippendorff_alpha(
        in_rows(
            "1 2 3 3 2 1 4 1 2 . . .", "1 2 3 3 2 2 4 1 2 5 . 3", ". 3 3 3 2 3 4 2 2 5 1 .", "1 2 3 3 2 4 4 1 2 5 1 ."
        )
    )
    assert found.coefficient is not None
    assert round(found.coefficient, 3) == 0.743
    assert (found.n, found.answers, found.left_out) == (11, 40, 1)


def test_absent_is_an_answer_skips_are_counted_and_unseen_items_are_ignored() -> None:
    base = {"ann": {"1": "yes", "2": "no", "3": "yes"}, "bob": {"1": "yes", "2": "no", "3": "no"}}
    without = cohen_kappa(judgements(base), ("ann", "bob"))

    absent = {who: {**answers, "4": NoCategory.ABSENT} for who, answers in base.items()}
    found = cohen_kappa(judgements(absent), ("ann", "bob"))
    assert (found.n, found.absent, found.not_answered) == (4, 2, 0)
    assert found.coefficient > without.coefficient

    for silence, skipped in ((NoCategory.NOT_ANSWERED, 1), (NoCategory.NOT_SHOWN, 0)):
        silent = {"ann": {**base["ann"], "4": "yes"}, "bob": {**base["bob"], "4": silence}}
        found = cohen_kappa(judgements(silent), ("ann", "bob"))
        assert found.coefficient == without.coefficient
        assert (found.n, found.absent, found.not_answered, found.left_out) == (3, 0, skipped, 1)


def test_a_record_of_an_unseen_item_may_be_left_out() -> None:
    records = in_rows("a b a . b", "a b . a a", "b b a a .")
    shown = [each for each in records if each.answer is not NoCategory.NOT_SHOWN]
    for measure in (fleiss_kappa, krippendorff_alpha):
        assert measure(records).coefficient == measure(shown).coefficient


def test_invalid_judgements_are_errors() -> None:
    with pytest.raises(DeixisError, match="two annotators"):
        fleiss_kappa(in_rows("a . b", ". a ."))
    with pytest.raises(DeixisError, match="photo 0, item 0"):
        fleiss_kappa(in_rows("a") * 2)
    with pytest.raises(DeixisError, match="'ann'"):
        cohen_kappa([], ("ann", "ann"))
    for nothing in (None, float("nan")):
        with pytest.raises(DeixisError, match="NoCategory"):
            fleiss_kappa([Judgement("1", "1", "ann", nothing)])


answers = st.sampled_from(["a", "b", NoCategory.ABSENT, NoCategory.NOT_ANSWERED, NoCategory.NOT_SHOWN])
tables = st.lists(st.lists(answers, min_size=3, max_size=3), min_size=1, max_size=7)


@given(tables)
def test_the_coefficients_agree_with_plain_loops(table: list[list[object]]) -> None:
    records = [
        Judgement(f"p{item // 2}", str(item), str(who), what)
        for item, row in enumerate(table)
        for who, what in enumerate(row)
    ]
    spoken = [[what for what in row if what in ("a", "b", NoCategory.ABSENT)] for row in table]
    units = [row for row in spoken if len(row) >= 2]
    if not units:
        return
    values = [what for row in units for what in row]
    chance = sum((values.count(what) / len(values)) ** 2 for what in set(values))
    per_item = []
    for row in units:
        pairs = list(permutations(row, 2))
        per_item.append(sum(a == b for a, b in pairs) / len(pairs))
    observed = sum(per_item) / len(per_item)
    fleiss = fleiss_kappa(records, rounds=2)
    assert fleiss.observed == pytest.approx(observed)
    alpha = krippendorff_alpha(records, rounds=2)
    weighed = sum(share * len(row) for share, row in zip(per_item, units, strict=True)) / len(values)
    pairs = list(permutations(values, 2))
    alike = sum(a == b for a, b in pairs) / len(pairs)
    if len(set(values)) == 1:
        assert fleiss.coefficient is alpha.coefficient is None
    else:
        assert fleiss.coefficient == pytest.approx((observed - chance) / (1 - chance))
        assert alpha.coefficient == pytest.approx(1 - (1 - weighed) / (1 - alike))

    both = [(row[0], row[1]) for row in table if {row[0], row[1]} <= {"a", "b", NoCategory.ABSENT}]
    if both:
        same = sum(a == b for a, b in both) / len(both)
        by_chance = sum(a == b for a, _ in both for _, b in both) / len(both) ** 2
        cohen = cohen_kappa(records, ("0", "1"), rounds=2)
        assert (cohen.observed, cohen.expected) == (pytest.approx(same), pytest.approx(by_chance))
        constant = len({what for pair in both for what in pair}) == 1
        expected = None if constant else pytest.approx((same - by_chance) / (1 - by_chance))
        assert cohen.coefficient == expected


def test_photos_are_the_units_of_the_bootstrap() -> None:
    """Two photos, one of full agreement and one of none: the interval reaches from one to the other."""
    records = []
    for item in range(100):
        first = "a" if item % 2 else "b"
        photo = "alike" if item < 50 else "unlike"
        second = first if photo == "alike" else "ab"[first == "a"]
        records += [Judgement(photo, str(item), "0", first), Judgement(photo, str(item), "1", second)]
    found = cohen_kappa(records, ("0", "1")).interval["coefficient"]
    assert found.low == pytest.approx(-1)
    assert found.high == pytest.approx(1)


def test_krippendorffs_alpha_of_numbers_agrees_with_his_example() -> None:
    """The same units as intervals (Krippendorff, 2011): 0.849."""
    rows = ("1 2 3 3 2 1 4 1 2 . . .", "1 2 3 3 2 2 4 1 2 5 . 3", ". 3 3 3 2 3 4 2 2 5 1 .", "1 2 3 3 2 4 4 1 2 5 1 .")
    numbers = [replace(each, answer=int(str(each.answer))) for each in in_rows(*rows) if each.answer in set("12345")]
    found = krippendorff_alpha(numbers, interval=True)
    assert found.coefficient is not None
    assert round(found.coefficient, 3) == 0.849


@pytest.mark.parametrize("answer", ["yes", NoCategory.ABSENT])
def test_an_interval_alpha_refuses_answers_that_are_no_numbers(answer: object) -> None:
    records = [Judgement("1", "1", "ann", 1), Judgement("1", "1", "bob", answer)]  # type: ignore[arg-type]
    with pytest.raises(DeixisError, match=f"{answer!r} is not a number"):
        krippendorff_alpha(records, interval=True)
