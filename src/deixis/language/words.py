"""Facts about single English words, shared by search, captions and METEOR: function words, stems, WordNet senses.

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
