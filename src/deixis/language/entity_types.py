"""Which of the eight Entities types a noun phrase has, by dictionary; and which phrases no picture can show.

The dictionary goes by the head (the last word of a chunk), corrected by the last two words where those are known to
differ ("a rock star"). A head that was never seen is tried as its singular or plural and as a compound ("undershirts"
ends in "shirts"); otherwise it is 'other'. The words come from counts over the typed mentions of Flickr30k Entities;
the lists of colours, pronouns and non-visual words are here to read. English only.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from deixis.data.records import NOT_VISUAL
from deixis.errors import DeixisError

Types = tuple[str, ...]


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


PRONOUNS = _listed(
    """
    i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself
    we us our ours ourselves they them their theirs themselves themself
    that this these those there who whom whose which what both another
    """
)
"""A chunk that ends in one of these ("one of them", "who") points at something only through another phrase."""

NON_VISUAL_HEADS = _listed(
    "background foreground air ground distance direction directions side sides trick tricks jump fun"
)
"""Heads that are common in captions and that Entities counts as nothing a box could show."""

NON_VISUAL_PHRASES = frozenset({("the", "camera"), ("each", "other")})
"""Whole chunks of that kind, whose head may well be visible elsewhere ("a camera")."""

COLOURS = _listed(
    """
    red orange yellow green blue purple violet pink brown black white gray grey beige tan khaki maroon burgundy crimson
    scarlet magenta turquoise teal cyan aqua navy indigo lavender lilac gold golden silver
    """
)
"""Colours that are not, on their own, more often a thing ("cream", "mustard")."""

_BESIDE_COLOURS = _listed("all light dark bright pale solid neon pastel and & , or")

# Where going by the head is plainly wrong.
_CORRECTED: Mapping[tuple[str, str], Types] = {
    ("hot", "dog"): ("other",),
    ("hot", "dogs"): ("other",),
    ("wine", "glasses"): ("other",),
    ("beer", "glasses"): ("other",),
}

_SHORTEST_PART = 5
_PEOPLE_ENDINGS = ("man", "men", "woman", "women")
_PAIR_SEEN_AT_LEAST = 2


@dataclass(frozen=True)
class EntityTypes:
    """A dictionary of heads and of last two words, each with its types.

    Attributes
    ----------
    heads
        Types by the last word of a phrase, in lower case.
    pairs
        Types by the last two words, where they differ from those of the last word alone.
    about
        What the dictionary was counted from.

    Examples
    --------
    >>> EntityTypes({"star": ("other",)}, {("rock", "star"): ("people",)}, {}).types_of(["a", "rock", "star"])
    ('people',)
    """

    heads: Mapping[str, Types]
    pairs: Mapping[tuple[str, str], Types]
    about: Mapping[str, Any]

    @classmethod
    def shipped(cls) -> EntityTypes:
        """The dictionary that comes with the package, loaded once."""
        return _shipped()

    @classmethod
    def from_phrases(cls, phrases: Iterable[tuple[Sequence[str], Types]], about: Mapping[str, Any]) -> EntityTypes:
        """Count phrases (their words, their types) and keep the commonest types of each ending.

        Examples
        --------
        >>> types = EntityTypes.from_phrases([(["a", "Dog"], ("animals",))], about={})
        >>> types.heads
        {'dog': ('animals',)}
        """
        by_head: dict[str, Counter[Types]] = {}
        by_pair: dict[tuple[str, str], Counter[Types]] = {}
        for words, types in phrases:
            if not words or NOT_VISUAL in types:
                continue
            *before, head = (word.lower() for word in words)
            by_head.setdefault(head, Counter())[types] += 1
            if before:
                by_pair.setdefault((before[-1], head), Counter())[types] += 1
        heads = {head: _commonest(counts) for head, counts in sorted(by_head.items())}
        pairs = {
            pair: _commonest(counts)
            for pair, counts in sorted(by_pair.items())
            if counts.total() >= _PAIR_SEEN_AT_LEAST and _commonest(counts) != heads[pair[1]]
        }
        return cls(heads, pairs, about)

    def types_of(self, words: Sequence[str]) -> Types:
        """The types of a phrase, empty for one that is not visual.

        Parameters
        ----------
        words : sequence of str
            The tokens of a chunk, in any case.

        Returns
        -------
        tuple of str
            Of `deixis.data.records.ENTITY_TYPES`; more than one where a thing may be either ("the bus" is a vehicle
            and a scene).

        Examples
        --------
        >>> types = EntityTypes.shipped()
        >>> types.types_of(["a", "young", "man"]), types.types_of(["dark", "blue"]), types.types_of(["them"])
        (('people',), ('clothing',), ())
        """
        lower = [word.lower() for word in words]
        if not lower or not is_visual(lower):
            return ()
        if is_colour(lower):
            return ("clothing",)
        pair = (lower[-2] if len(lower) > 1 else "", lower[-1])
        return _CORRECTED.get(pair) or self.pairs.get(pair) or self._types_of_head(lower[-1])

    def _types_of_head(self, head: str) -> Types:
        known = self.heads
        spellings = [head, head.removesuffix("s"), head.removesuffix("es"), head + "s"]
        # The longest ending first; the word itself is among the spellings.
        spellings += [head[cut:] for cut in range(1, len(head) - _SHORTEST_PART + 1)]
        for spelling in spellings:
            if spelling in known:
                return known[spelling]
        return ("people",) if head.endswith(_PEOPLE_ENDINGS) else ("other",)

    def save(self, path: Path) -> None:
        """Write the dictionary as JSON, words listed by their types."""
        listed: dict[str, dict[str, list[str]]] = {}
        for ending, types in [*self.heads.items(), *((" ".join(pair), types) for pair, types in self.pairs.items())]:
            kind = "pairs" if " " in ending else "heads"
            listed.setdefault("/".join(types), {"heads": [], "pairs": []})[kind].append(ending)
        content = {"about": dict(self.about), "types": dict(sorted(listed.items()))}
        path.write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")


def is_visual(words: Sequence[str]) -> bool:
    """Whether a phrase, in lower case, may name something that a picture can show.

    Examples
    --------
    >>> is_visual(["the", "background"]), is_visual(["the", "camera"]), is_visual(["a", "camera"])
    (False, False, True)
    """
    return not (words[-1] in PRONOUNS or words[-1] in NON_VISUAL_HEADS or tuple(words) in NON_VISUAL_PHRASES)


def is_colour(words: Sequence[str]) -> bool:
    """Whether a phrase, in lower case, is only a colour: "a man in dark blue" wears something.

    Examples
    --------
    >>> is_colour(["black", "and", "white"]), is_colour(["an", "orange"]), is_colour(["blue", "jeans"])
    (True, False, False)
    """
    return words[-1] in COLOURS and all(word in COLOURS or word in _BESIDE_COLOURS for word in words)


def _commonest(counts: Counter[Types]) -> Types:
    return max(counts, key=lambda types: (counts[types], types))


@cache
def _shipped() -> EntityTypes:
    file = files("deixis.language") / "models" / "entity_types.json"
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeixisError(f"{file}: the dictionary of types is not there; install deixis again ({error})") from None
    heads: dict[str, Types] = {}
    pairs: dict[tuple[str, str], Types] = {}
    for joined, listed in content["types"].items():
        types = tuple(joined.split("/"))
        heads.update(dict.fromkeys(listed["heads"], types))
        pairs.update({(pair.split(" ")[0], pair.split(" ")[1]): types for pair in listed["pairs"]})
    return EntityTypes(heads, pairs, content["about"])
