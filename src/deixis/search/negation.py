"""Negation in queries: "no dogs", "without people", "not a dog" name what a photo must not show."""

from __future__ import annotations

from dataclasses import dataclass

from deixis.language.sentence import Sentence
from deixis.tokens import words as words_of

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
