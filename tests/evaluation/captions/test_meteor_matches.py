from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings

from deixis.errors import DatasetError
from deixis.evaluation.captions.meteor_matches import (
    EXACT,
    PARAPHRASE,
    SHIPPED_PARAPHRASES,
    STEM,
    SYNONYM,
    Match,
    Matcher,
    Phrase,
    read_paraphrases,
)
from deixis.language.words import senses, stem

from .strategies import meteor_sentences

Row = tuple[int, ...]  # as `Match`


def shipped_pairs() -> set[tuple[Phrase, Phrase]]:
    with gzip.open(SHIPPED_PARAPHRASES, "rt", encoding="utf-8") as lines:
        texts = lines.read().splitlines()
    return {(tuple(one.split()), tuple(other.split())) for one, other in zip(texts[1::3], texts[2::3], strict=True)}


PAIRS = shipped_pairs()


def plain_matches(candidate: list[str], reference: list[str]) -> Counter[Row]:
    """The matches of two different sentences."""
    found: Counter[Row] = Counter()
    for j, wanted in enumerate(reference):
        for i, word in enumerate(candidate):
            found[j, EXACT, 1, i, 1] += word == wanted
            if word != wanted:
                found[j, STEM, 1, i, 1] += stem(word) == stem(wanted)
                found[j, SYNONYM, 1, i, 1] += bool(senses(word) & senses(wanted))
            for length in range(1, len(reference) - j + 1):
                for span in range(1, len(candidate) - i + 1):
                    one, other = tuple(reference[j : j + length]), tuple(candidate[i : i + span])
                    found[j, PARAPHRASE, length, i, span] += ((one, other) in PAIRS) + ((other, one) in PAIRS)
    return +found


def matches_of(candidate: list[str], reference: list[str], table: Path | None) -> list[Match]:
    matcher = Matcher({*candidate, *reference}, table)
    return matcher.find(matcher.units(candidate), matcher.units(reference))


@given(meteor_sentences, meteor_sentences)
@settings(max_examples=150)
def test_matches_agree_with_plain_loops(candidate: list[str], reference: list[str]) -> None:
    found = matches_of(candidate, reference, SHIPPED_PARAPHRASES)
    assert Counter(found) == plain_matches(candidate, reference)
    assert found == sorted(found)


def test_without_a_table_there_are_no_paraphrases() -> None:
    assert PARAPHRASE in {each.module for each in matches_of(["lady"], ["woman"], SHIPPED_PARAPHRASES)}
    assert PARAPHRASE not in {each.module for each in matches_of(["lady"], ["woman"], None)}


def table_file(folder: Path, text: str) -> Path:
    path = folder / "table.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_of_another_table_only_pairs_of_known_words_are_kept(tmp_path: Path) -> None:
    path = table_file(tmp_path, "0.5\nnext to\nnear\n0.1\nnext to\nunknown\n")
    related = read_paraphrases(path, {"next", "to", "near"}).related
    assert related == {("next", "to"): {("near",): 1}, ("near",): {("next", "to"): 1}}


def test_an_invalid_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="table.gz: pair 2"):
        read_paraphrases(table_file(tmp_path, "0.5\nnear\nby\n0.1\nnear\n"), {"near", "by"})
    not_gzip = tmp_path / "plain.gz"
    not_gzip.write_text("0.5\na\nb\n")
    with pytest.raises(DatasetError, match="plain.gz"):
        read_paraphrases(not_gzip, {"a"})
    with pytest.raises(DatasetError, match="none.gz"):
        read_paraphrases(tmp_path / "none.gz", {"a"})
