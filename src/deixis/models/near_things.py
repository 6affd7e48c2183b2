"""Things that are easily taken for each other, such as animals: `near_things.txt`, in English."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from deixis.errors import DatasetError
from deixis.language.words import singular

FILE = Path(__file__).with_suffix(".txt")


@dataclass(frozen=True)
class NearThing:
    """A thing of a group, the words that name it, and words that may mean it.

    Names have the form that `NamedThings` of scripts/named_things.py takes.
    """

    text: str
    names: str
    may_mean: str = ""

    @property
    def name(self) -> str:
        """The first name, or none."""
        return self.names.partition(",")[0].strip(" =")

    @property
    def words(self) -> frozenset[str]:
        """The words of both kinds."""
        listed = f"{self.names},{self.may_mean}".split(",")
        return frozenset(word.strip(" =") for word in listed if word.strip() and not word.strip().startswith("-"))


@dataclass(frozen=True)
class NearGroup:
    """Things that are easily taken for each other; `unless` are words that may mean any of them."""

    name: str
    unless: str
    things: tuple[NearThing, ...]

    def rivals(self, thing: int) -> list[int]:
        """The others, without those of which one includes the other: the name of one is a word of the other."""
        own = self.things[thing]
        return [
            other
            for other, each in enumerate(self.things)
            if other != thing and own.name not in each.words and each.name not in own.words
        ]


def read_groups(file: Path = FILE) -> list[NearGroup]:
    """Read a list; its first lines say what its lines mean."""
    groups: list[NearGroup] = []
    things: list[NearThing] = []
    heading = ("", "")
    lines = [*enumerate(file.read_text(encoding="utf-8").splitlines(), start=1), (0, "[")]
    for number, line in lines:
        if line.startswith("["):
            if things:
                groups.append(NearGroup(*heading, tuple(things)))
            name, _, unless = line[1:].partition("] unless ")
            heading, things = (name, unless), []
        elif line.strip() and not line.startswith("#"):
            text, bar, words = (part.strip() for part in line.partition("|"))
            names, _, may_mean = (part.strip() for part in words.partition(";"))
            if not text or not bar or not heading[0]:
                raise DatasetError(f"{file}: line {number} must have the form 'phrase | name, name ; other word'")
            things.append(NearThing(text, names, may_mean))
    return groups


@cache
def shipped_groups() -> tuple[NearGroup, ...]:
    return tuple(read_groups())


def find_thing(words: Sequence[str]) -> tuple[NearGroup, int] | None:
    """Find the thing that the last words of a phrase name; None if no thing has such a name.

    Examples
    --------
    >>> group, thing = find_thing(["a", "white", "polar", "bear"])
    >>> group.name, group.things[thing].text
    ('animals', 'a polar bear')
    >>> find_thing(["a", "teddy", "bear"]) is None
    True
    """
    names, longest = _things_by_name()
    forms = tuple(map(singular, words))
    for count in range(min(longest, len(forms)), 0, -1):
        if forms[-count:] in names:
            return names[forms[-count:]]
    return None


@cache
def _things_by_name() -> tuple[dict[tuple[str, ...], tuple[NearGroup, int] | None], int]:
    """The things by their names in the singular, None for names that mean something else; the longest name."""
    found: dict[tuple[str, ...], tuple[NearGroup, int] | None] = {}
    hidden: set[tuple[str, ...]] = set()
    for group in shipped_groups():
        for number, thing in enumerate(group.things):
            for name in filter(None, map(str.strip, thing.names.split(","))):
                forms = tuple(map(singular, name.strip("=-").split()))
                if name.startswith("-"):
                    hidden.add(forms)
                else:
                    found.setdefault(forms, (group, number))
    found |= dict.fromkeys(hidden - found.keys())
    return found, max(map(len, found))
