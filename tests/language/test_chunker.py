"""Noun-phrase chunks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.language.chunker import Chunker, labels_from_spans, spans_from_labels


@st.composite
def chunked(draw: st.DrawFn) -> tuple[list[tuple[int, int]], int]:
    """Spans that do not overlap, and the number of tokens they lie in."""
    spans, place = [], 0
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=6)):
        spans.append((place + gap, place + gap + length))
        place += gap + length
    return spans, place + draw(st.integers(0, 3))


@given(chunked())
def test_spans_survive_conversion_to_labels(case: tuple[list[tuple[int, int]], int]) -> None:
    spans, count = case
    assert spans_from_labels(labels_from_spans(spans, count)) == spans


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
def test_simple_captions_are_chunked_as_in_the_data(sentence: str, chunks: list[str]) -> None:
    tokens = sentence.split()
    assert [" ".join(tokens[begin:end]) for begin, end in Chunker.shipped().chunks(tokens)] == chunks


@given(st.lists(st.text(max_size=8), max_size=12))
def test_chunks_of_any_tokens_are_in_order_and_do_not_overlap(tokens: list[str]) -> None:
    edges = [place for span in Chunker.shipped().chunks(tokens) for place in span]
    assert edges == sorted(edges)
    assert all(0 <= place <= len(tokens) for place in edges)
    assert all(begin < end for begin, end in Chunker.shipped().chunks(tokens))


def test_a_chunk_may_start_with_i() -> None:
    assert spans_from_labels(["O", "I", "I", "O", "I"]) == [(1, 3), (4, 5)]
