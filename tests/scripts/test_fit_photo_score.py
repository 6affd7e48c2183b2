"""Weights of photo scores."""

from __future__ import annotations

import random
from collections import Counter

import fit_photo_score
import numpy as np
import pytest
from fitting import Examples, balanced, cross_fit, fit

from deixis.arrays import logistic
from deixis.evaluation.captions.people_captions import PeopleCaptions
from deixis.models.photo_score import ScoreWeights


def test_weights_were_fitted_to_the_shipped_models() -> None:
    """Fails when a model was replaced: run scripts/fit_photo_score.py again."""
    weights = ScoreWeights.load()
    assert weights.photo.fingerprint == weights.references.fingerprint == fit_photo_score.fingerprint()


def test_right_and_wrong_examples_have_the_same_total_in_each_group() -> None:
    right, groups = np.array([True, False, False, True, True, False]), np.array([0, 0, 0, 1, 1, 1])
    assert balanced(right, groups).tolist() == [1, 0.5, 0.5, 0.5, 0.5, 1]
    assert balanced(right).tolist() == pytest.approx([1 / 3] * 6)


def test_sources_are_fitted_together_and_scored_by_the_other_half() -> None:
    rng = np.random.default_rng(0)
    sources = []
    for count in (2000, 3000):
        features = rng.normal(size=(count, 2))
        right = rng.random(count) < logistic(2 * features[:, 0] + 0.5)
        sources.append(Examples(features, right, np.ones(count), np.arange(count)))
    assert fit(sources, [0]).weights == pytest.approx([0.5, 2, 0], abs=0.15)
    logits = cross_fit(sources, [0])
    assert [len(each) for each in logits] == [2000, 3000]
    for source, found in zip(sources, logits, strict=True):
        assert np.corrcoef(found, 2 * source.features[:, 0])[0, 1] > 0.99


def test_a_noun_is_replaced_by_one_that_nobody_said() -> None:
    nouns = {(fit_photo_score._noun_type("dog"), "NN"): Counter({"dog": 5, "cat": 1, "wolf": 1})}
    people = PeopleCaptions(["A dog runs.", "A wolf runs."])
    assert fit_photo_score.swap_noun("a dog runs", people, nouns, random.Random(0)) == "a cat runs"
