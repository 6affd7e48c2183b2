"""Mean vectors and tf-idf."""

from __future__ import annotations

import math

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.language.features import MeanVector, TfIdf
from deixis.language.features.base import WordMeans, token_counts
from deixis.language.vectors import WordVectors

VECTORS = WordVectors(np.eye(3, dtype=np.float32), ["dog", "cat", "a"])


def test_values_are_averaged_over_the_known_words() -> None:
    means = WordMeans.of(["A dog, a zebra", "zebra", "cat"], VECTORS)
    assert means.rows.tolist() == [0, 1, 2]
    np.testing.assert_allclose(means(np.eye(3)), [[1 / 3, 0, 2 / 3], [0, 0, 0], [0, 1, 0]], rtol=1e-6)
    means = WordMeans.of([], VECTORS)
    assert (len(means.rows), means(np.eye(0)).shape) == (0, (0, 0))


def test_only_known_tokens_are_counted() -> None:
    seen, counts = token_counts(["A dog, a zebra", ["Dog"]], VECTORS)
    assert (seen.tolist(), counts.tolist()) == ([0, 2], [2, 2])


SENTENCES = ["A dog runs.", "A dog and a cat.", "Two cats sit on a dog", "A red cat"]


def by_loops(sentence: list[str], learned_from: list[list[str]], columns: list[str]) -> list[float]:
    row = []
    for word in columns:
        holding = sum(word in other for other in learned_from)
        row.append(sentence.count(word) * (math.log((1 + len(learned_from)) / (1 + holding)) + 1))
    length = math.sqrt(sum(number**2 for number in row))
    return [number / length if length else 0.0 for number in row]


def test_tfidf_agrees_with_plain_loops() -> None:
    learned_from = [sentence.lower().rstrip(".").split() for sentence in SENTENCES]
    features = TfIdf(minimum=1).fit(SENTENCES)
    assert features.words_ == sorted({word for sentence in learned_from for word in sentence})
    asked = [*learned_from, ["a", "a", "dog", "zebra"], ["zebra"]]
    expected = [by_loops(sentence, learned_from, features.words_) for sentence in asked]
    np.testing.assert_allclose(features.transform(asked), expected, atol=1e-6)
    assert features.transform(asked).dtype == np.float32


def test_rare_words_are_left_out() -> None:
    features = TfIdf(minimum=2).fit(SENTENCES)
    assert features.words_ == ["a", "cat", "dog"]
    assert features.dimension == 3


def test_a_string_equals_its_words() -> None:
    features = TfIdf().fit(SENTENCES)
    np.testing.assert_array_equal(features.transform(["A dog."]), features.transform([["a", "dog"]]))


def test_tfidf_without_frequent_words_is_an_error() -> None:
    with pytest.raises(DeixisError, match="tf-idf"):
        TfIdf().fit(["a dog"])


def test_a_sentence_is_the_mean_of_its_known_words(vectors: WordVectors, sentences: list[list[str]]) -> None:
    expected = [np.mean([vectors.matrix[int(word[1:])] for word in words[:-1]], axis=0) for words in sentences]
    np.testing.assert_allclose(MeanVector(vectors).fit([]).transform(sentences), expected, atol=1e-5)


def test_more_sentences_than_a_chunk_keep_their_order(vectors: WordVectors, sentences: list[list[str]]) -> None:
    many = sentences * 30
    rows = MeanVector(vectors).transform(many)
    np.testing.assert_allclose(rows, np.tile(MeanVector(vectors).transform(sentences), (30, 1)), atol=1e-6)
