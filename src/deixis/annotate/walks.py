"""The words of the workflow: tasks, answers, votes, and how far a mention or a chain has come."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
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
class Proposed:
    """What a model proposed: which model, and how likely it is right."""

    model: str
    probability: float


@dataclass(frozen=True, slots=True)
class DrawnBox:
    """A box that a worker drew, or that a model proposed; its id never changes."""

    id: str
    xyxy: XYXY
    worker: str
    proposed: Proposed | None = None


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
    proposed_by, proposed_links
        For a chain: the model that put mentions into it that nobody has looked at, and how many.
    proposed_boxes, set_aside
        Boxes of a model that nobody has judged yet, and the one that was just found bad: a start for whoever draws.
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
    proposed_by: str = ""
    proposed_links: int = 0
    proposed_boxes: tuple[DrawnBox, ...] = ()
    set_aside: DrawnBox | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more is to be done."""
        return self.at in (Stop.COMPLETE, Stop.NOT_VISUAL)

    @property
    def is_scene(self) -> bool:
        """Whether those who wanted no box called it a scene or a place; the earlier answer where they are tied."""
        kinds = Counter(vote.answer for vote in self.wanted if vote.answer is not Answer.BOX)
        return bool(kinds) and max(kinds, key=lambda kind: kinds[kind]) is Answer.SCENE
