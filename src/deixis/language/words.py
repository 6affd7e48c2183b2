"""Facts about English words: function words, stems, WordNet senses, singulars, and the number that a phrase states.

Stems are Snowball's English stems, from the package `snowballstemmer`; senses are those of WordNet 3.0; the function
words are Meteor's list. `data/README.md` gives the origin and the licence of each file.
"""

from __future__ import annotations

import gzip
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any

DATA_DIR = Path(__file__).parent / "data"

# WordNet's endings of nouns, verbs and adjectives with their replacements; the first that gives a word wins.
_ENDINGS = (
    ("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y"),
    ("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""),
    ("er", ""), ("est", ""), ("er", "e"), ("est", "e"),
)  # fmt: skip

_CONTENT_TAGS = frozenset(["NN", "VB", "JJ", "CD"])
_NO_CONTENT = frozenset(
    ["is", "are", "was", "were", "be", "being", "been", "'s", "has", "have", "there", "other", "next"]
)
_NO_THINGS = frozenset(
    ["front", "side", "top", "back", "middle", "edge", "end", "background", "foreground", "area", "group", "couple",
     "pair", "bunch", "lot", "number", "piece", "view", "picture", "photo", "image", "part", "kind", "type"]
)  # fmt: skip


def content_word_indices(words: Sequence[str], tags: Sequence[str]) -> list[int]:
    """Return the indices of the words of a caption that say what is in the photo, given Penn Treebank tags.

    These are nouns, verbs, adjectives and numbers, without forms of *be* and *have* and without nouns that name no
    thing ("the front of", "a group of").

    Examples
    --------
    >>> content_word_indices("a dog in front of trees".split(), ["DT", "NN", "IN", "NN", "IN", "NNS"])
    [1, 5]
    """
    return [
        index
        for index, (word, tag) in enumerate(zip(words, tags, strict=True))
        if tag[:2] in _CONTENT_TAGS and word not in _NO_CONTENT and word not in _NO_THINGS
    ]


@cache
def function_words() -> frozenset[str]:
    """Return Meteor's list of the 93 commonest English words."""
    return frozenset((DATA_DIR / "meteor-function-words-en.txt").read_text(encoding="utf-8").split())


@cache
def stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


@cache
def senses(word: str) -> frozenset[int | str]:
    """Return the WordNet senses of a word and of its base forms; two words that share one are synonyms.

    A sense that several words share is a number. A sense that only one word has is represented by that base form.
    """
    senses_by_word, base_forms_by_word = _wordnet()
    irregular = base_forms_by_word.get(word)
    bases = irregular.split() if irregular is not None else [_base_form(word, senses_by_word)]
    known = {base for base in (word, *bases) if base in senses_by_word}
    return frozenset(known).union(*([int(number) for number in senses_by_word[base].split()] for base in known))


@cache
def _stemmer() -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer("english")


@cache
def _wordnet() -> tuple[dict[str, str], dict[str, str]]:
    """The numbers of the shared senses by word, and the base forms by irregular form."""
    return _read_table("wordnet-senses.gz"), _read_table("wordnet-forms.gz")


def _read_table(name: str) -> dict[str, str]:
    with gzip.open(DATA_DIR / name, "rt", encoding="utf-8") as lines:
        return {first: rest for first, _, rest in (line.rstrip("\n").partition(" ") for line in lines)}


def _base_form(word: str, known: Collection[str]) -> str:
    """The base form of a regular inflection, or the word itself."""
    if word.endswith("ss") or len(word) <= 2:
        return word
    for ending, replacement in _ENDINGS:
        if word.endswith(ending) and (base := word[: -len(ending)] + replacement) in known:
            return base
    return word


# How many things a noun phrase says that it names.

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
