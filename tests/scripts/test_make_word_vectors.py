"""The script that makes the shipped word vectors: which words it takes, and what is left of their vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from make_word_vectors import choose_words, compress, neighbour_agreement, texts_of

from deixis.data.dataset import make_dataset
from deixis.data.records import Caption, Photo
from deixis.language.vectors import WordVectors


def vectors_of(words: list[str], dimension: int = 8) -> WordVectors:
    # Decreasing deviations, as principal directions have.
    spread = 0.5 ** np.arange(dimension)
    return WordVectors((np.random.default_rng(0).normal(size=(len(words), dimension)) * spread).astype("f4"), words)


def test_frequent_words_of_letters_and_all_words_of_texts_are_chosen() -> None:
    vectors = vectors_of(["the", "dog", "1990", "naïve", "zebra", "t-shirt", "a"])
    frequent = ["the", "1990", "naïve", "unheard", "dog", "zebra"]
    assert choose_words(vectors, frequent, [], 2) == ["dog", "the"]
    assert choose_words(vectors, frequent, ["A naïve unseen dog in 1990"], 2) == ["1990", "a", "dog", "naïve", "the"]


def test_texts_are_lines_of_files_and_training_captions(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("tench\ngoldfish\n", encoding="utf-8")
    photos = [Photo(split, (Caption.from_text(f"A {split} photo ."),), splits=(split,)) for split in ("train", "dev")]
    make_dataset(tmp_path / "data", photos)
    assert list(texts_of([tmp_path / "names.txt", tmp_path / "data"])) == ["tench", "goldfish", "A train photo ."]


def test_similarities_survive_rotation_truncation_and_int8() -> None:
    words = [f"w{number}" for number in range(300)]
    vectors = vectors_of(words)
    full, short = (compress(vectors, words, dimension, "test") for dimension in (8, 3))
    unit, whole = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (vectors.matrix, full.matrix))
    np.testing.assert_allclose(whole @ whole.T, unit @ unit.T, atol=0.03)  # a rotation, but for int8
    assert (short.dimension, short.row_count, short.to_artifact().arrays["matrix"].dtype) == (3, 300, np.int8)
    assert abs(np.sqrt(np.mean(short.matrix**2)) - 0.35) < 0.01
    assert neighbour_agreement(vectors.matrix, vectors.matrix) == 1
    assert neighbour_agreement(vectors.matrix, full.matrix) > 0.9
    random = np.random.default_rng(1).normal(size=(300, 3))
    assert neighbour_agreement(vectors.matrix, short.matrix) > 0.3 > neighbour_agreement(vectors.matrix, random)


def test_words_that_share_a_row_still_share_one() -> None:
    vectors = WordVectors(np.eye(3, 4, dtype=np.float32), ["cat", "kitten", "dog", "sky"], [0, 0, 1, 2])
    table = compress(vectors, ["cat", "dog", "kitten"], 2, "test")
    assert table.row_count == 2
    assert table.rows_of(["cat"]) == table.rows_of(["kitten"])
