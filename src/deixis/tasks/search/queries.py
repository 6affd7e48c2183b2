"""What people type into a search box: words to find, words that must be there or must not, and filters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from deixis.errors import DeixisError
from deixis.index.where import Where
from deixis.tasks.given import text_of

_FILTER = re.compile(r'(?<!\S)(?P<key>in|camera|after|before):(?:"(?P<quoted>[^"]*)"|(?P<word>[^\s"]+))', re.IGNORECASE)
_SIGNED = re.compile(r'(?<!\S)(?P<sign>[+-])(?:"(?P<quoted>[^"]*)"|(?P<word>[^\s"+-][^\s"]*))')
_KEYS = {"in": "folder", "camera": "camera", "after": "after", "before": "before"}
LONGEST = 2000
"""Characters of a query; nobody types more, and programs should not."""


@dataclass(frozen=True)
class Words:
    """Some of the words of a query.

    Attributes
    ----------
    text
        As typed.
    start
        Where they begin in the query, in Unicode code points.
    """

    text: str
    start: int


@dataclass(frozen=True)
class Query:
    """A query, taken apart.

    Attributes
    ----------
    text
        As typed.
    wanted
        The sentence, and each of the words with a plus: a photo must show all of them.
    avoided
        The words with a minus: a photo must show none of them.
    where
        Which photos are looked at.
    """

    text: str
    wanted: tuple[Words, ...]
    avoided: tuple[Words, ...]
    where: Where


def read_query(text: str, where: Where | None = None) -> Query:
    """Take a query apart.

    Parameters
    ----------
    text
        ``dog in the snow +ball -"red collar" in:holiday camera:canon after:2024-06 before:2025``: a sentence in
        English; words or quoted phrases with a plus or a minus; filters.
    where
        Filters from elsewhere; those in the text come before them.

    Examples
    --------
    >>> query = read_query("dog +ball -snow in:holiday")
    >>> [words.text for words in query.wanted], [words.text for words in query.avoided], query.where.folder
    (['dog', 'ball'], ['snow'], 'holiday')
    """
    if len(text_of(text, "sentence")) > LONGEST:
        raise DeixisError(f"the query has {len(text):,} characters; {LONGEST:,} are enough")
    given = where or Where()
    filters = {name: getattr(given, name) for name in _KEYS.values()}
    for found in _FILTER.finditer(text):
        filters[_KEYS[found["key"].lower()]] = found["quoted"] or found["word"] or None
    rest = _FILTER.sub(_blanks, text)
    signed: dict[str, list[Words]] = {"+": [], "-": []}
    for found in _SIGNED.finditer(rest):
        kind = "word" if found["quoted"] is None else "quoted"
        if found[kind].strip():
            signed[found["sign"]].append(Words(found[kind], found.start(kind)))
    rest = _SIGNED.sub(_blanks, rest)
    sentence = [Words(rest.strip(), len(rest) - len(rest.lstrip()))] if rest.strip() else []
    wanted = tuple(sentence + signed["+"])
    if not any(sign.isalnum() for words in wanted for sign in words.text):
        raise DeixisError(
            f"{text!r}: say what to look for, such as 'two dogs in the snow'; filters and -words only narrow it down"
        )
    return Query(text, wanted, tuple(signed["-"]), Where(**filters))


def _blanks(found: re.Match[str]) -> str:
    """As many blanks, so that what is left stays where it was."""
    return " " * len(found[0])
