"""The reward is CIDEr-D as the evaluation computes it."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.errors import DatasetError
from deixis.evaluation.captions.cider import cider
from deixis.evaluation.captions.coded import CaptionSet
from deixis.language.vocabulary import Vocabulary
from deixis.training.cider_reward import END, CiderReward

KNOWN = Vocabulary(("a", "dog", "runs", "cat", "red"), (5, 4, 3, 2, 1))
UNKNOWN, STOP = len(KNOWN), len(KNOWN) + 1
WORDS = [*KNOWN.words, "zebra", "yacht"]


def captions(seed: int, count: int, most: int = 12) -> list[list[str]]:
    """Sentences of few words, so that they share many n-grams; some words are not known to the network."""
    rng = np.random.default_rng(seed)
    return [[WORDS[word] for word in rng.integers(len(WORDS), size=rng.integers(1, most))] for _ in range(count)]


def references(photos: int = 30) -> list[list[list[str]]]:
    rng = np.random.default_rng(9)
    return [captions(100 + photo, int(rng.integers(1, 6))) for photo in range(photos)]


def written(sentences: list[list[str]], longest: int = 14) -> np.ndarray:
    """As a network writes them: the unknown word for what it does not know, and an end sign; then anything."""
    rows = np.full((len(sentences), longest), 2)
    for row, words in zip(rows, sentences, strict=True):
        row[: len(words)] = [KNOWN.encode([word])[0] if word in KNOWN else UNKNOWN for word in words]
        row[len(words)] = STOP
    return rows


def expected(sentences: list[list[str]], gold: list[list[list[str]]]) -> np.ndarray:
    read = [[word if word in KNOWN else "nothing" for word in words] + [END] for words in sentences]
    with_ends = [[[*words, END] for words in each] for each in gold]
    return cider(CaptionSet(tuple(map(str, range(len(gold)))), read, with_ends)).cider_d


@pytest.mark.parametrize("seed", range(4))
def test_the_reward_is_what_the_evaluation_says_with_the_end_sign_as_a_word(seed: int) -> None:
    gold, sentences = references(), captions(seed, 30)
    found = CiderReward(gold, KNOWN)(written(sentences), np.arange(30))
    np.testing.assert_allclose(found, expected(sentences, gold), rtol=1e-12, atol=1e-12)
    assert found.max() > 0.5


def test_a_caption_of_the_photo_itself_is_worth_the_most() -> None:
    gold = [[words] for words in captions(3, 20)]
    known = [[[word for word in words if word in KNOWN] for words in each] for each in gold]
    reward = CiderReward(known, KNOWN)
    own = reward(written([each[0] for each in known]), np.arange(20))
    others = reward(written([each[0] for each in known[1:] + known[:1]]), np.arange(20))
    assert (own >= others).all()


def test_rows_may_be_of_any_photos_in_any_order() -> None:
    gold, sentences = references(), captions(1, 30)
    reward = CiderReward(gold, KNOWN)
    whole = reward(written(sentences), np.arange(30))
    some = np.array([7, 3, 3, 29])
    np.testing.assert_array_equal(reward(written(sentences)[some], some), whole[some])


def test_a_sentence_without_an_end_is_worth_less() -> None:
    gold = [[["a", "dog", "runs"]], [["a", "red", "cat"]]]
    reward = CiderReward(gold, KNOWN)
    ended, open_end = reward(np.array([[0, 1, 2, STOP], [0, 1, 2, 0]]), np.array([0, 0]))
    assert ended > open_end > 0


def test_a_photo_without_captions_hinders_nobody() -> None:
    gold = references()
    reward = CiderReward([*gold, []], KNOWN)
    assert np.isfinite(reward(written(captions(0, 30)), np.arange(30))).all()
    with pytest.raises(DatasetError, match="no caption"):
        CiderReward([[], []], KNOWN)


def test_repeating_a_word_costs_only_where_people_seldom_repeat_it() -> None:
    gold = [[["a", "dog", "runs", "a"], ["a", "red", "cat", "a"]], [["a", "cat"]]]
    sentences = [["a", "dog", "a", "dog", "dog"], ["a", "cat", "a"]]
    plain, costly = (CiderReward(gold, KNOWN, repeat_cost=cost)(written(sentences), np.arange(2)) for cost in (0, 0.5))
    np.testing.assert_allclose(plain - costly, [2 * 0.5, 0])
