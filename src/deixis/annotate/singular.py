"""Phrases that plainly name one thing, such as "a dog", for which one box is enough."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from deixis.annotate.material import CaptionMention
from deixis.language.quantity import may_name_several, stated_count
from deixis.tokens import tokenize


def is_plainly_singular(mentions: Iterable[CaptionMention]) -> bool:
    """Whether a chain plainly names one thing: "a" or "one" says so, and no mention names several."""
    texts = [mention.text for mention in mentions]
    return any(_names_one(text) for text in texts) and not any(_may_name_several(text) for text in texts)


@lru_cache(maxsize=100_000)
def _names_one(text: str) -> bool:
    return stated_count(_words(text)) == 1


@lru_cache(maxsize=100_000)
def _may_name_several(text: str) -> bool:
    return may_name_several(_words(text))


def _words(text: str) -> list[str]:
    return [token.text.lower() for token in tokenize(text)]
