"""Queries as users type them: a sentence, words to require or exclude, in words too ("no dogs"), and filters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from deixis.errors import DeixisError
from deixis.language.sentence import Sentence
from deixis.language.words import function_words, stem
from deixis.models.arguments import check_text
from deixis.search.index.records import PhotoFilter
from deixis.tokens import words as words_of

MAX_LENGTH = 2000
"""Maximum number of characters of a query."""

_FILTER = re.compile(
    r"(?<!\S)(?P<key>-in|in|camera|after|before):"
    r"""(?:"(?P<quoted>(?:[^"]|"")*)"|'(?P<single>[^']*)'(?!\S)|“(?P<curly>[^”]*)”|(?P<word>[^\s"“]+))""",
    re.IGNORECASE,
)
"""A double quotation mark in a name in double quotation marks is written twice."""

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
        quoted = (found["quoted"] or "").replace('""', '"')
        key, value = found["key"].lower(), quoted or found["single"] or found["curly"] or found["word"]
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
    return set(words_of(text)) - (function_words() - _VISIBLE)


_NOT = frozenset(("not", "n't"))
"""Negators of verbs and adjectives."""

_NEGATORS = _NOT | {"no", "without", "w/o", "except", "neither"}
_NOBODY = {"nobody": "people", "noone": "people"}
_ARTICLES = frozenset(("a", "an", "the"))
_EVERYTHING = frozenset(("anything", "everything"))
_LINKS = frozenset(("with", "but", "and", ",", "who", "that", "which", "is", "are", "was", "were", "do", "does", "did"))
"""Words in front of a negation that go with it."""

_NOUNS = ("NN", "NNS", "NNP", "NNPS")
_BEFORE_NOUN = ("DT", "PDT", "PRP$", "JJ", "JJR", "JJS", "CD", "VBN", "VBG")
_SIGNS = ("sign", "signs")
_PEOPLE = ("people", "a person", "a man", "a woman", "a boy", "a girl", "a child", "a baby", "a crowd")
_PEOPLE_WORDS = frozenset(("people", "person", "persons", "human", "humans", "anyone", "anybody"))
_ANY = ("any", "a", "an", "the")


@dataclass(frozen=True)
class Negation:
    """An exclusion in words: the part of the query to ignore, and the excluded phrases, with their offsets."""

    start: int
    end: int
    phrases: tuple[tuple[str, int], ...]


def find_negations(text: str) -> list[Negation]:
    """Find the negated phrases of a query.

    Examples
    --------
    >>> [negation.phrases for negation in find_negations("a beach without people or dogs")]
    [(('people', 16), ('dogs', 26))]
    >>> find_negations("a no parking sign")
    []
    """
    sentence = Sentence(text.replace("’", "'"))  # phones type ’
    words = [token.text.lower() for token in sentence.tokens]
    found: list[Negation] = []
    at = 0
    while at < len(words):
        phrases, after = _read(sentence, words, at)
        if phrases:
            first = at
            while first > 0 and words[first - 1] in _LINKS:
                first -= 1
            found.append(Negation(sentence.tokens[first].start, sentence.tokens[after - 1].end, tuple(phrases)))
        at = max(after, at + 1)
    return found


def kinds_of(phrase: str) -> tuple[str, ...]:
    """Return the phrases to search for instead of an excluded one: captions say "a boy" rather than "people".

    Examples
    --------
    >>> kinds_of("any people")[:3]
    ('people', 'a person', 'a man')
    >>> kinds_of("people in hats")
    ('people in hats',)
    """
    named = [word for word in words_of(phrase.lower()) if word not in _ANY]
    return _PEOPLE if len(named) == 1 and named[0] in _PEOPLE_WORDS else (phrase,)


def _read(sentence: Sentence, words: list[str], at: int) -> tuple[list[tuple[str, int]], int]:
    """Read the negation at a token: its phrases, and the token after it."""
    if words[at] in _NOBODY:
        return [(_NOBODY[words[at]], sentence.tokens[at].start)], at + 1
    if not _is_negator(words, at):
        return [], at + 1
    if words[at : at + 2] == ["no", "one"] and (at + 2 == len(words) or not sentence.tags[at + 2].startswith("NN")):
        return [("people", sentence.tokens[at].start)], at + 2
    phrases: list[tuple[str, int]] = []
    begin = at + 1
    if words[at] in _NOT:
        if begin < len(words) and sentence.tags[begin] in ("IN", "VB"):  # "not in the snow", "does not wear a hat"
            begin += 1
        elif (quality := _quality(sentence, at)) is not None:
            return quality
    while True:
        end = _noun_phrase_end(sentence, words, begin, takes_any_word=words[at] not in _NOT)
        if end == begin:
            break
        while begin < end - 1 and words[begin] in _ANY:
            begin += 1
        start = sentence.tokens[begin].start
        phrases.append((sentence.text[start : sentence.tokens[end - 1].end], start))
        at_conjunction = end < len(words) - 1 and words[end] in ("or", "nor", "and")
        if not at_conjunction or (words[end] == "and" and words[end + 1] in _ARTICLES):
            return phrases, end
        begin = end + 1
    return phrases, begin - 1 if phrases else begin


def _is_negator(words: list[str], at: int) -> bool:
    if words[at] == "but":  # "anything but dogs"
        return at > 0 and words[at - 1] in _EVERYTHING
    if words[at] != "no":
        return words[at] in _NEGATORS
    is_on_sign = at + 2 < len(words) and words[at + 1].endswith("ing") and words[at + 2] in _SIGNS
    return not is_on_sign and not (at > 0 and words[at - 1] in _ARTICLES)


def _quality(sentence: Sentence, at: int) -> tuple[list[tuple[str, int]], int] | None:
    """Read a negated quality without a noun, "a dog that is not black": that of the noun before it, "black dog"."""
    end = at + 1
    while end < len(sentence.tags) and sentence.tags[end] in ("JJ", "VBG", "VBN"):
        end += 1
    is_alone = end > at + 1 and (end == len(sentence.tags) or sentence.tags[end] in ("IN", "CC", ","))
    nouns = [token for token, kind in zip(sentence.tokens[:at], sentence.tags[:at], strict=True) if kind in _NOUNS]
    if not is_alone or not nouns:
        return None
    first, last = sentence.tokens[at + 1], sentence.tokens[end - 1]
    return [(f"{sentence.text[first.start : last.end]} {nouns[-1].text}", first.start)], end


def _noun_phrase_end(sentence: Sentence, words: list[str], begin: int, takes_any_word: bool) -> int:
    """Return the token after the noun phrase at a token; the token itself if there is none."""
    end, has_noun = begin, False
    while end < len(words) and words[end] not in _NEGATORS:
        if sentence.tags[end] in _NOUNS:
            has_noun = True
        elif has_noun and sentence.tags[end] == "POS":
            has_noun = False
        elif has_noun or sentence.tags[end] not in _BEFORE_NOUN:  # "a shirt throwing snow": the shirt
            break
        end += 1
    while end > begin and not sentence.tags[end - 1].startswith("NN"):
        end -= 1
    # The tagger was trained on sentences, and may take the last word of "no dogs" for a verb.
    if end == begin and takes_any_word and begin == len(words) - 1 and words[begin].isalpha():
        return begin + 1
    return end
