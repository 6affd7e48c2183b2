"""Noun-phrase chunks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.language.chunker import Chunker, spans_from_labels


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
