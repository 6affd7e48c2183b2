"""What reviewers decide, what is waiting for them, and what suspension queues again."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from deixis.annotate.changing import Changing, RefusedError, event_of
from deixis.annotate.events import MARKINGS, Discounted, Judged, Marking, Ruled, Skipped
from deixis.annotate.known import Known, known_row
from deixis.annotate.people import read_worker
from deixis.annotate.project import Project
from deixis.annotate.questions import Question, subject
from deixis.annotate.recording import Recorded, parse_answer
from deixis.annotate.state import ChainState
from deixis.annotate.store.schema import events, known, photos, remarks, requeue
from deixis.annotate.walks import Answer, DrawnBox, Stop, Task, Walk

_ASKED = {
    Answer.BOX: Task.REQUIREMENT,
    Answer.SCENE: Task.REQUIREMENT,
    Answer.NO_BOX: Task.REQUIREMENT,
    Answer.ALL: Task.COVERAGE,
    Answer.MORE: Task.COVERAGE,
}
"""The task whose question a ruling answers."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something for a reviewer.

    Attributes
    ----------
    photo, mention, phrase
        Where, and the words it is about.
    reason
        Why it waits; for a remark, what was written.
    event
        The event that brought it here.
    holds_up
        Whether work on the photo stands still until it is decided.
    remark
        What was written, where that is why.
    """

    photo: str
    mention: str
    phrase: str
    reason: str
    event: int
    holds_up: bool
    remark: str | None = None


def review_queue(project: Project) -> list[Waiting]:
    """All that waits for a reviewer: what holds work up first, then in the order in which it came."""
    found = []
    with project.database.reading() as connection:
        for photo in connection.scalars(select(photos.c.id).where(photos.c.waiting > 0).order_by(photos.c.place)).all():
            folded = project.folds.at(connection, photo)
            for item in folded.state.review:
                phrase = folded.material.marked(item.mention).text
                found.append(Waiting(photo, item.mention, phrase, item.reason.value, item.event, item.holds_up))
        rows = connection.execute(
            select(events.c.photo, events.c.body, events.c.number, remarks.c.text)
            .join(remarks, remarks.c.event == events.c.number)
            .where(remarks.c.seen.is_(False))
        )
        for photo, body, number, text in rows:
            mention = body.get("bad_phrase") or body.get("subject", "").partition(" ")[0]
            phrase = project.folds.at(connection, photo).material.marked(mention).text
            found.append(Waiting(photo, mention, phrase, f"remark: {text}", number, False, text))
    return sorted(found, key=lambda item: (not item.holds_up, item.event))


def rule(project: Project, reviewer: str, photo: str, mention: str, answer: str, *, remark: str = "") -> Recorded:
    """Decide on a chain, named by any of its mentions, in place of a vote: all, more, box, scene or no box."""
    said = parse_answer(Stop.REVIEW, answer)
    with project.database.writing() as connection:
        _must_review(connection, reviewer)
        changing = Changing(project, connection, photo)
        chain = _chain_of(changing, mention)
        walk = chain.walk
        if walk is None or walk.at is Task.VERIFY:
            raise RefusedError(f"photo {photo}: the chain of {mention} is not whole yet; decide on its boxes later")
        if said is Answer.ALL and not walk.boxes:
            raise RefusedError(f"photo {photo}: the chain of {mention} has no box, so not all can be drawn")
        about = subject((chain.shown.id,), walk.boxes, walk.new_box)
        key = f"rule:{photo}:{changing.folded.last}:{chain.shown.id}"
        number = changing.add(key, reviewer, Ruled.kind, {"subject": about, "answer": said.value}, remark=remark)
        changing.settle()
        _seen(connection, photo)
        _make_known(connection, Question(photo, _ASKED[said], (chain.shown.id,), _shown(said, walk)), said)
    changing.keep()
    return Recorded(number)


def _shown(said: Answer, walk: Walk) -> tuple[DrawnBox, ...]:
    return walk.boxes if _ASKED[said] is Task.COVERAGE else ()


def _make_known(connection: Connection, question: Question, answer: Answer) -> None:
    """What a reviewer has decided is a known answer for everybody who had nothing to do with the photo."""
    if question.task is Task.COVERAGE and not question.boxes:
        return
    same = (known.c.photo == question.photo) & (known.c.task == question.task.value)
    connection.execute(delete(known).where(same, known.c.subject == question.subject))
    connection.execute(insert(known), known_row(Known(question, answer), reviewed=True))


def mark(
    project: Project, reviewer: str, photo: str, mention: str, decision: str, *, types: tuple[str, ...] = ()
) -> Recorded:
    """Decide on a phrase: keep, drop or add it."""
    if decision not in MARKINGS:
        raise RefusedError(f"{decision!r} is no decision on a phrase; choose one of: {', '.join(MARKINGS)}")
    with project.database.writing() as connection:
        _must_review(connection, reviewer)
        changing = Changing(project, connection, photo)
        marked = changing.folded.material.marked(mention, types)
        if decision == "add":
            for chain in changing.folded.state.chains:
                for other in chain.mentions:
                    if other.caption == marked.caption and other.start < marked.end and marked.start < other.end:
                        raise RefusedError(f"photo {photo}: {mention} overlaps with {other.id} ({other.text})")
        body = {"mention": marked.id, "decision": decision, "types": list(marked.types)}
        key = f"mark:{photo}:{changing.folded.last}:{marked.id}"
        number = changing.add(key, reviewer, Marking.kind, body)
        changing.settle()
        _seen(connection, photo)
    changing.keep()
    return Recorded(number)


def mark_seen(project: Project, reviewer: str, photo: str) -> None:
    """Note that a reviewer has read the remarks about a photo, and leaves it as it is."""
    with project.database.writing() as connection:
        _must_review(connection, reviewer)
        _seen(connection, photo)


def requeue_suspended(project: Project, most: int | None = None) -> int:
    """Queue again what suspended workers did, one photo a transaction; the number of photos.

    Whoever is killed in between leaves the rest for the next call.
    """
    done = 0
    with project.database.reading() as connection:
        if connection.execute(select(requeue.c.photo).limit(1)).first() is None:
            return 0
    while most is None or done < most:
        with project.database.writing() as connection:
            row = connection.execute(select(requeue).limit(1).with_for_update(skip_locked=True)).first()
            if row is None:
                return done
            changing = Changing(project, connection, row.photo)
            _discount(connection, changing, row.worker, Task(row.task))
            mine = (requeue.c.worker == row.worker) & (requeue.c.task == row.task) & (requeue.c.photo == row.photo)
            connection.execute(delete(requeue).where(mine))
            changing.settle()
        changing.keep()
        done += 1
    return done


def _discount(connection: Connection, changing: Changing, worker: str, task: Task) -> None:
    theirs = [
        event.number
        for event in changing.folded.events
        if isinstance(event, Judged | Skipped) and event.worker == worker and event.task is task
    ]
    key = f"discount:{worker}:{task.value}:{changing.photo}:{max(theirs, default=0)}"
    if theirs and event_of(connection, key) is None:
        changing.add(key, worker, Discounted.kind, {"whom": worker, "task": task.value})


def _must_review(connection: Connection, reviewer: str) -> None:
    if not read_worker(connection, reviewer).reviews:
        raise RefusedError("only reviewers and owners can decide this")


def _chain_of(changing: Changing, mention: str) -> ChainState:
    for chain in changing.folded.state.chains:
        if mention in {each.id for each in chain.mentions}:
            return chain
    raise RefusedError(f"photo {changing.photo}: no chain has the mention {mention}")


def _seen(connection: Connection, photo: str) -> None:
    """A reviewer has looked at this photo, so at the remarks about it too."""
    about = select(events.c.number).where(events.c.photo == photo)
    connection.execute(update(remarks).where(remarks.c.event.in_(about)).values(seen=True))
