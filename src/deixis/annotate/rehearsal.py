"""A simulated crowd that annotates photos whose truth is known: a rehearsal of a project, and a test of the workflow.

Each worker sees what a person would see, looks up the truth, and errs as often as its kind does. Time is simulated too.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deixis import geometry
from deixis.annotate.assigning import Given, next_question
from deixis.annotate.material import place_of
from deixis.annotate.people import Role, invite
from deixis.annotate.project import Project
from deixis.annotate.recording import record
from deixis.annotate.reviewing import requeue_suspended, review_queue, rule
from deixis.annotate.walks import XYXY, Answer, Task
from deixis.annotate.workflow import answers_to
from deixis.data.records import Photo

SAME_THING_IOU = 0.5
"""Two boxes that overlap so far show the same thing."""

GOOD_IOU = 0.6
"""From here on an honest worker calls a box good."""

_SECONDS = {
    Task.LINK: 6.0,
    Task.VERIFY: 9.0,
    Task.REQUIREMENT: 5.0,
    Task.DRAWING: 14.0,
    Task.QUALITY: 5.0,
    Task.COVERAGE: 7.0,
}

_ACCEPTED = {Answer.NO: Answer.YES, Answer.BAD: Answer.GOOD}
"""What somebody says who accepts a wrong proposal."""

_REQUEUED_EVERY = 20


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind of worker errs.

    Attributes
    ----------
    name
        For people.
    errs
        How often a yes-or-no answer, or "no more", is wrong.
    shake
        How far each side of a box is off, as a share of the box.
    blind
        Answers by chance, without looking.
    turns
        After so many answers it errs as often as `errs_later` says; before, it is as good as it looks.
    swayed
        How often it accepts what a model proposed although it sees that it is wrong.
    """

    name: str
    errs: float
    shake: float
    blind: bool = False
    turns: int | None = None
    errs_later: float = 0.0
    swayed: float = 0.0


HONEST = Kind("honest", errs=0.04, shake=0.03, swayed=0.05)
CARELESS = Kind("careless", errs=0.18, shake=0.09, swayed=0.2)
SPAMMER = Kind("spammer", errs=0.5, shake=0.0, blind=True)
ADVERSARY = Kind("adversary", errs=0.02, shake=0.03, turns=250, errs_later=0.7)
KINDS = (HONEST, CARELESS, SPAMMER, ADVERSARY)


@dataclass(frozen=True)
class Truth:
    """What is true of a photo, for mentions that need not be those of the gold.

    Examples
    --------
    >>> from deixis.data.records import Box, Caption, Chain, Mention
    >>> caption = Caption.from_text("A big dog.", (Mention(0, 9, "1", ("animals",)),))
    >>> truth = Truth(Photo("7", (caption,), (Chain("1"),), (Box((0, 0, 5, 5), ("1",)),)))
    >>> truth.chain_of("0:2-9"), truth.boxes_of("0:2-9"), truth.chain_of("0:9-10")
    ('1', ((0, 0, 5, 5),), None)
    """

    photo: Photo

    def chain_of(self, mention: str) -> str | None:
        """The gold chain whose mention shares most characters with this one; None where none does."""
        caption, start, end = place_of(mention)
        best, most = None, 0
        for gold in self.photo.sentences[caption].mentions:
            shared = min(end, gold.end) - max(start, gold.start)
            if shared > most:
                best, most = gold.chain, shared
        return best

    def boxes_of(self, mention: str) -> tuple[XYXY, ...]:
        """The boxes of that chain."""
        chain = self.chain_of(mention)
        return tuple(box.xyxy for box in self.photo.boxes_of(chain)) if chain is not None else ()

    def is_scene(self, mention: str) -> bool:
        """Whether that chain is a scene or a place."""
        chain = self.chain_of(mention)
        return any(each.id == chain and each.scene for each in self.photo.chains)

    def missing(self, mention: str, boxes: Sequence[XYXY]) -> tuple[XYXY, ...]:
        """The gold boxes that none of these shows."""
        gold = self.boxes_of(mention)
        if not gold or not boxes:
            return gold
        closest = geometry.iou(gold, boxes).max(axis=1).tolist()
        return tuple(box for box, iou in zip(gold, closest, strict=True) if iou < SAME_THING_IOU)

    def answer(self, asked: Mapping[str, Any]) -> Answer:
        """The right answer to a question, as `deixis.annotate.questions.Question.as_json` shows it."""
        task, mentions, boxes = Task(asked["task"]), asked["mentions"], asked["boxes"]
        chains = {self.chain_of(mention) for mention in mentions}
        if task in (Task.LINK, Task.VERIFY):
            return Answer.YES if len(chains) == 1 and None not in chains else Answer.NO
        shown = mentions[0]
        if task is Task.REQUIREMENT:
            return Answer.BOX if self.boxes_of(shown) else Answer.SCENE if self.is_scene(shown) else Answer.NO_BOX
        left = self.missing(shown, boxes)
        if task is Task.DRAWING:
            return Answer.DRAWN if left else Answer.NO_MORE
        if task is Task.COVERAGE:
            return Answer.MORE if left else Answer.ALL
        fits = bool(left) and float(np.max(geometry.iou([asked["new_box"]], left))) >= GOOD_IOU
        return Answer.GOOD if fits else Answer.BAD


@dataclass
class Simulated:
    """A worker of some kind at work."""

    id: str
    kind: Kind
    chance: random.Random
    answered: int = 0

    def answer(self, given: Given, truth: Truth) -> tuple[Answer, XYXY | None]:
        """What this worker says."""
        self.answered += 1
        if self.kind.blind:
            said = self.chance.choice(answers_to(given.task))
        else:
            turned = self.kind.turns is not None and self.answered > self.kind.turns
            errs = self.chance.random() < (self.kind.errs_later if turned else self.kind.errs)
            said = truth.answer(given.asked)
            if given.asked.get("proposal") and said in _ACCEPTED and self.chance.random() < self.kind.swayed:
                said = _ACCEPTED[said]
            said = self._wrong(given.task, said) if errs else said
        return said, self._box(given, truth) if said is Answer.DRAWN else None

    def _wrong(self, task: Task, right: Answer) -> Answer:
        return self.chance.choice([answer for answer in answers_to(task) if answer is not right])

    def _box(self, given: Given, truth: Truth) -> XYXY:
        width, height = truth.photo.width or 1, truth.photo.height or 1
        wanted = truth.missing(given.asked["mentions"][0], given.asked["boxes"])
        if self.kind.blind or not wanted:
            x1, x2 = sorted(self.chance.uniform(0, width) for _ in range(2))
            y1, y2 = sorted(self.chance.uniform(0, height) for _ in range(2))
        else:
            x1, y1, x2, y2 = self.chance.choice(wanted)
            wide, high = x2 - x1, y2 - y1
            x1, x2 = (side + self.chance.gauss(0, self.kind.shake) * wide for side in (x1, x2))
            y1, y2 = (side + self.chance.gauss(0, self.kind.shake) * high for side in (y1, y2))
        return _inside((x1, y1, x2, y2), width, height)


def _inside(box: XYXY, width: float, height: float) -> XYXY:
    """The box cut at the border of the photo, and at least two pixels wide and high."""
    x1, y1 = min(max(box[0], 0.0), width - 2), min(max(box[1], 0.0), height - 2)
    return x1, y1, min(max(box[2], x1 + 2), width), min(max(box[3], y1 + 2), height)


@dataclass
class Rehearsal:
    """What happened.

    Attributes
    ----------
    workers
        Everybody who worked, by id.
    asked
        Judgements by task, those with known answers apart.
    seconds
        Of simulated time.
    reviewed
        Decisions that the reviewer took.
    """

    workers: dict[str, Simulated]
    asked: dict[Task, int] = field(default_factory=lambda: dict.fromkeys(Task, 0))
    checked: dict[Task, int] = field(default_factory=lambda: dict.fromkeys(Task, 0))
    seconds: float = 0.0
    reviewed: int = 0


def rehearse(
    project: Project,
    truths: Mapping[str, Truth],
    crowd: Mapping[Kind, int],
    *,
    seed: int = 0,
    known_photos: frozenset[str] = frozenset(),
) -> Rehearsal:
    """Let a simulated crowd work until nothing is left to do.

    Parameters
    ----------
    project
        With photos; its clock is set to simulated time.
    truths
        For every photo, also those of known questions.
    crowd
        How many workers of each kind.
    seed
        Of all chance.
    known_photos
        Those of known questions, to count their judgements apart.
    """
    dice = random.Random(seed)  # noqa: S311 - no secret
    project.chance = random.Random(seed + 1)  # noqa: S311
    now = 0.0
    project.clock = lambda: now
    done = Rehearsal({})
    for kind, count in crowd.items():
        for number in range(count):
            worker, _ = invite(project, f"{kind.name} {number}", vouched=True)
            done.workers[worker] = Simulated(worker, kind, random.Random(dice.random()))  # noqa: S311
    reviewer, _ = invite(project, "reviewer", role=Role.REVIEWER)
    turns = [(dice.uniform(0, 10), worker) for worker in done.workers]
    heapq.heapify(turns)
    idle = answered = 0
    while turns:
        now, worker = heapq.heappop(turns)
        given = next_question(project, worker)
        if given is None:
            idle += 1
            if idle > len(turns) + 1:  # nobody has anything to do
                requeue_suspended(project)
                if not _review(project, reviewer, truths, done) and idle > 3 * (len(turns) + 1):
                    break
            heapq.heappush(turns, (now + 30, worker))
            continue
        idle = 0
        mind = done.workers[worker]
        said, box = mind.answer(given, truths[given.photo])
        took = _SECONDS[given.task] * dice.lognormvariate(0, 0.4)
        now += took
        record(project, worker, given.token, said.value, box=box, seconds=took)
        (done.checked if given.photo in known_photos else done.asked)[given.task] += 1
        answered += 1
        if answered % _REQUEUED_EVERY == 0:
            requeue_suspended(project)
        heapq.heappush(turns, (now, worker))
    done.seconds = now
    return done


def _review(project: Project, reviewer: str, truths: Mapping[str, Truth], done: Rehearsal) -> bool:
    """A reviewer decides what holds work up; whether there was anything."""
    decided = False
    for item in review_queue(project):
        if item.holds_up:
            truth = truths[item.photo]
            wanted = truth.boxes_of(item.mention)
            answer = Answer.BOX if wanted else Answer.SCENE if truth.is_scene(item.mention) else Answer.NO_BOX
            rule(project, reviewer, item.photo, item.mention, answer.value)
            done.reviewed += 1
            decided = True
    return decided
