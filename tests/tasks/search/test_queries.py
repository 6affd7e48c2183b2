"""What people type, taken apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.index.where import Where
from deixis.tasks.search.queries import LONGEST, read_query


def test_words_keep_their_places_in_what_was_typed() -> None:
    typed = 'in:holiday a dog +"red ball" on a t-shirt -snow after:2024-06'
    query = read_query(typed)
    assert [words.text for words in query.wanted] == ["a dog             on a t-shirt", "red ball"]
    assert [words.text for words in query.avoided] == ["snow"]
    for words in query.wanted[1:] + query.avoided:
        assert typed[words.start : words.start + len(words.text)] == words.text
    assert typed[query.wanted[0].start :].startswith("a dog")
    assert query.where == Where(after="2024-06", folder="holiday")


def test_filters_may_be_quoted_and_come_before_those_given_elsewhere() -> None:
    query = read_query('dog IN:"summer 2023" camera:canon', Where(folder="work", before="2024"))
    assert query.where == Where(before="2024", folder="summer 2023", camera="canon")


@pytest.mark.parametrize("typed", ["a man in: the sea", "a - b", "1 + 2", "rock'n'roll", "3-4 dogs", "x+y"])
def test_signs_that_stand_alone_or_inside_words_are_words(typed: str) -> None:
    query = read_query(typed)
    assert (query.wanted[0].text, query.avoided, bool(query.where)) == (typed, (), False)


@pytest.mark.parametrize("typed", ["", "  ", "-snow", "in:holiday", '+""', "?!", "- +"])
def test_nothing_to_look_for_is_said_in_one_line(typed: str) -> None:
    with pytest.raises(DeixisError, match="say what to look for"):
        read_query(typed)


def test_a_novel_is_not_searched_for() -> None:
    with pytest.raises(DeixisError, match="2,000 are enough"):
        read_query("dog " * LONGEST)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(typed: str) -> None:
    try:
        query = read_query(typed)
    except DeixisError:
        return
    for words in query.wanted + query.avoided:
        assert typed[words.start : words.start + 1] == words.text[:1]
