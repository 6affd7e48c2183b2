"""The tables of a project."""

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
    text,
)

VERSION = 2
FORMAT = "deixis-annotate"

metadata = MetaData()

# SQLite gives running numbers only to a plain INTEGER; PostgreSQL should not run out of them.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")


def _running() -> Column[int]:
    return Column("number", _NUMBER, primary_key=True, autoincrement=True)


about = Table("about", metadata, Column("key", String, primary_key=True), Column("value", Text, nullable=False))

photos = Table(
    "photos",
    metadata,
    Column("id", String, primary_key=True),
    Column("place", Integer, nullable=False, unique=True),
    Column("known", Boolean, nullable=False),  # only there for questions with known answers
    Column("material", JSON, nullable=False),
    Column("last_event", _NUMBER, nullable=False),
    Column("chains", Integer, nullable=False),
    Column("waiting", Integer, nullable=False),  # things for a reviewer
    Column("finished", Boolean, nullable=False),
)

workers = Table(
    "workers",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", Text),  # the personal columns; `forget` empties them
    Column("invitation", String, unique=True),  # a hash of the link's token
    Column("password", Text),
    Column("role", String, nullable=False),
    Column("invited_at", Float, nullable=False),
    Column("joined_at", Float),
    Column("vouched", Boolean, nullable=False),
    Column("history_items", Integer, nullable=False),
    Column("history_accuracy", Float, nullable=False),
    Column("forgotten", Boolean, nullable=False),
)

events = Table(
    "events",
    metadata,
    _running(),
    Column("key", String, nullable=False, unique=True),  # one click, one event
    Column("photo", String, ForeignKey("photos.id"), nullable=False),
    Column("worker", String, ForeignKey("workers.id"), nullable=False),
    Column("at", Float, nullable=False),
    Column("kind", String, nullable=False),
    Column("task", String),
    Column("seconds", Float, nullable=False),
    Column("known", _NUMBER),  # the known question that was answered; such events change no state
    Column("body", JSON, nullable=False),
    Index("events_of_photo", "photo", "number"),
    Index("events_of_worker", "worker", "task"),
    sqlite_autoincrement=True,
)

remarks = Table(  # what people wrote: kept apart, because it can be forgotten and events cannot
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
    _running(),
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

known = Table(
    "known",
    metadata,
    _running(),
    Column("photo", String, ForeignKey("photos.id"), nullable=False),
    Column("task", String, nullable=False),
    Column("subject", Text, nullable=False),
    Column("asked", JSON, nullable=False),
    Column("answer", String, nullable=False),
    Column("boxes", JSON, nullable=False),  # for Drawing: where a right box may be
    Column("reviewed", Boolean, nullable=False),  # from a reviewer's decision on a photo that is annotated
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
    _running(),
    Column("worker", String, ForeignKey("workers.id"), nullable=False),
    Column("task", String, nullable=False),
    Column("purpose", String, nullable=False),
    Column("known", _NUMBER),
    Column("event", _NUMBER, unique=True),
    Column("right", Boolean),  # null: not judged yet, or given back
    Index("checks_of_worker", "worker", "task"),
)

standings = Table(
    "standings",
    metadata,
    Column("worker", String, ForeignKey("workers.id"), primary_key=True),
    Column("task", String, primary_key=True),
    Column("level", String, nullable=False),
    Column("after", _NUMBER, nullable=False),  # checks up to this one were forgiven
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
    Column("hash", String, primary_key=True),  # of the token that the browser shows
    Column("worker", String, ForeignKey("workers.id"), nullable=False),
    Column("until", Float, nullable=False),
    Column("assignment", String),  # of somebody who was sent by an outside workforce
    Index("sessions_of_worker", "worker"),
)

assignments = Table(  # what an outside workforce has taken on
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
