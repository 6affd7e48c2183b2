"""Mentions from plain captions: the noun phrases that name something visible, with their types. English only."""

from __future__ import annotations

from dataclasses import dataclass

from deixis.language.chunks import Chunker
from deixis.language.entity_types import EntityTypes
from deixis.tokens import tokenize


@dataclass(frozen=True, slots=True)
class FoundMention:
    """A phrase found in a caption. It is in no chain yet: which phrases name the same thing is another question.

    Attributes
    ----------
    start, end
        Offsets in Unicode code points in the text as given, end exclusive.
    types
        One or more of `deixis.data.records.ENTITY_TYPES`.
    """

    start: int
    end: int
    types: tuple[str, ...]


def find_mentions(text: str) -> tuple[FoundMention, ...]:
    """Find the noun phrases of an English caption that name something visible.

    Pronouns and a short list of words that no picture can show ("the background", "a trick") are dropped.

    Parameters
    ----------
    text : str
        A caption, tokenised or not.

    Returns
    -------
    tuple of FoundMention
        In the order of the text, not overlapping.

    Examples
    --------
    >>> text = "A dog, a cat and they watch a man in red."
    >>> [(text[found.start : found.end], *found.types) for found in find_mentions(text)]
    [('A dog', 'animals'), ('a cat', 'animals'), ('a man', 'people'), ('red', 'clothing')]
    """
    tokens = tokenize(text)
    words = [token.text for token in tokens]
    dictionary = EntityTypes.shipped()
    found = []
    for begin, end in Chunker.shipped().chunks(words):
        types = dictionary.types_of(words[begin:end])
        if types:
            found.append(FoundMention(tokens[begin].start, tokens[end - 1].end, types))
    return tuple(found)
