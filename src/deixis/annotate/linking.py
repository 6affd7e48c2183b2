"""Coreference links (§2.1): which mention is asked against which chain, and the chains that come of it.

Mentions are placed one after the other, each asked against one mention of each chain that may hold it: at most |M|·|C|
questions, not |M|². Never asked: a chain that holds a mention of the same caption, and mentions with no type in common.
The likeliest chain, one with the same head noun, comes first, and the first "yes" ends the asking. Mentions whose types
are not connected with each other at all cannot meet, so each such group goes its own way at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from deixis.annotate.events import Judged
from deixis.annotate.material import Marked
from deixis.annotate.walks import Rules, Said, Stop, Task, Walk
from deixis.annotate.workflow import Edge, begin, step

AnswerTo = Callable[[tuple[str, str]], Judged | None]
"""What was said of a pair of mentions, the earlier one first, if anything was."""

Taken = tuple[int, Edge]
"""The number of a judgement, and the row of the table that it led along."""


@dataclass(frozen=True, slots=True)
class Linked:
    """The chains of one group of mentions, as far as they are.

    Attributes
    ----------
    chains
        Each as its mentions, in order.
    asked
        The pair to ask next; None when all mentions are placed.
    taken
        For each mention, the steps that placed it.
    """

    chains: tuple[tuple[Marked, ...], ...]
    asked: tuple[str, str] | None
    taken: dict[str, tuple[Taken, ...]]


def groups_by_type(mentions: Iterable[Marked]) -> list[list[Marked]]:
    """Mentions that could end up in one chain, directly or through others, by their types.

    Examples
    --------
    >>> def mention(place, *types):
    ...     return Marked(place, 0, 0, 1, types, "", "")
    >>> groups = groups_by_type([mention("a", "people"), mention("b", "scene"), mention("c", "scene", "vehicles")])
    >>> [[mention.id for mention in group] for group in groups]
    [['a'], ['b', 'c']]
    """
    groups: list[tuple[set[str], list[Marked]]] = []
    for mention in mentions:
        types, members = set(mention.types), [mention]
        apart = []
        for their_types, theirs in groups:
            if types & their_types:
                types |= their_types
                members = theirs + members
            else:
                apart.append((their_types, theirs))
        groups = [*apart, (types, members)]
    ordered = [sorted(members, key=lambda mention: (mention.caption, mention.start)) for _, members in groups]
    return sorted(ordered, key=lambda members: (members[0].caption, members[0].start))


def link(mentions: Sequence[Marked], answer_to: AnswerTo, rules: Rules) -> Linked:
    """Place the mentions of one group, as far as answers reach."""
    chains: list[list[Marked]] = []
    taken: dict[str, tuple[Taken, ...]] = {}
    for mention in mentions:
        shown = _candidates(mention, chains)
        walk = begin(Walk(Stop.NEW, chains_left=tuple(shown)), rules)
        steps: list[Taken] = []
        while walk.at is Task.LINK:
            pair = (shown[walk.chains_left[0]].id, mention.id)
            said = answer_to(pair)
            if said is None:
                return Linked(tuple(map(tuple, chains)), pair, taken | {mention.id: tuple(steps)})
            walk, edge = step(walk, Said(said.answer, said.worker), rules)
            if edge is None:
                return Linked(tuple(map(tuple, chains)), pair, taken | {mention.id: tuple(steps)})
            steps.append((said.number, edge))
        taken[mention.id] = tuple(steps)
        if walk.chain is None:
            chains.append([mention])
        else:
            next(chain for chain in chains if chain[0].id == walk.chain).append(mention)
    return Linked(tuple(map(tuple, chains)), None, taken)


def _candidates(mention: Marked, chains: Sequence[Sequence[Marked]]) -> dict[str, Marked]:
    """The mention to ask against, by the name of each chain that may hold this one; the likeliest chain first."""
    found = []
    for chain in chains:
        fitting = [other for other in chain if set(other.types) & set(mention.types)]
        if fitting and all(other.caption != mention.caption for other in chain):
            found.append((mention.head not in {other.head for other in chain}, chain[0].id, fitting[0]))
    return {chain: shown for _, chain, shown in sorted(found, key=lambda each: each[0])}
