"""Photos from formats that connect phrases with boxes but may have no chains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from deixis.data.records import NOT_VISUAL, Box, Caption, Chain, Mention
from deixis.geometry import XYXY


@dataclass(slots=True)
class PhraseWithBoxes:
    """A phrase of a caption with its boxes."""

    caption: int
    start: int
    end: int
    boxes: tuple[XYXY, ...] = ()
    types: tuple[str, ...] = ()
    chain: str | None = None  # its name in the file
    is_scene: bool = False  # the whole chain
    has_no_box: bool = False  # the whole chain


@dataclass(slots=True)
class GroundedPhoto:
    """Collects the captions, phrases and boxes of a photo."""

    captions: list[str] = field(default_factory=list)
    phrases: list[PhraseWithBoxes] = field(default_factory=list)
    labels: dict[XYXY, str] = field(default_factory=dict)  # categories of boxes

    def records(self) -> tuple[tuple[Caption, ...], tuple[Chain, ...], tuple[Box, ...]]:
        """Build captions, chains and boxes.

        Phrases without a chain that have the same boxes, in different captions, become one chain, as in section 2.3 of
        the Entities paper; any other phrase is a chain of its own. Of overlapping phrases the longest is kept.
        """
        phrases = _without_overlaps(self.phrases)
        boxes: dict[XYXY, dict[str, None]] = {box: {} for box in self.labels}
        mentions: list[list[Mention]] = [[] for _ in self.captions]
        chains: dict[str, Chain] = {}
        for phrase, chain in zip(phrases, _assign_chains(phrases), strict=True):
            mentions[phrase.caption].append(Mention(phrase.start, phrase.end, chain, phrase.types))
            if chain is None:
                continue
            for box in phrase.boxes:
                boxes.setdefault(box, {})[chain] = None
            known = chains.get(chain, Chain(chain, annotated=False))
            scene, no_box = known.scene or phrase.is_scene, known.no_box or phrase.has_no_box
            chains[chain] = Chain(chain, scene, no_box, known.annotated or bool(phrase.boxes) or scene or no_box)
        captions = (
            Caption.from_text(text, tuple(sorted(own, key=lambda mention: mention.start)))
            for text, own in zip(self.captions, mentions, strict=True)
        )
        drawn = (Box(box, tuple(named), self.labels.get(box)) for box, named in boxes.items())
        return tuple(captions), tuple(chains.values()), tuple(drawn)


def _without_overlaps(phrases: Iterable[PhraseWithBoxes]) -> list[PhraseWithBoxes]:
    kept: list[PhraseWithBoxes] = []
    for phrase in sorted(phrases, key=lambda each: (each.caption, each.start - each.end, each.start)):
        if not any(
            other.caption == phrase.caption and other.start < phrase.end and phrase.start < other.end for other in kept
        ):
            kept.append(phrase)
    return sorted(kept, key=lambda phrase: (phrase.caption, phrase.start))


def _assign_chains(phrases: Sequence[PhraseWithBoxes]) -> list[str | None]:
    """Return the chain of each phrase; None if it is not visual."""
    taken = {phrase.chain for phrase in phrases if phrase.chain is not None}
    free = (str(number) for number in range(1, len(phrases) + len(taken) + 1) if str(number) not in taken)
    by_boxes: dict[frozenset[XYXY], dict[str, set[int]]] = {}  # captions of the chains with these boxes
    found: list[str | None] = []
    for phrase in phrases:
        if phrase.chain is not None or NOT_VISUAL in phrase.types:
            found.append(phrase.chain)
            continue
        same = by_boxes.setdefault(frozenset(phrase.boxes), {}) if phrase.boxes else {}
        chain = next((name for name, captions in same.items() if phrase.caption not in captions), None) or next(free)
        same.setdefault(chain, set()).add(phrase.caption)
        found.append(chain)
    return found
