"""Queries as users type them: a sentence, words to require or exclude, and filters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from deixis.errors import DeixisError
from deixis.language.words import function_words, stem
from deixis.models.arguments import check_text
from deixis.search.index.records import PhotoFilter
from deixis.search.negation import find_negations
from deixis.tokens import words

MAX_LENGTH = 2000
"""Maximum number of characters of a query."""

_FILTER = re.compile(
    r'(?<!\S)(?P<key>-in|in|camera|after|before):(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<word>[^\s"]+))', re.IGNORECASE
)
"""A quotation mark in a quoted name is written twice."""

_UNKNOWN_FILTER = re.compile(r'(?<!\S)(?P<key>[+-]?[A-Za-z]+):(?=[^\s/:"]|"[^"]*")')
_SIGNED = re.compile(r'(?<!\S)(?P<sign>[+-])(?:"(?P<quoted>[^"]*)"|(?P<word>[^\s"+-][^\s"]*))')
_FIELDS = {"in": "folder", "camera": "camera", "after": "after", "before": "before"}
_NEGATION = re.compile(
    r"\b(?:no|not|without|w/o|except|neither|nobody|noone|(?:any|every)thing but)\b|n['’]t\b", re.IGNORECASE
)
_GENERIC = frozenset(
    (
        *("anything", "everything", "find", "show"),
        *("image", "images", "photo", "photos", "pics", "picture", "pictures", "shots"),
    )
)
"""Words that say nothing about what a photo shows."""

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_DATE_WORDS = re.compile(
    r"(?<!\S)(?:(?:taken )?(?:in|from|of|during) )?"
    rf"(?:(?P<month>{'|'.join(_MONTHS)}) )?(?P<year>(?:19|20)\d\d)(?!\S)",
    re.IGNORECASE,
)
_VISIBLE = frozenset(("people",))
"""Words of the list of function words that say what a photo shows."""


@dataclass(frozen=True)
class QueryPart:
    """A sentence or phrase of a query, and its offset in the query in Unicode code points."""

    text: str
    start: int


@dataclass(frozen=True)
class DateWords:
    """A date in the sentence of a query, such as "in June 2021", and the filters that say the same."""

    text: str
    filters: str


@dataclass(frozen=True)
class Query:
    """A parsed query: a photo must show all required parts and none of the excluded ones."""

    required: tuple[QueryPart, ...]  # the sentence, and the phrases with a plus
    excluded: tuple[QueryPart, ...]  # the phrases with a minus
    photo_filter: PhotoFilter
    date_words: DateWords | None = None


def parse_query(text: str, photo_filter: PhotoFilter | None = None) -> Query:
    """Parse ``dog in the snow +ball -"red collar" in:holiday -in:trash camera:canon after:2024-06 before:2025``.

    A query has a sentence in English, words or quoted phrases with a plus or a minus, and filters, which override those
    of `photo_filter`. ``no dogs``, ``without people`` and ``not a dog`` are like words with a minus. A query may have
    only words to exclude, or only filters.
    """
    if len(check_text(text, "sentence")) > MAX_LENGTH:
        raise DeixisError(f"the query has {len(text):,} characters; the maximum is {MAX_LENGTH:,}")
    rest, found_filter = _take_filters(text, photo_filter or PhotoFilter())
    signed: dict[str, list[QueryPart]] = {"+": [], "-": []}
    for found in _SIGNED.finditer(rest):
        kind = "word" if found["quoted"] is None else "quoted"
        if found[kind].strip():
            signed[found["sign"]].append(QueryPart(found[kind], found.start(kind)))
    rest = _SIGNED.sub(_blank_out, rest)
    negations = find_negations(rest) if _NEGATION.search(rest) else []  # most queries need no tagger
    for negation in negations:
        rest = rest[: negation.start] + " " * (negation.end - negation.start) + rest[negation.end :]
        signed["-"] += [QueryPart(phrase, start) for phrase, start in negation.phrases]
    if (negations or signed["-"] or found_filter) and not _names(rest) - _GENERIC:
        rest = ""  # such as "photos" of "photos without people"
    sentence = [QueryPart(rest.strip(), len(rest) - len(rest.lstrip()))] if rest.strip() else []
    required = tuple(sentence + signed["+"])
    has_words = any(character.isalnum() for part in required for character in part.text)
    if not has_words and (required or not signed["-"]) and (required or not found_filter):
        raise DeixisError(f"{text!r}: has nothing to search for; write a sentence such as 'two dogs in the snow'")
    has_dates = found_filter.after or found_filter.before
    return Query(required, tuple(signed["-"]), found_filter, None if has_dates else find_date_words(rest))


def find_date_words(text: str) -> DateWords | None:
    """Find a year, with its month, in a sentence.

    Examples
    --------
    >>> find_date_words("a dog in december 2021")
    DateWords(text='in december 2021', filters='after:2021-12 before:2022-01')
    """
    found = _DATE_WORDS.search(text)
    if found is None:
        return None
    year = int(found["year"])
    if not found["month"]:
        return DateWords(found[0], f"after:{year} before:{year + 1}")
    month = _MONTHS.index(found["month"].lower()) + 1
    end = f"{year}-{month + 1:02}" if month < len(_MONTHS) else f"{year + 1}-01"
    return DateWords(found[0], f"after:{year}-{month:02} before:{end}")


def _take_filters(text: str, base: PhotoFilter) -> tuple[str, PhotoFilter]:
    """Return the query without its filters, and the filters."""
    filters: dict[str, Any] = {name: getattr(base, name) for name in _FIELDS.values()}
    excluded = list(base.excluded_folders)
    for found in _FILTER.finditer(text):
        key, value = found["key"].lower(), (found["quoted"] or "").replace('""', '"') or found["word"]
        if key == "-in":
            excluded += [value] if value else []
        else:
            filters[_FIELDS[key]] = value or None
    rest = _FILTER.sub(_blank_out, text)
    if (unknown := _UNKNOWN_FILTER.search(rest)) is not None:
        known = ", ".join(f"{name}:" for name in ("in", "-in", "camera", "after", "before"))
        raise DeixisError(f"{unknown['key']}: is not a filter; the filters are {known}")
    return rest, PhotoFilter(**filters, excluded_folders=tuple(excluded))


def _blank_out(found: re.Match[str]) -> str:
    """Replace a match by spaces, so that the offsets of the rest stay the same."""
    return " " * len(found[0])


def content_words(words: tuple[str, ...] | list[str]) -> list[str]:
    """Return the distinct words that are not function words."""
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
    return frozenset(map(stem, _names(text)))


def _names(text: str) -> set[str]:
    """Return the words that may say what a photo shows."""
    return set(words(text)) - (function_words() - _VISIBLE)
