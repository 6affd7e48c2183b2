"""Files of word vectors: the three kinds, plain and gzip, and bytes that are none of them."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.language.vector_files import MAX_WORD_BYTES, read_vector_file

WORDS = ["the", "naïve", "dog", "new_york"]
MATRIX = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def glove() -> bytes:
    return b"".join(f"{w} {' '.join(repr(float(x)) for x in v)}\n".encode() for w, v in zip(WORDS, MATRIX, strict=True))


def word2vec_text() -> bytes:
    return b"4 3\n" + glove()


def word2vec_binary(newline: bytes = b"\n") -> bytes:
    rows = zip(WORDS, MATRIX, strict=True)
    return b"4 3\n" + b"".join(w.encode() + b" " + struct.pack("<3f", *v) + newline for w, v in rows)


KINDS: list[Callable[[], bytes]] = [glove, word2vec_text, word2vec_binary, lambda: word2vec_binary(b"")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", [False, True])
def test_each_kind_is_read_as_it_was_written(kind: Callable[[], bytes], packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(gzip.compress(kind()) if packed else kind())
    words, matrix = read_vector_file(path)
    assert words == WORDS
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix, MATRIX)


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_reads_the_first_words_only(kind: Callable[[], bytes], tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(kind())
    words, matrix = read_vector_file(path, limit=2)
    assert words == WORDS[:2]
    np.testing.assert_array_equal(matrix, MATRIX[:2])


def test_words_with_spaces_keep_them(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("dog 1 2\n. . . 3 4\n\n")
    words, matrix = read_vector_file(path)
    assert words == ["dog", ". . ."]
    assert matrix.tolist() == [[1, 2], [3, 4]]


def test_more_words_than_fit_a_block_keep_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deixis.language.vector_files._GROWTH", 3)
    path = tmp_path / "glove.txt"
    for count in (2, 3, 4, 6, 7):
        path.write_text("".join(f"w{n} {n} {-n}\n" for n in range(count)))
        assert read_vector_file(path)[1].tolist() == [[n, -n] for n in range(count)]


def refused(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "vectors"
    path.write_bytes(content)
    with pytest.raises(DeixisError) as caught:
        read_vector_file(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: ")
    assert "\n" not in line
    return line


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "holds no word vectors"),
        (b"word\n", "0 dimensions; from 1 to 4,096 can be read"),
        (b"dog 1 2\ncat 3\n", "line 2 has 2 fields, not a word and 2 numbers"),
        (b"dog 1 2\ncat 3 x\n", "line 2 is not a word and 2 numbers"),
        (b"dog 1 nan\n", "the vector of word 1 ('dog') is not finite"),
        (b"3 2\ndog 1 2\n", "ends after 1 of 3 words"),
        (b"99999999999 2\ndog 1 2\n", "states 99,999,999,999 words"),
        (b"5 99999\ndog 1 2\n", "99999 dimensions"),
        (b"3 2\ndog " + struct.pack("<2f", 1, 2), "ends within word 2 of 3; it may be truncated"),
        (b"3 2\ndog " + struct.pack("<f", 1), "ends within word 1 of 3"),
        (b"1 2\ndog " + struct.pack("<2f", 1, np.inf), "is not finite"),
        (b"9 2\n" + b"x" * 9000, f"word 1 is longer than {MAX_WORD_BYTES} bytes"),
        (gzip.compress(b"dog 1 2\n" * 500, mtime=0)[:30], "cannot be read"),
    ],
)
def test_a_bad_file_is_one_clear_line(content: bytes, reason: str, tmp_path: Path) -> None:
    assert reason in refused(tmp_path, content)


@given(st.one_of(st.binary(max_size=200), st.builds(lambda head, rest: head + rest, st.just(b"3 2\n"), st.binary())))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "vectors"
    path.write_bytes(content)
    try:
        words, matrix = read_vector_file(path)
    except DeixisError:
        return
    assert len(words) == len(matrix)
    assert np.isfinite(matrix).all()
