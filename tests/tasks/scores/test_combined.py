"""Photos and sentences by wholes and parts: against a loop over pairs, and which phrases and regions are taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deixis.tasks.scores.combined
from deixis.data.records import Caption, Mention
from deixis.errors import DeixisError
from deixis.evaluation.retrieval import recall_at_k
from deixis.models import Combined, CombinedSettings, WithParts
from deixis.models.combined import ENTITIES, TWO_BRANCH
from deixis.tasks.scores.combined import (
    SharedPhrases,
    combined_scores,
    found_phrases,
    mentioned_phrases,
    photos_with_regions,
)
from tests.models.turned import Unit

WHOLE, PART = Unit(1), Unit(2)
PHRASES = [["a dog", "a cat"], [], ["a dog"], ["a cat", "the snow", "a dog"]]


def features(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(*shape, 4))


def distance(model: Unit, seen: np.ndarray, read: np.ndarray, squared: bool) -> float:
    one, other = model.prepare_visual(seen[None])[0], model.prepare_text(read[None])[0]
    square = float(((one.astype(float) - other.astype(float)) ** 2).sum())
    return square if squared else square**0.5


@pytest.mark.parametrize("chosen", [ENTITIES, TWO_BRANCH])
def test_scores_are_those_of_a_loop_over_photos_sentences_phrases_and_regions(
    chosen: CombinedSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    wholes, regions, sentences = features(5), [features(n, seed=10 + n) for n in (3, 1, 9, 4, 2)], features(4, seed=1)
    shared = SharedPhrases.of(PHRASES)
    of_phrase = dict(zip(shared.texts, features(3, seed=2), strict=True))
    plain = np.empty((5, 4))
    for photo in range(5):
        candidates = [*regions[photo][:4], wholes[photo]]
        for sentence, phrases in enumerate(PHRASES):
            parts = whole = distance(WHOLE, wholes[photo], sentences[sentence], chosen.squared)
            if phrases:
                nearest = [
                    min(distance(PART, region, of_phrase[phrase], chosen.squared) for region in candidates)
                    for phrase in phrases
                ]
                parts = sum(nearest) / len(phrases) ** chosen.exponent
            plain[photo, sentence] = -(chosen.whole_weight * whole + (1 - chosen.whole_weight) * parts)

    monkeypatch.setattr(deixis.tasks.scores.combined, "CELLS_OF_A_BLOCK", 8)
    photos = photos_with_regions(wholes, regions, most=4, whole_regions=wholes)
    text = WithParts(sentences, np.stack([of_phrase[phrase] for phrase in shared.texts]), shared.counts, shared.which)
    scores = combined_scores(Combined(WHOLE, PART, chosen), photos, text)
    assert (scores.shape, scores.rows_at_once) == ((5, 4), 2)
    np.testing.assert_allclose(scores.rows(0, 5), plain, atol=2e-5)
    np.testing.assert_allclose(scores.rows(2, 4), plain[2:4], atol=2e-5)


def test_the_evaluation_takes_them_as_they_are() -> None:
    """Each sentence has the vector of its photo, and its phrase that of a region."""
    wholes, regions = features(6), features(6, 3, seed=1)
    photos = photos_with_regions(wholes, list(regions))
    sentences = WithParts(wholes, regions[:, 1], np.ones(6, dtype=np.int64))
    found = recall_at_k(combined_scores(Combined(WHOLE, PART), photos, sentences))
    assert (found.i2t_r1, found.t2i_r1) == (100.0, 100.0)


def test_features_may_lie_in_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "wholes.npy", features(6))
    np.save(tmp_path / "regions.npy", features(18, seed=1))
    sentences = WithParts(features(2, seed=2), features(2, seed=3), np.array([1, 1]))
    by_place = []
    for mode in (None, "r"):
        wholes, regions = (np.load(tmp_path / f"{name}.npy", mmap_mode=mode) for name in ("wholes", "regions"))
        scores = combined_scores(Combined(WHOLE, PART), WithParts(wholes, regions, np.full(6, 3)), sentences)
        by_place.append(scores.rows(0, 6))
    np.testing.assert_array_equal(by_place[0], by_place[1])


def test_the_best_proposals_are_taken_and_the_whole_photo_is_one_more() -> None:
    wholes, regions = features(2), [features(30, seed=1), features(5, seed=2)]
    with_whole = photos_with_regions(wholes, regions, whole_regions=wholes)
    assert with_whole.counts.tolist() == [20, 6]
    np.testing.assert_array_equal(with_whole.parts, np.vstack([regions[0][:19], wholes[:1], regions[1], wholes[1:]]))
    assert photos_with_regions(wholes, regions, most=100).counts.tolist() == [30, 5]


def test_regions_of_other_photos_than_those_given_are_one_clear_line() -> None:
    with pytest.raises(DeixisError, match="2 photos, but regions of 1"):
        photos_with_regions(features(2), [features(3)])


def test_a_photo_without_any_region_is_one_clear_line() -> None:
    photos = photos_with_regions(features(2), [features(3), features(0)])
    sentences = WithParts(features(1), features(1), np.array([1]))
    with pytest.raises(DeixisError, match="photo 1 has no regions"):
        combined_scores(Combined(WHOLE, PART), photos, sentences)


def test_phrases_of_captions_are_their_mentions_and_of_plain_sentences_their_noun_phrases() -> None:
    text = "A dog sees a cat in the snow ."
    marked = Caption.from_text(text, (Mention(0, 5, "1"), Mention(20, 28, None)))
    unmarked = Caption.from_text("Nothing here .")
    assert mentioned_phrases([marked, unmarked, marked]).counts.tolist() == [2, 0, 2]
    assert mentioned_phrases([marked, unmarked, marked]).texts == ("A dog", "the snow")
    found = found_phrases([text, "He runs ."])
    assert found.texts == ("A dog", "a cat", "the snow")
    assert found.counts.tolist() == [3, 0]
