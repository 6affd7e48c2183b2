"""Negation in queries: "no dogs", "without people", "not a dog" name what a photo must not show."""

from __future__ import annotations

from dataclasses import dataclass

from deixis.language.sentence import Sentence

_NEGATORS = frozenset(("no", "not", "without", "except"))
_NOBODY = {"nobody": "people", "noone": "people"}
_ARTICLES = frozenset(("a", "an", "the"))
_LINKS = frozenset(("with", "but", "and", ","))
"""Words in front of a negation that go with it."""

_NOUN_PHRASE = ("DT", "PDT", "PRP$", "JJ", "JJR", "JJS", "CD", "VBN", "VBG", "POS", "NN", "NNS", "NNP", "NNPS")
_ANY = ("any", "a", "an", "the")


@dataclass(frozen=True)
class Negation:
    """What a query excludes in words: the part of the query to ignore, and the phrases, with their offsets."""

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
    sentence = Sentence(text)
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


def _read(sentence: Sentence, words: list[str], at: int) -> tuple[list[tuple[str, int]], int]:
    """Read the negation at a token: its phrases, and the token after it."""
    if words[at] in _NOBODY:
        return [(_NOBODY[words[at]], sentence.tokens[at].start)], at + 1
    is_negated = words[at] in _NEGATORS and not (words[at] == "no" and at > 0 and words[at - 1] in _ARTICLES)
    if not is_negated:
        return [], at + 1
    if words[at : at + 2] == ["no", "one"] and (at + 2 == len(words) or not sentence.tags[at + 2].startswith("NN")):
        return [("people", sentence.tokens[at].start)], at + 2
    phrases: list[tuple[str, int]] = []
    begin = at + 1
    while True:
        end = _noun_phrase_end(sentence, words, begin, takes_any_word=words[at] != "not")
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


def _noun_phrase_end(sentence: Sentence, words: list[str], begin: int, takes_any_word: bool) -> int:
    """Return the token after the noun phrase at a token; the token itself if there is none."""
    end = begin
    while end < len(words) and sentence.tags[end] in _NOUN_PHRASE and words[end] not in _NEGATORS:
        end += 1
    while end > begin and not sentence.tags[end - 1].startswith("NN"):
        end -= 1
    # The tagger was trained on sentences, and may take the last word of "no dogs" for a verb.
    if end == begin and takes_any_word and begin == len(words) - 1 and words[begin].isalpha():
        return begin + 1
    return end
