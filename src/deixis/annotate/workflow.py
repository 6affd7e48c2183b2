"""The six tasks as one table, to be read beside §2.1 and §2.2 of the Flickr30k Entities paper.

A mention walks through the coreference task until it is in a chain; the chain then walks through verification and the
four box tasks until it is complete or not visual. `WORKFLOW` holds every step: in this place, after this answer, do
that; the first row whose condition then holds says where to go. A row without answers is taken at once. Nothing here
reads a clock, a file or a database.

Both votes of the paper follow one rule. The answer that leads to Drawing acts as soon as it is ahead, so at once when
it is the first. The answer that ends the work needs two who gave it, and to be ahead. On a tie one more is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from deixis.annotate.steps import (
    a_box_is_proposed,
    a_box_is_wanted,
    a_chain_is_left,
    all_are_drawn,
    always,
    begin_votes_anew,
    boxes_keep_failing,
    coverage_cycles,
    discard_the_box,
    it_has_several_mentions,
    its_type_needs_boxes,
    join_the_chain,
    keep_the_box,
    links_were_proposed,
    more_are_needed,
    no_box_is_wanted,
    nothing,
    pass_the_chain_by,
    requirement_cycles,
    show_the_new_box,
    show_the_proposed_box,
    split_by_head_noun,
    start_a_chain,
    take_the_boxes_away,
    take_the_proposals_back,
    there_are_boxes,
    vote_on_coverage,
    vote_on_requirement,
)
from deixis.annotate.walks import Answer, Place, Rules, Said, Stop, Task, Walk


@dataclass(frozen=True, slots=True)
class Edge:
    """One row of the table: where, which answers, what is done, on which condition, and where to."""

    at: Place
    answers: tuple[Answer, ...]
    does: Callable[[Walk, Said], Walk]
    when: Callable[[Walk, Rules], bool]
    to: Place

    @property
    def deed(self) -> str:
        """What is done, in words."""
        return self.does.__name__.replace("_", " ")

    @property
    def condition(self) -> str:
        """On which condition, in words."""
        return self.when.__name__.replace("_", " ")


_ANY_NEED = (Answer.BOX, Answer.SCENE, Answer.NO_BOX)
_ANY_COVERAGE = (Answer.ALL, Answer.MORE)

# fmt: off
WORKFLOW: tuple[Edge, ...] = (
    # §2.1 Binary Coreference Link Annotation: "do these two mentions, of two captions, name the same?"
    Edge(Stop.NEW,         (),                 nothing,             a_chain_is_left,         Task.LINK),
    Edge(Stop.NEW,         (),                 start_a_chain,       always,                  Stop.PLACED),
    Edge(Task.LINK,        (Answer.YES,),      join_the_chain,      always,                  Stop.PLACED),
    Edge(Task.LINK,        (Answer.NO,),       pass_the_chain_by,   a_chain_is_left,         Task.LINK),
    Edge(Task.LINK,        (Answer.NO,),       start_a_chain,       always,                  Stop.PLACED),
    # §2.1 Coreference Chain Verification, once no mention is left that may join: "do all these mentions name the same?"
    Edge(Stop.CHAIN,       (),                 nothing,             it_has_several_mentions, Task.VERIFY),
    Edge(Stop.CHAIN,       (),                 nothing,             always,                  Stop.READY),
    Edge(Task.VERIFY,      (Answer.YES,),      nothing,             always,                  Stop.READY),
    Edge(Task.VERIFY,      (Answer.NO,),       take_the_proposals_back, links_were_proposed, Task.LINK),
    Edge(Task.VERIFY,      (Answer.NO,),       split_by_head_noun,  always,                  Stop.READY),
    # §2.2 Box Requirement: "can a box be drawn, is it a scene or place, or can no box be drawn?"
    Edge(Stop.READY,       (),                 nothing,             its_type_needs_boxes,    Task.DRAWING),
    Edge(Stop.READY,       (),                 nothing,             always,                  Task.REQUIREMENT),
    Edge(Task.REQUIREMENT, _ANY_NEED,          vote_on_requirement, no_box_is_wanted,        Stop.NOT_VISUAL),
    Edge(Task.REQUIREMENT, _ANY_NEED,          vote_on_requirement, requirement_cycles,      Stop.REVIEW),
    Edge(Task.REQUIREMENT, _ANY_NEED,          vote_on_requirement, a_box_is_wanted,         Task.DRAWING),
    Edge(Task.REQUIREMENT, _ANY_NEED,          vote_on_requirement, always,                  Task.REQUIREMENT),
    # §2.2 Box Drawing: "draw one new box, or say that no (further) box is needed"
    Edge(Task.DRAWING,     (),                 show_the_proposed_box, a_box_is_proposed,     Task.QUALITY),
    Edge(Task.DRAWING,     (Answer.DRAWN,),    show_the_new_box,    always,                  Task.QUALITY),
    Edge(Task.DRAWING,     (Answer.NO_MORE,),  vote_on_coverage,    there_are_boxes,         Task.COVERAGE),
    Edge(Task.DRAWING,     (Answer.NO_MORE,),  vote_on_requirement, always,                  Task.REQUIREMENT),
    # §2.2 Box Quality: "is the highlighted box good?"
    Edge(Task.QUALITY,     (Answer.GOOD,),     keep_the_box,        always,                  Task.COVERAGE),
    Edge(Task.QUALITY,     (Answer.BAD,),      discard_the_box,     boxes_keep_failing,      Stop.REVIEW),
    Edge(Task.QUALITY,     (Answer.BAD,),      discard_the_box,     always,                  Task.DRAWING),
    # §2.2 Box Coverage: "are all boxes drawn?"
    Edge(Task.COVERAGE,    _ANY_COVERAGE,      vote_on_coverage,    all_are_drawn,           Stop.COMPLETE),
    Edge(Task.COVERAGE,    _ANY_COVERAGE,      vote_on_coverage,    coverage_cycles,         Stop.REVIEW),
    Edge(Task.COVERAGE,    _ANY_COVERAGE,      vote_on_coverage,    more_are_needed,         Task.DRAWING),
    Edge(Task.COVERAGE,    _ANY_COVERAGE,      vote_on_coverage,    always,                  Task.COVERAGE),
    # §2.3 Additional Review: a reviewer's word counts alone
    Edge(Stop.REVIEW,      (Answer.ALL,),      nothing,             there_are_boxes,         Stop.COMPLETE),
    Edge(Stop.REVIEW,      (Answer.BOX, Answer.MORE),     begin_votes_anew,    always,       Task.DRAWING),
    Edge(Stop.REVIEW,      (Answer.SCENE, Answer.NO_BOX), take_the_boxes_away, always,       Stop.NOT_VISUAL),
)
# fmt: on


# The same rows, found quickly.
_AFTER_ANSWER: dict[tuple[Place, Answer], tuple[Edge, ...]] = {
    (edge.at, answer): tuple(other for other in WORKFLOW if other.at is edge.at and answer in other.answers)
    for edge in WORKFLOW
    for answer in edge.answers
}
_AT_ONCE: dict[Place, tuple[Edge, ...]] = {
    edge.at: tuple(other for other in WORKFLOW if other.at is edge.at and not other.answers)
    for edge in WORKFLOW
    if not edge.answers
}
_NOBODY = Said(Answer.YES, "")
"""For steps that look at no answer."""


def answers_to(place: Place) -> tuple[Answer, ...]:
    """The answers that a task, or a reviewer, may give.

    Examples
    --------
    >>> [answer.value for answer in answers_to(Task.QUALITY)]
    ['good', 'bad']
    """
    return tuple(dict.fromkeys(answer for edge in WORKFLOW if edge.at is place for answer in edge.answers))


def step(walk: Walk, said: Said, rules: Rules) -> tuple[Walk, Edge | None]:
    """Take the step that an answer leads to, and those after it that need none.

    Returns
    -------
    tuple of Walk and Edge
        Where it is now, and the row of the table; the walk as it was, and None, where no row fits the answer.

    Examples
    --------
    >>> walk, _ = step(Walk(Task.REQUIREMENT), Said(Answer.BOX, "ann"), Rules())
    >>> walk.at.value
    'drawing'
    >>> walk, edge = step(walk, Said(Answer.NO_MORE, "bob"), Rules())
    >>> walk.at.value, edge.deed
    ('requirement', 'vote on requirement')
    """
    for edge in _AFTER_ANSWER.get((walk.at, said.answer), ()):
        after = edge.does(walk, said)
        if edge.when(after, rules):
            return begin(replace(after, at=edge.to), rules), edge
    return walk, None


def begin(walk: Walk, rules: Rules) -> Walk:
    """Take the steps that need no answer.

    Examples
    --------
    >>> begin(Walk(Stop.READY, drawn_at_once=True), Rules()).at.value
    'drawing'
    """
    for edge in _AT_ONCE.get(walk.at, ()):
        if edge.when(walk, rules):
            return begin(replace(edge.does(walk, _NOBODY), at=edge.to), rules)
    return walk
