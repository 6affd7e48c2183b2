"""The six tasks as one table, to be read beside §2.1 and §2.2 of the Flickr30k Entities paper.

A mention walks through the coreference task until it is in a chain; the chain then walks through verification and the
four box tasks until it is complete or not visual. `WORKFLOW` holds every step: in this place, after this answer, do
that; the first row whose condition then holds says where to go. Nothing here reads a clock, a file or a database.

Both votes of the paper follow one rule. The answer that leads to Drawing acts as soon as it is ahead, so at once when
it is the first. The answer that ends the work needs two who gave it, and to be ahead. On a tie one more is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

XYXY = tuple[float, float, float, float]


class Task(StrEnum):
    """What people are asked to do, in the order of the paper."""

    LINK = "link"
    VERIFY = "verify"
    REQUIREMENT = "requirement"
    DRAWING = "drawing"
    QUALITY = "quality"
    COVERAGE = "coverage"


class Stop(StrEnum):
    """Places where nobody is asked: on the way, at the end, or waiting for a reviewer."""

    NEW = "new mention"
    PLACED = "in a chain"
    CHAIN = "whole chain"
    READY = "ready for boxes"
    COMPLETE = "complete"
    NOT_VISUAL = "not visual"
    REVIEW = "review"


Place = Task | Stop


class Answer(StrEnum):
    """All that can be answered; `answers_to` says which answers a task takes."""

    YES = "yes"
    NO = "no"
    BOX = "box"
    SCENE = "scene"
    NO_BOX = "no box"
    DRAWN = "drawn"
    NO_MORE = "no more"
    GOOD = "good"
    BAD = "bad"
    ALL = "all"
    MORE = "more"


DRAWN_AT_ONCE = frozenset({"people", "clothing", "bodyparts"})
"""Types that need boxes so often that their chains skip the Requirement task."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The numbers in the rules of the table.

    Attributes
    ----------
    to_end
        How many must say the same before a chain ends without a box, or with those it has. The paper's two; one for a
        person who works alone.
    votes_to_review
        A vote that is still open with this many voices goes to the reviewers: the chain is cycling.
    bad_boxes_to_review
        So does a chain for which this many boxes in a row were bad.
    flags_to_hold
        So many workers must call a phrase bad before it is held back until a reviewer has looked at it.
    """

    to_end: int = 2
    votes_to_review: int = 5
    bad_boxes_to_review: int = 5
    flags_to_hold: int = 2


@dataclass(frozen=True, slots=True)
class DrawnBox:
    """A box that a worker drew; its id never changes."""

    id: str
    xyxy: XYXY
    worker: str


@dataclass(frozen=True, slots=True)
class Said:
    """One judgement, as the table sees it."""

    answer: Answer
    worker: str
    box: DrawnBox | None = None


@dataclass(frozen=True, slots=True)
class Vote:
    """Who said what in a vote."""

    worker: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class Walk:
    """Where a mention, or later its chain, is on its way, and what was said on the way.

    Attributes
    ----------
    at
        The place.
    chains_left
        For a mention: the chains that it was not asked against yet, the next one first.
    chain
        For a mention: the chain that it joined; None where it starts one.
    mentions, drawn_at_once
        For a chain: how many mentions it has, and whether one of them has a type of `DRAWN_AT_ONCE`.
    split
        Whether a worker said that the chain is not one thing.
    wanted, covered
        The votes: is a box wanted at all? Are all drawn, as the boxes are now?
    boxes, new_box
        The boxes that passed Quality, and the one that waits for it.
    bad_boxes
        Boxes found bad since the last good one.
    """

    at: Place
    chains_left: tuple[str, ...] = ()
    chain: str | None = None
    mentions: int = 1
    drawn_at_once: bool = False
    split: bool = False
    wanted: tuple[Vote, ...] = ()
    covered: tuple[Vote, ...] = ()
    boxes: tuple[DrawnBox, ...] = ()
    new_box: DrawnBox | None = None
    bad_boxes: int = 0

    @property
    def ended(self) -> bool:
        """Whether nothing more is to be done."""
        return self.at in (Stop.COMPLETE, Stop.NOT_VISUAL)

    @property
    def is_scene(self) -> bool:
        """Whether those who wanted no box called it a scene or a place; the earlier answer where they are tied."""
        kinds = Counter(vote.answer for vote in self.wanted if vote.answer is not Answer.BOX)
        return bool(kinds) and max(kinds, key=lambda kind: kinds[kind]) is Answer.SCENE


# What a step does.


def nothing(walk: Walk, said: Said) -> Walk:
    """Nothing but the step itself."""
    return walk


def join_the_chain(walk: Walk, said: Said) -> Walk:
    """The mention names the same as the chain it was asked against."""
    return replace(walk, chain=walk.chains_left[0], chains_left=())


def pass_the_chain_by(walk: Walk, said: Said) -> Walk:
    """It does not; the chain is not asked about again."""
    return replace(walk, chains_left=walk.chains_left[1:])


def start_a_chain(walk: Walk, said: Said) -> Walk:
    """It names something that no chain names yet."""
    return replace(walk, chains_left=())


def split_by_head_noun(walk: Walk, said: Said) -> Walk:
    """Each part with the same last word walks on as a chain of its own, and is not verified again."""
    return replace(walk, split=True)


def vote_on_requirement(walk: Walk, said: Said) -> Walk:
    """Whoever was to draw the first box and says "no more" votes for no box."""
    answer = Answer.NO_BOX if said.answer is Answer.NO_MORE else said.answer
    return replace(walk, wanted=(*walk.wanted, Vote(said.worker, answer)))


def vote_on_coverage(walk: Walk, said: Said) -> Walk:
    """Whoever was to draw a further box and says "no more" votes that all are drawn."""
    answer = Answer.ALL if said.answer is Answer.NO_MORE else said.answer
    return replace(walk, covered=(*walk.covered, Vote(said.worker, answer)))


def show_the_new_box(walk: Walk, said: Said) -> Walk:
    """One new box, beside those that are there."""
    return replace(walk, new_box=said.box)


def keep_the_box(walk: Walk, said: Said) -> Walk:
    """The boxes are others now, so the vote on coverage begins anew."""
    assert walk.new_box is not None  # noqa: S101 - only Quality leads here
    return replace(walk, boxes=(*walk.boxes, walk.new_box), new_box=None, covered=(), bad_boxes=0)


def discard_the_box(walk: Walk, said: Said) -> Walk:
    """The other boxes, and the votes about them, stay."""
    return replace(walk, new_box=None, bad_boxes=walk.bad_boxes + 1)


def begin_votes_anew(walk: Walk, said: Said) -> Walk:
    """A reviewer has decided that there is something to draw."""
    return replace(walk, wanted=(), covered=(), new_box=None, bad_boxes=0)


def take_the_boxes_away(walk: Walk, said: Said) -> Walk:
    """A reviewer has decided that there is nothing to draw."""
    return replace(walk, wanted=(Vote(said.worker, said.answer),), boxes=(), new_box=None)


# When a step is taken; asked after it was done.


def always(walk: Walk, rules: Rules) -> bool:
    """In every other case."""
    return True


def a_chain_is_left(walk: Walk, rules: Rules) -> bool:
    """There is a chain that the mention may belong to and was not asked against."""
    return bool(walk.chains_left)


def it_has_several_mentions(walk: Walk, rules: Rules) -> bool:
    """Links could be wrong only where there are links."""
    return walk.mentions > 1


def its_type_needs_boxes(walk: Walk, rules: Rules) -> bool:
    """It holds a mention of people, clothing or body parts."""
    return walk.drawn_at_once


def a_box_is_wanted(walk: Walk, rules: Rules) -> bool:
    """More say that a box can be drawn than do not."""
    return 2 * _count(walk.wanted, Answer.BOX) > len(walk.wanted)


def no_box_is_wanted(walk: Walk, rules: Rules) -> bool:
    """More say scene or no box, and two of them the same; after a third judgement the majority is enough."""
    kinds = Counter(vote.answer for vote in walk.wanted if vote.answer is not Answer.BOX)
    agreed = max(kinds.values(), default=0) >= rules.to_end or len(walk.wanted) > rules.to_end
    return 2 * kinds.total() > len(walk.wanted) and agreed


def requirement_cycles(walk: Walk, rules: Rules) -> bool:
    """Many voices, and still no end."""
    return len(walk.wanted) >= rules.votes_to_review


def there_are_boxes(walk: Walk, rules: Rules) -> bool:
    """At least one box passed Quality."""
    return bool(walk.boxes)


def all_are_drawn(walk: Walk, rules: Rules) -> bool:
    """Two say that all boxes are drawn, and they are the majority."""
    said_all = _count(walk.covered, Answer.ALL)
    return said_all >= rules.to_end and 2 * said_all > len(walk.covered)


def more_are_needed(walk: Walk, rules: Rules) -> bool:
    """More say that boxes are missing than do not."""
    return 2 * _count(walk.covered, Answer.MORE) > len(walk.covered)


def coverage_cycles(walk: Walk, rules: Rules) -> bool:
    """Many voices on the same boxes, and still no end."""
    return len(walk.covered) >= rules.votes_to_review


def boxes_keep_failing(walk: Walk, rules: Rules) -> bool:
    """One box after the other was bad."""
    return walk.bad_boxes >= rules.bad_boxes_to_review


def _count(votes: tuple[Vote, ...], answer: Answer) -> int:
    return sum(vote.answer is answer for vote in votes)


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
    Edge(Task.VERIFY,      (Answer.NO,),       split_by_head_noun,  always,                  Stop.READY),
    # §2.2 Box Requirement: "can a box be drawn, is it a scene or place, or can no box be drawn?"
    Edge(Stop.READY,       (),                 nothing,             its_type_needs_boxes,    Task.DRAWING),
    Edge(Stop.READY,       (),                 nothing,             always,                  Task.REQUIREMENT),
    Edge(Task.REQUIREMENT, _ANY_NEED,          vote_on_requirement, no_box_is_wanted,        Stop.NOT_VISUAL),
    Edge(Task.REQUIREMENT, _ANY_NEED,          vote_on_requirement, requirement_cycles,      Stop.REVIEW),
    Edge(Task.REQUIREMENT, _ANY_NEED,          vote_on_requirement, a_box_is_wanted,         Task.DRAWING),
    Edge(Task.REQUIREMENT, _ANY_NEED,          vote_on_requirement, always,                  Task.REQUIREMENT),
    # §2.2 Box Drawing: "draw one new box, or say that no (further) box is needed"
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
    edge.at: tuple(other for other in WORKFLOW if other.at is edge.at) for edge in WORKFLOW if not edge.answers
}


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
            return begin(replace(walk, at=edge.to), rules)
    return walk
