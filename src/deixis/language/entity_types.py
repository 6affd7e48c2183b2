"""Dictionary of the Flickr30k Entities types of noun phrases, and the rules for non-visual phrases. English only.

The type depends on the head (the last word of a chunk), or on the last two words where they have a different type ("a
rock star"). An unknown head is tried as its singular or plural and as a compound ("undershirts" ends in "shirts");
otherwise the type is 'other'. The dictionary is counted from the typed mentions of Flickr30k Entities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

from deixis.storage.artifacts import Artifact, Storable

SHIPPED = Path(__file__).parent / "models" / "entity_types"

Types = tuple[str, ...]


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


PRONOUNS = _words(
    """
    i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself
    we us our ours ourselves they them their theirs themselves themself
    that this these those there who whom whose which what both another
    """
)
"""A chunk that ends in one of these ("one of them", "who") refers to another phrase."""

NON_VISUAL_HEADS = _words(
    "background foreground air ground distance direction directions side sides trick tricks jump fun"
)
"""Heads that are common in captions and that Entities marks as not visual."""

NON_VISUAL_PHRASES = frozenset({("the", "camera"), ("each", "other")})
"""Non-visual chunks whose head may be visible in other chunks ("a camera")."""

COLOURS = _words(
    """
    red orange yellow green blue purple violet pink brown black white gray grey beige tan khaki maroon burgundy crimson
    scarlet magenta turquoise teal cyan aqua navy indigo lavender lilac gold golden silver
    """
)
"""Colours, without words that are more often a thing ("cream", "mustard")."""

_BESIDE_COLOURS = _words("all light dark bright pale solid neon pastel and & , or")

# Phrases whose type the head does not give.
_CORRECTIONS: Mapping[tuple[str, str], Types] = {
    ("hot", "dog"): ("other",),
    ("hot", "dogs"): ("other",),
    ("wine", "glasses"): ("other",),
    ("beer", "glasses"): ("other",),
}

_MIN_COMPOUND_PART = 5
_PEOPLE_ENDINGS = ("man", "men", "woman", "women")


@dataclass(frozen=True)
class EntityTypes(Storable):
    """A dictionary from heads and from pairs of last words to entity types.

    Pairs are listed only if their types differ from those of the last word.
    """

    KIND: ClassVar[str] = "entity-types"

    heads: Mapping[str, Types]
    pairs: Mapping[tuple[str, str], Types]
    about: Mapping[str, Any]

    @classmethod
    @cache
    def shipped(cls) -> EntityTypes:
        """The dictionary of the package, loaded once."""
        return EntityTypes.load(SHIPPED)

    def types_of(self, words: Sequence[str]) -> Types:
        """Return the types of a phrase; empty for a non-visual phrase."""
        lower = [word.lower() for word in words]
        if not lower or not is_visual(lower):
            return ()
        if is_colour(lower):
            return ("clothing",)
        pair = (lower[-2] if len(lower) > 1 else "", lower[-1])
        return _CORRECTIONS.get(pair) or self.pairs.get(pair) or self._types_of_head(lower[-1])

    def _types_of_head(self, head: str) -> Types:
        known = self.heads
        spellings = [head, head.removesuffix("s"), head.removesuffix("es"), head + "s"]
        # The longest ending first; the word itself is among the spellings.
        spellings += [head[cut:] for cut in range(1, len(head) - _MIN_COMPOUND_PART + 1)]
        for spelling in spellings:
            if spelling in known:
                return known[spelling]
        return ("people",) if head.endswith(_PEOPLE_ENDINGS) else ("other",)

    def to_artifact(self) -> Artifact:
        """The dictionary, grouped by types."""
        groups: dict[str, dict[str, list[str]]] = {}
        for ending, types in [*self.heads.items(), *((" ".join(pair), types) for pair, types in self.pairs.items())]:
            kind = "pairs" if " " in ending else "heads"
            groups.setdefault("/".join(types), {"heads": [], "pairs": []})[kind].append(ending)
        return Artifact(self.KIND, {"types": dict(sorted(groups.items()))}, provenance=dict(self.about))

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        heads: dict[str, Types] = {}
        pairs: dict[tuple[str, str], Types] = {}
        for joined, group in artifact.settings["types"].items():
            types = tuple(joined.split("/"))
            heads.update(dict.fromkeys(group["heads"], types))
            pairs.update({(pair.split(" ")[0], pair.split(" ")[1]): types for pair in group["pairs"]})
        return cls(heads, pairs, artifact.provenance)


def is_visual(words: Sequence[str]) -> bool:
    """Return whether a lower-case phrase can name something visible."""
    return not (words[-1] in PRONOUNS or words[-1] in NON_VISUAL_HEADS or tuple(words) in NON_VISUAL_PHRASES)


def is_colour(words: Sequence[str]) -> bool:
    """Return whether a lower-case phrase is only a colour, which then stands for clothing ("a man in dark blue")."""
    return words[-1] in COLOURS and all(word in COLOURS or word in _BESIDE_COLOURS for word in words)
