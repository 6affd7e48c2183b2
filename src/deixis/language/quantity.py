"""How many things a noun phrase says that it names."""

from __future__ import annotations

from collections.abc import Sequence

_ONE = frozenset({"a", "an", "one", "single", "lone", "another", "this", "that"})

_COUNTS = {
    **dict.fromkeys(("two", "2", "both", "pair", "couple"), 2),
    **dict.fromkeys(("three", "3", "trio"), 3),
    **dict.fromkeys(("four", "4"), 4),
    **dict.fromkeys(("five", "5"), 5),
    **dict.fromkeys(("six", "6"), 6),
}

_WORDS = """
and each every other others several many some few various multiple numerous
seven eight nine ten dozen 7 8 9 10
group crowd bunch team band family audience herd flock pack swarm set row stack pile
collection array variety assortment cluster series class army fleet line lot number mass
people men women children feet teeth sheep deer fish geese mice police cattle poultry folk
hair water grass food clothing furniture equipment luggage traffic gear jewelry snow sand
"""
_UNCOUNTED = frozenset(_WORDS.split())
"""Words of phrases that may name any number of things: amounts, groups, plurals without "s", what is not counted."""

_IRREGULAR = {"men": "man", "women": "woman", "people": "person", "children": "child", "feet": "foot", "teeth": "tooth"}
_COMPOUND = ("men", "women", "people", "children")


def singular(word: str) -> str:
    """Return the singular of a noun by a few rules.

    Examples
    --------
    >>> [singular(word) for word in ("firemen", "dresses", "puppies", "grass")]
    ['fireman', 'dress', 'puppy', 'grass']
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    for ending in _COMPOUND:
        if word.endswith(ending):
            return word[: -len(ending)] + _IRREGULAR[ending]
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("ches", "shes", "sses", "xes")) else word[:-1]


def stated_count(words: Sequence[str]) -> int | None:
    """Return the number of things that a noun phrase in lower case states; None if it states none.

    Examples
    --------
    >>> [stated_count(text.split()) for text in ("a brown dog", "two dogs", "dogs", "a group of dogs", "the dog")]
    [1, 2, None, None, None]
    """
    counts = {_COUNTS[word] for word in words if word in _COUNTS}
    if len(counts) == 1 and _UNCOUNTED.isdisjoint(words):
        return counts.pop()
    return 1 if words and words[0] in _ONE and not may_name_several(words) else None


def may_name_several(words: Sequence[str]) -> bool:
    """Whether a noun phrase in lower case could name more than one thing."""
    several = _UNCOUNTED | _COUNTS.keys()
    return not words or singular(words[-1]) != words[-1] or not several.isdisjoint(words)
