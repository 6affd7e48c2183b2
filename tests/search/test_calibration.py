"""From scores to probabilities."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.models.calibrator import LogisticCalibrator
from deixis.search.calibration import (
    FAST_FILE,
    FEATURES,
    SCORES,
    SHIPPED_FILE,
    Calibration,
    Evidence,
    KindWeights,
    QueryBank,
    Threshold,
    WordPrior,
)
from deixis.search.encoder import SENTENCE, SENTENCE_KINDS, WORD, EncodedPhrase, EncodedSentence, WordStatistics
from deixis.search.index.base import RegionVectors

WORDS = WordStatistics(2, -9.0, -6.0, 0.5)


def sentence() -> EncodedSentence:
    phrases = (
        EncodedPhrase("a", (0, 1), np.array([1, 0], np.float32), np.array([1, 0, 0], np.float32)),
        EncodedPhrase("b", (2, 3), np.array([0, 1], np.float32), np.array([0, 1, 0], np.float32)),
    )
    return EncodedSentence("a b", ("a", "b"), (), WORDS, np.array([0, 0, 1], np.float32), phrases)


def test_evidence_is_the_best_region_of_each_phrase() -> None:
    photos = np.arange(6, dtype=np.float32).reshape(2, 3)
    regions = [np.array([[1, 2], [3, 0]], np.float32), np.array([[5, 4]], np.float32)]
    evidence = Evidence.collect(sentence(), photos, RegionVectors.join(regions, 2), np.array([7, 8], np.float32))
    assert evidence.whole.tolist() == [2, 5]
    assert evidence.phrases.tolist() == [[0, 1], [3, 4]]
    assert evidence.regions.tolist() == [[3, 2], [5, 4]]
    second = evidence.take(np.array([1]))
    assert (second.whole.tolist(), second.phrases.tolist(), second.regions.tolist()) == ([5], [[3, 4]], [[5, 4]])
    assert second.others.tolist() == [8]


def test_a_photo_without_regions_gets_the_lowest_scores() -> None:
    photos, regions = np.zeros((2, 3), np.float32), RegionVectors.join([None, np.array([[5, 4]], np.float32)], 2)
    others = np.zeros(2, np.float32)
    assert Evidence.collect(sentence(), photos, regions, others).regions.tolist() == [[4, 4], [5, 4]]
    none = RegionVectors.join([None, None], 2)
    assert Evidence.collect(sentence(), photos, none, others).regions.tolist() == [[0, 0], [0, 0]]


def test_the_prior_of_rare_words_falls_with_the_size_of_the_index() -> None:
    prior = WordPrior(0.0, 1.0)
    rare, usual = WordStatistics(1, -14.0, -9.0, 1.0), WordStatistics(1, -1.0, -1.0, 0.0)
    assert prior.log_prior(rare, 10_000) == pytest.approx(prior.log_prior(rare, 100) - np.log(100), abs=0.01)
    assert prior.log_prior(usual, 10_000) == pytest.approx(prior.log_prior(usual, 100))
    assert prior.log_prior(rare, 0) == pytest.approx(0.0, abs=0.01)


WEIGHTS = KindWeights((1.0, 2.0, 3.0, 4.0, 5.0, 6.0), 1.0, (0.5, 0.1, 0.2, 0.3, 0.4, 0.5, 2.0, 1.0, 0.0, 0.0, 0.0))


def some_calibration() -> Calibration:
    background = (0.0, 0.0, 0.5)
    prior, bank = WordPrior(-1.0, 0.2), QueryBank.encode(np.array([[0, 0, 1], [0, 1, 0]], np.float32), 0.1)
    weights = dict.fromkeys(SENTENCE_KINDS, WEIGHTS)
    return Calibration("7f", weights, background, bank, prior, (1.0, 2.0), (-3.0, 8.0, -0.5), Threshold((9,), (-1.0,)))


def evidence_of_axes() -> Evidence:
    regions = RegionVectors.join([None] * 3, 2)
    return Evidence.collect(sentence(), np.eye(3, dtype=np.float32), regions, np.zeros(3, np.float32))


def test_a_bank_gives_a_smooth_maximum_of_the_scores_of_its_queries() -> None:
    rng = np.random.default_rng(0)
    queries, photos = rng.normal(size=(5, 8)).astype(np.float32), rng.normal(size=(3, 8)).astype(np.float32)
    bank = QueryBank.encode(queries, 0.5)
    for photo, found in zip(photos, bank.scores(photos), strict=True):
        scores = [float(photo @ query) for query in queries]
        assert found == pytest.approx(0.5 * np.log(np.mean(np.exp(np.array(scores) / 0.5))), abs=0.05)  # int8
        assert np.mean(scores) - 0.05 <= found <= max(scores) + 0.05
    assert bank.scores(1000 * photos) == pytest.approx((1000 * photos @ queries.T).max(axis=1), rel=0.05)


def test_a_photo_that_is_near_many_queries_counts_less() -> None:
    evidence = evidence_of_axes()
    near = replace(evidence, others=np.array([0.0, 0.1, 0.2], np.float32))
    lower = some_calibration().logits(evidence, 100) - some_calibration().logits(near, 100)
    assert lower[0] == pytest.approx(0)
    assert 0 < lower[1] < lower[2]


def test_the_logit_rises_with_the_score_and_faster_above_the_knee() -> None:
    rows = np.zeros((4, FEATURES), np.float32)
    rows[:, 0] = [0.0, 1.0, 2.0, 3.0]  # the score is 0, 1, 2, 3
    assert WEIGHTS.logits(rows).tolist() == pytest.approx([-1.5, 0.5, 3.5, 6.5])
    design = KindWeights.design(rows, WEIGHTS.score(rows), WEIGHTS.knee)
    by_design = LogisticCalibrator(WEIGHTS.weights).logits(design.astype(np.float64))
    assert WEIGHTS.logits(rows).tolist() == pytest.approx(by_design.tolist())
    falling = replace(WEIGHTS, weights=(*WEIGHTS.weights[:-3], -9.0, 0.0, 0.0))
    rows[:, SCORES.stop] = 1.0  # with this feature the slope would be negative
    assert (np.diff(falling.logits(rows)) > 0).all()


def test_a_query_with_high_scores_in_general_counts_less() -> None:
    evidence = evidence_of_axes()
    usual = replace(WEIGHTS, weights=(0.0, -1.0, *WEIGHTS.weights[2:]))
    calibration = replace(some_calibration(), weights=dict.fromkeys(SENTENCE_KINDS, usual))
    high = replace(calibration, background=(0.0, 0.0, 0.9))
    assert (calibration.logits(evidence, 100) - high.logits(evidence, 100)).tolist() == pytest.approx(
        [4.0] * 3, abs=1e-3
    )


def test_thresholds_are_interpolated() -> None:
    threshold = Threshold((10, 100), (0.0, -1.0))
    assert [threshold.at(photos) for photos in (0, 10, 100, 10_000)] == [0.0, 0.0, -1.0, -1.0]
    assert -1 < threshold.at(50) < 0


def test_hits_are_probable_and_not_far_below_the_best() -> None:
    calibration = some_calibration()
    chances = np.array([0.9, 0.46, 0.44, 0.1])
    logits = np.log(chances / (1 - chances)).astype(np.float32)
    assert calibration.is_hit(logits, WORD).tolist() == [True, True, False, False]
    assert calibration.is_hit(logits[3:], SENTENCE).tolist() == [False]
    assert calibration.is_hit(logits[:0], SENTENCE).tolist() == []


def test_the_logit_of_a_similar_photo_is_linear_in_cosine_and_log_size() -> None:
    logits = some_calibration().similarity_logits(np.array([0.5, 0.9]), 100)
    assert logits.tolist() == pytest.approx([1 - 0.5 * np.log(100), 4.2 - 0.5 * np.log(100)], abs=1e-5)


def test_a_saved_calibration_is_used_for_its_models_only(tmp_path: Path) -> None:
    some_calibration().save(tmp_path / "calibration.json")
    assert Calibration.for_models("7f", [tmp_path / "calibration.json"]) == some_calibration()
    assert Calibration.for_models("another", [tmp_path / "calibration.json"]) is None
    assert Calibration.for_models("7f", [tmp_path / "nowhere.json"]) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"fingerprint": 1}', None])
def test_a_damaged_file_or_a_wrong_number_of_weights_is_an_error(tmp_path: Path, text: str | None) -> None:
    replace(some_calibration(), weights=(1.0,)).save(tmp_path / "calibration.json")
    if text is not None:
        (tmp_path / "calibration.json").write_text(text)
    with pytest.raises(DeixisError, match="calibration.json"):
        Calibration.load(tmp_path / "calibration.json")


def test_the_shipped_calibrations_fit_the_shipped_models() -> None:
    from deixis.search.collection import search_encoder
    from deixis.search.encoder import PHOTO_MODEL

    assert Calibration.load(SHIPPED_FILE).fingerprint == search_encoder(PHOTO_MODEL).fingerprint
    assert Calibration.load(FAST_FILE).fingerprint == search_encoder("two-branch-fast").fingerprint


def test_a_calibration_that_is_nested_without_end_is_refused() -> None:
    with pytest.raises(DeixisError, match="not a valid search calibration"):
        Calibration.from_json("[" * 100_000, "an index")
