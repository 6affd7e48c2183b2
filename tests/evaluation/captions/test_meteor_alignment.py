from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.evaluation.captions import meteor_alignment
from deixis.evaluation.captions.meteor_alignment import align
from deixis.evaluation.captions.meteor_matches import EXACT, SHIPPED_PARAPHRASES, find_matches
from deixis.evaluation.captions.ngrams import Numbering

from .strategies import coded, meteor_sentences

Row = tuple[int, int, int, int, int]


def words_of(row: Row) -> tuple[set[int], set[int]]:
    start, length, at, span, _ = row
    return set(range(start, start + length)), set(range(at, at + span))


def clash(a: Row, b: Row) -> bool:
    return any(mine & yours for mine, yours in zip(words_of(a), words_of(b), strict=True))


def worth(rows: list[Row]) -> tuple[int, int]:
    """What makes an alignment better: less of minus what is in common, then fewer chunks."""
    common = sum(2 if module == EXACT else length // 2 + span // 2 for _, length, _, span, module in rows)
    ends = {(start + length, at + span) for start, length, at, span, _ in rows}
    chunks = sum((start, at) not in ends for start, _, at, _, _ in rows)
    return -common, chunks


def best_worth(rows: list[Row], chosen: list[Row]) -> tuple[int, int]:
    """By trying every choice."""
    if not rows:
        return worth(chosen)
    first, *rest = rows
    without = best_worth(rest, chosen)
    if any(clash(first, each) for each in chosen):
        return without
    return min(without, best_worth(rest, [*chosen, first]))


def aligned(pairs: list[tuple[list[str], list[str]]]) -> list[tuple[list[Row], list[Row]]]:
    """For each candidate and reference all possible matches, and those chosen."""
    ids = Numbering()
    candidates = coded([candidate for candidate, _ in pairs], ids)
    references = coded([reference for _, reference in pairs], ids)
    matches = find_matches(candidates, references, np.arange(len(pairs)), ids, SHIPPED_PARAPHRASES)
    chosen = align(matches, candidates.lengths, references)
    found = []
    for number in range(len(pairs)):
        columns = (matches.start, matches.length, matches.at, matches.span, matches.module)
        rows = list(zip(*(column[matches.pair == number].tolist() for column in columns), strict=True))
        found.append((rows, [row for row, used in zip(rows, chosen[matches.pair == number], strict=True) if used]))
    return found


@given(st.lists(st.tuples(meteor_sentences, meteor_sentences), min_size=1, max_size=4))
@settings(deadline=None, max_examples=100)
def test_the_alignment_is_optimal_given_the_undisputed_matches(
    pairs: list[tuple[list[str], list[str]]],
) -> None:
    for rows, chosen in aligned(pairs):
        undisputed = [
            row for n, row in enumerate(rows) if not any(clash(row, other) for other in rows[:n] + rows[n + 1 :])
        ]
        distinct = list(dict.fromkeys(row for row in rows if row not in undisputed))
        assert set(undisputed) <= set(chosen)
        assert not any(clash(a, b) for n, a in enumerate(chosen) for b in chosen[:n])
        assert worth(chosen) == best_worth(distinct, undisputed)


repetitive = st.lists(st.sampled_from(["red", "zebra", "lake"]), min_size=3, max_size=6)


@given(st.lists(st.tuples(repetitive, repetitive), min_size=1, max_size=4))
@settings(deadline=None, max_examples=100)
def test_repeated_words_are_matched_in_the_fewest_chunks(pairs: list[tuple[list[str], list[str]]]) -> None:
    for rows, chosen in aligned(pairs):
        assert worth(chosen) == best_worth(rows, [])


def test_pairs_are_aligned_independently_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [
        (["a", "dog", "a", "man"], ["the", "man", "a", "dog"]),
        (["a"] * 3, ["a"] * 5),
        (["is", "running", "near"], ["runs", "next", "to"]),
    ] * 4
    together = aligned(pairs)
    assert together == [aligned([pair])[0] for pair in pairs]
    monkeypatch.setattr(meteor_alignment, "_CELLS_PER_BATCH", 20)
    assert together == aligned(pairs)


def test_a_sentence_of_more_than_64_words_is_aligned_completely() -> None:
    words = [f"word{n}" for n in range(150)]
    candidate, reference = [*words, "twice", "twice"], ["twice", "twice", *words[::-1]]
    ((_, chosen),) = aligned([(candidate, reference)])
    assert len(chosen) == 152
    assert {at for _, _, at, _, _ in chosen} == set(range(152))


def test_equal_words_are_matched_in_fewer_chunks() -> None:
    ((_, chosen),) = aligned([(["a", "dog", "and", "a", "man"], ["a", "man"])])
    assert [(start, at) for start, _, at, _, _ in chosen] == [(0, 3), (1, 4)]
