"""Which captions are shown, and how sure they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis.language.tagger import tag
from deixis.models.captioner.confidence import (
    FEATURES,
    LOG_PROBABILITIES,
    SURE,
    Confidence,
    TaggedCaption,
    choose_captions,
    features,
    shorter_captions,
)
from deixis.models.m_rnn.decoding import GeneratedSentence

BY_NOUNS = Confidence([3.0, 0.0, 2.0, 0.0, 0.0])
"""Sure if no noun has a log-probability much below −1."""


def generated(text: str, **log_p: float) -> GeneratedSentence:
    """A sentence whose words have log-probability −0.1 unless another one is given."""
    words = tuple(text.split())
    values = (*(log_p.get(word, -0.1) for word in words), -0.1)
    return GeneratedSentence(words, sum(values), True, values)


def tagged(text: str) -> TaggedCaption:
    words = tuple(text.split())
    return TaggedCaption(words, tuple(tag(words)), (-0.1,) * len(words))


def test_ungrammatical_sentences_are_passed_over_and_articles_are_corrected() -> None:
    sentences = [
        generated("a white is standing"),
        generated("a elephant in a field"),
        generated("two dogs run in snow"),
    ]
    found = choose_captions(sentences, None)
    assert [each.sentence.text for each in found] == ["an elephant in a field", "two dogs run in snow"]
    assert [(each.changed, each.rank) for each in found] == [(True, 1), (False, 2)]
    assert [(each.confidence, each.sure) for each in found] == [(None, None), (None, None)]


def test_a_sentence_without_alternative_is_shortened_or_not_sure() -> None:
    [shortened] = choose_captions([generated("a dog in the water with a")], None)
    assert shortened.sentence.text == "a dog in the water"
    assert shortened.sure is None
    for confidence in (None, Confidence([9.0, 0, 0, 0, 0])):
        [bad] = choose_captions([generated("a white is")], confidence)
        assert (bad.sentence.text, bad.sure) == ("a white is", False)


def test_an_unsure_caption_is_replaced_by_its_longest_sure_part() -> None:
    text = "a man in a red jacket is standing on a bench"
    [whole] = choose_captions([generated(text)], BY_NOUNS)
    assert (whole.sentence.text, whole.sure, whole.changed) == (text, True, False)
    [end] = choose_captions([generated(text, bench=-3)], BY_NOUNS)
    assert (end.sentence.text, end.sure, end.changed) == ("a man in a red jacket is standing", True, True)
    [middle] = choose_captions([generated(text, jacket=-3)], BY_NOUNS)
    assert (middle.sentence.text, middle.sure) == ("a man is standing on a bench", True)
    [neither] = choose_captions([generated(text, man=-3)], BY_NOUNS)
    assert (neither.sentence.text, neither.sure) == (text, False)
    assert 0 < neither.confidence < SURE < middle.confidence < 1  # type: ignore[operator]


def test_of_a_caption_without_a_sure_part_the_most_probable_part_is_shown() -> None:
    text = "a man in a red jacket is standing on a bench"
    found, other = choose_captions([generated(text, man=-2, bench=-3), generated("two dogs run in snow")], BY_NOUNS)
    assert (found.sentence.text, found.sure, found.changed) == ("a man in a red jacket is standing", False, True)
    assert other.sentence.text == "two dogs run in snow"


def test_a_calibration_says_from_where_captions_are_sure() -> None:
    sentence = generated("two dogs run in the snow")
    for weight, sure_from, sure in ((0.5, 0.6, True), (0.5, 0.7, False)):
        [found] = choose_captions([sentence], Confidence([weight, 0, 0, 0, 0], sure_from))
        assert found.confidence == pytest.approx(0.62, abs=0.01)
        assert found.sure is sure


def test_shorter_captions_are_grammatical_parts_that_say_something() -> None:
    found = [
        " ".join(each.words) for each in shorter_captions(tagged("an old man with a hat is riding a bike on a street"))
    ]
    assert found[0] == "a man with a hat is riding a bike on a street"
    assert "an old man is riding a bike" in found
    assert not {"an old man is", "a man", "an old man is riding", "a man with"} & set(found)
    assert [len(each.split()) for each in found] == sorted((len(each.split()) for each in found), reverse=True)
    assert shorter_captions(tagged("a person is standing on a rock")) == []


def test_the_words_that_a_caption_was_started_with_are_kept() -> None:
    sentence = generated("an old man is riding a bike on a street", street=-3, man=-0.9)
    [found] = choose_captions([sentence], BY_NOUNS, ["an", "old"])
    assert found.sentence.text == "an old man is riding a bike"
    started = choose_captions([generated("a old man is riding a bike")], None, ["a", "old"])
    assert [(each.sentence.text, each.sure) for each in started] == [("a old man is riding a bike", False)]


def test_the_confidence_does_not_fall_with_the_probability_of_a_word() -> None:
    rng = np.random.default_rng(0)
    confidence = Confidence([0.3, 1.0, 0.5, 0.2, -0.1])
    words = ["a", "brown", "dog", "is", "running", "in", "the", "snow"]
    for _ in range(20):
        log_p = rng.uniform(-3, 0, len(words))
        higher = log_p + rng.uniform(0, 1, len(words))
        low, high = (TaggedCaption(tuple(words), tuple(tag(words)), tuple(each.tolist())) for each in (log_p, higher))
        assert confidence.of(low) <= confidence.of(high)
        assert (features(low)[LOG_PROBABILITIES] <= features(high)[LOG_PROBABILITIES]).all()
    assert features(low).shape == (FEATURES,)


def test_the_match_of_a_sentence_counts_for_its_parts_too() -> None:
    by_match = Confidence([0, 0, 0, 0, 0, 2.0, 0.5])
    assert by_match.uses_match
    assert not BY_NOUNS.uses_match
    sentences = [generated("a man is riding a bike"), generated("two dogs run in snow")]
    good, bad = choose_captions(sentences, by_match, matches=[[1.0, 1.0], [-1.0, 1.0]])
    assert [good.confidence, bad.confidence] == pytest.approx([1 / (1 + np.exp(-2.5)), 1 / (1 + np.exp(1.5))])
    assert good.sure
    assert not bad.sure
    [part] = choose_captions([generated("a man in a red jacket is sitting on a bench")], by_match, matches=[[-1.0, 0]])
    assert part.confidence == pytest.approx(1 / (1 + np.exp(2)))


def test_the_confidence_is_saved(tmp_path: Path) -> None:
    Confidence([0.1, 0.2, 0.3, 0.4, 0.5], 0.7).save(tmp_path / "confidence")
    found = Confidence.load(tmp_path / "confidence")
    assert (found.calibrator.weights, found.sure_from) == ((0.1, 0.2, 0.3, 0.4, 0.5), 0.7)
    with pytest.raises(ValueError, match="weights"):
        Confidence([1.0])
