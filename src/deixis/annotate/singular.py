"""Phrases that plainly name one thing, such as "a dog", for which one box is enough."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from deixis.annotate.help.coreference import singular
from deixis.annotate.material import CaptionMention
from deixis.tokens import tokenize

_ONE = frozenset({"a", "an", "one", "single", "lone"})

_WORDS = """
and both all each every other others several many some few various multiple numerous
two three four five six seven eight nine ten dozen 2 3 4 5 6 7 8 9 10
pair couple trio group crowd bunch team band family audience herd flock pack swarm set row stack pile
collection array variety assortment cluster series class army fleet line lot number mass
people men women children feet teeth sheep deer fish geese mice police cattle poultry folk
hair water grass food clothing furniture equipment luggage traffic gear jewelry snow sand
"""
_MORE = frozenset(_WORDS.split())
"""Numbers, words for groups, plurals without "s", and nouns that are not counted."""


def is_plainly_singular(mentions: Iterable[CaptionMention]) -> bool:
    """Whether a chain plainly names one thing: "a" or "one" says so, and no mention names several."""
    texts = [mention.text for mention in mentions]
    return any(_names_one(text) for text in texts) and not any(_may_name_several(text) for text in texts)


@lru_cache(maxsize=100_000)
def _names_one(text: str) -> bool:
    words = _words(text)
    return bool(words) and words[0] in _ONE


@lru_cache(maxsize=100_000)
def _may_name_several(text: str) -> bool:
    words = _words(text)
    return not words or singular(words[-1]) != words[-1] or not _MORE.isdisjoint(words)


def _words(text: str) -> list[str]:
    return [token.text.lower() for token in tokenize(text)]
