"""The tables of a project, and the SQL statements of the transactions that run for every judgement.

Statements are built once. Names of their parameters start with ``p_``, because SQLAlchemy reserves column names.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    text,
    update,
)

VERSION = 3
FORMAT = "deixis-annotate"

metadata = MetaData()

# SQLite autoincrements only plain INTEGER columns; PostgreSQL needs 64 bits.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")


def _running_number() -> Column[int]:
    return Column("number", _NUMBER, primary_key=True, autoincrement=True)


properties = Table("about", metadata, Column("key", String, primary_key=True), Column("value", Text, nullable=False))

photos = Table(
    "photos",
    metadata,
    Column("id", String, primary_key=True),
    Column("place", Integer, nullable=False, unique=True),
    Column("known", Boolean, nullable=False),  # a source of known questions; not annotated
    Column("material", JSON, nullable=False),
    Column("last_event", _NUMBER, nullable=False),
    Column("chains", Integer, nullable=False),
    Column("waiting", Integer, nullable=False),  # number of open reviews
    Column("finished", Boolean, nullable=False),
)

workers = Table(
    "workers",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", Text),  # personal data, which `forget_worker` deletes
    Column("invitation", String, unique=True),  # hash of the token in the link
    Column("password", Text),
    Column("role", String, nullable=False),
    Column("invited_at", Float, nullable=False),
    Column("joined_at", Float),
    Column("vouched", Boolean, nullable=False),
    Column("history_items", Integer, nullable=False),
    Column("history_accuracy", Float, nullable=False),
    Column("forgotten", Boolean, nullable=False),
    Column("suspended_at", Float),  # by an owner; null for others
    Column("subject", String),  # issuer and subject of a sign-in by OpenID Connect
)

events = Table(
    "events",
    metadata,
    _running_number(),
    Column("key", String, nullable=False, unique=True),  # makes repeated requests idempotent
    Column("photo", String, ForeignKey("photos.id"), nullable=False),
    Column("worker", String, ForeignKey("workers.id"), nullable=False),
    Column("at", Float, nullable=False),
    Column("kind", String, nullable=False),
    Column("task", String),
    Column("seconds", Float, nullable=False),
    Column("known", _NUMBER),  # number of the known question; such events change no state
    Column("body", JSON, nullable=False),
    Index("events_of_photo", "photo", "number"),
    Index("events_of_worker", "worker", "task"),
    sqlite_autoincrement=True,
)

remarks = Table(  # texts of workers; separate because they can be deleted and events cannot
    "remarks",
    metadata,
    Column("event", _NUMBER, ForeignKey("events.number"), primary_key=True),
    Column("worker", String, nullable=False),
    Column("text", Text, nullable=False),
    Column("seen", Boolean, nullable=False),
)

questions = Table(
    "questions",
    metadata,
    _running_number(),
    Column("photo", String, ForeignKey("photos.id"), nullable=False),
    Column("place", Integer, nullable=False),
    Column("task", String, nullable=False),
    Column("subject", Text, nullable=False),
    Column("asked", JSON, nullable=False),
    Column("leased_until", Float, nullable=False),
    UniqueConstraint("photo", "task", "subject"),
    Index("questions_in_order", "place", "number"),
    sqlite_autoincrement=True,
)

barred = Table(
    "barred",
    metadata,
    Column("question", _NUMBER, ForeignKey("questions.number", ondelete="CASCADE"), primary_key=True),
    Column("worker", String, primary_key=True),
)

known_questions = Table(
    "known",
    metadata,
    _running_number(),
    Column("photo", String, ForeignKey("photos.id"), nullable=False),
    Column("task", String, nullable=False),
    Column("subject", Text, nullable=False),
    Column("asked", JSON, nullable=False),
    Column("answer", String, nullable=False),
    Column("boxes", JSON, nullable=False),  # for drawn and adjusted boxes: the correct ones
    Column("reviewed", Boolean, nullable=False),  # made from a reviewer's decision
    Column("lesson", JSON(none_as_null=True)),  # what a worker is told after a test question; null in older projects
    UniqueConstraint("photo", "task", "subject"),
    Index("known_of_task", "task"),
)

leases = Table(
    "leases",
    metadata,
    Column("token", String, primary_key=True),
    Column("worker", String, ForeignKey("workers.id"), nullable=False),
    Column("question", _NUMBER),
    Column("known", _NUMBER),
    Column("purpose", String, nullable=False),
    Column("task", String, nullable=False),
    Column("photo", String, nullable=False),
    Column("subject", Text, nullable=False),
    Column("asked", JSON, nullable=False),
    Column("until", Float, nullable=False),
    Column("state", String, nullable=False),
    Index("leases_of_worker", "worker", "state"),
    Index("leases_by_time", "worker", "until"),
    Index(
        "one_holder",
        "question",
        unique=True,
        sqlite_where=text("state = 'open'"),
        postgresql_where=text("state = 'open'"),
    ),
)

checks = Table(
    "checks",
    metadata,
    _running_number(),
    Column("worker", String, ForeignKey("workers.id"), nullable=False),
    Column("task", String, nullable=False),
    Column("purpose", String, nullable=False),
    Column("known", _NUMBER),
    Column("event", _NUMBER, unique=True),
    Column("right", Boolean),  # null: not judged yet, or skipped
    Index("checks_of_worker", "worker", "task"),
)

qualifications = Table(
    "standings",
    metadata,
    Column("worker", String, ForeignKey("workers.id"), primary_key=True),
    Column("task", String, primary_key=True),
    Column("level", String, nullable=False),
    Column("after", _NUMBER, nullable=False),  # number of the last check before a reinstatement
)

requeue = Table(
    "requeue",
    metadata,
    Column("worker", String, primary_key=True),
    Column("task", String, primary_key=True),
    Column("photo", String, primary_key=True),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", String, primary_key=True),  # hash of the session token
    Column("worker", String, ForeignKey("workers.id"), nullable=False),
    Column("until", Float, nullable=False),
    Column("assignment", String),  # for workers of an external workforce
    Index("sessions_of_worker", "worker"),
)

assignments = Table(  # assignments of an external workforce
    "assignments",
    metadata,
    Column("id", String, primary_key=True),
    Column("hit", String, nullable=False),
    Column("worker", String, ForeignKey("workers.id"), nullable=False),
    Column("items", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("begun_at", Float, nullable=False),
    Column("submit_to", Text, nullable=False),
    Column("state", String, nullable=False),
)

api_tokens = Table(  # for programs, with the rights of a worker
    "api_tokens",
    metadata,
    Column("id", String, primary_key=True),
    Column("hash", String, nullable=False, unique=True),
    Column("worker", String, ForeignKey("workers.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("until", Float, nullable=False),
    Index("tokens_of_worker", "worker"),
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", String, primary_key=True),
    Column("url", Text, nullable=False),
    Column("secret", String, nullable=False),  # signs the messages
    Column("kinds", JSON, nullable=False),
    Column("created_at", Float, nullable=False),
)

messages = Table(  # messages of webhooks that were not delivered yet
    "messages",
    metadata,
    _running_number(),
    Column("webhook", String, ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    Column("body", JSON, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("error", Text),
    Column("failed", Boolean, nullable=False),  # given up
    Index("messages_due", "webhook", "failed", "due_at"),
    sqlite_autoincrement=True,
)


PROTECTED = tuple(
    table.name
    for table in (properties, photos, workers, events, remarks, known_questions, checks, qualifications, assignments)
)
"""Tables whose rows have checksums in SQLite. The others are derived from these, or short-lived."""

_WORKER = bindparam("p_worker", type_=String)
_TASK = bindparam("p_task", type_=String)
_PHOTO = bindparam("p_photo", type_=String)
_BY_NUMBER = bindparam("p_number", type_=BigInteger)
_NOW = bindparam("p_now", type_=Float)

_WORKER_COLUMNS = (
    workers.c.id,
    workers.c.name,
    workers.c.role,
    workers.c.vouched,
    workers.c.history_items,
    workers.c.history_accuracy,
    workers.c.forgotten,
    workers.c.suspended_at,
)

WORKER = select(*_WORKER_COLUMNS).where(workers.c.id == _WORKER)

# One row per task. The lock keeps two pages of one worker from requesting questions at the same time.
LOCK_WORKER_AND_LEVELS = (
    select(*_WORKER_COLUMNS, qualifications.c.task, qualifications.c.level)
    .outerjoin(qualifications, qualifications.c.worker == workers.c.id)
    .where(workers.c.id == _WORKER)
    .with_for_update(of=workers)
)

HELD_LEASES = (
    select(leases)
    .where(leases.c.worker == _WORKER, leases.c.state == "open", leases.c.until > _NOW)
    .order_by(leases.c.until)
)

LEASE = select(leases.c.worker, leases.c.state).where(leases.c.token == bindparam("p_token"))

# Of two simultaneous requests, the second waits for the first and then finds no open lease.
ANSWER_LEASE = (
    update(leases)
    .where(leases.c.token == bindparam("p_token"), leases.c.worker == _WORKER, leases.c.state == "open")
    .values(state="answered")
    .returning(*leases.c)
)

INSERT_LEASE = insert(leases)

_QUESTION_COLUMNS = (
    questions.c.number,
    questions.c.task,
    questions.c.photo,
    questions.c.subject,
    questions.c.asked,
    questions.c.leased_until,
)

_NOT_BARRED = ~exists().where(barred.c.question == questions.c.number, barred.c.worker == _WORKER)

FIRST_OPEN_QUESTION = (
    select(*_QUESTION_COLUMNS)
    .where(
        questions.c.task.in_(bindparam("p_tasks", expanding=True)),
        questions.c.leased_until <= _NOW,
        _NOT_BARRED,
    )
    .order_by(questions.c.place, questions.c.number)
    .limit(1)
    .with_for_update(skip_locked=True)
)

FIRST_OPEN_BESIDES = FIRST_OPEN_QUESTION.where(questions.c.number.not_in(bindparam("p_avoided", expanding=True)))
FIRST_OPEN_OF_PHOTO = FIRST_OPEN_QUESTION.where(questions.c.photo == _PHOTO)

# By what a worker stays with. A known question is about another photo, so it does not count as a change of photo.
_LAST_LEASE = select(leases.c.photo, leases.c.task).where(leases.c.worker == _WORKER)
_LAST_LEASE = _LAST_LEASE.order_by(leases.c.until.desc()).limit(1)
LAST_LEASE = {"photo": _LAST_LEASE.where(leases.c.known.is_(None)), "task": _LAST_LEASE}

# Somebody who could verify a chain that others have linked.
OTHER_WORKER = (
    select(workers.c.id)
    .where(
        workers.c.role == bindparam("p_role"),
        workers.c.joined_at.is_not(None),
        workers.c.forgotten.is_(False),
        workers.c.suspended_at.is_(None),
        workers.c.id.not_in(bindparam("p_linkers", expanding=True)),
    )
    .limit(1)
)

OPEN_BUT_BARRED = select(func.count()).select_from(barred).where(barred.c.worker == _WORKER)

OPEN_QUESTION = select(*_QUESTION_COLUMNS).where(
    questions.c.photo == _PHOTO,
    questions.c.task == _TASK,
    questions.c.subject == bindparam("p_subject"),
    questions.c.leased_until <= _NOW,
    _NOT_BARRED,
)

LEASE_BY_EVENT = (
    select(leases)
    .join(events, events.c.key == leases.c.token)
    .where(events.c.number == _BY_NUMBER, leases.c.worker == _WORKER)
)

LEASE_QUESTION = update(questions).where(questions.c.number == _BY_NUMBER).values(leased_until=bindparam("p_until"))

# Known questions this worker has not seen; reviewed ones only about photos they have not worked on.
UNSEEN_KNOWN_QUESTIONS = (
    select(known_questions.c.number)
    .where(
        known_questions.c.task == _TASK,
        known_questions.c.number.not_in(
            select(checks.c.known).where(
                checks.c.worker == _WORKER, checks.c.task == _TASK, checks.c.known.is_not(None)
            )
        ),
        known_questions.c.number.not_in(
            select(leases.c.known).where(
                leases.c.worker == _WORKER,
                leases.c.state == "open",
                leases.c.until > _NOW,
                leases.c.known.is_not(None),
            )
        ),
        known_questions.c.reviewed.is_(False)
        | known_questions.c.photo.not_in(select(events.c.photo).where(events.c.worker == _WORKER)),
    )
    .order_by(known_questions.c.number)
)

EXPIRE_KNOWN_LEASE = (
    update(leases)
    .where(leases.c.worker == _WORKER, leases.c.known == _BY_NUMBER, leases.c.state == "open")
    .values(state="lost")
)

KNOWN_QUESTION = select(known_questions).where(known_questions.c.number == _BY_NUMBER)

LOCK_PHOTO = select(photos.c.place, photos.c.last_event).where(photos.c.id == _PHOTO).with_for_update()

UPDATE_PHOTO = (
    update(photos)
    .where(photos.c.id == _PHOTO)
    .values({name: bindparam(name) for name in ("last_event", "chains", "waiting", "finished")})
)

EVENTS_AFTER = (
    select(events.c.kind, events.c.number, events.c.worker, events.c.at, events.c.body)
    .where(events.c.photo == _PHOTO, events.c.number > _BY_NUMBER, events.c.known.is_(None))
    .order_by(events.c.number)
)

INSERT_EVENT = insert(events)

EVENT_BY_KEY = select(events.c.number).where(events.c.key == bindparam("p_key"))

# One row per barred worker, or one without a worker.
PHOTO_QUESTIONS = (
    select(questions.c.number, questions.c.task, questions.c.subject, barred.c.worker)
    .outerjoin(barred, barred.c.question == questions.c.number)
    .where(questions.c.photo == _PHOTO)
)

_NUMBERS = bindparam("p_numbers", type_=BigInteger, expanding=True)

EXPIRE_LEASES = update(leases).where(leases.c.question.in_(_NUMBERS), leases.c.state == "open").values(state="lost")

DELETE_QUESTIONS = delete(questions).where(questions.c.number.in_(_NUMBERS))

INSERT_QUESTION = insert(questions)

INSERT_BARRED = insert(barred)

_SAME_QUALIFICATION = (qualifications.c.worker == _WORKER) & (qualifications.c.task == _TASK)

QUALIFICATION_AND_KNOWN = select(
    select(qualifications.c.level).where(_SAME_QUALIFICATION).scalar_subquery().label("level"),
    select(qualifications.c.after).where(_SAME_QUALIFICATION).scalar_subquery().label("after"),
    select(func.count(known_questions.c.number))
    .where(known_questions.c.task == _TASK)
    .scalar_subquery()
    .label("known"),
)

INSERT_QUALIFICATION = insert(qualifications)

UPDATE_QUALIFICATION = update(qualifications).where(_SAME_QUALIFICATION).values(level=bindparam("p_level"))

CHECKS_AFTER = (
    select(checks.c.purpose, checks.c.right)
    .where(
        checks.c.worker == _WORKER,
        checks.c.task == _TASK,
        checks.c.right.is_not(None),
        checks.c.number > _BY_NUMBER,
    )
    .order_by(checks.c.number)
)

LAST_HIDDEN_CHECKS = (
    select(checks.c.right)
    .where(checks.c.worker == _WORKER, checks.c.purpose == "hidden", checks.c.right.is_not(None))
    .order_by(checks.c.number.desc())
    .limit(bindparam("p_limit", type_=Integer))
)

INSERT_CHECK = insert(checks)

CHECKED_IN_TEST = select(checks.c.number).where(
    checks.c.event == _BY_NUMBER, checks.c.purpose == "test", checks.c.right.is_not(None)
)

JUDGE_BOX = (
    update(checks).where(checks.c.event == _BY_NUMBER).values(right=bindparam("p_right")).returning(checks.c.worker)
)
