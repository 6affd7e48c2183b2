"""The group interface for coreference: one question about all mentions that could be the same, instead of pairs.

A worker sorts the mentions of a group into chains. The result goes to verification as chains from pairs do. As with
pairs, two mentions of one caption are never joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from deixis.annotate.events import Judged
from deixis.annotate.linking import LinkingResult, mention_order
from deixis.annotate.material import CaptionMention
from deixis.annotate.workflow import WORKFLOW, Task

GROUP_TRANSITION = next(row for row in WORKFLOW if row.stage is Task.GROUP)

Partition = Sequence[Sequence[str]]
"""Groups of mention ids."""


def is_groupable(mentions: Sequence[CaptionMention]) -> bool:
    """Return whether two of the mentions could be the same: they are of two captions and share a type."""
    return any(
        one.caption != other.caption and set(one.types) & set(other.types) for one, other in combinations(mentions, 2)
    )


def ask_for_groups(mentions: Sequence[CaptionMention]) -> LinkingResult:
    """Return the state before a group question is answered: every mention alone."""
    alone = tuple((mention,) for mention in mentions)
    none: dict[str, tuple[()]] = {mention.id: () for mention in mentions}
    return LinkingResult(alone, None, {**none}, next_group=tuple(mention.id for mention in mentions))


def find_grouping(mentions: Sequence[CaptionMention], judgements: Iterable[Judged]) -> Judged | None:
    """Find the first judgement about all of these mentions, and perhaps others that were dropped since."""
    wanted = {mention.id for mention in mentions}
    return next((judged for judged in judgements if wanted <= set(judged.subject.split())), None)


def apply_grouping(mentions: Sequence[CaptionMention], judged: Judged) -> LinkingResult:
    """Make the chains of a judgement from the mentions that are still there."""
    by_id = {mention.id: mention for mention in mentions}
    chains = [tuple(by_id[name] for name in group if name in by_id) for group in judged.groups]
    ordered = sorted((tuple(sorted(chain, key=mention_order)) for chain in chains if chain), key=_first)
    taken = ((judged.number, GROUP_TRANSITION),)
    return LinkingResult(tuple(ordered), None, dict.fromkeys(by_id, taken))


def _first(chain: Sequence[CaptionMention]) -> tuple[int, int]:
    return mention_order(chain[0])


def find_grouping_problem(mentions: Sequence[str], groups: Partition) -> str | None:
    """Say what is wrong with an answer; None if each mention is in one group and no caption twice."""
    listed = [name for group in groups for name in group]
    if sorted(listed) != sorted(mentions) or not all(groups):
        return "each phrase must be in exactly one group"
    for group in groups:
        captions = [name.partition(":")[0] for name in group]
        if len(set(captions)) < len(captions):
            return "two phrases of one caption cannot be in the same group"
    return None


def rand_index(one: Partition, other: Partition) -> float:
    """Share of pairs, of mentions of two captions, that two partitions of the same mentions agree on.

    Examples
    --------
    >>> rand_index([["0:0-5", "1:0-5"], ["2:0-5"]], [["0:0-5"], ["1:0-5"], ["2:0-5"]])
    0.6666666666666666
    """
    places = [{name: number for number, group in enumerate(groups) for name in group} for groups in (one, other)]
    pairs = [(a, b) for a, b in combinations(sorted(places[0]), 2) if a.partition(":")[0] != b.partition(":")[0]]
    same = sum((places[0][a] == places[0][b]) == (places[1][a] == places[1][b]) for a, b in pairs)
    return same / len(pairs) if pairs else 1.0
