"""The mean vector against numpy's mean."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deixis.language.features import MeanVector
from deixis.language.vectors import WordVectors


def test_a_sentence_is_the_mean_of_its_known_words(vectors: WordVectors, sentences: list[list[str]]) -> None:
    expected = [np.mean([vectors.matrix[int(word[1:])] for word in words[:-1]], axis=0) for words in sentences]
    np.testing.assert_allclose(MeanVector(vectors).fit([]).transform(sentences), expected, atol=1e-5)


def test_more_sentences_than_a_chunk_keep_their_order(vectors: WordVectors, sentences: list[list[str]]) -> None:
    many = sentences * 30
    rows = MeanVector(vectors).transform(many)
    np.testing.assert_allclose(rows, np.tile(MeanVector(vectors).transform(sentences), (30, 1)), atol=1e-6)


def test_a_sentence_of_unknown_words_is_zeros(vectors: WordVectors) -> None:
    assert not MeanVector(vectors).transform(["nobody knows", ""]).any()


def test_what_was_saved_transforms_to_the_same_bits(
    vectors: WordVectors, sentences: list[list[str]], tmp_path: Path
) -> None:
    features = MeanVector(vectors)
    features.save(tmp_path / "saved")
    np.testing.assert_array_equal(
        MeanVector.load(tmp_path / "saved").transform(sentences), features.transform(sentences)
    )
