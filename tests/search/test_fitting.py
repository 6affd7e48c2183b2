"""Probabilities that are fitted, on photos made up so that the right answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deixis.evaluation.calibration import calibration_error
from deixis.search.calibration import Evidence, KindWeights, QueryBank
from deixis.search.encoder import SENTENCE_KINDS, WordStatistics
from deixis.search.fitting import (
    OWN_FIRST,
    TrialResult,
    evaluate_queries,
    fit_calibration,
    halves,
    summarize,
)
from deixis.search.trial import KINDS, Trial, TrialQuery

PHOTOS, DIMENSION = 150, 4
BANK = QueryBank.encode(np.zeros((1, DIMENSION), np.float32), 1.0)


def made_up(name: str, seed: int, *, missing: float = 0.0, hubs: float = 0.0) -> Trial:
    """Relevant photos have higher scores, and absent things rare words.

    `missing` of the labels of phrases are lost. All scores of a photo are higher by its score for other queries, whose
    standard deviation is `hubs`.
    """
    rng = np.random.default_rng(seed)
    kinds = np.arange(PHOTOS) % 10
    vectors = np.eye(10, dtype=np.float32)[kinds][:, :DIMENSION] + rng.normal(0, 0.1, (PHOTOS, DIMENSION))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    others = hubs * np.random.default_rng(seed + 1).normal(0, 1, PHOTOS).astype(np.float32)
    queries = []
    for number in range(1000):
        kind, photo = KINDS[number % len(KINDS)], int(rng.integers(PHOTOS))
        relevant = np.zeros(PHOTOS, dtype=bool)
        if kind != "absent":
            relevant[photo] = True
        if kind == "sentence":
            relevant |= (kinds == kinds[photo]) & (rng.random(PHOTOS) < 0.5)
        if kind == "phrase":
            relevant |= rng.random(PHOTOS) < 0.05
        scores = (rng.normal(0, 1, (PHOTOS, 1)) + 3 * relevant[:, None]).astype(np.float32) + others[:, None]
        if kind == "phrase":
            relevant &= rng.random(PHOTOS) >= missing
            relevant[photo] = True
        words = 5 if kind == "sentence" else 1
        rarest, strange = (-9.0, 1.0) if kind == "absent" else (-5.0, 0.0)
        of_kind = kind if kind != "absent" else SENTENCE_KINDS[number // len(KINDS) % len(SENTENCE_KINDS)]
        facts = WordStatistics(words, -4.0 * words - float(rng.random()), rarest, strange, of_kind)
        query_vector = np.ones(DIMENSION, np.float32)
        evidence = Evidence(scores[:, 0] / 10, scores / 10, scores, others / 10, facts, query_vector)
        queries.append(TrialQuery(kind, photo, evidence, relevant, is_caption=kind == "sentence"))
    return Trial(name, vectors.astype(np.float32), queries)


@pytest.fixture(scope="module")
def trials() -> list[Trial]:
    return [made_up("one", 0), made_up("two", 1)]


def found_of(result: TrialResult, kind: str) -> float:
    return float(result.found[result.kinds == kind].mean())


def test_probabilities_of_the_other_half_are_calibrated(trials: list[Trial]) -> None:
    results = []
    for calibration, left_out in halves(trials, "7f", BANK):
        assert all(40 < left_out[trial.name].mean() * 100 < 60 for trial in trials)
        for trial in trials:
            queries = [query for query in trial.queries if left_out[trial.name][query.photo]]
            results.append(evaluate_queries(calibration, queries))
    result = TrialResult.join(results)
    assert len(result.kinds) == sum(len(trial.queries) for trial in trials)
    assert calibration_error(result.probabilities, result.correct) < 0.08
    assert result.probabilities.max() > 0.8


def test_sentences_find_more_than_absent_queries(trials: list[Trial]) -> None:
    calibration = fit_calibration(trials, "7f", BANK)
    assert min(min(weights.scores) for weights in calibration.weights.values()) >= 0
    for trial in trials:
        result = evaluate_queries(calibration, trial.queries)
        assert found_of(result, "sentence") >= 0.82
        assert found_of(result, "absent") < 0.5
    similar, other = calibration.similarity_logits(np.array([0.95, 0.0]), PHOTOS)
    assert similar > other


def test_probabilities_rise_with_every_score(trials: list[Trial]) -> None:
    calibration = fit_calibration(trials, "7f", BANK)
    evidence = trials[0].queries[0].evidence
    before = calibration.logits(evidence, PHOTOS)
    for name, change in {"whole": 0.5, "phrases": 0.5, "regions": 0.5, "others": -0.5}.items():
        higher = replace(evidence, **{name: getattr(evidence, name) + change})
        assert (calibration.logits(higher, PHOTOS) >= before - 1e-5).all()


def test_photos_with_high_scores_for_all_queries_are_ranked_lower() -> None:
    trial = made_up("one", 0, hubs=2.0)
    calibration = fit_calibration([trial], "7f", BANK)
    assert calibration.bank == BANK

    def mean_rank(weights: KindWeights) -> float:
        ranks = []
        for query in trial.queries:
            if query.is_caption:
                logits = replace(calibration, weights={"sentence": weights}).logits(query.evidence, PHOTOS)
                ranks.append((logits >= logits[query.photo]).sum())
        return float(np.mean(ranks))

    found = calibration.weights["sentence"]
    without = replace(found, scores=(*found.scores[:4], 0.0, 0.0))  # of the scores for other queries
    assert mean_rank(found) < mean_rank(without) / 2


def test_a_score_that_differs_between_queries_only_does_not_rank_photos() -> None:
    """The scores of regions tell how many photos are relevant to a phrase, and nothing about each of them."""
    trial, rng = made_up("one", 0), np.random.default_rng(2)

    def with_common_score(query: TrialQuery) -> TrialQuery:
        if query.kind != "phrase":
            return query
        share = rng.uniform(0.0, 0.8)
        relevant = rng.random(PHOTOS) < share
        relevant[query.photo] = True
        scores = (rng.normal(0, 1, (PHOTOS, 1)) + relevant[:, None]).astype(np.float32) / 10
        regions = rng.normal(10 * share, 1.0, (PHOTOS, 1)).astype(np.float32)
        evidence = replace(query.evidence, whole=scores[:, 0], phrases=scores, regions=regions)
        return replace(query, evidence=evidence, relevant=relevant)

    queries = [with_common_score(query) for query in trial.queries]
    found = fit_calibration([replace(trial, queries=queries)], "7f", BANK).weights["phrase"].scores
    assert found[2] < 0.25 * (found[0] + found[3])


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
    threshold = fit_calibration([large, few], "7f", BANK).similarity_threshold
    assert threshold.sizes == (20, 50, 100, PHOTOS)
    assert np.isfinite(threshold.logits).all()


def test_queries_without_a_known_word_find_nothing(trials: list[Trial]) -> None:
    calibration = fit_calibration(trials, "7f", BANK)
    result = evaluate_queries(calibration, [replace(query, is_unknown=True) for query in trials[0].queries])
    assert not result.found.any()
    assert len(result.probabilities) == 0


def test_the_summary_counts_queries_and_results(trials: list[Trial]) -> None:
    result = evaluate_queries(fit_calibration(trials, "7f", BANK), trials[0].queries)
    scores = summarize(result)
    assert scores["sentences find something"].value == pytest.approx(found_of(result, "sentence"))
    assert scores["sentences find something"].count == 200
    first = [query.evidence.whole.argmax() == query.photo for query in trials[0].queries if query.is_caption]
    assert scores[OWN_FIRST].value == pytest.approx(np.mean(first))  # all scores rank alike here
    assert 0 < np.mean(first) < 1
    sure = result.probabilities >= 0.6
    assert scores["sure results correct"].value == pytest.approx(result.correct[sure].mean())
    error = scores["calibration error"]
    assert error.value == pytest.approx(calibration_error(result.probabilities, result.correct))
    assert error.interval.low <= error.interval.high
    assert error.count == len(result.probabilities)
