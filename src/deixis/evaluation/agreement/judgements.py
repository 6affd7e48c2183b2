"""Agreement on judgements: Cohen's κ, Fleiss' κ and Krippendorff's α for categorical answers.

Three cases without a category are distinguished:

- *absent*: the annotator saw the item and said that there is nothing. This is an answer like any other;
- *not answered*: the annotator saw the item and skipped it. Not an answer, but counted, because many skips indicate a
  bad question;
- *not shown*: the annotator never saw the item. The record may be left out.

Each result has the `coefficient`, agreement beyond chance: 0 is chance, 1 is perfect, and None if all answers are the
same, because agreement then equals chance; `observed` and `expected`, the fraction of agreeing pairs of answers,
observed and by chance; the number `n` of compared items, and of their `photos`; the number of `answers` of these items,
of `absent` among them, and of items that were `not_answered`; and the number of items `left_out`, with too few answers
to compare. In the interval over photos, a sample with a single distinct answer counts as 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from deixis.arrays import FloatArray
from deixis.errors import DeixisError
from deixis.evaluation.intervals import Counts, Result, number_units

Coefficient = Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray]]


class NoCategory(Enum):
    """The answers that are not a category."""

    ABSENT = "absent"
    NOT_ANSWERED = "not answered"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True)
class Judgement:
    """The answer of one annotator for one item."""

    # The item is a question about the photo
    photo: str
    item: str
    annotator: str
    answer: Hashable  # a category (any hashable value) or a member of `NoCategory`


def cohen_kappa(judgements: Sequence[Judgement], annotators: tuple[str, str], *, rounds: int = 1000) -> Result:
    """Compute Cohen's κ of two annotators over the items that both answered.

    κ = (p_o − p_e) / (1 − p_e): p_o is the fraction of items with the same answer, p_e = Σ_k p_k · q_k the fraction
    expected by chance from the answer frequencies of the two annotators.

    Examples
    --------
    >>> answers = [("1", "ann", "yes"), ("1", "bob", "yes"), ("2", "ann", "no"), ("2", "bob", "no"),
    ...            ("3", "ann", "yes"), ("3", "bob", "no"), ("4", "ann", "no"), ("4", "bob", NoCategory.NOT_ANSWERED)]
    >>> found = cohen_kappa([Judgement(item, item, who, what) for item, who, what in answers], ("ann", "bob"))
    >>> round(found.coefficient, 2), found.n, found.not_answered
    (0.4, 3, 1)
    """
    first, second = annotators
    if first == second:
        raise DeixisError(f"annotators: must be two different names, not {first!r} twice")
    table = _Table.from_judgements([each for each in judgements if each.annotator in annotators])
    rows = [item for item in table.items if len(item.answers) == 2]
    codes = np.array([[item.answers[first], item.answers[second]] for item in rows], dtype=np.intp).reshape(-1, 2)
    size = len(table.categories)
    confusion = np.zeros((len(rows), size * size))
    confusion[np.arange(len(rows)), codes[:, 0] * size + codes[:, 1]] = 1

    def coefficient(sums: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        shares = sums.reshape(-1, size, size) / sums.sum(axis=1)[:, None, None]
        observed = np.trace(shares, axis1=1, axis2=2)
        expected = (shares.sum(axis=2) * shares.sum(axis=1)).sum(axis=1)
        return _beyond_chance(observed, expected), observed, expected

    name = f"Cohen's kappa of {first} and {second} over items both answered"
    return table.result(name, rows, confusion, coefficient, rounds)


def fleiss_kappa(judgements: Sequence[Judgement], *, rounds: int = 1000) -> Result:
    """Compute Fleiss' κ of any number of annotators, not necessarily the same for every item.

    With n_ik answers k among the n_i answers of item i: P_i = Σ_k n_ik (n_ik − 1) / (n_i (n_i − 1)); p_o is the
    mean of P_i over items; p_e = Σ_k p_k², where p_k is the fraction of answer k among all answers;
    κ = (p_o − p_e) / (1 − p_e). Fleiss assumes equal n_i; here items with fewer than two answers are left out
    and all others have the same weight.

    Examples
    --------
    >>> answers = [("1", "ann", "yes"), ("1", "bob", "yes"), ("1", "cy", "no"), ("2", "ann", "no"), ("2", "bob", "no")]
    >>> found = fleiss_kappa([Judgement(item, item, who, what) for item, who, what in answers])
    >>> round(found.observed, 3), round(found.expected, 2), round(found.coefficient, 3)
    (0.667, 0.52, 0.306)
    """
    table = _Table.from_judgements(judgements)
    rows = [item for item in table.items if len(item.answers) >= 2]
    counts = table.counts(rows)
    answers = counts.sum(axis=1, keepdims=True)
    agreeing = (counts * (counts - 1)).sum(axis=1, keepdims=True) / (answers * (answers - 1))

    def coefficient(sums: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        observed = sums[:, 0] / sums[:, 1]
        shares = sums[:, 2:] / sums[:, 2:].sum(axis=1, keepdims=True)
        expected = (shares**2).sum(axis=1)
        return _beyond_chance(observed, expected), observed, expected

    columns = np.concatenate([agreeing, np.ones_like(agreeing), counts], axis=1)
    return table.result("Fleiss' kappa over items with two answers or more", rows, columns, coefficient, rounds)


def krippendorff_alpha(judgements: Sequence[Judgement], *, interval: bool = False, rounds: int = 1000) -> Result:
    """Compute Krippendorff's α for nominal categories, or with `interval` for numbers.

    α = 1 − D_o / D_e. Every ordered pair of answers of one item counts 1 / (n_i − 1), so that the weight of an item is
    its number of answers; D_o is the fraction of unequal pairs. D_e is that fraction for pairs of all N answers drawn
    without replacement: 1 − Σ_k N_k (N_k − 1) / (N (N − 1)). With `interval`, a pair is unequal by the square of its
    difference, as a share of the largest one, and `observed` and `expected` are 1 − D_o and 1 − D_e.

    Examples
    --------
    >>> answers = [("1", "ann", "yes"), ("1", "bob", "yes"), ("2", "ann", "no"), ("2", "bob", "yes")]
    >>> found = krippendorff_alpha([Judgement(item, item, who, what) for item, who, what in answers])
    >>> found.coefficient  # one of four answers is no: D_o = D_e = 1/2
    0.0
    """
    table = _Table.from_judgements(judgements)
    rows = [item for item in table.items if len(item.answers) >= 2]
    counts = table.counts(rows)
    equal = np.eye(len(table.categories))
    if interval:
        values = np.array([_number(category) for category in table.categories])
        squared = (values[:, None] - values) ** 2
        equal = 1 - squared / max(squared.max(initial=0.0), 1e-12)

    def equal_pairs(numbers: FloatArray) -> FloatArray:
        return np.asarray((numbers @ equal * numbers).sum(axis=1) - numbers.sum(axis=1))

    agreeing = (equal_pairs(counts) / (counts.sum(axis=1) - 1))[:, None]

    def coefficient(sums: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        total = sums[:, 1:].sum(axis=1)
        observed = sums[:, 0] / total
        expected = equal_pairs(sums[:, 1:]) / (total * (total - 1))
        return _beyond_chance(observed, expected), observed, expected

    columns = np.concatenate([agreeing, counts], axis=1)
    name = f"Krippendorff's alpha, {'interval' if interval else 'nominal'}, over items with two answers or more"
    return table.result(name, rows, columns, coefficient, rounds)


def _number(category: object) -> float:
    try:
        number = float(category)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise DeixisError(f"{category!r} is not a number; an interval alpha needs answers that are numbers")
    return number


def _beyond_chance(observed: FloatArray, expected: FloatArray) -> FloatArray:
    room = 1 - expected
    return np.asarray(np.divide(observed - expected, room, out=np.ones_like(room), where=room > 1e-12))


@dataclass(frozen=True)
class _Item:
    photo: str
    answers: Mapping[str, int]


@dataclass(frozen=True)
class _Table:
    """The answers by item and annotator, as indices into `categories`."""

    items: Sequence[_Item]
    categories: Sequence[Hashable]
    not_answered: int

    @classmethod
    def from_judgements(cls, judgements: Sequence[Judgement]) -> _Table:
        items: dict[tuple[str, str], dict[str, int]] = {}
        categories: dict[Hashable, int] = {}
        seen = set()
        skipped = 0
        for each in judgements:
            key = (each.photo, each.item, each.annotator)
            if key in seen:
                raise DeixisError(f"photo {each.photo}, item {each.item}: {each.annotator} judged it twice")
            seen.add(key)
            if each.answer is None or each.answer != each.answer:
                raise DeixisError(
                    f"photo {each.photo}, item {each.item}: {each.annotator}'s answer is {each.answer}; "
                    "use a category or a member of NoCategory"
                )
            answers = items.setdefault((each.photo, each.item), {})
            if each.answer is NoCategory.NOT_ANSWERED:
                skipped += 1
            elif each.answer is not NoCategory.NOT_SHOWN:
                answers[each.annotator] = categories.setdefault(each.answer, len(categories))
        return cls([_Item(photo, answers) for (photo, _), answers in items.items()], list(categories), skipped)

    def counts(self, rows: Sequence[_Item]) -> FloatArray:
        """(items, categories) number of answers."""
        found = np.zeros((len(rows), len(self.categories)))
        for row, item in enumerate(rows):
            np.add.at(found[row], list(item.answers.values()), 1)
        return found

    def result(
        self, name: str, rows: Sequence[_Item], columns: FloatArray, coefficient: Coefficient, rounds: int
    ) -> Result:
        """Sum the columns by photo, and compute the coefficient of the data and of every bootstrap sample."""
        if not rows:
            raise DeixisError("agreement needs an item that two annotators answered")
        photo, photos = number_units(item.photo for item in rows)
        sums = np.zeros((photos, columns.shape[1]))
        np.add.at(sums, photo, columns)
        value, observed, expected = (float(found[0]) for found in coefficient(sums.sum(axis=0, keepdims=True)))

        def statistic(counts: Counts) -> FloatArray:
            return coefficient(counts @ sums)[0]

        absent = self.categories.index(NoCategory.ABSENT) if NoCategory.ABSENT in self.categories else None
        answers = [answer for item in rows for answer in item.answers.values()]
        about = {
            "protocol": name,
            "observed": observed,
            "expected": expected,
            "n": len(rows),
            "photos": photos,
            "answers": len(answers),
            "absent": answers.count(absent) if absent is not None else 0,
            "not_answered": self.not_answered,
            "left_out": len(self.items) - len(rows),
        }
        scores = {"coefficient": None if len(set(answers)) == 1 else value}
        return Result(about=about, scores=scores, statistics={"coefficient": statistic}, units=photos, rounds=rounds)
