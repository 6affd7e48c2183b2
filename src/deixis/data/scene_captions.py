"""What people would say of a made-up scene: captions built as trees, from which text and spans follow.

A caption is never parsed: its tree is put together first, its words are the tree's leaves, and its mentions
are noun phrases of the tree, so that all three always agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np

from deixis.data.records import NOT_VISUAL, Caption, Mention

TYPES = {
    "circle": "other",
    "square": "other",
    "triangle": "other",
    "star": "other",
    "man": "people",
    "hat": "clothing",
    "fish": "animals",
    "boat": "vehicles",
}
"""The shapes, and the type of Flickr30k Entities that each has."""

PLACES = {"left": (-1, 0), "right": (1, 0), "top": (0, -1), "bottom": (0, 1), "middle": (0, 0)}
"""Where each place lies, in steps from the middle, rightwards and down."""

_PREPOSITIONS = {"left": "on", "right": "on", "top": "at", "bottom": "at", "middle": "in"}
_SIZE_WORDS = {"large": ("large", "big"), "small": ("small", "little")}
_PLURALS = {"man": "men", "fish": "fish"}


@dataclass(frozen=True)
class Thing:
    """One shape of a scene, or a pair of small ones, in one of the places."""

    colour: str
    shape: str
    size: str
    place: str
    pair: bool

    def steps_to(self, other: Thing) -> tuple[int, int]:
        """Steps rightwards and down from this thing to another."""
        (x, y), (other_x, other_y) = PLACES[self.place], PLACES[other.place]
        return other_x - x, other_y - y


@dataclass(frozen=True)
class _Node:
    """A node of a constituency tree: a word, or a phrase that may be a mention of (chain, type)."""

    label: str
    children: tuple[_Node, ...] = ()
    word: str = ""
    mention: tuple[str | None, str] | None = None


def captions_of(
    things: Sequence[Thing], background: str, rng: np.random.Generator, *, number: int = 5
) -> tuple[Caption, ...]:
    """Speak of all things of a scene, each time in another way (there are eight).

    Chains are numbered from 1 in the order of `things`; the background's is the last.

    Examples
    --------
    >>> star = Thing("green", "star", "small", "left", pair=True)
    >>> caption = captions_of([star], "grey", np.random.default_rng(3))[0]
    >>> caption.text
    'On the left are two green stars .'
    >>> caption.mentions
    (Mention(start=16, end=31, chain='1', types=('other',)),)
    """
    ways = rng.permutation(len(_WAYS))[:number]
    return tuple(_caption(_WAYS[way](_Speaker(things, background, rng))) for way in ways)


def _caption(said: _Node) -> Caption:
    words: list[str] = []
    mentions: list[Mention] = []
    tree = _brackets(replace(said, children=(*said.children, _Node(".", word="."))), words, mentions)
    return Caption.from_text(" ".join(words), tuple(mentions), tree=tree)


def _brackets(node: _Node, words: list[str], mentions: list[Mention]) -> str:
    """The tree in brackets; its words and mentions are added to those of what stands before it."""
    if node.word:
        words.append(node.word if words else node.word.capitalize())
        return f"({node.label} {words[-1]})"
    start = len(" ".join([*words, ""]))
    inside = " ".join([_brackets(child, words, mentions) for child in node.children])
    if node.mention:
        chain, kind = node.mention
        mentions.append(Mention(start, len(" ".join(words)), chain, (kind,)))
    return f"({node.label} {inside})"


@lru_cache(maxsize=1024)
def _words(tagged: str) -> tuple[_Node, ...]:
    """Leaves from words with their tags: ``"the/DT left/NN"``."""
    return tuple(_Node(tag, word=word) for word, tag in (item.split("/") for item in tagged.split()))


def _phrase(label: str, tagged: str, *rest: _Node) -> _Node:
    return _Node(label, (*_words(tagged), *rest))


def _joined(label: str, parts: Sequence[_Node], between: str = ",/,", last: str = "and/CC") -> _Node:
    """``a``, ``a and b``, or ``a , b and c``."""
    if len(parts) == 1:
        return parts[0]
    children = [parts[0]]
    for part in parts[1:-1]:
        children += [*_words(between), part]
    return _Node(label, (*children, *_words(last), parts[-1]))


def _clauses(parts: Sequence[_Node]) -> _Node:
    return _joined("S", parts, last=",/, and/CC")


def _place(thing: Thing) -> _Node:
    return _phrase("PP", f"{_PREPOSITIONS[thing.place]}/IN", _phrase("NP", f"the/DT {thing.place}/NN"))


class _Speaker:
    """Names the things of a scene, in an order of its own."""

    def __init__(self, things: Sequence[Thing], background: str, rng: np.random.Generator) -> None:
        self._chains = {thing: str(number) for number, thing in enumerate(things, start=1)}
        self._background = background
        self._rng = rng
        self.things = [things[i] for i in rng.permutation(len(things))]

    def pick(self, *options: str) -> str:
        return options[int(self._rng.integers(len(options)))]

    def name(self, thing: Thing, *, sized: bool = False) -> _Node:
        """The mention of a thing, with its size or without."""
        size = f"{self.pick(*_SIZE_WORDS[thing.size])}/JJ " if sized else ""
        described = f"{size}{thing.colour}/JJ"
        mention = (self._chains[thing], TYPES[thing.shape])
        if not thing.pair:
            article = self.pick("the", *["an" if described[0] in "aeiou" else "a"] * 3)
            return replace(_phrase("NP", f"{article}/DT {described} {thing.shape}/NN"), mention=mention)
        described += f" {_PLURALS.get(thing.shape, thing.shape + 's')}/NNS"
        if self.pick("two", "two", "a pair") == "two":
            return replace(_phrase("NP", f"two/CD {described}"), mention=mention)
        of_them = _phrase("PP", "of/IN", _phrase("NP", described))
        return replace(_Node("NP", (_phrase("NP", "a/DT pair/NN"), of_them)), mention=mention)

    def placed(self, thing: Thing, *, sized: bool = False) -> _Node:
        """The mention of a thing and its place: ``a red circle on the left``."""
        return _Node("NP", (self.name(thing, sized=sized), _place(thing)))

    def near(self, thing: Thing, other: Thing) -> _Node:
        """Where a thing is from another: ``above a blue square``."""
        right, down = other.steps_to(thing)
        ways = [
            *(["above/IN"] if down < 0 else []),
            *(["below/IN"] if down > 0 else []),
            *(["left"] if right < 0 else []),
            *(["right"] if right > 0 else []),
            *(["next/JJ"] if abs(right) == 1 and down == 0 else []),
        ]
        way = self.pick(*ways)
        name = self.name(other, sized=True)
        if way == "next/JJ":
            return _phrase("ADJP", way, _phrase("PP", "to/TO", name))
        if "/" in way:
            return _phrase("PP", way, name)
        of_it = _Node("NP", (_phrase("NP", f"the/DT {way}/NN"), _phrase("PP", "of/IN", name)))
        return _phrase("PP", "to/TO", of_it)

    def background(self) -> _Node:
        chain = str(len(self.things) + 1)
        words = f"{self.pick('a', 'the')}/DT {self._background}/JJ background/NN"
        return replace(_phrase("NP", words), mention=(chain, "scene"))


def _verb(things: Sequence[Thing]) -> str:
    return "are/VBP" if len(things) > 1 or things[0].pair else "is/VBZ"


def _not_visual(words: str) -> _Node:
    return replace(_phrase("NP", words), mention=(None, NOT_VISUAL))


def _relation(speaker: _Speaker) -> _Node:
    """A large red circle is above a small blue square , and two green stars are on the left ."""
    first, *others = speaker.things
    where = speaker.near(first, others[0]) if others else _place(first)
    clauses = [_Node("S", (speaker.name(first, sized=True), _phrase("VP", _verb([first]), where)))]
    for thing in others[1:]:
        clauses.append(_Node("S", (speaker.name(thing), _phrase("VP", _verb([thing]), _place(thing)))))
    return _clauses(clauses)


def _existence(speaker: _Speaker) -> _Node:
    """There is a large red circle above a small blue square and two green stars on the left ."""
    first, *others = speaker.things
    where = speaker.near(first, others[0]) if others else _place(first)
    seen = [_Node("NP", (speaker.name(first, sized=True), where))]
    seen += [speaker.placed(thing) for thing in others[1:]]
    return _Node("S", (_not_visual("there/EX"), _phrase("VP", _verb([first]), _joined("NP", seen))))


def _list(speaker: _Speaker) -> _Node:
    """The red circle on the left , a blue square at the top and two green stars in the middle ."""
    return _joined("NP", [speaker.placed(thing) for thing in speaker.things])


def _on_background(speaker: _Speaker) -> _Node:
    """A large red circle and two small green stars are on a grey background ."""
    names = _joined("NP", [speaker.name(thing, sized=True) for thing in speaker.things])
    return _Node("S", (names, _phrase("VP", _verb(speaker.things), _phrase("PP", "on/IN", speaker.background()))))


def _against_background(speaker: _Speaker) -> _Node:
    """The red circle on the left and two green stars in the middle against a grey background ."""
    return _Node("NP", (_list(speaker), _phrase("PP", "against/IN", speaker.background())))


def _picture(speaker: _Speaker) -> _Node:
    """The picture shows a large red circle on the left and two small green stars in the middle ."""
    shown = _joined("NP", [speaker.placed(thing, sized=True) for thing in speaker.things])
    subject = _phrase("NP", f"{speaker.pick('the', 'this')}/DT picture/NN")
    return _Node("S", (subject, _phrase("VP", f"{speaker.pick('shows', 'has')}/VBZ", shown)))


def _places_first(speaker: _Speaker) -> _Node:
    """On the left is a red circle , and in the middle are two green stars ."""
    return _clauses(
        [_Node("SINV", (_place(thing), _phrase("VP", _verb([thing])), speaker.name(thing))) for thing in speaker.things]
    )


def _each_other(speaker: _Speaker) -> _Node:
    """The red circle on the left and two green stars in the middle are near each other ."""
    things = speaker.things
    if len(things) == 1 and not things[0].pair:
        return _list(speaker)
    far = any(2 in np.abs(one.steps_to(other)) for one, other in combinations(things, 2))
    each_other = _not_visual("each/DT other/JJ")
    where = (
        _phrase("ADVP", "apart/RB", _phrase("PP", "from/IN", each_other))
        if far
        else _phrase("PP", "near/IN", each_other)
    )
    return _Node("S", (_list(speaker), _phrase("VP", _verb(things), where)))


_WAYS: tuple[Callable[[_Speaker], _Node], ...] = (
    _relation,
    _existence,
    _list,
    _on_background,
    _against_background,
    _picture,
    _places_first,
    _each_other,
)
