"""Coreference links (§2.1): which mention is asked against which chain, and the chains that come of it.

Mentions are placed one after the other, each asked against one mention of each chain that may hold it: at most |M|·|C|
questions, not |M|². Never asked: a chain that holds a mention of the same caption, and mentions with no type in common.
The likeliest chain, one with the same head noun, comes first, and the first "yes" ends the asking. Mentions whose types
are not connected with each other at all cannot meet, so each such group goes its own way at the same time.

Where a model has proposed links, the chain that it finds likeliest comes first, and where it is sure, nobody is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from deixis.annotate.events import Judged
from deixis.annotate.help.proposals import LinkHelp
from deixis.annotate.material import Marked
from deixis.annotate.questions import subject
from deixis.annotate.walks import Answer, Rules, Said, Stop, Task, Walk
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

    def linked_by(self, event: int, chain: Iterable[Marked], until: int | None = None) -> int:
        """How many mentions of a chain a model put there, by the event of its proposals; `until` a later event.

        Those that people have put there since were the model's at that time.
        """
        joined = [self.taken[mention.id][-1] for mention in chain if self.taken[mention.id]]
        return sum(
            Answer.YES in edge.answers and (number == event or (until is not None and number > until))
            for number, edge in joined
        )


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


def link(mentions: Sequence[Marked], answer_to: AnswerTo, rules: Rules, help_: LinkHelp | None = None) -> Linked:
    """Place the mentions of one group, as far as answers reach, those of people before those of a model."""
    chains: list[list[Marked]] = []
    taken: dict[str, tuple[Taken, ...]] = {}
    for mention in mentions:
        shown = _candidates(mention, chains, help_)
        walk = begin(Walk(Stop.NEW, chains_left=tuple(shown)), rules)
        steps: list[Taken] = []
        while walk.at is Task.LINK:
            name = walk.chains_left[0]
            pair = (shown[name].id, mention.id)
            said = answer_to(pair)
            if said is None and help_ is not None:
                said = help_.answer(mention, _named(name, chains), subject(pair))
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
            _named(walk.chain, chains).append(mention)
    return Linked(tuple(map(tuple, chains)), None, taken)


def _named(name: str, chains: Sequence[list[Marked]]) -> list[Marked]:
    """The chain whose first mention has this id."""
    return next(chain for chain in chains if chain[0].id == name)


def _candidates(
    mention: Marked, chains: Sequence[Sequence[Marked]], help_: LinkHelp | None = None
) -> dict[str, Marked]:
    """The mention to ask against, by the name of each chain that may hold this one; the likeliest chain first."""
    found = []
    for chain in chains:
        fitting = [other for other in chain if set(other.types) & set(mention.types)]
        if fitting and all(other.caption != mention.caption for other in chain):
            likely = help_.probability(mention, chain) if help_ else None
            other_head = mention.head not in {other.head for other in chain}
            found.append(((-likely if likely is not None else 0.0, other_head), chain[0].id, fitting[0]))
    return {chain: shown for _, chain, shown in sorted(found, key=lambda each: each[0])}
