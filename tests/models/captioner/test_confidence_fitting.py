"""The confidence of captions, fitted to made-up captions of which it is known how often they are right."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.models.captioner.confidence_fitting import (
    CaptionSource,
    PhotoCaptions,
    ShownCaptions,
    compare_captions,
    evaluate_halves,
    fit_confidence,
    summarize,
)
from deixis.models.captioner.ranking import FEATURES, MATCH_FEATURES, SURE
from deixis.models.m_rnn.decoding import GeneratedSentence

TRUE = np.array([2.0, 1.5, 1.0, 0.0, -0.2])


def made_up(name: str, seed: int, count: int = 600, *, wrong: bool = False) -> CaptionSource:
    """Captions that are right with the probability of `TRUE`, or all wrong; shorter ones have better nouns."""
    rng = np.random.default_rng(seed)
    photos = []
    for _ in range(count):
        captions = 1 + int(rng.integers(0, 4))
        lowest = np.sort(-rng.exponential(1.5, captions))
        rows = np.ones((captions, FEATURES))
        rows[:, 1], rows[:, 2], rows[:, 3] = lowest * 0.6, lowest, -rng.exponential(0.5, captions)
        rows[:, 4] = 6 - np.arange(captions)
        right = rng.random(captions) < 1 / (1 + np.exp(-rows @ TRUE))
        photos.append(PhotoCaptions(rows, right & (not wrong)))
    return CaptionSource(name, photos)


def test_the_fit_is_calibrated_on_each_source() -> None:
    sources = [made_up("one", 0), made_up("two", 1, 300)]
    shown = evaluate_halves(sources)
    assert {name: len(each.right) for name, each in shown.items()} == {"one": 600, "two": 300}
    for each in shown.values():
        scores = summarize(each)
        assert scores["calibration error"].value < 0.12
        assert scores["sure captions right"].value >= SURE
        assert scores["sure captions"].value == pytest.approx(each.sure.mean())
        assert scores["sure captions right"].count == each.sure.sum()
    assert abs(shown["one"].probabilities.mean() - shown["one"].right.mean()) < 0.06


def test_captions_are_sure_only_if_those_of_every_source_are_mostly_right() -> None:
    good = made_up("good", 0)
    assert fit_confidence([good]).sure_from == SURE
    both = fit_confidence([good, made_up("bad", 1, wrong=True)])
    bad = ShownCaptions.of(both, made_up("bad", 1, wrong=True).photos)
    assert both.sure_from > SURE or bad.sure.mean() <= 0.1
    assert (bad.sure & ~bad.right).mean() <= 0.1


def test_a_better_match_never_lowers_the_confidence() -> None:
    rng = np.random.default_rng(3)
    helpful, harmful = [], []
    for photo in made_up("one", 0).photos:
        sign = np.where(photo.right, 1.0, -1.0)[:, None] + rng.normal(size=(len(photo.right), MATCH_FEATURES))
        helpful.append(PhotoCaptions(np.hstack([photo.features, sign]), photo.right))
        harmful.append(PhotoCaptions(np.hstack([photo.features, -sign]), photo.right))
    good, bad = (
        fit_confidence([CaptionSource("one", photos)]).calibrator.weights[FEATURES:] for photos in (helpful, harmful)
    )
    assert min(good) > 0.5
    assert set(bad) == {0}


def test_what_is_shown_is_the_first_sure_caption_or_the_most_probable() -> None:
    confidence = fit_confidence([made_up("one", 0)])
    for photo in made_up("two", 1, 50).photos:
        chances = confidence.probabilities(photo.features)
        sure = [place for place, chance in enumerate(chances) if chance >= confidence.sure_from]
        place = sure[0] if sure else chances.tolist().index(chances.max())
        shown = ShownCaptions.of(confidence, [photo])
        assert shown.probabilities.tolist() == [chances[place]]
        assert (shown.right[0], shown.sure[0], shown.shorter[0]) == (photo.right[place], bool(sure), place > 0)


def test_captions_and_their_parts_are_compared_with_those_of_people() -> None:
    words = ("a", "man", "is", "riding", "a", "bike", "on", "a", "beach")
    sentence = GeneratedSentence(words, -1.0, True, (-0.1,) * (len(words) + 1))
    found = compare_captions(sentence, ["A man rides his bicycle along the road.", "A cyclist."])
    assert found.features.shape == (2, FEATURES)
    assert found.right.tolist() == [False, True]  # nobody says that there is a beach
