"""What METEOR knows of single words and phrases: its own spelling, function words, stems, senses and paraphrases.

The rules are those of Meteor 1.5 for English (Denkowski and Lavie, 2014; its sources were read for the behaviour, no
code of them is used). Stems are Snowball's English ones, from the package `snowballstemmer`; senses are WordNet 3.0's;
the paraphrases are the part of Meteor's own table that photo captions need. `data/README.md` says where each file
comes from and under which licence.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np

from deixis.errors import DatasetError
from deixis.evaluation.captions.arrays import IntArray

_DATA = Path(__file__).parent / "data"

SHIPPED_PARAPHRASES = _DATA / "meteor-paraphrases-en.gz"
"""The paraphrases that come with the package: 66,846 of the 5,274,084 in Meteor's `paraphrase-en.gz`."""

Phrase = tuple[str, ...]

# The letters that Meteor's normaliser knows: western European and Cyrillic ones.
_LETTER = "A-Za-zŠŽšžŸÀ-ÖØ-öø-žЀ-ӿԀ-ԧꙀ-ꙮ꙾-ꚗᴀ-ᵿ"
_KEPT_WITH_DOT = frozenset({"v", "vs", "i.e", "rev", "e.g"})

_RESPELLINGS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (rf"[^0-9{_LETTER}\s.'`,\-‘’]", r" \g<0> "),
        (r"\.{2,}", r" \g<0> "),
        (r"(?<![0-9]),|,(?![0-9])", " , "),
        (r"[`‘’]", "'"),
        (r"[“”]|''", ' " '),
        ("–|--", "-"),
        (rf"(?<=[0-9{_LETTER}.])-(?=[0-9{_LETTER}])", " "),
        (
            rf"(?<![{_LETTER}])'(?![{_LETTER}])|(?<![0-9{_LETTER}])'(?=[{_LETTER}])|(?<=[{_LETTER}])'(?![{_LETTER}])",
            " ' ",
        ),
        (rf"(?<=[{_LETTER}])'(?=[{_LETTER}])|(?<=[0-9])'(?=s)", " '"),
    )
)

# WordNet's endings of nouns, verbs and adjectives, and what each is replaced by; the first that gives a word wins.
_ENDINGS = (
    ("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y"),
    ("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""),
    ("er", ""), ("est", ""), ("er", "e"), ("est", "e"),
)  # fmt: skip


def normalised(words: Sequence[str]) -> list[str]:
    """Respell the words of a sentence as Meteor does with ``-norm``.

    Hyphens and apostrophes part words, acronyms lose their dots.

    Examples
    --------
    >>> normalised(["a", "t-shirt", "at", "5", "o'clock", "u.s.", "n't"])
    ['a', 't', 'shirt', 'at', '5', 'o', "'clock", 'us', 'n', "'t"]
    """
    followed = [*map(starts_with_letter, words[1:]), False][: len(words)]
    return [part for word, before in zip(words, followed, strict=True) for part in respelled(word, before)]


@cache
def respelled(word: str, before_letter: bool) -> Phrase:
    """Respell one word.

    Parameters
    ----------
    word
        As `deixis.tokens.words` gives it.
    before_letter
        Whether a word follows that starts with a letter: a full stop is then taken for that of an abbreviation.

    Examples
    --------
    >>> respelled("st.", True), respelled("st.", False)
    (('st.',), ('st', '.'))
    """
    parts = _parts(word)
    if not parts or not parts[-1].endswith("."):
        return parts
    *others, last = parts
    before = last[:-1]
    if last.endswith("..") or not before:
        return parts
    if "." in before and re.search(f"[{_LETTER}]", before):
        return (*others, last.replace(".", ""))
    if before in _KEPT_WITH_DOT or before_letter:
        return parts
    return (*others, before, ".")


def starts_with_letter(word: str) -> bool:
    """Tell whether the word, respelled, begins with a letter from a to z."""
    parts = _parts(word)
    return bool(parts) and "a" <= parts[0][0] <= "z"


@cache
def _parts(word: str) -> Phrase:
    """The parts that a word falls into, a full stop still at the end."""
    if word.isascii() and word.isalnum():
        return (word,)
    for pattern, replacement in _RESPELLINGS:
        word = pattern.sub(replacement, word)
    return tuple(word.lower().split())


@cache
def function_words() -> frozenset[str]:
    """Meteor's list of the commonest English words, which count less than content words."""
    return frozenset((_DATA / "meteor-function-words-en.txt").read_text(encoding="utf-8").split())


@cache
def stem(word: str) -> str:
    """Give Snowball's English stem.

    Examples
    --------
    >>> stem("running"), stem("dogs")
    ('run', 'dog')
    """
    return str(_stemmer().stemWord(word))


@cache
def senses(word: str) -> frozenset[int | str]:
    """Give the WordNet senses of a word and of its base forms; two words with one in common are synonyms.

    A sense that several words have is a number; the base forms themselves stand for the senses that only they have.

    Examples
    --------
    >>> bool(senses("bikes") & senses("bicycle")), bool(senses("children") & senses("child"))
    (True, True)
    >>> bool(senses("dog") & senses("cat"))
    False
    """
    numbers_of, bases_of = _wordnet()
    irregular = bases_of.get(word)
    bases = irregular.split() if irregular is not None else [_base_form(word, numbers_of)]
    known = {base for base in (word, *bases) if base in numbers_of}
    return frozenset(known).union(*([int(number) for number in numbers_of[base].split()] for base in known))


@dataclass(frozen=True, eq=False)
class PhraseTable:
    """Pairs of paraphrases in numbers.

    Attributes
    ----------
    ids
        The number of each word.
    phrases
        The word numbers of each phrase, one row a phrase, filled up with -1.
    pairs
        The numbers of the two phrases of each pair.
    """

    ids: dict[str, int]
    phrases: IntArray
    pairs: IntArray

    @classmethod
    def of(cls, pairs: Iterable[tuple[Phrase, Phrase]]) -> PhraseTable:
        """Number the words and phrases of pairs."""
        number_of: dict[Phrase, int] = {}
        flat = [number_of.setdefault(phrase, len(number_of)) for phrase in chain.from_iterable(pairs)]
        ids: dict[str, int] = {}
        words = np.array([ids.setdefault(word, len(ids)) for phrase in number_of for word in phrase], dtype=np.int64)
        lengths = np.array([len(phrase) for phrase in number_of], dtype=np.int64)
        phrases = np.full((len(number_of), lengths.max(initial=1)), -1)
        phrases[np.arange(phrases.shape[1]) < lengths[:, None]] = words
        return cls(ids, phrases, np.array(flat, dtype=np.int64).reshape(-1, 2))


def paraphrases(path: str | os.PathLike[str], vocabulary: Collection[str]) -> PhraseTable:
    """Read a table of paraphrases in Meteor's format, for captions with these words.

    The format is gzipped text, three lines a pair: a probability, which Meteor does not use, and two phrases. The
    shipped table is given whole. Of others, such as Meteor's own of 5,274,084 pairs, only the pairs are kept whose
    words are all in the vocabulary.

    Examples
    --------
    >>> table = paraphrases(SHIPPED_PARAPHRASES, {"a", "dog"})
    >>> len(table.pairs), "woman" in table.ids
    (66846, True)
    """
    if Path(path) == SHIPPED_PARAPHRASES:
        return _shipped_table()
    known = set(vocabulary)
    return PhraseTable.of(pair for pair in _pairs(Path(path)) if known.issuperset(chain.from_iterable(pair)))


@cache
def _shipped_table() -> PhraseTable:
    return PhraseTable.of(_pairs(SHIPPED_PARAPHRASES))


def _pairs(path: Path) -> Iterator[tuple[Phrase, Phrase]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, _ in enumerate(lines):
                pair = tuple(next(lines, "").split()), tuple(next(lines, "").split())
                if not all(pair):
                    raise DatasetError(f"{path}: pair {number + 1} has no words (three lines a pair are expected)")
                yield pair
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "not a gzipped table of paraphrases"
        raise DatasetError(f"{path}: {reason}") from error


@cache
def _stemmer():  # type: ignore[no-untyped-def] # the package has no types
    import snowballstemmer

    return snowballstemmer.stemmer("english")


@cache
def _wordnet() -> tuple[dict[str, str], dict[str, str]]:
    """From each word to the numbers of its shared senses, and from irregular forms to their base forms."""
    return _table("wordnet-senses.gz"), _table("wordnet-forms.gz")


def _table(name: str) -> dict[str, str]:
    with gzip.open(_DATA / name, "rt", encoding="utf-8") as lines:
        return {first: rest for first, _, rest in (line.rstrip("\n").partition(" ") for line in lines)}


def _base_form(word: str, known: Collection[str]) -> str:
    """The base form of a regular inflection, or the word itself."""
    if word.endswith("ss") or len(word) <= 2:
        return word
    for ending, replacement in _ENDINGS:
        if word.endswith(ending) and (base := word[: -len(ending)] + replacement) in known:
            return base
    return word
