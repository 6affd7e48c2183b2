"""Labels of chunks, and the dictionary of types."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from train_chunker import labels_from_spans, types_from_phrases

from deixis.language.tagger import spans_from_labels


@st.composite
def chunked(draw: st.DrawFn) -> tuple[list[tuple[int, int]], int]:
    """Spans that do not overlap, and the number of tokens."""
    spans, place = [], 0
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=6)):
        spans.append((place + gap, place + gap + length))
        place += gap + length
    return spans, place + draw(st.integers(0, 3))


@given(chunked())
def test_spans_round_trip_through_labels(case: tuple[list[tuple[int, int]], int]) -> None:
    spans, count = case
    assert spans_from_labels(labels_from_spans(spans, count)) == spans


def test_the_dictionary_keeps_the_most_frequent_types_and_differing_pairs() -> None:
    counted = [(["a", "Dog"], ("animals",))] * 3 + [(["hot", "dog"], ("other",))] * 2 + [(["red", "dog"], ("animals",))]
    types = types_from_phrases([*counted, (["it"], ("notvisual",)), ([], ("other",))], about={})
    assert types.heads == {"dog": ("animals",)}
    assert types.pairs == {("hot", "dog"): ("other",)}
