"""What the coreference model looks at: a mention in its caption, and two mentions side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deixis.annotate.material import Material
from deixis.data.records import ENTITY_TYPES
from deixis.language.entity_types import COLOURS
from deixis.tokens import tokenize

Floats = NDArray[np.float32]
Places = NDArray[np.int64]

INSIDE, BEFORE, AFTER = 6, 2, 3
"""So many words of the mention, before it and after it are looked at."""

_ARTICLES = frozenset({"a", "an", "the", "his", "her", "their", "its", "some"})
_AMOUNTS = {
    **dict.fromkeys(("a", "an", "one", "another", "single", "this", "lone"), 1),
    **dict.fromkeys(("two", "2", "pair", "couple", "both"), 2),
    **dict.fromkeys(("three", "3", "trio"), 3),
    **dict.fromkeys(("four", "4", "five", "5", "six", "6", "seven", "eight", "nine", "ten"), 4),
    **dict.fromkeys(("several", "many", "group", "crowd", "some", "few", "bunch", "team", "various", "multiple"), 4),
}
_IRREGULAR = {"men": "man", "women": "woman", "people": "person", "children": "child", "feet": "foot", "teeth": "tooth"}
_COMPOUND = ("men", "women", "people", "children")
_MOST_OF_A_KIND = 3

ABOUT_EACH = len(ENTITY_TYPES) + 11
ABOUT_TWO = 17


@dataclass(frozen=True, slots=True)
class MentionFacts:
    """A mention as the model sees it; all words are in lower case.

    Attributes
    ----------
    caption
        The number of its caption.
    head, inside, before, after
        Its last word, its other words, and those around it.
    types
        Of `deixis.data.records.ENTITY_TYPES`.
    lemma, plural, amount
        The singular of its head, whether it is another word, and how many things it names: 1, 2, 3, 4 for more, 0
        where it does not say.
    position
        Where in the caption it begins, from 0 to 1.
    order, of_its_kind
        Which mention of its first type it is in its caption, counted from 0, and how many there are.
    """

    caption: int
    head: str
    inside: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    types: tuple[str, ...]
    lemma: str
    plural: bool
    amount: int
    position: float
    order: int
    of_its_kind: int

    @property
    def modifiers(self) -> frozenset[str]:
        """The words that tell it from other things of its kind."""
        return frozenset(self.inside) - _ARTICLES

    @property
    def colours(self) -> frozenset[str]:
        """Those among its words."""
        return frozenset((*self.inside, self.head)) & COLOURS


def singular(word: str) -> str:
    """The singular of a noun, as far as a few rules go.

    Examples
    --------
    >>> [singular(word) for word in ("dogs", "women", "grass", "benches", "puppies", "firemen")]
    ['dog', 'woman', 'grass', 'bench', 'puppy', 'fireman']
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


def facts_of(material: Material) -> list[MentionFacts]:
    """The mentions of a photo as the model sees them, in the order of the material.

    Examples
    --------
    >>> from deixis.annotate.material import material_of
    >>> from deixis.data.records import Caption, Photo
    >>> photo = Photo("1", (Caption.from_text("Two black dogs watch a man."),), width=4, height=3)
    >>> dogs, man = facts_of(material_of(photo))
    >>> dogs.lemma, dogs.amount, sorted(dogs.colours), man.before, man.amount
    ('dog', 2, ['black'], ('dogs', 'watch'), 1)
    """
    captions = [
        [(token.text.lower(), token.start, token.end) for token in tokenize(text)] for text in material.captions
    ]
    kinds = [(mention.caption, mention.types[0] if mention.types else "") for mention in material.mentions]
    totals = Counter(kinds)
    so_far: Counter[tuple[int, str]] = Counter()
    found = []
    for mention, kind in zip(material.mentions, kinds, strict=True):
        words = captions[mention.caption]
        touched = [at for at, (_, start, end) in enumerate(words) if start < mention.end and mention.start < end]
        first, last = (touched[0], touched[-1]) if touched else (0, 0)
        texts = [text for text, _, _ in words] or [mention.head]
        inside = tuple(texts[first:last])
        lemma = singular(texts[last])
        plural = lemma != texts[last]
        stated = next((_AMOUNTS[word] for word in inside if word in _AMOUNTS), 0)
        found.append(
            MentionFacts(
                mention.caption,
                texts[last],
                inside,
                tuple(texts[max(first - BEFORE, 0) : first]),
                tuple(texts[last + 1 : last + 1 + AFTER]),
                mention.types,
                lemma,
                plural,
                4 if plural and stated in (0, 1) else stated,
                first / max(len(texts), 1),
                so_far[kind],
                totals[kind],
            )
        )
        so_far[kind] += 1
    return found


def about_each(mentions: Sequence[MentionFacts]) -> Floats:
    """What is known of each mention besides its words, as numbers: (mentions, `ABOUT_EACH`)."""
    table = np.zeros((len(mentions), ABOUT_EACH), np.float32)
    for row, each in zip(table, mentions, strict=True):
        for name in each.types:
            if name in ENTITY_TYPES:
                row[ENTITY_TYPES.index(name)] = 1
        rest = row[len(ENTITY_TYPES) :]
        rest[0] = each.plural
        rest[1 + each.amount] = 1
        rest[6] = each.position
        rest[7 + min(each.order, _MOST_OF_A_KIND - 1)] = 1
        rest[10] = each.of_its_kind == 1
    return table


def about_two(one: MentionFacts, other: MentionFacts) -> list[float]:
    """What is known of two mentions side by side, the same whichever comes first: `ABOUT_TWO` numbers."""
    shared, either = one.modifiers & other.modifiers, one.modifiers | other.modifiers
    around = ({*one.before, *one.after} & {*other.before, *other.after}) - _ARTICLES
    return [
        one.head == other.head,
        one.lemma == other.lemma,
        one.head == other.head and one.modifiers == other.modifiers,
        len(shared) / len(either) if either else 0.5,
        bool(one.colours & other.colours),
        bool(one.colours and other.colours and not one.colours & other.colours),
        one.amount == other.amount,
        bool(one.amount and other.amount and one.amount != other.amount),
        one.plural == other.plural,
        abs(one.position - other.position),
        one.order == other.order,
        one.of_its_kind == 1 and other.of_its_kind == 1,
        one.of_its_kind != other.of_its_kind,
        set(one.types) == set(other.types),
        one.head in other.inside or other.head in one.inside,
        len(around) / (BEFORE + AFTER),
        one.lemma.endswith(other.lemma) or other.lemma.endswith(one.lemma),
    ]


def word_places(mentions: Sequence[MentionFacts], place_of: dict[str, int], unknown: int) -> tuple[Places, ...]:
    """Where a vocabulary has the words of the mentions: of the heads (n,), and inside, before and after (n, most).

    0 fills rows up.
    """

    def rows(words: Sequence[tuple[str, ...]], most: int) -> Places:
        table = np.zeros((len(words), most), np.int64)
        for row, found in zip(table, words, strict=True):
            last = found[-most:]
            row[: len(last)] = [place_of.get(word, unknown) for word in last]
        return table

    heads = np.array([place_of.get(each.head, unknown) for each in mentions], np.int64)
    return (
        heads,
        rows([each.inside for each in mentions], INSIDE),
        rows([each.before for each in mentions], BEFORE),
        rows([each.after for each in mentions], AFTER),
    )
