"""Agreement on judgements: Krippendorff's α of answers that are categories or numbers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from deixis.arrays import FloatArray
from deixis.errors import DeixisError
from deixis.evaluation.intervals import Counts, Result, number_units


@dataclass(frozen=True)
class Judgement:
    """The answer of one annotator for one item, a question about a photo. An item without an answer has no record."""

    photo: str
    item: str
    annotator: str
    answer: Hashable


def krippendorff_alpha(judgements: Sequence[Judgement], *, interval: bool = False, rounds: int = 1000) -> Result:
    """Compute Krippendorff's α for nominal categories, or with `interval` for numbers.

    α = 1 − D_o / D_e. Every ordered pair of answers of one item counts 1 / (n_i − 1), so that the weight of an item is
    its number of answers; D_o is the fraction of unequal pairs. D_e is that fraction for pairs of all N answers drawn
    without replacement: 1 − Σ_k N_k (N_k − 1) / (N (N − 1)). With `interval`, a pair is unequal by the square of its
    difference, as a share of the largest one. Annotators may have answered different items.

    Returns
    -------
    Result
        The `coefficient`: 0 is chance, 1 is perfect, None if all answers are the same, because agreement then equals
        chance; `observed` and `expected`, 1 − D_o and 1 − D_e; the number `n` of compared items, of their `photos` and
        `answers`, and of items `left_out`, with fewer than two answers. In the interval over photos, a sample with a
        single distinct answer counts as 1.

    Examples
    --------
    >>> answers = [("1", "ann", "yes"), ("1", "bob", "yes"), ("2", "ann", "no"), ("2", "bob", "yes")]
    >>> found = krippendorff_alpha([Judgement(item, item, who, what) for item, who, what in answers])
    >>> found.coefficient  # one of four answers is no: D_o = D_e = 1/2
    0.0
    """
    answers_of, categories = _by_item(judgements)
    items = {key: answers for key, answers in answers_of.items() if len(answers) >= 2}
    if not items:
        raise DeixisError("agreement needs an item that two annotators answered")
    counts = np.array([np.bincount(answers, minlength=len(categories)) for answers in items.values()], dtype=float)
    equal = np.eye(len(categories))
    if interval:
        values = np.array([_number(category) for category in categories])
        squared = (values[:, None] - values) ** 2
        equal = 1 - squared / max(squared.max(initial=0.0), 1e-12)

    def equal_pairs(numbers: FloatArray) -> FloatArray:
        return np.asarray((numbers @ equal * numbers).sum(axis=1) - numbers.sum(axis=1))

    photo, photos = number_units(photo for photo, _ in items)
    agreeing, by_photo = np.zeros(photos), np.zeros((photos, len(categories)))
    np.add.at(agreeing, photo, equal_pairs(counts) / (counts.sum(axis=1) - 1))
    np.add.at(by_photo, photo, counts)

    def shares(drawn: Counts) -> tuple[FloatArray, FloatArray]:
        """1 − D_o and 1 − D_e of samples of photos."""
        totals = drawn @ by_photo
        total = totals.sum(axis=1)
        return drawn @ agreeing / total, equal_pairs(totals) / (total * (total - 1))

    def alpha(drawn: Counts) -> FloatArray:
        observed, expected = shares(drawn)
        room = 1 - expected
        return np.asarray(np.divide(observed - expected, room, out=np.ones_like(room), where=room > 1e-12))

    once = np.ones((1, photos))
    observed, expected = (float(share[0]) for share in shares(once))
    kind = "interval" if interval else "nominal"
    about = {
        "protocol": f"Krippendorff's alpha, {kind}, over items with two answers or more",
        "observed": observed,
        "expected": expected,
        "n": len(items),
        "photos": photos,
        "answers": int(counts.sum()),
        "left_out": len(answers_of) - len(items),
    }
    is_constant = np.count_nonzero(counts.sum(axis=0)) == 1
    scores = {"coefficient": None if is_constant else float(alpha(once)[0])}
    return Result(about=about, scores=scores, statistics={"coefficient": alpha}, units=photos, rounds=rounds)


def _by_item(judgements: Sequence[Judgement]) -> tuple[dict[tuple[str, str], list[int]], list[Hashable]]:
    """The answers of each item, as indices of categories, and the categories."""
    answers_of: dict[tuple[str, str], list[int]] = {}
    categories: dict[Hashable, int] = {}
    seen = set()
    for each in judgements:
        key = (each.photo, each.item, each.annotator)
        if key in seen:
            raise DeixisError(f"photo {each.photo}, item {each.item}: {each.annotator} judged it twice")
        seen.add(key)
        if each.answer is None or each.answer != each.answer:
            raise DeixisError(
                f"photo {each.photo}, item {each.item}: {each.annotator}'s answer is {each.answer}; "
                "leave out the record of an item that was not answered"
            )
        answers_of.setdefault((each.photo, each.item), []).append(categories.setdefault(each.answer, len(categories)))
    return answers_of, list(categories)


def _number(category: object) -> float:
    try:
        number = float(category)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise DeixisError(f"{category!r} is not a number; an interval alpha needs answers that are numbers")
    return number
