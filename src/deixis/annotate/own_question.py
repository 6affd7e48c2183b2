"""The lead's own question: its known answers, which follow the settings, and its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import delete, select, update

from deixis.annotate.judgements import PhotoSnapshot, check_box
from deixis.annotate.known_answers import KnownQuestion, insert_known_questions
from deixis.annotate.material import Material
from deixis.annotate.project import Project
from deixis.annotate.quality import Level
from deixis.annotate.state import parse_known_subject
from deixis.annotate.store import checks, known_questions, leases, photos, qualifications
from deixis.annotate.workflow import XYXY, OwnQuestion, Question, Task
from deixis.errors import DeixisError

ANSWERS_FILE = "answers.jsonl"
_WHY = "The lead of this project says so."


@dataclass(frozen=True, slots=True)
class OwnAnswer:
    """The answer about a photo, a phrase or a box. The fields are JSON keys.

    `answer` is the most frequent one, or the mean rating; None while people are asked, and after a tie. `by` are the
    workers, in the order of `answers`.
    """

    question: str
    mention: str | None
    phrase: str | None
    box: XYXY | None
    answer: str | float | None
    answers: tuple[str, ...]
    by: tuple[str, ...]
    is_open: bool = False


def read_answers(
    snapshot: PhotoSnapshot, own: OwnQuestion | None, names: Mapping[str, str] | None = None
) -> Iterator[OwnAnswer]:
    """Read the answers about a photo; known ones have no workers."""
    if own is None:
        return
    for vote in snapshot.state.votes:
        if vote.question.task is Task.OWN:
            by = tuple((names or {}).get(each.worker, each.worker) for each in vote.workflow.votes)
            answer = None if vote.is_open else own.result(vote.answers)
            yield _make_answer(snapshot, vote.question, own, answer, vote.answers, by, vote.is_open)
    for subject, answer in own.known:
        try:
            if parse_known_subject(subject, own).photo != snapshot.material.photo:
                continue
            question = _read_known(subject, own, snapshot.material)
        except DeixisError:  # `explain_known_answers` says why
            continue
        yield _make_answer(snapshot, question, own, answer, (), ())


def _make_answer(
    snapshot: PhotoSnapshot,
    question: Question,
    own: OwnQuestion,
    answer: str | float | None,
    answers: tuple[str, ...],
    by: tuple[str, ...],
    is_open: bool = False,
) -> OwnAnswer:
    mention = question.mention or None
    phrase = snapshot.material.text_of(mention) if mention else None
    box = question.new_box.xyxy if question.new_box else None
    return OwnAnswer(own.name, mention, phrase, box, answer, answers, by, is_open)


def update_known_answers(project: Project) -> None:
    """Let the known questions follow the settings. Those about photos that the project does not have are left out."""
    wanted, _ = _known_questions(project)
    with project.database.reading() as connection:
        rows = connection.execute(select(known_questions).where(known_questions.c.task == Task.OWN.value)).all()
    gone = [row.number for row in rows if (row.photo, row.subject) not in wanted]
    new = {key: wanted[key] for key in wanted.keys() - {(row.photo, row.subject) for row in rows}}
    changed = {
        row.number: wanted[row.photo, row.subject].answer
        for row in rows
        if row.number not in gone and row.answer != wanted[row.photo, row.subject].answer
    }
    if not (gone or new or changed):
        return
    with project.database.writing() as connection:
        insert_known_questions(connection, new.values())
        if new:  # those who worked before there was a test take it now
            tested = select(checks.c.worker).where(checks.c.task == Task.OWN.value)
            untested = qualifications.c.worker.not_in(tested) & (qualifications.c.after == 0)
            trusted = (qualifications.c.task == Task.OWN.value) & (qualifications.c.level == Level.TRUSTED.value)
            connection.execute(delete(qualifications).where(trusted, untested))
        for number, answer in changed.items():
            same = known_questions.c.number == number
            connection.execute(update(known_questions).where(same).values(answer=answer))
        connection.execute(
            update(leases).where(leases.c.known.in_(gone), leases.c.state == "open").values(state="lost")
        )
        connection.execute(delete(known_questions).where(known_questions.c.number.in_(gone)))
        # SQLite may use the numbers again; nobody has seen the questions that will have them.
        connection.execute(update(checks).where(checks.c.known.in_(gone)).values(known=None))


def explain_known_answers(project: Project) -> list[str]:
    """Say why known answers of the settings cannot be used, one line each."""
    return _known_questions(project)[1]


def _known_questions(project: Project) -> tuple[dict[tuple[str, str], KnownQuestion], list[str]]:
    own, wanted, problems = project.settings.question, dict[tuple[str, str], KnownQuestion](), list[str]()
    if own is None or not own.known:
        return wanted, problems
    with project.database.reading() as connection:
        for subject, answer in own.known:
            try:
                photo = parse_known_subject(subject, own).photo
                material = connection.scalar(select(photos.c.material).where(photos.c.id == photo))
                if material is None:
                    raise DeixisError(f"no photo {photo!r} in this project")
                question = _read_known(subject, own, Material.from_json(material))
            except DeixisError as error:
                problems.append(f"the known answer about {subject!r} is not used: {error}")
                continue
            boxes = (question.new_box.xyxy,) if question.new_box else ()
            wanted[question.photo, question.subject] = KnownQuestion(question, answer, why=_WHY, right_boxes=boxes)
    return wanted, problems


def _read_known(subject: str, own: OwnQuestion, material: Material) -> Question:
    """Parse the subject of a known answer, whose phrase and box must be in the photo."""
    question = parse_known_subject(subject, own)
    material.text_of(question.mention)
    if question.new_box:
        check_box((material.width, material.height), question.new_box.xyxy, "a known answer")
    return question
