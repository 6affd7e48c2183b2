"""Queries that no photo can answer."""

from __future__ import annotations

import pytest

from deixis.errors import DeixisError
from deixis.tasks.search.contradictions import refuse_contradiction
from deixis.tasks.search.queries import read_query
from deixis.tasks.search.searching import shipped_seer


def refuse(text: str) -> None:
    query, seer = read_query(text), shipped_seer()
    wanted, avoided = ([seer.read(words.text) for words in side] for side in (query.wanted, query.avoided))
    refuse_contradiction(wanted, avoided)


@pytest.mark.parametrize(
    ("text", "thing"),
    [
        ("dog -dog", "dog"),
        ("a dog in the snow -dog", "dog"),
        ("two dogs -dog", "dog"),
        ("a Dog -dogs", "dogs"),
        ("snow +ball -ball", "ball"),
        ('a man with a red hat -"the red hat"', "the red hat"),
    ],
)
def test_what_is_wanted_and_avoided_is_named(text: str, thing: str) -> None:
    with pytest.raises(DeixisError, match=f"'{thing}' is both wanted and avoided"):
        refuse(text)


@pytest.mark.parametrize("text", ["dog -snow", "hot dog -dog", "a red car -red", "dog -the", 'dog -"red dog"', "dog"])
def test_what_differs_may_be_asked(text: str) -> None:
    refuse(text)
