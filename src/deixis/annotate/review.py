"""The work of reviewers and owners: the review queue, decisions, editing phrases, and the history of a photo."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, func, select, update

from deixis.annotate.chains import ChainState
from deixis.annotate.events import (
    PHRASE_DECISIONS,
    ChainDecision,
    Corrected,
    Discounted,
    Event,
    Judged,
    PhraseDecision,
    Skipped,
    Undone,
    effective_events,
)
from deixis.annotate.gallery import GalleryBox, describe_boxes, format_time
from deixis.annotate.judgements import PhotoSnapshot, PhotoTransaction, change_photo, parse_answer
from deixis.annotate.known_answers import KnownQuestion, insert_known_questions
from deixis.annotate.material import CaptionMention, Material
from deixis.annotate.people import Role, read_names, read_worker, release_questions, require_reviewer
from deixis.annotate.quality import REVIEWED, read_able_workers
from deixis.annotate.queue import read_assigned
from deixis.annotate.state import Reason
from deixis.annotate.store import (
    RefusedError,
    assigned,
    barred,
    events,
    known_questions,
    photos,
    questions,
    read_property,
    remarks,
    workers,
    write_property,
)
from deixis.annotate.webhooks import REVIEW, describe_review, insert_messages
from deixis.annotate.workflow import (
    ANSWERS_WITH_BOX,
    TASK_NAMES,
    XYXY,
    Answer,
    Question,
    Status,
    Task,
    allowed_answers,
    format_subject,
    mention_of,
)
from deixis.data.records import ENTITY_TYPES

if TYPE_CHECKING:
    from deixis.annotate.project import Project

ASK_AGAIN = "ask again"
"""The decision that lets those who skipped a question answer it after all."""

_ANNOUNCED = "announced"
"""Property with the blocked questions that webhooks know."""

_VOTES = (Task.PAIR, Task.OWN)
_MAX_FILES = 5000
"""Number of unfinished photos whose files are looked for."""


class WaitsFor(StrEnum):
    """Reason why a question is blocked."""

    ANOTHER_PERSON = "another person"
    ABSENT_PERSON = "somebody who is absent"
    QUALIFIED_PERSON = "somebody who is qualified"
    PICTURE = "the file of the photo"


@dataclass(frozen=True, slots=True)
class BlockedQuestion:
    """An open question that nobody can answer. `answered` and `skipped` are names of workers."""

    photo: str
    mentions: tuple[str, ...]  # of the question
    task: Task
    waits_for: WaitsFor
    answered: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    boxes: int = 0
    region: XYXY | None = None  # of a phrase–region pair, or of the lead's own question
    absent: tuple[str, ...] = ()  # ids of those who could answer it, but are absent
    absent_names: tuple[str, ...] = ()

    @property
    def mention(self) -> str:
        """The mention by which a decision names the question; empty if it is about the photo."""
        return self.mentions[0] if self.mentions else ""

    @property
    def reason(self) -> str:
        """One line for a reviewer."""
        if self.waits_for is WaitsFor.PICTURE:
            return "waits for the file of the photo, which does not open"
        waits_for = _join_names(self.absent_names) + ", absent" if self.absent else self.waits_for.value
        line = f"“{TASK_NAMES[self.task]}” waits for {waits_for}"
        said = [
            f"{_join_names(names)} {what}"
            for names, what in ((self.answered, "worked on it already"), (self.skipped, "skipped it"))
            if names
        ]
        return f"{line}: {'; '.join(said)}" if said else line

    @property
    def decisions(self) -> tuple[str, ...]:
        """The decisions that a reviewer can take.

        Boxes are drawn and groups sorted in the gallery, and the lead's own question is answered like by everybody.
        """
        if self.waits_for is WaitsFor.PICTURE:
            return ()
        answers = () if self.task in (Task.GROUP, Task.OWN) else decidable_answers(self.task)
        if self.task is Task.DRAWING:
            answers = (Answer.ALL, Answer.MORE) if self.boxes else (Answer.SCENE, Answer.NO_BOX, Answer.BOX)
        return (*(answer.value for answer in answers), *((ASK_AGAIN,) if self.skipped else ()))


def decidable_answers(task: Task) -> tuple[Answer, ...]:
    """List the answers that are complete without a box."""
    return tuple(answer for answer in allowed_answers(task) if answer not in ANSWERS_WITH_BOX)


def _join_names(names: tuple[str, ...]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def blocked_questions(project: Project, *, files: bool = True) -> list[BlockedQuestion]:
    """List the open questions that nobody who is present can answer, in the order of the photos.

    `read_able_workers` says who counts. With `files`, also those whose photo has no file any more.
    """
    with project.database.reading() as connection:
        able = read_able_workers(project, connection)
        everybody = read_able_workers(project, connection, everybody=True)  # photos are assigned to reviewers, too
        if not any(able.all.values()):
            return []
        missing = _photos_without_file(project, connection) if files else set()
        without = [task.value for task, found in able.present.items() if not found]
        assigned_to = read_assigned(connection)
        blockable = questions.c.number.in_(select(barred.c.question)) | questions.c.task.in_(without)
        blockable |= questions.c.photo.in_(select(assigned.c.photo))
        columns = (questions.c.number, questions.c.photo, questions.c.task, questions.c.subject, questions.c.asked)
        chosen = select(*columns).where(blockable | questions.c.photo.in_(missing))
        rows = connection.execute(chosen.order_by(questions.c.place, questions.c.number)).all()
        barred_from: dict[int, set[str]] = defaultdict(set)
        for number, worker in connection.execute(select(barred.c.question, barred.c.worker)):
            barred_from[number].add(worker)
        names = read_names(connection)
        found = []
        for row in rows:
            mentions, boxes = tuple(row.asked["mentions"]), len(row.asked["boxes"])
            if row.photo in missing:
                missing.discard(row.photo)
                found.append(BlockedQuestion(row.photo, mentions, Task(row.task), WaitsFor.PICTURE))
                continue
            chosen_from = everybody if row.photo in assigned_to else able
            present, qualified = chosen_from.present[Task(row.task)], chosen_from.all[Task(row.task)]
            asked = assigned_to.get(row.photo, qualified)
            if (present & asked) - barred_from[row.number]:
                continue
            qualified = qualified & asked
            waits_for = WaitsFor.ANOTHER_PERSON if qualified else WaitsFor.QUALIFIED_PERSON
            absent = tuple(sorted(qualified - barred_from[row.number]))
            waits_for = WaitsFor.ABSENT_PERSON if absent else waits_for
            skipped = _skipped_by(project, connection, row.photo, row.task, row.subject)
            answered = sorted(names[worker] for worker in barred_from[row.number] - skipped)
            who_skipped = sorted(names[worker] for worker in skipped)
            about = (row.photo, mentions, Task(row.task), waits_for)
            region = tuple(row.asked["new_box"]) if row.task in _VOTES and row.asked["new_box"] else None
            away = tuple(sorted(names[worker] for worker in absent))
            found.append(BlockedQuestion(*about, tuple(answered), tuple(who_skipped), boxes, region, absent, away))
    return found


def announce_blocked(project: Project) -> int:
    """Queue `review.needed` once for each question that became blocked; return their number.

    The server calls it regularly, because suspensions and absence change no photo.
    """
    if not any(REVIEW in webhook.kinds for webhook in project.webhooks):
        return 0
    found = {
        f"{each.photo} {each.task} {' '.join(each.mentions)}": each for each in blocked_questions(project, files=False)
    }
    with project.database.writing() as connection:
        before = json.loads(read_property(connection, _ANNOUNCED) or "[]")
        if sorted(before) == sorted(found):
            return 0
        write_property(connection, _ANNOUNCED, json.dumps(sorted(found)))
        new = [found[key] for key in found.keys() - set(before)]
        insert_messages(
            project, connection, [describe_review(project, each.photo, each.mention, each.reason) for each in new]
        )
    return len(new)


@dataclass(frozen=True, slots=True)
class Reassigned:
    """Questions that waited for a worker: released or asked again of others, and left for a reviewer to decide."""

    released: int
    asked_again: int
    for_review: int


def reassign(project: Project, reviewer: str, worker: str) -> Reassigned:
    """Give what waits for a worker to others: questions and photos that the worker has, and what the others skipped.

    Photos that keep too few people are assigned to nobody any more. What others cannot answer, because they have
    worked on it, stays in the review queue.
    """
    waiting = [each for each in blocked_questions(project, files=False) if worker in each.absent]
    with project.database.writing() as connection:
        require_reviewer(connection, reviewer)
        read_worker(connection, worker)
        released = release_questions(connection, worker)
        theirs = select(assigned.c.photo).where(assigned.c.worker == worker)
        others = select(assigned.c.photo).where(assigned.c.worker != worker).group_by(assigned.c.photo)
        enough = others.having(func.count() >= project.settings.people_needed)
        connection.execute(delete(assigned).where(assigned.c.photo.in_(theirs), assigned.c.photo.not_in(enough)))
        connection.execute(delete(assigned).where(assigned.c.worker == worker))
    for photo, mention in dict.fromkeys((each.photo, each.mention) for each in waiting if each.skipped):
        decide_question(project, reviewer, photo, mention, ASK_AGAIN)
    blocked = {_key_of(each) for each in blocked_questions(project, files=False)}
    for_review = sum(_key_of(each) in blocked for each in waiting)
    return Reassigned(released, len(waiting) - for_review, for_review)


def _key_of(question: BlockedQuestion) -> tuple[object, ...]:
    return question.photo, question.task, question.mentions, question.region


def _skipped_by(project: Project, connection: Connection, photo: str, task: str, subject: str) -> set[str]:
    events = effective_events(project.snapshots.read(connection, photo).events)
    return {
        event.worker
        for event in events
        if isinstance(event, Skipped) and event.task == task and event.subject == subject
    }


def _photos_without_file(project: Project, connection: Connection) -> set[str]:
    """Return the unfinished photos whose files are not there any more."""
    chosen = select(photos.c.id, photos.c.material).where(photos.c.known.is_(False), photos.c.finished.is_(False))
    missing = set()
    for row in connection.execute(chosen.order_by(photos.c.place).limit(_MAX_FILES)):
        folder, file = project.image_folder(row.material.get("folder", 0)), row.material["file"]
        if folder is not None and file is not None and not (folder / file).is_file():
            missing.add(row.id)
    return missing


MAX_PHRASES = 200


@dataclass(frozen=True, slots=True)
class ReviewCase:
    """Something for a reviewer, and the event that caused it. The fields are JSON keys."""

    photo: str
    mention: str
    phrase: str
    reason: str  # with the text of the remark, if that is why it waits
    event: int
    holds_up: bool  # the photo cannot be finished before the decision
    remark: str | None = None
    decisions: tuple[str, ...] = ("keep", "drop")
    mentions: tuple[str, ...] = ()  # all that an open question is about
    region: XYXY | None = None  # of a phrase–region pair
    can_split: bool = False  # phrases of the chain may mean different things


_CHAIN_DECISIONS = tuple(answer.value for answer in allowed_answers(Status.REVIEW))


def review_queue(project: Project, blocked: Iterable[BlockedQuestion] | None = None) -> list[ReviewCase]:
    """List what waits for a reviewer: what holds up work first, then oldest first.

    Questions that no worker can answer wait for a reviewer too; `blocked` are they, if they are known.
    """
    found = []
    blocked = blocked_questions(project) if blocked is None else blocked
    with project.database.reading() as connection:
        covered = set()  # phrases whose reports are part of a blocked question
        for question in blocked:
            snapshot = project.snapshots.read(connection, question.photo)
            texts = [snapshot.material.text_of(mention) for mention in question.mentions or ("",)]
            phrase = " · ".join(texts) if question.task in (Task.LINK, Task.VERIFY) else texts[0]
            reports = {item.reason for item in snapshot.state.review if item.mention == question.mention}
            decisions, reason = question.decisions, question.reason
            if reports and decisions and len(question.mentions) == 1:
                decisions = (*decisions, "drop")
                reason += f"; {Reason.BAD_PHRASE.value}" if Reason.BAD_PHRASE in reports else ""
            else:
                reports &= {Reason.SKIPPED}
            covered |= {(question.photo, question.mention, report) for report in reports}
            about = (question.photo, question.mention, phrase, reason, snapshot.last_event, True)
            case = ReviewCase(*about, decisions=decisions, mentions=question.mentions)
            found.append(replace(case, region=question.region))
        waiting = select(photos.c.id, photos.c.last_event).where(photos.c.waiting > 0).order_by(photos.c.place)
        for photo, last_event in connection.execute(waiting).all():
            snapshot = project.snapshots.read(connection, photo, last_event=last_event)
            for item in snapshot.state.review:
                if (photo, item.mention, item.reason) in covered:
                    continue
                phrase = snapshot.material.mention_at(item.mention).text
                case = ReviewCase(photo, item.mention, phrase, item.reason.value, item.event, item.holds_up)
                case = replace(case, can_split=item.reason is Reason.SAME_HEADS)
                found.append(replace(case, decisions=_CHAIN_DECISIONS) if item.reason is Reason.UNDECIDED else case)
        rows = connection.execute(
            select(events.c.photo, events.c.body, events.c.number, remarks.c.text)
            .join(remarks, remarks.c.event == events.c.number)
            .where(remarks.c.seen.is_(False))
        )
        for photo, body, number, text in rows:
            mention = body.get("bad_phrase") or mention_of(body.get("subject", ""))
            phrase = project.snapshots.read(connection, photo).material.text_of(mention)
            found.append(ReviewCase(photo, mention, phrase, f"remark: {text}", number, False, text, ("seen",)))
    return sorted(found, key=lambda item: (not item.holds_up, item.event))


def decide_chain(project: Project, reviewer: str, photo: str, mention: str, decision: str, *, remark: str = "") -> int:
    """Decide on the chain of a mention (all, more, box, scene or no box) and return the number of the event."""
    answer = Answer(parse_answer(Status.REVIEW, decision, project.settings))
    with change_photo(project, photo) as transaction:
        require_reviewer(transaction.connection, reviewer)
        chain = transaction.snapshot.state.chain_of(mention)
        if chain is None:
            raise RefusedError(f"photo {photo}: no chain has the mention {mention}")
        workflow = chain.workflow
        if workflow is None or workflow.stage is Task.VERIFY:
            raise RefusedError(f"photo {photo}: the chain of {mention} is not complete yet; decide on its boxes later")
        if answer is Answer.ALL and not workflow.boxes:
            raise RefusedError(f"photo {photo}: the chain of {mention} has no box, so its boxes cannot be complete")
        subject = format_subject((chain.shown.id,), workflow.boxes, workflow.new_box)
        key = f"rule:{photo}:{transaction.snapshot.last_event}:{chain.shown.id}"
        body = {"subject": subject, "answer": answer.value}
        number = transaction.add_event(key, reviewer, ChainDecision.kind, body, remark=remark)
        transaction.apply()
        _mark_seen(transaction.connection, photo)
        if answer not in (Answer.ALL, Answer.MORE):
            _add_known_question(transaction.connection, Question(photo, Task.REQUIREMENT, (chain.shown.id,)), answer)
        elif workflow.boxes:
            question = Question(photo, Task.COVERAGE, (chain.shown.id,), workflow.boxes)
            _add_known_question(transaction.connection, question, answer)
    return number


def decide_question(project: Project, reviewer: str, photo: str, mention: str, decision: str) -> int:
    """Answer the open question about a mention, even one that nobody else may answer, and return the event number.

    Answers that end a vote are decisions on the chain. "ask again" cancels the skips of the question.
    """
    with change_photo(project, photo) as transaction:
        require_reviewer(transaction.connection, reviewer)
        open_questions = [
            question
            for question in transaction.snapshot.state.questions
            if question.mention == mention and (decision == ASK_AGAIN or question.task is not Task.OWN)
        ]
        if not open_questions:
            raise RefusedError(f"photo {photo}: no question about {mention or 'it'} is open")
        question = open_questions[0]
        if decision == ASK_AGAIN:
            number = _cancel_skips(transaction, reviewer, open_questions)
        else:
            answer = Answer(parse_answer(question.task, decision, project.settings))
            if answer not in decidable_answers(question.task):
                raise RefusedError(f"{decision!r} needs a box; correct the photo in the gallery instead")
            key = f"answer:{photo}:{transaction.snapshot.last_event}:{question.subject}"
            body = {"task": question.task.value, "subject": question.subject, "answer": answer.value}
            number = transaction.add_event(key, reviewer, Judged.kind, body)
        transaction.apply()
    return number


def _cancel_skips(transaction: PhotoTransaction, reviewer: str, questions: Sequence[Question]) -> int:
    number, skippable = 0, {(question.task, question.subject) for question in questions}
    for event in effective_events(transaction.snapshot.events):
        if isinstance(event, Skipped) and (event.task, event.subject) in skippable:
            earlier = sum(
                isinstance(each, Undone) and each.event == event.number for each in transaction.snapshot.events
            )
            key, body = f"undo:{event.number}:{earlier}", {"event": event.number}
            number = transaction.add_event(key, reviewer, Undone.kind, body)
    if not number:
        raise RefusedError(f"photo {transaction.photo}: nobody has skipped the question")
    return number


def decide(
    project: Project,
    reviewer: str,
    photo: str,
    mention: str,
    decision: str,
    *,
    types: tuple[str, ...] = (),
    remark: str = "",
) -> int:
    """Record any decision of a reviewer: on a phrase, on a chain, or the answer to an open question."""
    if decision in PHRASE_DECISIONS:
        return decide_phrase(project, reviewer, photo, mention, decision, types=types)
    if decision in _CHAIN_DECISIONS:
        return decide_chain(project, reviewer, photo, mention, decision, remark=remark)
    return decide_question(project, reviewer, photo, mention, decision)


def _add_known_question(connection: Connection, question: Question, answer: Answer) -> None:
    """Use a decision as a known answer for workers who have not worked on the photo."""
    same = (known_questions.c.photo == question.photo) & (known_questions.c.task == question.task.value)
    connection.execute(delete(known_questions).where(same, known_questions.c.subject == question.subject))
    insert_known_questions(connection, [KnownQuestion(question, answer, why=REVIEWED)], reviewed=True)


def decide_phrase(
    project: Project, reviewer: str, photo: str, mention: str, decision: str, *, types: tuple[str, ...] = ()
) -> int:
    """Decide on a phrase (keep, drop or add it) and return the number of the event."""
    if decision not in PHRASE_DECISIONS:
        raise RefusedError(f"{decision!r} is not a decision on a phrase; choose from: {', '.join(PHRASE_DECISIONS)}")
    with change_photo(project, photo) as transaction:
        require_reviewer(transaction.connection, reviewer)
        decided = transaction.snapshot.material.mention_at(mention, types)
        if decision == "add":
            for chain in transaction.snapshot.state.chains:
                for other in chain.mentions:
                    if other.caption == decided.caption and other.start < decided.end and decided.start < other.end:
                        raise RefusedError(f"photo {photo}: {mention} overlaps with {other.id} ({other.text})")
        number = _add_phrase_decision(transaction, reviewer, decided, decision)
        transaction.apply()
        _mark_seen(transaction.connection, photo)
    return number


def _add_phrase_decision(transaction: PhotoTransaction, worker: str, mention: CaptionMention, decision: str) -> int:
    key = f"mark:{transaction.photo}:{transaction.snapshot.last_event}:{mention.id}"
    body = {"mention": mention.id, "decision": decision, "types": list(mention.types)}
    return transaction.add_event(key, worker, PhraseDecision.kind, body)


@dataclass(frozen=True, slots=True)
class RemarkInfo:
    """A remark about a photo. The fields are JSON keys."""

    event: int
    who: str
    text: str
    seen: bool


def list_remarks(project: Project, photo: str) -> list[RemarkInfo]:
    """List the remarks about a photo in the order of their events."""
    chosen = (
        select(events.c.number, workers.c.id, workers.c.name, remarks.c.text, remarks.c.seen)
        .join(remarks, remarks.c.event == events.c.number)
        .join(workers, workers.c.id == remarks.c.worker)
        .where(events.c.photo == photo)
        .order_by(events.c.number)
    )
    with project.database.reading() as connection:
        rows = connection.execute(chosen).all()
    return [RemarkInfo(row.number, row.name or row.id, row.text, row.seen) for row in rows]


def mark_remarks_seen(project: Project, reviewer: str, photo: str) -> None:
    """Note that a reviewer has read the remarks about a photo and changes nothing."""
    with project.database.writing() as connection:
        require_reviewer(connection, reviewer)
        _mark_seen(connection, photo)


def _mark_seen(connection: Connection, photo: str) -> None:
    about_photo = select(events.c.number).where(events.c.photo == photo)
    connection.execute(update(remarks).where(remarks.c.event.in_(about_photo)).values(seen=True))


def edit_phrases(
    project: Project, owner: str, photo: str, wanted: Sequence[tuple[str, tuple[str, ...]]]
) -> PhotoSnapshot:
    """Replace the phrases of a photo by `wanted`: mention ids with types, which are detected if empty.

    Before work begins, the material itself is changed. Afterwards, decisions are recorded as events, and the types of
    existing phrases cannot change.
    """
    with change_photo(project, photo) as transaction:
        if read_worker(transaction.connection, owner).role is not Role.OWNER:
            raise RefusedError("only owners can edit phrases")
        material = transaction.snapshot.material
        mentions = _check_phrases(material, wanted)
        if transaction.snapshot.events:
            _decide_phrases(transaction, owner, mentions)
        else:
            material = replace(material, mentions=tuple(mentions))
            values = {"material": material.as_json()}
            transaction.connection.execute(update(photos).where(photos.c.id == photo).values(**values))
            transaction.replace_material(material)
        transaction.apply()
    return transaction.snapshot


def _check_phrases(material: Material, wanted: Sequence[tuple[str, tuple[str, ...]]]) -> list[CaptionMention]:
    photo = f"photo {material.photo}"
    if len(wanted) > MAX_PHRASES:
        raise RefusedError(f"{photo}: {len(wanted)} phrases; the maximum is {MAX_PHRASES}")
    for _, types in wanted:
        if unknown := sorted(set(types) - set(ENTITY_TYPES)):
            raise RefusedError(f"{unknown[0][:40]!r} is not an entity type; choose from: {', '.join(ENTITY_TYPES)}")
    mentions = [material.mention_at(mention_id, types) for mention_id, types in wanted]
    mentions.sort(key=lambda mention: (mention.caption, mention.start))
    for one, other in pairwise(mentions):
        if one.caption == other.caption and other.start < one.end:
            raise RefusedError(f"{photo}: {one.id} ({one.text}) overlaps with {other.id} ({other.text})")
    return mentions


def _decide_phrases(transaction: PhotoTransaction, owner: str, mentions: list[CaptionMention]) -> None:
    """Drop the phrases that are not wanted any more, and add the new ones."""
    current = {mention.id: mention for mention in transaction.snapshot.mentions}
    wanted = {mention.id: mention for mention in mentions}
    for name in current.keys() & wanted.keys():
        if set(current[name].types) != set(wanted[name].types):
            raise RefusedError(f"photo {transaction.photo} has judgements, so the types of {name} cannot change")
    original = {mention.id for mention in transaction.snapshot.material.mentions}
    for name, mention in current.items():
        if name not in wanted:
            _add_phrase_decision(transaction, owner, mention, "drop")
    for name, mention in wanted.items():
        if name not in current:
            _add_phrase_decision(transaction, owner, mention, "keep" if name in original else "add")


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An event, who caused it and what it led to, or why it does not count. The fields are JSON keys."""

    event: int
    who: str
    at: str
    said: str
    led_to: str


@dataclass(frozen=True, slots=True)
class ChainHistory:
    """A chain, its stage (`place`) and the events that led to it (`told`). The fields are JSON keys.

    `boxes` includes the one that waits for a judgement.
    """

    phrases: tuple[str, ...]
    mentions: tuple[str, ...]
    types: tuple[str, ...]
    place: str
    boxes: tuple[GalleryBox, ...]
    told: tuple[HistoryEntry, ...]


def explain_photo(
    project: Project, photo: str, *, until: int | None = None
) -> tuple[list[ChainHistory], list[HistoryEntry]]:
    """Return the history of each chain of a photo, and the judgements that do not count, as of the event `until`."""
    with project.database.reading() as connection:
        snapshot = project.snapshots.read(connection, photo)
        names = read_names(connection)
    if until is not None:
        earlier = tuple(event for event in snapshot.events if event.number <= until)
        snapshot = project.snapshots.build(snapshot.material, earlier)
    by_number = {event.number: event for event in snapshot.events}
    return [_chain_history(chain, by_number, names) for chain in snapshot.state.chains], _not_counted(snapshot, names)


def _chain_history(chain: ChainState, by_number: Mapping[int, Event], names: Mapping[str, str]) -> ChainHistory:
    workflow = chain.workflow
    return ChainHistory(
        tuple(mention.text for mention in chain.mentions),
        tuple(mention.id for mention in chain.mentions),
        chain.types,
        workflow.stage.value if workflow else "mentions may still join",
        describe_boxes(chain, names),
        tuple(
            _history_entry(
                by_number[number],
                names,
                f"{transition.action_text}; {transition.condition_text}; to {transition.target.value}",
            )
            for number, transition in chain.transitions
        ),
    )


def _not_counted(snapshot: PhotoSnapshot, names: Mapping[str, str]) -> list[HistoryEntry]:
    undone = {event.event: event.number for event in snapshot.events if isinstance(event, Undone)}
    discounted = {(event.whom, event.task): event.number for event in snapshot.events if isinstance(event, Discounted)}
    entries = []
    for event in snapshot.events:
        if not isinstance(event, Judged) or event.number in snapshot.state.counted:
            continue
        if event.number in undone:
            why = f"undone by event {undone[event.number]}"
        elif discounted.get((event.worker, event.task), 0) > event.number:
            why = f"the worker was suspended, event {discounted[event.worker, event.task]}"
        else:
            why = "its subject does not exist any more"
        entries.append(_history_entry(event, names, why))
    return entries


def _history_entry(event: Event, names: Mapping[str, str], led_to: str) -> HistoryEntry:
    who, at = names.get(event.worker, event.worker), format_time(event.at)
    return HistoryEntry(event.number, who, at, _describe_event(event), led_to)


def _describe_event(event: Event) -> str:
    """Describe an event that changed a chain: a judgement, a decision or a model's links."""
    if isinstance(event, Judged):
        return f"{event.task.value}: {event.answer}"
    if isinstance(event, Corrected):
        return f"correction: {event.action}"
    return f"review: {event.answer.value}" if isinstance(event, ChainDecision) else event.kind
