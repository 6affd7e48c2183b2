"""A spaCy pipeline's vectors, read without spaCy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.language.spacy_vectors import hash_words
from deixis.language.vectors import read_vectors

MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)
ROW_OF = {"dog": 2, "hound": 2, "a": 0, "internationalization": 1}


def by_hand(word: str) -> int:
    """MurmurHash64A with seed 1, one byte at a time, in Python's own integers."""
    mix, mask, data = 0xC6A4A7935BD1E995, 2**64 - 1, word.encode()
    value = 1 ^ (len(data) * mix & mask)
    while len(data) >= 8:
        block = int.from_bytes(data[:8], "little") * mix & mask
        block = (block ^ block >> 47) * mix & mask
        value, data = (value ^ block) * mix & mask, data[8:]
    if data:
        value = (value ^ int.from_bytes(data, "little")) * mix & mask
    value = (value ^ value >> 47) * mix & mask
    return value ^ value >> 47


def packed(row_of: dict[int, int]) -> bytes:
    entries = b"".join(
        b"\xcf" + key.to_bytes(8, "big") + b"\xcd" + row.to_bytes(2, "big") for key, row in row_of.items()
    )
    return b"\xdf" + len(row_of).to_bytes(4, "big") + entries


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    vocabulary = tmp_path / "en_core_web_md-3.7.1" / "vocab"
    vocabulary.mkdir(parents=True)
    with (vocabulary / "vectors").open("wb") as file:
        np.save(file, MATRIX)
    (vocabulary / "key2row").write_bytes(packed({by_hand(word): row for word, row in ROW_OF.items()}))
    (vocabulary / "strings.json").write_text(json.dumps(["", "zebra", *ROW_OF]))
    return vocabulary.parent


def test_hashes_are_those_of_spacy() -> None:
    # From spaCy 3.8: nlp.vocab.strings["a"] and so on.
    expected = [3197928453018144401, 11901859001352538922, 13482343820443705570]
    assert hash_words(["coffee", "a", "internationalization"]).tolist() == expected


def test_hashes_are_what_a_loop_finds() -> None:
    words = ["x" * length + "é" for length in range(25)]
    assert hash_words(words).tolist() == [by_hand(word) for word in words]


def test_each_word_has_its_row(pipeline: Path) -> None:
    vectors = read_vectors(pipeline)
    assert vectors.rows_of(["dog", "hound", "a", "internationalization", "zebra"]).tolist() == [2, 2, 0, 1, -1]
    np.testing.assert_array_equal(vectors.vectors_of(["Dog"]), MATRIX[2:])
    assert len(vectors) == 4


def test_words_that_spacy_numbers_and_does_not_list_are_found_too(pipeline: Path) -> None:
    (pipeline / "vocab" / "key2row").write_bytes(packed({432: 1}))
    assert read_vectors(pipeline).rows_of(["number"]).tolist() == [1]


@pytest.mark.parametrize("name", ["vectors", "key2row", "strings.json"])
@pytest.mark.parametrize("content", [b"", b"\x00junk", b"\xdf\xff\xff\xff\xff\xcf", b"{}", b"[1, 2]", None])
def test_a_damaged_pipeline_is_one_clear_line(pipeline: Path, name: str, content: bytes | None) -> None:
    whole = (pipeline / "vocab" / name).read_bytes()
    (pipeline / "vocab" / name).write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(DeixisError) as caught:
        read_vectors(pipeline)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_rows_beyond_the_matrix_are_refused(pipeline: Path) -> None:
    (pipeline / "vocab" / "key2row").write_bytes(packed({by_hand("dog"): 3}))
    with pytest.raises(DeixisError, match="no row among the 3 there are"):
        read_vectors(pipeline)
