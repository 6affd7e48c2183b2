"""A simulated crowd that annotates photos with known truth, to plan a project and to test the workflow.

Each worker gets the questions of a person, looks up the truth, and errs at the rate of its kind. Time is simulated.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sqlalchemy import select

from deixis import geometry
from deixis.annotate.judgements import record_answer
from deixis.annotate.material import parse_mention_id
from deixis.annotate.people import Role, accept_invitation, invite
from deixis.annotate.project import Project, requeue_suspended
from deixis.annotate.quality import read_able_workers
from deixis.annotate.queue import LeasedQuestion, Stay, next_question
from deixis.annotate.review import blocked_questions, decide, review_queue
from deixis.annotate.store import barred, leases, questions
from deixis.annotate.workflow import ANSWERS_WITH_BOX, XYXY, Answer, Task, allowed_answers
from deixis.data.records import Photo

SAME_THING_IOU = 0.5
"""Minimum IoU of two boxes of the same object."""

GOOD_IOU = 0.6
"""Minimum IoU of a box that an honest worker calls good."""

ADJUSTABLE_IOU = 0.3
"""Minimum IoU of a box that a worker adjusts instead of calling it bad."""

_SECONDS = {
    Task.LINK: 6.0,
    Task.VERIFY: 9.0,
    Task.REQUIREMENT: 5.0,
    Task.DRAWING: 14.0,
    Task.QUALITY: 5.0,
    Task.COVERAGE: 7.0,
    Task.GROUP: 8.0,
    Task.PAIR: 4.0,
    Task.OWN: 5.0,
}
_SECONDS_PER_MENTION = 2.5
"""In addition, of a question that sorts mentions into groups."""


_ACCEPTED = {Answer.NO: Answer.YES, Answer.BAD: Answer.GOOD}
"""The answers that accept a wrong proposal."""

_REQUEUE_INTERVAL = 20
_IDLE_S = 1800.0
"""Seconds after which people look again if there has been nothing to do for a while."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Error model of a kind of worker.

    Attributes
    ----------
    name
        Name of the kind.
    error_rate
        Rate of wrong answers.
    box_noise
        Standard deviation of each side of a box, relative to its size.
    random
        Answers at random.
    changes_after, later_error_rate
        After this many answers the error rate changes to `later_error_rate`.
    suggestibility
        Rate of accepting a proposal of a model that is visibly wrong.
    box_answers
        Adjusts boxes that nearly fit, and calls accepted boxes wrong.
    leaves_after, away_s
        Leaves after this many answers, as soon as it holds a question that is no test, and comes back after `away_s`
        seconds; None: never.
    """

    name: str
    error_rate: float
    box_noise: float
    random: bool = False
    changes_after: int | None = None
    later_error_rate: float = 0.0
    suggestibility: float = 0.0
    box_answers: bool = False
    leaves_after: int | None = None
    away_s: float | None = None


HONEST = Kind("honest", error_rate=0.04, box_noise=0.03, suggestibility=0.05)
CARELESS = Kind("careless", error_rate=0.18, box_noise=0.09, suggestibility=0.2)
SPAMMER = Kind("spammer", error_rate=0.5, box_noise=0.0, random=True)
ADVERSARY = Kind("adversary", error_rate=0.02, box_noise=0.03, changes_after=250, later_error_rate=0.7)
LEAVER = replace(HONEST, name="leaver", leaves_after=60)
RETURNER = replace(HONEST, name="returner", leaves_after=40, away_s=6 * 3600.0)
KINDS = (HONEST, CARELESS, SPAMMER, ADVERSARY, LEAVER, RETURNER)

TEAMS = {
    "2": {HONEST: 1, LEAVER: 1},
    "5": {HONEST: 2, CARELESS: 1, LEAVER: 1, RETURNER: 1},
    "50": {HONEST: 38, CARELESS: 4, SPAMMER: 2, LEAVER: 3, RETURNER: 3},
}
"""Teams of the sizes of `deixis.annotate.settings.read_presets`, of which some err, leave and come back."""


@dataclass(frozen=True)
class Truth:
    """The truth about a photo, for mentions that need not be gold mentions.

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
        """Return the gold chain whose mention shares most characters with this one, or None."""
        caption, start, end = parse_mention_id(mention)
        best, most = None, 0
        for gold in self.photo.sentences[caption].mentions:
            shared = min(end, gold.end) - max(start, gold.start)
            if shared > most:
                best, most = gold.chain, shared
        return best

    def boxes_of(self, mention: str) -> tuple[XYXY, ...]:
        """Return the boxes of that chain."""
        chain = self.chain_of(mention)
        return tuple(box.xyxy for box in self.photo.boxes_of(chain)) if chain is not None else ()

    def is_scene(self, mention: str) -> bool:
        """Return whether that chain is a scene."""
        chain = self.chain_of(mention)
        return any(each.id == chain and each.scene for each in self.photo.chains)

    def missing(self, mention: str, boxes: Sequence[XYXY]) -> tuple[XYXY, ...]:
        """Return the gold boxes that none of these boxes matches."""
        gold = self.boxes_of(mention)
        if not gold or not boxes:
            return gold
        closest = geometry.iou(gold, boxes).max(axis=1).tolist()
        return tuple(box for box, iou in zip(gold, closest, strict=True) if iou < SAME_THING_IOU)

    def wrong_box(self, mention: str, boxes: Sequence[XYXY]) -> XYXY | None:
        """Return a box that matches no gold box, if there is one."""
        gold = self.boxes_of(mention)
        if not boxes or not gold:
            return boxes[0] if boxes else None
        closest = geometry.iou(boxes, gold).max(axis=1).tolist()
        return next((box for box, iou in zip(boxes, closest, strict=True) if iou < SAME_THING_IOU), None)

    def groups(self, mentions: Sequence[str]) -> list[list[str]]:
        """Sort mentions into their gold chains; those without one, and second ones of a caption, stay alone."""
        groups: dict[str, list[str]] = {}
        for mention in mentions:
            chain = self.chain_of(mention)
            group = groups.setdefault(chain or mention, [])
            caption = mention.partition(":")[0]
            if any(other.partition(":")[0] == caption for other in group):
                group = groups.setdefault(mention, [])
            group.append(mention)
        return list(groups.values())

    def answer(self, question: Mapping[str, Any], *, box_answers: bool = False) -> Answer:
        """Return the correct answer to a question, as `deixis.annotate.workflow.Question.as_json` shows it.

        With `box_answers`, also "adjusted" and "wrong".
        """
        task, mentions, boxes = Task(question["task"]), question["mentions"], question["boxes"]
        chains = {self.chain_of(mention) for mention in mentions}
        if task is Task.GROUP:
            return Answer.GROUPED
        if task in (Task.LINK, Task.VERIFY):
            return Answer.YES if len(chains) == 1 and None not in chains else Answer.NO
        shown = mentions[0]
        if task is Task.REQUIREMENT:
            return Answer.BOX if self.boxes_of(shown) else Answer.SCENE if self.is_scene(shown) else Answer.NO_BOX
        if task is Task.PAIR:
            gold = self.boxes_of(shown)
            fits = (
                bool(gold)
                and float(geometry.iou([question["new_box"]], [geometry.union(gold)])[0, 0]) >= SAME_THING_IOU
            )
            return Answer.RIGHT if fits else Answer.WRONG
        missing = self.missing(shown, boxes)
        if task is Task.DRAWING:
            return Answer.DRAWN if missing else Answer.NO_MORE
        if task is Task.COVERAGE:
            if box_answers and self.wrong_box(shown, boxes) is not None:
                return Answer.WRONG_BOX
            return Answer.MORE if missing else Answer.ALL
        overlap = float(np.max(geometry.iou([question["new_box"]], missing))) if missing else 0.0
        if overlap >= GOOD_IOU:
            return Answer.GOOD
        return Answer.ADJUSTED if box_answers and overlap >= ADJUSTABLE_IOU else Answer.BAD


@dataclass
class SimulatedWorker:
    """A simulated worker."""

    id: str
    kind: Kind
    rng: random.Random
    answered: int = 0
    has_left: bool = False

    def answer(self, question: LeasedQuestion, truth: Truth) -> tuple[Answer, XYXY | None]:
        """Return the answer of this worker, and the box if it draws one."""
        self.answered += 1
        if question.task is Task.GROUP:
            return Answer.GROUPED, None
        if self.kind.random:
            answer = self.rng.choice(_plain_answers(question.task))
        else:
            changed = self.kind.changes_after is not None and self.answered > self.kind.changes_after
            errs = self.rng.random() < (self.kind.later_error_rate if changed else self.kind.error_rate)
            answer = truth.answer(question.content, box_answers=self.kind.box_answers)
            if (
                question.content.get("proposal")
                and answer in _ACCEPTED
                and self.rng.random() < self.kind.suggestibility
            ):
                answer = _ACCEPTED[answer]
            answer = self._wrong(question.task, answer) if errs else answer
        if answer is Answer.WRONG_BOX:
            return answer, truth.wrong_box(question.content["mentions"][0], question.content["boxes"])
        return answer, self._box(question, truth) if answer in ANSWERS_WITH_BOX else None

    def groups(self, question: LeasedQuestion, truth: Truth) -> list[list[str]]:
        """Sort mentions into groups: each is misplaced at the rate of errors, into another group or alone."""
        mentions = question.content["mentions"]
        groups = [[mention] for mention in mentions] if self.kind.random else truth.groups(mentions)
        changed = self.kind.changes_after is not None and self.answered > self.kind.changes_after
        rate = 0.5 if self.kind.random else self.kind.later_error_rate if changed else self.kind.error_rate
        for mention in mentions:
            if self.rng.random() >= rate:
                continue
            home = next(group for group in groups if mention in group)
            caption = mention.partition(":")[0]
            free = [g for g in groups if g is not home and all(each.partition(":")[0] != caption for each in g)]
            home.remove(mention)
            chosen = self.rng.choice([*free, None])
            if chosen is None:
                groups.append([mention])
            else:
                chosen.append(mention)
            groups = [group for group in groups if group]
        return groups

    def leaves(self) -> bool:
        """Whether the worker leaves now, once."""
        leaves = not self.has_left and self.kind.leaves_after is not None and self.answered >= self.kind.leaves_after
        self.has_left |= leaves
        return leaves

    def _wrong(self, task: Task, correct: Answer) -> Answer:
        return self.rng.choice([answer for answer in _plain_answers(task) if answer is not correct])

    def _box(self, question: LeasedQuestion, truth: Truth) -> XYXY:
        width, height = truth.photo.width or 1, truth.photo.height or 1
        missing = truth.missing(question.content["mentions"][0], question.content["boxes"])
        if self.kind.random or not missing:
            x1, x2 = sorted(self.rng.uniform(0, width) for _ in range(2))
            y1, y2 = sorted(self.rng.uniform(0, height) for _ in range(2))
        else:
            shown = question.content["new_box"]  # to adjust
            nearest = int(geometry.iou([shown], missing).argmax()) if shown else self.rng.randrange(len(missing))
            x1, y1, x2, y2 = missing[nearest]
            wide, high = x2 - x1, y2 - y1
            x1, x2 = (side + self.rng.gauss(0, self.kind.box_noise) * wide for side in (x1, x2))
            y1, y2 = (side + self.rng.gauss(0, self.kind.box_noise) * high for side in (y1, y2))
        return _inside((x1, y1, x2, y2), width, height)


def _plain_answers(task: Task) -> list[Answer]:
    return [answer for answer in allowed_answers(task) if answer is Answer.DRAWN or answer not in ANSWERS_WITH_BOX]


def _inside(box: XYXY, width: float, height: float) -> XYXY:
    """Clip a box to the photo, with a minimum size of two pixels."""
    x1, y1 = min(max(box[0], 0.0), width - 2), min(max(box[1], 0.0), height - 2)
    return x1, y1, min(max(box[2], x1 + 2), width), min(max(box[3], y1 + 2), height)


@dataclass
class SimulationResult:
    """The result of a simulation.

    Attributes
    ----------
    workers
        Workers by id.
    judged, checked
        Number of judgements by task, without and with known answers.
    seconds
        Simulated time.
    reviewed
        Number of decisions of the reviewer.
    questions, photo_changes, task_changes
        Number of questions without known answers after another one of the same worker, and of those about another
        photo, or of another task.
    longest_wait
        Longest time in seconds for which a question that only absent people held or could answer was neither free nor
        in the review queue. People who left count as absent after `absent_after_h`.
    """

    workers: dict[str, SimulatedWorker]
    judged: dict[Task, int] = field(default_factory=lambda: dict.fromkeys(Task, 0))
    checked: dict[Task, int] = field(default_factory=lambda: dict.fromkeys(Task, 0))
    seconds: float = 0.0
    reviewed: int = 0
    questions: int = 0
    photo_changes: int = 0
    task_changes: int = 0
    longest_wait: float = 0.0
    left: dict[str, float] = field(default_factory=dict)  # when workers left


def simulate_crowd(
    project: Project,
    truths: Mapping[str, Truth],
    crowd: Mapping[Kind, int],
    *,
    seed: int = 0,
    known_photos: frozenset[str] = frozenset(),
    stay: Stay | None = None,
) -> SimulationResult:
    """Let a simulated crowd work until no question is left.

    Parameters
    ----------
    project
        Project with photos; its clock is set to simulated time.
    truths
        The truth of every photo, including those of known questions.
    crowd
        Number of workers of each kind.
    seed
        Random seed.
    known_photos
        Photos of known questions, whose judgements are counted separately.
    stay
        What all workers want to stay with.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret
    project.random = random.Random(seed + 1)  # noqa: S311
    now = 0.0
    project.clock = lambda: now
    result = SimulationResult({})
    for kind, count in crowd.items():
        for number in range(count):
            worker, token = invite(project, f"{kind.name} {number}", vouched=True)
            accept_invitation(project, token, "no password")
            result.workers[worker] = SimulatedWorker(worker, kind, random.Random(rng.random()))  # noqa: S311
    reviewer, _ = invite(project, "reviewer", role=Role.REVIEWER)
    turns = [(rng.uniform(0, 10), worker) for worker in result.workers]
    heapq.heapify(turns)
    idle = answered = 0
    contexts: dict[str, tuple[str, Task]] = {}
    while turns:
        now, worker = heapq.heappop(turns)
        if worker in result.left:
            del result.left[worker]  # is back
        question = lease(project, worker, stay=stay)
        if question is not None and question.photo not in known_photos and result.workers[worker].leaves():
            result.left[worker] = now
            lease(project, worker, exclude=[question.token], stay=stay)  # the page had loaded another one
            if (away := result.workers[worker].kind.away_s) is not None:
                heapq.heappush(turns, (now + away, worker))
            continue
        if question is None:
            idle += 1
            rounds, rest = divmod(idle, len(turns) + 1)
            if rounds and not rest:  # no worker has a question
                requeue_suspended(project)
                _measure_wait(project, result, now)
                patience = project.settings.absent_after_h * 3600 / _IDLE_S if result.left else 0
                if not _review(project, reviewer, truths, result) and rounds > 3 + patience:
                    break
            heapq.heappush(turns, (now + (30 if rounds < 3 else _IDLE_S), worker))
            continue
        idle = 0
        answer, box = result.workers[worker].answer(question, truths[question.photo])
        like_drawing = answer is Answer.ADJUSTED
        needed, details = _SECONDS[Task.DRAWING if like_drawing else question.task], {}
        if answer is Answer.GROUPED:
            details["groups"] = result.workers[worker].groups(question, truths[question.photo])
            needed += _SECONDS_PER_MENTION * len(question.content["mentions"])
        seconds = needed * rng.lognormvariate(0, 0.4)
        now += seconds
        submit(project, worker, question.token, answer.value, box=box, seconds=seconds, **details)
        if question.photo not in known_photos:  # tests have their own order
            if before := contexts.get(worker):
                result.questions += 1
                result.photo_changes += before[0] != question.photo
                result.task_changes += before[1] is not question.task
            contexts[worker] = question.photo, question.task
        (result.checked if question.photo in known_photos else result.judged)[question.task] += 1
        answered += 1
        if answered % _REQUEUE_INTERVAL == 0:
            requeue_suspended(project)
            if result.left:
                _measure_wait(project, result, now)
        heapq.heappush(turns, (now, worker))
    result.seconds = now
    return result


def lease(project: Project, worker: str, **options: Any) -> LeasedQuestion | None:
    """Lease the next question of a worker in a transaction of its own."""
    return project.database.run(lambda connection: next_question(project, connection, worker, **options))


def submit(project: Project, worker: str, token: str, answer: str, **details: Any) -> None:
    """Answer a question in a transaction of its own."""
    project.database.run(lambda connection: record_answer(project, connection, worker, token, answer, **details))


def _measure_wait(project: Project, result: SimulationResult, now: float) -> None:
    """Note how long questions have waited for those who left."""
    with project.database.reading() as connection:
        able = read_able_workers(project, connection)
        barred_from: dict[int, set[str]] = {}
        for row in connection.execute(select(barred)):
            barred_from.setdefault(row.question, set()).add(row.worker)
        held = {
            row.question: row.worker
            for row in connection.execute(
                select(leases.c.question, leases.c.worker).where(leases.c.state == "open", leases.c.until > now)
            )
        }
        rows = connection.execute(select(questions.c.number, questions.c.photo, questions.c.task)).all()
    listed = {(each.photo, each.task) for each in blocked_questions(project, files=False)}
    absent_after = project.settings.absent_after_h * 3600
    for row in rows:
        left_at = result.left.get(held.get(row.number, ""))
        waited = 0.0 if left_at is None else now - left_at
        others = able.all[Task(row.task)] - barred_from.get(row.number, set())
        if others and others <= result.left.keys() and (row.photo, Task(row.task)) not in listed:
            waited = max(waited, now - min(result.left[each] for each in others) - absent_after)
        result.longest_wait = max(result.longest_wait, waited)


def _review(project: Project, reviewer: str, truths: Mapping[str, Truth], result: SimulationResult) -> bool:
    """Let the reviewer decide blocking items; return whether there were any."""
    open_questions = {(each.photo, each.mention): each for each in blocked_questions(project, files=False)}
    decided = False
    for item in review_queue(project):
        if not item.holds_up:
            continue
        truth, about = truths[item.photo], (item.photo, item.mention)
        answer = (
            Answer.BOX
            if truth.boxes_of(item.mention)
            else Answer.SCENE
            if truth.is_scene(item.mention)
            else Answer.NO_BOX
        )
        if about in open_questions:
            with project.database.reading() as connection:
                state = project.snapshots.read(connection, item.photo).state
            question = next(each for each in state.questions if each.mentions[0] == item.mention)
            right = truth.answer(question.as_json())
            answer = Answer.MORE if right is Answer.DRAWN else Answer.ALL if right is Answer.NO_MORE else right
            if answer.value not in item.decisions:
                answer = Answer.ALL if question.boxes else answer
        if answer.value not in item.decisions:
            continue
        decide(project, reviewer, item.photo, item.mention, answer.value)
        result.reviewed += 1
        decided = True
    return decided
