"""Wholes and parts together: the equations as plain loops, and the same whatever is compared at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deixis.models.combined
from deixis.errors import DeixisError
from deixis.models import Combined, CombinedSettings, WithParts
from deixis.models.combined import ENTITIES, TWO_BRANCH
from tests.models.turned import Unit


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
def test_scores_are_those_of_plain_loops(
    regions: list[int], phrases: list[int], chosen: CombinedSettings, at_a_time: int
) -> None:
    combined = Combined(Unit(1), Unit(2), chosen)
    visual, text = combined.prepare_visual(items(regions, 3)), combined.prepare_text(items(phrases, 4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deixis.models.combined, "PARTS_AT_A_TIME", at_a_time)
        scores = combined.scores(visual, text)
    plain = [[-plain_distance(i, j, visual, text, chosen) for j in range(len(phrases))] for i in range(len(regions))]
    np.testing.assert_allclose(scores, plain, atol=2e-5)
    assert scores.dtype == np.float32


def test_the_papers_choices_are_theirs() -> None:
    assert CombinedSettings(0.7, 1.5, True) == ENTITIES
    assert CombinedSettings(0.8, 1.0, False) == TWO_BRANCH


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


def test_a_photo_without_regions_is_one_clear_line() -> None:
    with pytest.raises(DeixisError, match="photo 1 has no regions"):
        Combined(Unit(1), Unit(1)).prepare_visual(items([2, 0], 3))


def test_counts_that_do_not_add_up_are_one_clear_line() -> None:
    with pytest.raises(DeixisError, match="2 wholes and 5 parts, but counts for 2 wholes that add up to 4"):
        WithParts(np.ones((2, 4)), np.ones((5, 4)), np.array([2, 2]))


@pytest.mark.parametrize("odd", [1.5, -1.5, np.nan])
def test_scores_that_are_no_cosines_are_one_clear_line(odd: float) -> None:
    class Odd(Unit):
        def scores(self, visual: np.ndarray, text: np.ndarray) -> np.ndarray:
            return np.full((len(visual), len(text)), odd, dtype=np.float32)

    combined = Combined(Unit(1), Odd(1))
    visual, text = combined.prepare_visual(items([2], 3)), combined.prepare_text(items([2], 4))
    with pytest.raises(DeixisError, match="is not a cosine"):
        combined.scores(visual, text)


def test_phrases_that_sentences_share_may_be_given_once() -> None:
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


def test_a_run_of_photos_scores_as_among_all_photos() -> None:
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

    monkeypatch.setattr(deixis.models.combined, "PARTS_AT_A_TIME", 2)
    Combined(Watched(1), Watched(2)).prepare_visual(items([2, 3, 2], 3))
    assert asked == [2, 1, 2, 2, 2, 1]


def test_a_phrase_that_is_not_among_those_given_is_one_clear_line() -> None:
    for odd in (2, -1):
        with pytest.raises(DeixisError, match="a part is none of the 2 given"):
            WithParts(np.ones((1, 4)), np.ones((2, 4)), np.array([1]), np.array([odd]))
    with pytest.raises(DeixisError, match="photos do not share regions"):
        Combined(Unit(1), Unit(1)).prepare_visual(WithParts(np.ones((1, 4)), np.eye(4), np.array([1]), np.array([2])))
