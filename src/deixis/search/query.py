"""Queries as users type them: a sentence, words to require or exclude, in words too ("no dogs"), filters and dates."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Literal

from deixis.errors import DeixisError
from deixis.language.sentence import Sentence
from deixis.language.words import function_words, stem
from deixis.models.arguments import check_text
from deixis.search.index.records import PhotoFilter
from deixis.tokens import words as words_of

MAX_LENGTH = 2000
"""Maximum number of characters of a query."""

_FILTER = re.compile(
    r"(?<!\S)(?P<key>-in|in|camera|after|before|album|is):"
    r"""(?:"(?P<quoted>(?:[^"]|"")*)"|'(?P<single>[^']*)'(?!\S)|“(?P<curly>[^”]*)”|(?P<word>[^\s"“]+))""",
    re.IGNORECASE,
)
"""A double quotation mark in a name in double quotation marks is written twice."""

_UNKNOWN_FILTER = re.compile(r'(?<!\S)(?P<key>[+-]?[A-Za-z]+):(?=[^\s/:"]|"[^"]*")')
_SIGNED = re.compile(r'(?<!\S)(?P<sign>[+-])(?:"(?P<quoted>[^"]*)"|(?P<word>[^\s"+-][^\s"]*))')
_QUOTED = re.compile(r'(?<!\S)["“](?P<words>[^"“”]*)["”](?!\w)')
_FIELDS = {"in": "folder", "camera": "camera", "after": "after", "before": "before", "album": "album"}
_KINDS = {"favourite": "favourite", "favorite": "favourite", "undated": "undated"}
"""What ``is:`` takes, and the fields of a filter."""
_WORD = re.compile(r"(?<![\w'’-])[A-Za-z]+(?![\w'’-])")
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

_PREFIX = re.compile(r"^\s*(?:(?:a|an|the|some|my|our)\s+)?(?:photo|picture|image|pic)s?\s+of\s+(?=\S)", re.IGNORECASE)
"""Words in front of what a photo shows."""

_OWNERS = re.compile(r"(?<!\S)(?:my|our|your)(?=\s)", re.IGNORECASE)
"""Possessives: a photo does not show who owns a thing."""

_VAGUE = frozenset(("someone", "somebody", "something", "anyone", "anybody", "anything", "thing", "things", "one"))
"""Words that name nothing that can be searched for."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    "(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    "oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_PREPOSITION = r"(?:taken )?(?P<preposition>in|from|of|during|on|since|after|before)"
_DATES = tuple(
    re.compile(rf"(?<!\S){pattern}(?![\w-])", re.IGNORECASE)
    for pattern in (
        rf"(?:{_PREPOSITION} )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)? {_MONTH},? {_YEAR}",
        rf"(?:{_PREPOSITION} )?{_MONTH} (?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? )?{_YEAR}",
        rf"(?:{_PREPOSITION} )?{_YEAR}-(?P<month>\d\d)(?:-(?P<day>\d\d))?",
        rf"{_PREPOSITION} {_YEAR}",
        rf"{_YEAR}(?=\W*$)",
        r"(?:from )?(?P<relative>(?:last|this) (?:year|month)|yesterday|today)",
    )
)
"""A year alone is a date after a preposition and at the end of a sentence."""

_VISIBLE = frozenset(("people", "two"))
"""Words of the list of function words that say what a photo shows."""


@dataclass(frozen=True)
class QueryPart:
    """A sentence or phrase of a query, and its offset in the query in Unicode code points."""

    text: str
    start: int
    corrections: tuple[tuple[int, str, str], ...] = ()  # offset as typed, typed word and the word in `text`

    def typed_span(self, span: tuple[int, int]) -> tuple[int, int]:
        """Return the span in the query of a span in `text`."""
        first, last = span
        moved = 0
        for offset, typed, word in self.corrections:
            begin = offset + moved
            moved += len(word) - len(typed)
            first -= (len(word) - len(typed)) * (span[0] >= begin + len(word))
            last -= (len(word) - len(typed)) * (span[1] >= begin + len(word))
        return first + self.start, last + self.start


@dataclass(frozen=True)
class Reading:
    """Words of a query that were read differently than typed.

    Attributes
    ----------
    kind
        ``date`` for a date in words, ``spelling`` for a misspelled word, ``part`` if nothing was found for the whole
        sentence, ``name`` for words that may be a name, of which the models know nothing.
    text
        The words, as typed.
    read_as
        What was searched for instead: filters, a word, or a part of the sentence. For a name a filter to try, or
        nothing.
    """

    kind: Literal["date", "spelling", "part", "name"]
    text: str
    read_as: str


@dataclass(frozen=True)
class Query:
    """A parsed query: a photo must show all required parts and none of the excluded ones."""

    required: tuple[QueryPart, ...]  # the sentence, and the phrases with a plus
    excluded: tuple[QueryPart, ...]  # the phrases with a minus
    photo_filter: PhotoFilter
    readings: tuple[Reading, ...] = ()
    literal: tuple[tuple[int, int], ...] = ()  # the quoted words, which are searched for as typed


def parse_query(text: str, photo_filter: PhotoFilter | None = None, *, exact: bool = False) -> Query:
    """Parse ``dog in the snow +ball -"red collar" in:holiday -in:trash camera:canon after:2024-06 before:2025``.

    A query has a sentence in English, words or quoted phrases with a plus or a minus, and filters, which override those
    of `photo_filter`. ``no dogs``, ``without people`` and ``not a dog`` are like words with a minus. A query may have
    only words to exclude, or only filters. A date in words, such as ``in June 2021``, is a filter, unless it is quoted,
    there are other filters by date, or `exact` is set.
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
    literal = ((0, len(rest)),) if exact else tuple(found.span() for found in _QUOTED.finditer(rest))
    rest = _QUOTED.sub(lambda found: f" {found['words']} ", rest)
    if not exact:
        rest = _PREFIX.sub(_unless_quoted(literal, _blank_out), rest)
        rest = _OWNERS.sub(_unless_quoted(literal, _article), rest)
    readings: tuple[Reading, ...] = ()
    if not (found_filter.after or found_filter.before) and (found_date := find_date(rest, literal)) is not None:
        start, reading, (after, before) = found_date
        rest = rest[:start] + " " * len(reading.text) + rest[start + len(reading.text) :]
        found_filter, readings = replace(found_filter, after=after, before=before), (reading,)
    negations = find_negations(rest) if _NEGATION.search(rest) else []  # most queries need no tagger
    for negation in negations:
        rest = rest[: negation.start] + " " * (negation.end - negation.start) + rest[negation.end :]
        signed["-"] += [QueryPart(phrase, start) for phrase, start in negation.phrases]
    if (negations or signed["-"] or found_filter) and not set(content_words(words_of(rest))) - _GENERIC:
        rest = ""  # such as "photos" of "photos without people"
    sentence = [QueryPart(rest.strip(), len(rest) - len(rest.lstrip()))] if rest.strip() else []
    required = tuple(sentence + signed["+"])
    has_words = any(character.isalnum() for part in required for character in part.text)
    if not has_words and (required or not signed["-"]) and (required or not found_filter):
        raise DeixisError(f"{text!r}: has nothing to search for; write a sentence such as 'two dogs in the snow'")
    return Query(required, tuple(signed["-"]), found_filter, readings, literal)


def _article(owner: re.Match[str]) -> str:
    """Return an article as long as "my" or "our"."""
    return "the".ljust(len(owner[0])) if len(owner[0]) > 2 else "a "


def _unless_quoted(
    quoted: Sequence[tuple[int, int]], change: Callable[[re.Match[str]], str]
) -> Callable[[re.Match[str]], str]:
    return lambda found: found[0] if any(b < found.end() and found.start() < e for b, e in quoted) else change(found)


def correct_words(query: Query, correct: Callable[[str], str | None]) -> Query:
    """Replace misspelled words, except quoted ones and those with a capital letter inside the query.

    Several words that would all be replaced are of another language.
    """
    readings = list(query.readings)
    asked = content_words([word.lower() for part in query.required for word in _WORD.findall(part.text)])
    if len(asked) > 1 and all(map(correct, asked)):
        return query

    def corrected(part: QueryPart) -> QueryPart:
        text, corrections = part.text, list[tuple[int, str, str]]()
        for found in reversed(list(_WORD.finditer(part.text))):
            start = part.start + found.start()
            is_literal = any(begin <= start < end for begin, end in query.literal)
            if is_literal or (start and found[0][0].isupper()) or not (word := correct(found[0].lower())):
                continue
            text = text[: found.start()] + word + text[found.end() :]
            corrections.insert(0, (found.start(), found[0], word))
        readings.extend(Reading("spelling", typed, word) for _, typed, word in corrections)
        return replace(part, text=text, corrections=tuple(corrections))

    required, excluded = tuple(map(corrected, query.required)), tuple(map(corrected, query.excluded))
    return replace(query, required=required, excluded=excluded, readings=tuple(readings))


def find_date(
    text: str, literal: Sequence[tuple[int, int]] = (), today: date | None = None
) -> tuple[int, Reading, tuple[str | None, str | None]] | None:
    """Find a date in a sentence, outside of the spans of `literal`: its offset, its reading, and first day and end.

    Examples
    --------
    >>> find_date("a dog in december 2021")[1].read_as, find_date("dogs since 5 May 2020")[1].read_as
    ('after:2021-12 before:2022-01', 'after:2020-05-05')
    """
    for pattern in _DATES:
        for found in pattern.finditer(text):
            if any(found.start() < end and begin < found.end() for begin, end in literal):
                continue
            try:
                after, before = _period(found.groupdict(), today or date.today())
            except ValueError:  # such as 31 June
                continue
            named = (("after", after), ("before", before))
            filters = " ".join(f"{name}:{value}" for name, value in named if value)
            return found.start(), Reading("date", found[0], filters), (after, before)
    return None


def _period(found: dict[str, str | None], today: date) -> tuple[str | None, str | None]:
    """Return the first day, month or year of a period, and the one after its last."""
    if relative := (found.get("relative") or "").lower():
        is_last = relative.startswith("last")
        if relative.endswith("year"):
            first = f"{today.year - is_last}"
        elif relative.endswith("month"):
            first = f"{(today.replace(day=1) - timedelta(days=is_last)):%Y-%m}"
        else:
            first = (today - timedelta(days=relative == "yesterday")).isoformat()
    else:
        first = found["year"] or ""
        if month := found.get("month"):
            number = int(month) if month.isdigit() else _MONTHS.index(month[:3].lower()) + 1
            first += f"-{number:02}"
            first += f"-{int(found['day'] or 0):02}" if found.get("day") else ""
    year, month_number, day = (int(part) for part in (first + "-01-01")[:10].split("-"))
    begin = date(year, month_number, day)
    if len(first) == 4:
        end = str(year + 1)
    elif len(first) == 7:
        end = f"{(begin + timedelta(days=31)):%Y-%m}"
    else:
        end = (begin + timedelta(days=1)).isoformat()
    preposition = (found.get("preposition") or "").lower()
    if preposition == "before":
        return None, first
    return first, None if preposition in ("since", "after") else end


def _take_filters(text: str, base: PhotoFilter) -> tuple[str, PhotoFilter]:
    """Return the query without its filters, and the filters."""
    filters: dict[str, Any] = {name: getattr(base, name) for name in (*_FIELDS.values(), *_KINDS.values())}
    excluded = list(base.excluded_folders)
    for found in _FILTER.finditer(text):
        quoted = (found["quoted"] or "").replace('""', '"')
        key, value = found["key"].lower(), quoted or found["single"] or found["curly"] or found["word"]
        if key == "-in":
            excluded += [value] if value else []
        elif key == "is":
            if (kind := _KINDS.get(value.lower())) is None:
                raise DeixisError(f"is:{value}: is not a filter; there are is:favourite and is:undated")
            filters[kind] = True
        else:
            filters[_FIELDS[key]] = value or None
    rest = _FILTER.sub(_blank_out, text)
    if (unknown := _UNKNOWN_FILTER.search(rest)) is not None:
        known = ", ".join(f"{name}:" for name in ("in", "-in", "camera", "after", "before", "album", "is"))
        raise DeixisError(f"{unknown['key']}: is not a filter; the filters are {known}")
    return rest, PhotoFilter(**filters, excluded_folders=tuple(excluded))


def without_filters(text: str, *beginnings: str) -> str:
    """Return a query without the filters that begin so.

    Examples
    --------
    >>> without_filters("dog after:2024 in:holiday", "after:", "before:")
    'dog  in:holiday'
    """
    return _FILTER.sub(lambda found: "" if found[0].lower().startswith(beginnings) else found[0], text)


def _blank_out(found: re.Match[str]) -> str:
    """Replace a match by spaces, so that the offsets of the rest stay the same."""
    return " " * len(found[0])


def content_words(words: tuple[str, ...] | list[str]) -> list[str]:
    """Return the distinct words that may say what a photo shows: all but function words."""
    return [word for word in dict.fromkeys(words) if word not in function_words() or word in _VISIBLE]


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
    return frozenset(map(stem, set(content_words(words_of(text))) - _NUMBERS))


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
_NUMBERS = frozenset(("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"))
_QUALITIES = _NUMBERS | {
    *("black", "blue", "brown", "golden", "gray", "green", "grey", "orange", "pink", "purple", "red", "silver", "tan"),
    *("white", "yellow"),
}
"""Words that the tagger may take for nouns."""

_SIGNS = ("sign", "signs")
PEOPLE = ("people", "a person", "a man", "a woman", "a boy", "a girl", "a child", "a baby", "a crowd")
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
    return PEOPLE if len(named) == 1 and named[0] in _PEOPLE_WORDS else (phrase,)


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


def bare_noun(sentence: Sentence) -> str | None:
    """Return a single noun phrase without its numbers, colours and other adjectives; None if it is something else.

    Examples
    --------
    >>> bare_noun(Sentence("two old fire hydrants")), bare_noun(Sentence("a flock of sheep"))
    ('fire hydrants', 'sheep')
    >>> bare_noun(Sentence("riding a horse"))
    """
    content = set(content_words(sentence.words))
    if len(sentence.phrases) != 1 or not content <= set(sentence.phrases[0].words):
        return None
    begin, end = sentence.phrases[0].span
    nouns: list[str] = []
    for token, kind in zip(sentence.tokens, sentence.tags, strict=True):
        if begin <= token.start < end:
            if token.text.lower() == "of":
                nouns = []
            elif kind in _NOUNS and token.text.lower() not in _QUALITIES | _VAGUE:
                nouns.append(token.text)
    return " ".join(nouns) or None


def parts_of(text: str) -> list[str]:
    """Return the parts of a sentence that are searched for if nothing shows all of it: noun phrases, nouns and verbs.

    A sentence that is a single noun phrase has none, so that "a brass knuckle" does not find what is not one.

    Examples
    --------
    >>> parts_of("a woman talking on a red phone")
    ['a woman', 'a red phone', 'woman', 'phone', 'talking']
    """
    sentence = Sentence(text)
    verbs = [
        word.text
        for word, kind in zip(sentence.tokens, sentence.tags, strict=True)
        if kind.startswith("VB") and word.text.lower() not in function_words()
    ]
    phrases = [phrase.text for phrase in sentence.phrases]
    heads = [words_of(phrase.lower())[-1] for phrase in phrases if words_of(phrase.lower())]
    if len(phrases) + len(verbs) < 2:
        _, of, thing = text.partition(" of ")  # "a close-up of a donut"
        return [thing.strip()] if of and thing.strip() else []
    return [part for part in dict.fromkeys([*phrases, *heads, *verbs]) if part.lower() not in _VAGUE]
