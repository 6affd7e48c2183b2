"""Sentences as words, and words as shares of their sentence."""

from __future__ import annotations

import numpy as np

from deixis.language.features.base import token_counts, word_shares, words_of
from deixis.language.sentence import Sentence
from deixis.language.vectors import WordVectors

VECTORS = WordVectors(np.eye(3, dtype=np.float32), ["dog", "cat", "a"])


def test_shares_of_a_sentence_sum_to_one_or_to_nothing() -> None:
    used, shares = word_shares(["A dog, a zebra", "zebra", "cat"], VECTORS)
    assert used.tolist() == [0, 1, 2]
    np.testing.assert_allclose(shares.toarray(), [[1 / 3, 0, 2 / 3], [0, 0, 0], [0, 1, 0]], rtol=1e-6)


def test_no_sentences_have_no_shares() -> None:
    used, shares = word_shares([], VECTORS)
    assert (len(used), shares.shape) == (0, (0, 0))


def test_tokens_are_counted_and_unknown_ones_are_not() -> None:
    seen, counts = token_counts(["A dog, a zebra", ["Dog"]], VECTORS)
    assert (seen.tolist(), counts.tolist()) == ([0, 2], [2, 2])


def test_records_that_know_their_words_are_counted_as_their_text_is() -> None:
    sentence = Sentence("A dog chases a cat.")
    phrase, relation = sentence.phrases[1], sentence.relations()[-1]
    assert [words_of(text) for text in (sentence, phrase, relation)] == [
        words_of(text) for text in ("A dog chases a cat.", "a cat", "A dog chases a cat")
    ]
