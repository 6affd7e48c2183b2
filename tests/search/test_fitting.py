"""Probabilities that are fitted, on photos made up so that the right answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deixis.evaluation.calibration import calibration_error
from deixis.search.calibration import MONOTONE, Evidence
from deixis.search.encoder import WordStatistics
from deixis.search.fitting import (
    IDENTITY,
    TrialResult,
    evaluate_queries,
    fit_calibration,
    halves,
    summarize,
)
from deixis.search.trial import KINDS, Trial, TrialQuery

PHOTOS, DIMENSION = 150, 4


def made_up(name: str, seed: int, *, missing: float = 0.0) -> Trial:
    """Relevant photos have higher scores, and absent things rare words. `missing` of the labels of phrases are lost."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(PHOTOS) % 10
    vectors = np.eye(10, dtype=np.float32)[kinds][:, :DIMENSION] + rng.normal(0, 0.1, (PHOTOS, DIMENSION))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = []
    for number in range(600):
        kind, photo = KINDS[number % 3], int(rng.integers(PHOTOS))
        relevant = np.zeros(PHOTOS, dtype=bool)
        if kind != "absent":
            relevant[photo] = True
        if kind == "phrase":
            relevant |= rng.random(PHOTOS) < 0.05
        scores = (rng.normal(0, 1, (PHOTOS, 1)) + 3 * relevant[:, None]).astype(np.float32)
        if kind == "phrase":
            relevant &= rng.random(PHOTOS) >= missing
            relevant[photo] = True
        words = 5 if kind == "caption" else 1
        rarest, strange = (-9.0, 1.0) if kind == "absent" else (-5.0, 0.0)
        facts = WordStatistics(words, -4.0 * words - float(rng.random()), rarest, strange)
        evidence = Evidence(scores[:, 0] / 10, scores / 10, scores, facts, np.ones(DIMENSION, np.float32))
        queries.append(TrialQuery(kind, photo, evidence, relevant))
    return Trial(name, vectors.astype(np.float32), queries)


@pytest.fixture(scope="module")
def trials() -> list[Trial]:
    return [made_up("one", 0), made_up("two", 1)]


def found_of(result: TrialResult, kind: str) -> float:
    return float(result.found[result.kinds == kind].mean())


def test_probabilities_of_the_other_half_are_calibrated(trials: list[Trial]) -> None:
    results = []
    for calibration, left_out in halves(trials, "7f"):
        assert all(40 < left_out[trial.name].mean() * 100 < 60 for trial in trials)
        for trial in trials:
            queries = [query for query in trial.queries if left_out[trial.name][query.photo]]
            results.append(evaluate_queries(calibration, queries))
    result = TrialResult.join(results)
    assert len(result.kinds) == sum(len(trial.queries) for trial in trials)
    assert calibration_error(result.probabilities, result.correct) < 0.08
    assert result.probabilities.max() > 0.8


def test_captions_find_more_than_absent_queries(trials: list[Trial]) -> None:
    calibration = fit_calibration(trials, "7f")
    assert min(calibration.weights[MONOTONE]) >= 0
    for trial in trials:
        result = evaluate_queries(calibration, trial.queries)
        assert found_of(result, "caption") >= 0.82
        assert found_of(result, "absent") < 0.5
    similar, other = calibration.similarity_logits(np.array([0.95, 0.0]), PHOTOS)
    assert similar > other


def test_probabilities_rise_with_every_score(trials: list[Trial]) -> None:
    calibration = fit_calibration(trials, "7f")
    evidence = trials[0].queries[0].evidence
    before = calibration.logits(evidence, PHOTOS)
    for name in ("whole", "phrases", "regions"):
        higher = replace(evidence, **{name: getattr(evidence, name) + 0.5})
        assert (calibration.logits(higher, PHOTOS) >= before - 1e-5).all()


def test_a_source_with_fewer_correct_results_lowers_the_probabilities() -> None:
    """Only half of what the second source shows is labelled: sure results would be wrong too often there."""
    trials = [made_up("one", 0), made_up("two", 1, missing=0.75)]
    alone = fit_calibration(trials[:1], "7f")
    both = fit_calibration(trials, "7f")
    assert alone.lines == IDENTITY
    assert len(both.lines) == 2
    assert all(slope > 0 for _, slope in both.lines)
    assert min(offset + 2 * slope for offset, slope in both.lines) < 2


def test_small_sources_do_not_need_every_index_size() -> None:
    large, small = made_up("one", 0), made_up("two", 1)
    few = replace(
        small,
        vectors=small.vectors[:30],
        queries=[
            replace(query, evidence=query.evidence.take(np.arange(30)), relevant=query.relevant[:30])
            for query in small.queries
            if query.photo < 30
        ],
    )
    threshold = fit_calibration([large, few], "7f").threshold
    assert threshold.sizes == (20, 50, 100, PHOTOS)
    assert np.isfinite(threshold.logits).all()


def test_queries_without_a_known_word_find_nothing(trials: list[Trial]) -> None:
    calibration = fit_calibration(trials, "7f")
    result = evaluate_queries(calibration, [replace(query, is_unknown=True) for query in trials[0].queries])
    assert not result.found.any()
    assert len(result.probabilities) == 0


def test_the_summary_counts_queries_and_results(trials: list[Trial]) -> None:
    result = evaluate_queries(fit_calibration(trials, "7f"), trials[0].queries)
    scores = summarize(result)
    assert scores["captions find something"].value == pytest.approx(found_of(result, "caption"))
    assert scores["captions find something"].count == 200
    sure = result.probabilities >= 0.6
    assert scores["sure results correct"].value == pytest.approx(result.correct[sure].mean())
    error = scores["calibration error"]
    assert error.value == pytest.approx(calibration_error(result.probabilities, result.correct))
    assert error.interval.low <= error.interval.high
    assert error.count == len(result.probabilities)
