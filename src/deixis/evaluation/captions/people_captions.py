"""Whether a caption agrees with people's captions of the photo."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deixis.language.entity_types import EntityTypes
from deixis.language.tagger import tag
from deixis.language.words import content_word_indices, senses, stem
from deixis.tokens import words

MIN_SHARE = 2 / 3
"""Fraction of the content words of a caption that people's captions must have, besides all its nouns."""

_ANYBODY = frozenset(["person", "persons", "people", "someone", "somebody", "crowd"])


class PeopleCaptions:
    """People's captions of a photo, which a caption may agree with.

    A caption agrees if they contain all its nouns and at least two thirds of its nouns, verbs, adjectives and numbers.
    Words match if they share a stem or a WordNet sense; "person" and "people" match any word for a person. Nouns
    that name no thing ("the front of", "a group of") do not count. People do not mention everything, so some
    captions that are true do not agree.
    """

    def __init__(self, captions: Iterable[str]) -> None:
        known = {word for caption in captions for word in words(caption)}
        self._meanings = frozenset(meaning for word in known for meaning in _meanings(word))
        self._anybody = any(map(_names_people, known))

    def have(self, word: str) -> bool:
        """Whether a caption has the word or a synonym."""
        return (word in _ANYBODY and self._anybody) or not self._meanings.isdisjoint(_meanings(word))

    def agree(self, caption: Sequence[str], tags: Sequence[str] | None = None) -> bool:
        """Whether a caption, as words in lower case, agrees; a caption without content words does not."""
        tags = tag(caption) if tags is None else tags
        found = [(self.have(caption[index]), tags[index][:2] == "NN") for index in content_word_indices(caption, tags)]
        if not found or not all(has for has, is_noun in found if is_noun):
            return False
        return sum(has for has, _ in found) >= MIN_SHARE * len(found) - 1e-9


class WordMatcher:
    """Finds the words of a vocabulary for which `PeopleCaptions.have` holds, at once."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._anybody = {index for index, word in enumerate(vocabulary) if word in _ANYBODY}
        self._with_meaning: dict[object, set[int]] = {}
        for index, word in enumerate(vocabulary):
            for meaning in _meanings(word):
                self._with_meaning.setdefault(meaning, set()).add(index)
        self._matches_of: dict[str, set[int]] = {}

    def matches(self, captions: Iterable[str]) -> set[int]:
        """The indices of the words that the captions have."""
        known = {word for caption in captions for word in words(caption)}
        return set().union(*map(self._matches, known))

    def _matches(self, word: str) -> set[int]:
        if word not in self._matches_of:
            found = set().union(*(self._with_meaning.get(meaning, ()) for meaning in _meanings(word)))
            if _names_people(word):
                found |= self._anybody
            self._matches_of[word] = found
        return self._matches_of[word]


def _names_people(word: str) -> bool:
    return word.isalpha() and "people" in EntityTypes.shipped().types_of([word])


def _meanings(word: str) -> set[object]:
    return {f"stem {stem(word)}", *senses(word)}
