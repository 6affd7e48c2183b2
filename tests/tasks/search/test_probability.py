"""From evidence to probabilities."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.tasks.search.probability import FEATURES, SHIPPED_FILE, Certainty, Commonness, CutOff, Evidence, features
from deixis.tasks.search.seeing import ReadPhrase, ReadSentence, WordFacts

FACTS = WordFacts(2, -9.0, -6.0, 0.5)


def sentence() -> ReadSentence:
    phrases = (
        ReadPhrase("a", (0, 1), np.array([1, 0], np.float32), np.array([1, 0, 0], np.float32)),
        ReadPhrase("b", (2, 3), np.array([0, 1], np.float32), np.array([0, 1, 0], np.float32)),
    )
    return ReadSentence("a b", ("a", "b"), (), FACTS, np.array([0, 0, 1], np.float32), phrases)


def test_evidence_is_the_best_region_of_each_phrase() -> None:
    photos = np.arange(6, dtype=np.float32).reshape(2, 3)
    regions = [np.array([[1, 2], [3, 0]], np.float32), np.array([[5, 4]], np.float32)]
    evidence = Evidence.of(sentence(), photos, regions)
    assert evidence.whole.tolist() == [2, 5]
    assert evidence.phrases.tolist() == [[0, 1], [3, 4]]
    assert evidence.regions.tolist() == [[3, 2], [5, 4]]
    assert evidence.at([1]).regions.tolist() == [[5, 4]]


def test_a_photo_without_regions_is_taken_for_the_worst() -> None:
    evidence = Evidence.of(sentence(), np.zeros((2, 3), np.float32), [None, np.array([[5, 4]], np.float32)])
    assert evidence.regions.tolist() == [[4, 4], [5, 4]]
    assert Evidence.of(sentence(), np.zeros((1, 3), np.float32), [None]).regions.tolist() == [[0, 0]]


def test_there_are_as_many_features_as_weights() -> None:
    evidence = Evidence.of(sentence(), np.ones((3, 3), np.float32), [None] * 3)
    assert features(evidence, 100, Commonness(0, 1)).shape == (3, FEATURES)


def test_rare_things_are_less_likely_in_more_photos_and_usual_ones_are_not() -> None:
    commonness = Commonness(0.0, 1.0)
    rare, usual = WordFacts(1, -14.0, -9.0, 1.0), WordFacts(1, -1.0, -1.0, 0.0)
    assert commonness.log_prior(rare, 10_000) == pytest.approx(commonness.log_prior(rare, 100) - np.log(100), abs=0.01)
    assert commonness.log_prior(usual, 10_000) == pytest.approx(commonness.log_prior(usual, 100))
    assert commonness.log_prior(rare, 0) == pytest.approx(0.0, abs=0.01)


def some_certainty() -> Certainty:
    cut_off, likeness_cut_off = CutOff((10, 100), (0.0, -1.0)), CutOff((9,), (-1.0,))
    return Certainty("7f", tuple(range(FEATURES)), Commonness(-1.0, 0.2), cut_off, (-3.0, 8.0, -0.5), likeness_cut_off)


def test_cut_offs_lie_between_those_that_were_tried() -> None:
    cut_off = some_certainty().cut_off
    assert [cut_off.at(photos) for photos in (0, 10, 100, 10_000)] == [0.0, 0.0, -1.0, -1.0]
    assert -1 < cut_off.at(50) < 0


def test_hits_are_likely_enough_and_not_far_less_likely_than_the_best() -> None:
    certainty = some_certainty()  # with 100 photos, what is below 27 % is not shown
    chances = np.array([0.9, 0.31, 0.29, 0.1])
    logits = np.log(chances / (1 - chances)).astype(np.float32)
    assert certainty.worth_showing(logits, 100).tolist() == [True, True, False, False]
    assert certainty.worth_showing(logits[1:], 100).tolist() == [True, True, False]
    assert certainty.worth_showing(logits[:0], 100).tolist() == []


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    some_certainty().save(tmp_path / "certainty.json")
    assert Certainty.load(tmp_path / "certainty.json") == some_certainty()


def test_weights_of_other_models_are_not_used(tmp_path: Path) -> None:
    some_certainty().save(tmp_path / "certainty.json")
    assert Certainty.of_models("7f", tmp_path / "certainty.json") == some_certainty()
    assert Certainty.of_models("another", tmp_path / "certainty.json") is None
    assert Certainty.of_models("7f", tmp_path / "nowhere.json") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"fingerprint": 1}'])
def test_a_damaged_file_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "certainty.json").write_text(text)
    with pytest.raises(DeixisError, match="does not say how certain"):
        Certainty.load(tmp_path / "certainty.json")


def test_other_numbers_of_weights_are_refused(tmp_path: Path) -> None:
    replace(some_certainty(), weights=(1.0,)).save(tmp_path / "certainty.json")
    with pytest.raises(DeixisError, match="other numbers of weights"):
        Certainty.load(tmp_path / "certainty.json")


def test_the_shipped_weights_are_for_the_shipped_models() -> None:
    from deixis.tasks.search.searching import shipped_seer

    assert Certainty.load(SHIPPED_FILE).fingerprint == shipped_seer().fingerprint
