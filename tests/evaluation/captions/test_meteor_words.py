from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from deixis.errors import DatasetError
from deixis.evaluation.captions.meteor_words import (
    SHIPPED_PARAPHRASES,
    function_words,
    normalised,
    paraphrases,
    senses,
    stem,
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["t-shirt"], ["t", "shirt"]),
        (["-lrb-"], ["-lrb-"]),
        (["n't"], ["n", "'t"]),
        (["'s"], ["'", "s"]),
        (["1990's"], ["1990", "'s"]),
        (["rock", "n'", "roll"], ["rock", "n", "'", "roll"]),
        (["u.s."], ["us"]),
        (["mr.", "smith"], ["mr.", "smith"]),
        (["mr."], ["mr", "."]),
        (["vs."], ["vs."]),
        (["1,000", "a,b"], ["1,000", "a", ",", "b"]),
        (["3/4", "&", "#1"], ["3", "/", "4", "&", "#", "1"]),
        (["a..b"], ["a", "..", "b"]),
        (["café"], ["café"]),
        ([], []),
    ],
)
def test_words_are_respelled_as_meteor_does(words: list[str], expected: list[str]) -> None:
    assert normalised(words) == expected


def test_function_words_are_meteors() -> None:
    assert {"a", "the", "'s", "people", "two"} <= function_words()
    assert len(function_words()) == 93
    assert "dog" not in function_words()


@pytest.mark.parametrize(("one", "other"), [("running", "runs"), ("dogs", "dog"), ("walked", "walking")])
def test_inflections_share_a_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("bike", "bicycle"),
        ("bikes", "bicycles"),
        ("man", "men"),
        ("ran", "running"),
        ("sofa", "couch"),
        ("kid", "child"),
    ],
)
def test_synonyms_and_forms_of_one_word_share_a_sense(one: str, other: str) -> None:
    assert senses(one) & senses(other)


@pytest.mark.parametrize(("one", "other"), [("dog", "cat"), ("xyzzy", "xyzzy"), ("man", "woman")])
def test_other_words_share_none(one: str, other: str) -> None:
    assert not senses(one) & senses(other)


def test_the_shipped_table_has_what_captions_need() -> None:
    table = paraphrases(SHIPPED_PARAPHRASES, set())
    phrases = {tuple(word for word in row if word >= 0) for row in table.phrases.tolist()}
    assert (table.ids["next"], table.ids["to"]) in phrases
    assert len(table.pairs) == 66_846


def table_file(folder: Path, text: str) -> Path:
    path = folder / "table.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_of_a_given_table_only_pairs_of_known_words_are_kept(tmp_path: Path) -> None:
    path = table_file(tmp_path, "0.5\nnext to\nnear\n0.1\nnext to\nunknown\n")
    table = paraphrases(path, {"next", "to", "near"})
    assert list(table.ids) == ["next", "to", "near"]
    assert table.phrases.tolist() == [[0, 1], [2, -1]]
    assert table.pairs.tolist() == [[0, 1]]


def test_a_broken_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"table\.gz: pair 2 has no words"):
        paraphrases(table_file(tmp_path, "0.5\nnear\nby\n0.1\nnear\n"), {"near", "by"})
    not_gzip = tmp_path / "plain.gz"
    not_gzip.write_text("0.5\na\nb\n")
    with pytest.raises(DatasetError, match=r"plain\.gz: not a gzipped table"):
        paraphrases(not_gzip, {"a"})
    with pytest.raises(DatasetError, match=r"none\.gz: No such file"):
        paraphrases(tmp_path / "none.gz", {"a"})
