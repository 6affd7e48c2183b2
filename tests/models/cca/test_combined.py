"""The scores of photos and sentences combined with those of their regions and phrases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deixis.models.cca.combined
from deixis.data.records import Caption, Mention
from deixis.errors import DeixisError
from deixis.evaluation.retrieval import recall_at_k
from deixis.models import Combined, CombinedSettings, Embedder, WithParts
from deixis.models.cca.combined import (
    ENTITIES,
    TWO_BRANCH,
    SharedPhrases,
    combined_scores,
    found_phrases,
    mentioned_phrases,
    photos_with_regions,
)


class Unit(Embedder):
    """Gives vectors their unit length, after a turn of its own."""

    def __init__(self, seed: int) -> None:
        self.turn = np.random.default_rng(seed).normal(size=(4, 4))

    @property
    def dimension(self) -> int:
        return 4

    def prepare_visual(self, features: np.ndarray) -> np.ndarray:
        turned = features @ self.turn
        return (turned / np.linalg.norm(turned, axis=1, keepdims=True)).astype(np.float32)

    prepare_text = prepare_visual


def items(counts: list[int], seed: int) -> WithParts:
    rng = np.random.default_rng(seed)
    return WithParts(rng.normal(size=(len(counts), 4)), rng.normal(size=(sum(counts), 4)), np.array(counts, dtype=int))


def distance(one: np.ndarray, other: np.ndarray, squared: bool) -> float:
    square = sum((float(a) - float(b)) ** 2 for a, b in zip(one, other, strict=True))
    return square if squared else square**0.5


def plain_distance(photo: int, sentence: int, visual: WithParts, text: WithParts, chosen: CombinedSettings) -> float:
    """Eq. 1 and 2, or eq. 8, for one photo and one sentence."""
    whole = distance(visual.whole[photo], text.whole[sentence], chosen.squared)
    regions = visual.parts[sum(visual.counts[:photo]) : sum(visual.counts[: photo + 1])]
    phrases = text.parts[sum(text.counts[:sentence]) : sum(text.counts[: sentence + 1])]
    if len(phrases) == 0:
        return whole
    total = 0.0
    for phrase in phrases:
        total += min(distance(region, phrase, chosen.squared) for region in regions)
    parts = total / len(phrases) ** chosen.exponent
    return chosen.whole_weight * whole + (1 - chosen.whole_weight) * parts


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.lists(st.integers(0, 4), min_size=1, max_size=5),
    st.sampled_from([ENTITIES, TWO_BRANCH, CombinedSettings(0.0, 0.5, False), CombinedSettings(0.3, 2.0, True)]),
    st.sampled_from([1, 3, 4096]),
)
def test_scores_equal_plain_loops(
    regions: list[int], phrases: list[int], chosen: CombinedSettings, at_a_time: int
) -> None:
    combined = Combined(Unit(1), Unit(2), chosen)
    visual, text = combined.prepare_visual(items(regions, 3)), combined.prepare_text(items(phrases, 4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deixis.models.cca.combined, "PARTS_AT_A_TIME", at_a_time)
        scores = combined.scores(visual, text)
    plain = [[-plain_distance(i, j, visual, text, chosen) for j in range(len(phrases))] for i in range(len(regions))]
    np.testing.assert_allclose(scores, plain, atol=2e-5)
    assert scores.dtype == np.float32


def test_two_branch_parts_are_the_plain_mean_of_the_distances() -> None:
    combined = Combined(Unit(1), Unit(1), TWO_BRANCH)
    visual = combined.prepare_visual(items([5], 3))
    text = combined.prepare_text(items([3], 4))
    each = [min(distance(region, phrase, False) for region in visual.parts) for phrase in text.parts]
    assert combined.region_phrase_distances(visual, text)[0, 0] == pytest.approx(np.mean(each), abs=1e-5)


def test_a_photo_with_the_regions_of_a_sentence_beats_one_without() -> None:
    combined = Combined(Unit(1), Unit(1), ENTITIES)
    phrases = np.eye(4)[:2]
    photos = WithParts(np.ones((2, 4)), np.vstack([phrases, np.eye(4)[2:]]), np.array([2, 2]))
    sentence = WithParts(np.ones((1, 4)), phrases, np.array([2]))
    scores = combined.scores(combined.prepare_visual(photos), combined.prepare_text(sentence))
    assert scores[0, 0] == pytest.approx(0, abs=1e-6)
    assert scores[1, 0] < -0.05


def test_a_photo_without_regions_is_refused() -> None:
    with pytest.raises(DeixisError, match="photo 1 has no regions"):
        Combined(Unit(1), Unit(1)).prepare_visual(items([2, 0], 3))


def test_counts_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(DeixisError, match="2 wholes and 5 parts, but counts for 2 wholes that add up to 4"):
        WithParts(np.ones((2, 4)), np.ones((5, 4)), np.array([2, 2]))


@pytest.mark.parametrize("odd", [1.5, -1.5, np.nan])
def test_scores_that_are_not_cosines_are_refused(odd: float) -> None:
    class Odd(Unit):
        def scores(self, visual: np.ndarray, text: np.ndarray) -> np.ndarray:
            return np.full((len(visual), len(text)), odd, dtype=np.float32)

    combined = Combined(Unit(1), Odd(1))
    visual, text = combined.prepare_visual(items([2], 3)), combined.prepare_text(items([2], 4))
    with pytest.raises(DeixisError, match="is not a cosine"):
        combined.scores(visual, text)


def test_shared_phrases_may_be_passed_once() -> None:
    combined = Combined(Unit(1), Unit(2))
    visual = combined.prepare_visual(items([2, 3], 3))
    phrases = np.random.default_rng(4).normal(size=(3, 4))
    which, wholes, counts = np.array([2, 0, 0, 1, 2]), np.ones((4, 4)), np.array([2, 0, 1, 2])
    shared = combined.prepare_text(WithParts(wholes, phrases, counts, which))
    written_out = combined.prepare_text(WithParts(wholes, phrases[which], counts))
    np.testing.assert_allclose(combined.scores(visual, shared), combined.scores(visual, written_out), atol=1e-6)
    for begin, end in ((0, 4), (1, 3), (2, 2)):
        np.testing.assert_allclose(
            combined.scores(visual, shared.run(begin, end)),
            combined.scores(visual, written_out)[:, begin:end],
            atol=1e-6,
        )


def test_a_range_of_photos_has_the_scores_of_all_photos() -> None:
    combined = Combined(Unit(1), Unit(2))
    visual, text = combined.prepare_visual(items([2, 1, 3], 3)), combined.prepare_text(items([2, 0, 1], 4))
    np.testing.assert_allclose(combined.scores(visual.run(1, 3), text), combined.scores(visual, text)[1:3], atol=1e-6)


def test_features_are_prepared_a_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Watched(Unit):
        def prepare_visual(self, features: np.ndarray) -> np.ndarray:
            asked.append(len(features))
            return super().prepare_visual(features)

        prepare_text = prepare_visual

    monkeypatch.setattr(deixis.models.cca.combined, "PARTS_AT_A_TIME", 2)
    Combined(Watched(1), Watched(2)).prepare_visual(items([2, 3, 2], 3))
    assert asked == [2, 1, 2, 2, 2, 1]


def test_a_phrase_index_out_of_range_is_refused() -> None:
    for odd in (2, -1):
        with pytest.raises(DeixisError, match="a part is none of the 2 given"):
            WithParts(np.ones((1, 4)), np.ones((2, 4)), np.array([1]), np.array([odd]))
    with pytest.raises(DeixisError, match="share regions"):
        Combined(Unit(1), Unit(1)).prepare_visual(WithParts(np.ones((1, 4)), np.eye(4), np.array([1]), np.array([2])))


WHOLE, PART = Unit(1), Unit(2)
PHRASES = [["a dog", "a cat"], [], ["a dog"], ["a cat", "the snow", "a dog"]]


def features(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(*shape, 4))


def model_distance(model: Unit, seen: np.ndarray, read: np.ndarray, squared: bool) -> float:
    one, other = model.prepare_visual(seen[None])[0], model.prepare_text(read[None])[0]
    square = float(((one.astype(float) - other.astype(float)) ** 2).sum())
    return square if squared else square**0.5


@pytest.mark.parametrize("chosen", [ENTITIES, TWO_BRANCH])
def test_scores_equal_a_loop_over_photos_sentences_phrases_and_regions(
    chosen: CombinedSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    wholes, regions, sentences = features(5), [features(n, seed=10 + n) for n in (3, 1, 9, 4, 2)], features(4, seed=1)
    shared = SharedPhrases.of(PHRASES)
    of_phrase = dict(zip(shared.texts, features(3, seed=2), strict=True))
    plain = np.empty((5, 4))
    for photo in range(5):
        candidates = [*regions[photo][:4], wholes[photo]]
        for sentence, phrases in enumerate(PHRASES):
            parts = whole = model_distance(WHOLE, wholes[photo], sentences[sentence], chosen.squared)
            if phrases:
                nearest = [
                    min(model_distance(PART, region, of_phrase[phrase], chosen.squared) for region in candidates)
                    for phrase in phrases
                ]
                parts = sum(nearest) / len(phrases) ** chosen.exponent
            plain[photo, sentence] = -(chosen.whole_weight * whole + (1 - chosen.whole_weight) * parts)

    monkeypatch.setattr(deixis.models.cca.combined, "CELLS_OF_A_BLOCK", 8)
    photos = photos_with_regions(wholes, regions, max_proposals=4, whole_regions=wholes)
    text = WithParts(sentences, np.stack([of_phrase[phrase] for phrase in shared.texts]), shared.counts, shared.which)
    scores = combined_scores(Combined(WHOLE, PART, chosen), photos, text)
    assert (scores.shape, scores.rows_at_once) == ((5, 4), 2)
    np.testing.assert_allclose(scores.rows(0, 5), plain, atol=2e-5)
    np.testing.assert_allclose(scores.rows(2, 4), plain[2:4], atol=2e-5)


def test_the_evaluation_accepts_the_scores() -> None:
    """Each sentence has the vector of its photo, and its phrase that of a region."""
    wholes, regions = features(6), features(6, 3, seed=1)
    photos = photos_with_regions(wholes, list(regions))
    sentences = WithParts(wholes, regions[:, 1], np.ones(6, dtype=np.int64))
    found = recall_at_k(combined_scores(Combined(WHOLE, PART), photos, sentences))
    assert (found.i2t_r1, found.t2i_r1) == (100.0, 100.0)


def test_features_may_be_memory_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "wholes.npy", features(6))
    np.save(tmp_path / "regions.npy", features(18, seed=1))
    sentences = WithParts(features(2, seed=2), features(2, seed=3), np.array([1, 1]))
    by_place = []
    for mode in (None, "r"):
        wholes, regions = (np.load(tmp_path / f"{name}.npy", mmap_mode=mode) for name in ("wholes", "regions"))
        scores = combined_scores(Combined(WHOLE, PART), WithParts(wholes, regions, np.full(6, 3)), sentences)
        by_place.append(scores.rows(0, 6))
    np.testing.assert_allclose(by_place[0], by_place[1], rtol=1e-5)


def test_the_best_proposals_and_the_whole_photo_are_regions() -> None:
    wholes, regions = features(2), [features(30, seed=1), features(5, seed=2)]
    with_whole = photos_with_regions(wholes, regions, whole_regions=wholes)
    assert with_whole.counts.tolist() == [20, 6]
    np.testing.assert_array_equal(with_whole.parts, np.vstack([regions[0][:19], wholes[:1], regions[1], wholes[1:]]))
    assert photos_with_regions(wholes, regions, max_proposals=100).counts.tolist() == [30, 5]


def test_regions_of_another_number_of_photos_are_refused() -> None:
    with pytest.raises(DeixisError, match="2 photos, but regions of 1"):
        photos_with_regions(features(2), [features(3)])


def test_a_photo_without_any_region_is_refused() -> None:
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
