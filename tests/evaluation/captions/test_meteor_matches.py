from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.errors import DatasetError
from deixis.evaluation.captions.meteor_matches import (
    EXACT,
    PARAPHRASE,
    SHIPPED_PARAPHRASES,
    STEM,
    SYNONYM,
    find_matches,
    read_paraphrases,
)
from deixis.evaluation.captions.ngrams import EncodedSentences, Numbering
from deixis.language.words import senses, stem

from .strategies import meteor_sentences

Match = tuple[int, int, int, int, int]


def shipped_pairs() -> set[tuple[tuple[str, ...], tuple[str, ...]]]:
    table = read_paraphrases(SHIPPED_PARAPHRASES, set())
    words = list(table.ids)
    phrases = [tuple(words[word] for word in row if word >= 0) for row in table.phrases.tolist()]
    return {(phrases[one], phrases[other]) for one, other in table.pairs.tolist()}


PAIRS = shipped_pairs()


def plain_matches(candidate: list[str], reference: list[str]) -> Counter[Match]:
    """Start and length in the reference, start and length in the candidate, module."""
    found: Counter[Match] = Counter()
    for j, wanted in enumerate(reference):
        for i, word in enumerate(candidate):
            found[j, 1, i, 1, EXACT] += word == wanted
            if candidate != reference and word != wanted:
                found[j, 1, i, 1, STEM] += stem(word) == stem(wanted)
                found[j, 1, i, 1, SYNONYM] += bool(senses(word) & senses(wanted))
            for length in range(1, len(reference) - j + 1):
                for span in range(1, len(candidate) - i + 1):
                    one, other = tuple(reference[j : j + length]), tuple(candidate[i : i + span])
                    if candidate != reference:
                        found[j, length, i, span, PARAPHRASE] += ((one, other) in PAIRS) + ((other, one) in PAIRS)
    return +found


@given(st.lists(st.tuples(meteor_sentences, meteor_sentences), min_size=1, max_size=3))
@settings(max_examples=60)
def test_matches_agree_with_plain_loops(pairs: list[tuple[list[str], list[str]]]) -> None:
    ids = Numbering()
    candidates = EncodedSentences.of([candidate for candidate, _ in pairs], ids.encode)
    references = EncodedSentences.of([reference for _, reference in pairs], ids.encode)
    matches = find_matches(candidates, references, np.arange(len(pairs)), ids, SHIPPED_PARAPHRASES)
    for number, pair in enumerate(pairs):
        mine = matches.where(matches.pair == number)
        columns = (mine.start, mine.length, mine.at, mine.span, mine.module)
        assert Counter(zip(*(column.tolist() for column in columns), strict=True)) == plain_matches(*pair)


def test_without_a_table_there_are_no_paraphrases() -> None:
    ids = Numbering()
    candidates, references = EncodedSentences.of([["lady"]], ids.encode), EncodedSentences.of([["woman"]], ids.encode)
    with_table = find_matches(candidates, references, np.array([0]), ids, SHIPPED_PARAPHRASES)
    without = find_matches(candidates, references, np.array([0]), ids, None)
    assert PARAPHRASE in with_table.module
    assert PARAPHRASE not in without.module


def test_several_references_are_compared_with_the_same_candidate() -> None:
    ids = Numbering()
    candidates = EncodedSentences.of([["x"], ["a", "b"]], ids.encode)
    references = EncodedSentences.of([["x"], ["b"], ["a", "a"]], ids.encode)
    matches = find_matches(candidates, references, np.array([0, 1, 1]), ids, None)
    assert list(zip(matches.pair, matches.start, matches.at, strict=True)) == [
        (0, 0, 0),
        (1, 0, 1),
        (2, 0, 0),
        (2, 1, 0),
    ]


def test_the_shipped_table_has_the_phrases_of_captions() -> None:
    table = read_paraphrases(SHIPPED_PARAPHRASES, set())
    phrases = {tuple(word for word in row if word >= 0) for row in table.phrases.tolist()}
    assert (table.ids["next"], table.ids["to"]) in phrases
    assert len(table.pairs) == 66_846


def table_file(folder: Path, text: str) -> Path:
    path = folder / "table.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_of_another_table_only_pairs_of_known_words_are_kept(tmp_path: Path) -> None:
    path = table_file(tmp_path, "0.5\nnext to\nnear\n0.1\nnext to\nunknown\n")
    table = read_paraphrases(path, {"next", "to", "near"})
    assert list(table.ids) == ["next", "to", "near"]
    assert table.phrases.tolist() == [[0, 1], [2, -1]]
    assert table.pairs.tolist() == [[0, 1]]


def test_an_invalid_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="table.gz: pair 2"):
        read_paraphrases(table_file(tmp_path, "0.5\nnear\nby\n0.1\nnear\n"), {"near", "by"})
    not_gzip = tmp_path / "plain.gz"
    not_gzip.write_text("0.5\na\nb\n")
    with pytest.raises(DatasetError, match="plain.gz"):
        read_paraphrases(not_gzip, {"a"})
    with pytest.raises(DatasetError, match="none.gz"):
        read_paraphrases(tmp_path / "none.gz", {"a"})
