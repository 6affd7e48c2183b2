"""Noun-phrase chunks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.language.chunks import Chunker, labels_of, spans_of


@st.composite
def chunked(draw: st.DrawFn) -> tuple[list[tuple[int, int]], int]:
    """Spans that do not overlap, and the number of tokens they lie in."""
    spans, place = [], 0
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=6)):
        spans.append((place + gap, place + gap + length))
        place += gap + length
    return spans, place + draw(st.integers(0, 3))


@given(chunked())
def test_spans_come_back_from_their_labels(case: tuple[list[tuple[int, int]], int]) -> None:
    spans, count = case
    assert spans_of(labels_of(spans, count)) == spans


@pytest.mark.parametrize(
    ("sentence", "chunks"),
    [
        ("A man in an orange hat .", ["A man", "an orange hat"]),
        ("A dog , a cat and a horse", ["A dog", "a cat", "a horse"]),
        ("A group of people watch the young boy 's dog", ["A group of people", "the young boy 's dog"]),
        ("She rides a bike through the park", ["She", "a bike", "the park"]),
        ("Running and jumping", []),
    ],
)
def test_plain_captions_are_cut_as_the_data_marks_them(sentence: str, chunks: list[str]) -> None:
    tokens = sentence.split()
    assert [" ".join(tokens[begin:end]) for begin, end in Chunker.shipped().chunks(tokens)] == chunks


@given(st.lists(st.text(max_size=8), max_size=12))
def test_chunks_of_any_tokens_are_in_order_and_do_not_overlap(tokens: list[str]) -> None:
    edges = [place for span in Chunker.shipped().chunks(tokens) for place in span]
    assert edges == sorted(edges)
    assert all(0 <= place <= len(tokens) for place in edges)
    assert all(begin < end for begin, end in Chunker.shipped().chunks(tokens))


def test_a_chunk_that_begins_without_a_b_is_kept() -> None:
    assert spans_of(["O", "I", "I", "O", "I"]) == [(1, 3), (4, 5)]
