"""The scores of photos and sentences combined with those of their regions and phrases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.models import Combined, CombinedSettings, Embedder, WithParts
from deixis.models.matching import combined
from deixis.models.matching.combined import ENTITIES, TWO_BRANCH


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
    model = Combined(Unit(1), Unit(2), chosen)
    visual, text = model.prepare_visual(items(regions, 3)), model.prepare_text(items(phrases, 4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(combined, "PARTS_AT_A_TIME", at_a_time)
        scores = model.scores(visual, text)
    plain = [[-plain_distance(i, j, visual, text, chosen) for j in range(len(phrases))] for i in range(len(regions))]
    np.testing.assert_allclose(scores, plain, atol=2e-5)
    assert scores.dtype == np.float32


def test_inconsistent_parts_are_refused() -> None:
    with pytest.raises(DeixisError, match="photo 1"):
        Combined(Unit(1), Unit(1)).prepare_visual(items([2, 0], 3))
    with pytest.raises(DeixisError):
        WithParts(np.ones((2, 4)), np.ones((5, 4)), np.array([2, 2]))
    for odd in (2, -1):
        with pytest.raises(DeixisError):
            WithParts(np.ones((1, 4)), np.ones((2, 4)), np.array([1]), np.array([odd]))
    with pytest.raises(DeixisError):
        Combined(Unit(1), Unit(1)).prepare_visual(WithParts(np.ones((1, 4)), np.eye(4), np.array([1]), np.array([2])))


@pytest.mark.parametrize("odd", [1.5, -1.5, np.nan])
def test_scores_that_are_not_cosines_are_refused(odd: float) -> None:
    class Odd(Unit):
        def scores(self, visual: np.ndarray, text: np.ndarray) -> np.ndarray:
            return np.full((len(visual), len(text)), odd, dtype=np.float32)

    model = Combined(Unit(1), Odd(1))
    visual, text = model.prepare_visual(items([2], 3)), model.prepare_text(items([2], 4))
    with pytest.raises(DeixisError):
        model.scores(visual, text)


def test_shared_phrases_may_be_passed_once() -> None:
    model = Combined(Unit(1), Unit(2))
    visual = model.prepare_visual(items([2, 3], 3))
    phrases = np.random.default_rng(4).normal(size=(3, 4))
    which, wholes, counts = np.array([2, 0, 0, 1, 2]), np.ones((4, 4)), np.array([2, 0, 1, 2])
    shared = model.prepare_text(WithParts(wholes, phrases, counts, which))
    written_out = model.prepare_text(WithParts(wholes, phrases[which], counts))
    np.testing.assert_allclose(model.scores(visual, shared), model.scores(visual, written_out), atol=1e-6)
    for begin, end in ((0, 4), (1, 3), (2, 2)):
        np.testing.assert_allclose(
            model.scores(visual, shared.run(begin, end)), model.scores(visual, written_out)[:, begin:end], atol=1e-6
        )


def test_a_range_of_photos_has_the_scores_of_all_photos() -> None:
    model = Combined(Unit(1), Unit(2))
    visual, text = model.prepare_visual(items([2, 1, 3], 3)), model.prepare_text(items([2, 0, 1], 4))
    np.testing.assert_allclose(model.scores(visual.run(1, 3), text), model.scores(visual, text)[1:3], atol=1e-6)
