"""Calibration and scores of region descriptions."""

from __future__ import annotations

import numpy as np
import pytest
from describer_calibration import RegionPhrases, calibration_error, fit_logistic, fit_settings, score_descriptions

from deixis.models.describer.phrase_bank import PhraseBank
from tests.models.colours import describer

BANK = PhraseBank(("red", "two red", "blue", "green", "a red blue thing"), (1, 1, 1, 1, 1))


def gold(count: int = 40) -> RegionPhrases:
    """Red and blue regions by turns, of which people said as much."""
    visual = np.eye(3, dtype=np.float32)[np.arange(count) % 2]
    phrases = tuple(frozenset({0, 1} if n % 2 == 0 else {2}) for n in range(count))
    named = tuple(frozenset({"red" if n % 2 == 0 else "blue"}) for n in range(count))
    return RegionPhrases(visual, np.arange(count), phrases, named)


def test_the_better_prior_is_chosen() -> None:
    loud = PhraseBank(BANK.phrases, (1, 1, 1, 10**6, 1))
    settings, scores = fit_settings(describer(loud), gold())
    assert settings.prior == 0
    assert scores.r1 == 100
    assert scores.calibration_error < 0.1
    assert settings.scale > 0


def test_regions_without_a_phrase_of_the_bank_count_only_for_objects() -> None:
    some = gold(4)
    some = RegionPhrases(some.visual, some.photo, (frozenset(), *some.said[1:]), (frozenset(), *some.named[1:]))
    found = score_descriptions(describer(BANK), some)
    assert (found.r1, found.named) == (100, 75)


def test_an_informative_prior_is_chosen() -> None:
    many = tuple(f"{number} red" for number in ("one", "two", "three", "four", "five", "six", "seven"))
    bank = PhraseBank((*many, "blue"), (*[1] * 6, 1000, 1))
    regions = RegionPhrases(
        np.eye(3, dtype=np.float32)[np.zeros(20, int)],
        np.arange(20),
        (frozenset({6}),) * 20,
        (frozenset({"red"}),) * 20,
    )
    assert score_descriptions(describer(bank), regions).r5 == 0  # equals that nobody said go first
    settings, scores = fit_settings(describer(bank), regions)
    assert settings.prior > 0
    assert scores.r5 == 100


def test_scale_and_bias_are_those_of_the_probabilities() -> None:
    generator = np.random.default_rng(0)
    scores = generator.normal(0, 1, (4000, 5)).astype(np.float32)
    right = generator.random((4000, 5)) < 1 / (1 + np.exp(-(3 * scores - 1)))
    assert fit_logistic(scores, right) == pytest.approx((3, -1), abs=0.1)


def test_the_calibration_error_is_small_only_for_true_probabilities() -> None:
    generator = np.random.default_rng(1)
    chances = generator.random(50000)
    right = generator.random(50000) < chances
    assert calibration_error(chances, right) < 0.02
    assert calibration_error(np.sqrt(chances), right) > 0.1
    assert calibration_error(np.ones(3), np.array([True, True, True])) == 0
