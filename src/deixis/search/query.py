"""Queries as users type them: a sentence, words to require or exclude, and filters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from deixis.errors import DeixisError
from deixis.language.words import function_words, stem
from deixis.models.arguments import check_text
from deixis.search.index.records import PhotoFilter
from deixis.tokens import words

MAX_LENGTH = 2000
"""Maximum number of characters of a query."""

_FILTER = re.compile(r'(?<!\S)(?P<key>in|camera|after|before):(?:"(?P<quoted>[^"]*)"|(?P<word>[^\s"]+))', re.IGNORECASE)
_SIGNED = re.compile(r'(?<!\S)(?P<sign>[+-])(?:"(?P<quoted>[^"]*)"|(?P<word>[^\s"+-][^\s"]*))')
_FIELDS = {"in": "folder", "camera": "camera", "after": "after", "before": "before"}


@dataclass(frozen=True)
class QueryPart:
    """A sentence or phrase of a query, and its offset in the query in Unicode code points."""

    text: str
    start: int


@dataclass(frozen=True)
class Query:
    """A parsed query.

    Attributes
    ----------
    text
        As typed.
    required
        The sentence, and the phrases with a plus: a photo must show all of them.
    excluded
        The phrases with a minus: a photo must show none of them.
    photo_filter
        Which photos are searched.
    """

    text: str
    required: tuple[QueryPart, ...]
    excluded: tuple[QueryPart, ...]
    photo_filter: PhotoFilter


def parse_query(text: str, photo_filter: PhotoFilter | None = None) -> Query:
    """Parse a query.

    Parameters
    ----------
    text
        ``dog in the snow +ball -"red collar" in:holiday camera:canon after:2024-06 before:2025``: a sentence in
        English, words or quoted phrases with a plus or a minus, and filters.
    photo_filter
        Further filters; those in the text override them.

    Examples
    --------
    >>> query = parse_query("dog +ball -snow in:holiday")
    >>> [part.text for part in query.required], [part.text for part in query.excluded], query.photo_filter.folder
    (['dog', 'ball'], ['snow'], 'holiday')
    """
    if len(check_text(text, "sentence")) > MAX_LENGTH:
        raise DeixisError(f"the query has {len(text):,} characters; the maximum is {MAX_LENGTH:,}")
    base = photo_filter or PhotoFilter()
    filters = {name: getattr(base, name) for name in _FIELDS.values()}
    for found in _FILTER.finditer(text):
        filters[_FIELDS[found["key"].lower()]] = found["quoted"] or found["word"] or None
    rest = _FILTER.sub(_blank_out, text)
    signed: dict[str, list[QueryPart]] = {"+": [], "-": []}
    for found in _SIGNED.finditer(rest):
        kind = "word" if found["quoted"] is None else "quoted"
        if found[kind].strip():
            signed[found["sign"]].append(QueryPart(found[kind], found.start(kind)))
    rest = _SIGNED.sub(_blank_out, rest)
    sentence = [QueryPart(rest.strip(), len(rest) - len(rest.lstrip()))] if rest.strip() else []
    required = tuple(sentence + signed["+"])
    if not any(character.isalnum() for part in required for character in part.text):
        raise DeixisError(
            f"{text!r}: has nothing to search for; add a sentence such as 'two dogs in the snow' to filters and -words"
        )
    return Query(text, required, tuple(signed["-"]), PhotoFilter(**filters))


def _blank_out(found: re.Match[str]) -> str:
    """Replace a match by spaces, so that the offsets of the rest stay the same."""
    return " " * len(found[0])


def content_words(words: tuple[str, ...] | list[str]) -> list[str]:
    """Return the distinct words that are not function words.

    Examples
    --------
    >>> content_words(["two", "dogs", "in", "the", "snow"])
    ['dogs', 'snow']
    """
    return [word for word in dict.fromkeys(words) if word not in function_words()]


def check_contradiction(required: list[str], excluded: list[str]) -> None:
    """Raise an error if a phrase is both required and excluded, in any number (``two dogs -dog``).

    Only whole phrases are compared: ``hot dog -dog`` is valid.
    """
    required_stems = {_content_stems(text) for text in required} if excluded else set()
    for text in excluded:
        stems = _content_stems(text)
        if stems and stems in required_stems:
            raise DeixisError(f"'{text}' is both required and excluded (-{text}), so no photo can match")


def _content_stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in content_words(words(text)))
