"""Scores that become chances, and how descriptions are judged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.tasks.describe.fit_describer import SaidOfRegions, calibration_error, fit_settings, judge, logistic_line
from deixis.tasks.describe.phrase_bank import PhraseBank
from tests.tasks.colours import describer

BANK = PhraseBank(("red", "two red", "blue", "green", "a red blue thing"), (1, 1, 1, 1, 1))


def gold(count: int = 40) -> SaidOfRegions:
    """Red and blue regions by turns, of which people said as much."""
    visual = np.eye(3, dtype=np.float32)[np.arange(count) % 2]
    said = tuple(frozenset({0, 1} if n % 2 == 0 else {2}) for n in range(count))
    named = tuple(frozenset({"red" if n % 2 == 0 else "blue"}) for n in range(count))
    return SaidOfRegions(visual, np.arange(count), said, named)


def test_a_model_that_says_what_people_said_is_first_everywhere() -> None:
    found = judge(describer(BANK), gold())
    assert (found.r1, found.r5, found.medr, found.named, found.regions) == (100, 100, 1, 100, 40)


def test_a_prior_that_drowns_what_is_seen_costs_recall() -> None:
    loud = PhraseBank(BANK.phrases, (1, 1, 1, 10**6, 1))
    assert judge(describer(loud, prior=1.0), gold()).r1 == 0


def test_of_priors_that_help_and_harm_the_better_one_is_chosen() -> None:
    loud = PhraseBank(BANK.phrases, (1, 1, 1, 10**6, 1))
    settings, judged = fit_settings(describer(loud), gold())
    assert settings.prior == 0
    assert judged.r1 == 100
    assert judged.calibration_error < 0.1
    assert settings.scale > 0


def test_regions_of_which_nothing_in_the_bank_was_said_count_for_things_only() -> None:
    some = gold(4)
    some = SaidOfRegions(some.visual, some.photo, (frozenset(), *some.said[1:]), (frozenset(), *some.named[1:]))
    found = judge(describer(BANK), some)
    assert (found.r1, found.named) == (100, 75)


def test_a_prior_that_tells_what_people_say_is_chosen() -> None:
    many = tuple(f"{number} red" for number in ("one", "two", "three", "four", "five", "six", "seven"))
    bank = PhraseBank((*many, "blue"), (*[1] * 6, 1000, 1))
    said = SaidOfRegions(
        np.eye(3, dtype=np.float32)[np.zeros(20, int)],
        np.arange(20),
        (frozenset({6}),) * 20,
        (frozenset({"red"}),) * 20,
    )
    assert judge(describer(bank), said).r5 == 0  # equals that nobody said go first
    settings, judged = fit_settings(describer(bank), said)
    assert settings.prior > 0
    assert judged.r5 == 100


@given(st.floats(0.5, 5), st.floats(-2, 2))
def test_the_line_is_found_from_which_what_is_right_was_drawn(scale: float, bias: float) -> None:
    generator = np.random.default_rng(0)
    scores = generator.normal(0, 1, 20000)
    right = generator.random(20000) < 1 / (1 + np.exp(-(scale * scores + bias)))
    assert logistic_line(scores, right) == pytest.approx((scale, bias), abs=0.25)


def test_scores_that_tell_all_or_nothing_still_give_a_line() -> None:
    for right in ([True] * 6, [False] * 6, [False] * 3 + [True] * 3):
        scale, bias = logistic_line(np.arange(6.0), np.array(right))
        assert np.isfinite([scale, bias]).all()
    assert np.isfinite(logistic_line(np.ones(6), np.array([True, False] * 3))).all()


def test_the_error_of_chances_that_are_true_is_small_and_of_boasts_large() -> None:
    generator = np.random.default_rng(1)
    chances = generator.random(50000)
    right = generator.random(50000) < chances
    assert calibration_error(chances, right) < 0.02
    assert calibration_error(np.sqrt(chances), right) > 0.1
    assert calibration_error(np.ones(3), np.array([True, True, True])) == 0
