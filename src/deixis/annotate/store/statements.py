"""The statements between one answer and the next question, built once: building takes longer than running them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Float, Integer, String, bindparam, delete, exists, func, insert, select, update

from deixis.annotate.store.schema import (
    barred,
    checks,
    events,
    known,
    leases,
    photos,
    questions,
    standings,
    workers,
)

_WORKER = bindparam("its_worker", type_=String)
_TASK = bindparam("its_task", type_=String)
_PHOTO = bindparam("its_photo", type_=String)
_NUMBER = bindparam("its_number", type_=BigInteger)
_NOW = bindparam("now", type_=Float)

WORKER = select(
    workers.c.id,
    workers.c.name,
    workers.c.role,
    workers.c.vouched,
    workers.c.history_items,
    workers.c.history_accuracy,
    workers.c.forgotten,
).where(workers.c.id == _WORKER)

# Locked: two pages of one worker do not ask at the same time.
WORKER_LOCKED = WORKER.with_for_update()

LEASES_HELD = (
    select(leases)
    .where(leases.c.worker == _WORKER, leases.c.state == "open", leases.c.until > _NOW)
    .order_by(leases.c.until)
)

# Locked: the second of two clicks waits for the first, and sees that it is answered.
LEASE = select(leases).where(leases.c.token == bindparam("its_token")).with_for_update()

LEASE_ANSWERED = update(leases).where(leases.c.token == bindparam("its_token")).values(state="answered")

LATE_LEASE_LOST = update(leases).where(leases.c.question == _NUMBER, leases.c.state == "open").values(state="lost")

NEW_LEASE = insert(leases)

LEVELS = select(standings.c.task, standings.c.level).where(standings.c.worker == _WORKER)

FIRST_OPEN_QUESTION = (
    select(
        questions.c.number,
        questions.c.task,
        questions.c.photo,
        questions.c.subject,
        questions.c.asked,
        questions.c.leased_until,
    )
    .where(
        questions.c.task.in_(bindparam("tasks", expanding=True)),
        questions.c.leased_until <= _NOW,
        ~exists().where(barred.c.question == questions.c.number, barred.c.worker == _WORKER),
    )
    .order_by(questions.c.place, questions.c.number)
    .limit(1)
    .with_for_update(skip_locked=True)
)

QUESTION_LEASED = update(questions).where(questions.c.number == _NUMBER).values(leased_until=bindparam("until"))

KNOWN_SEEN = select(checks.c.known).where(
    checks.c.worker == _WORKER, checks.c.task == _TASK, checks.c.known.is_not(None)
)

KNOWN_HELD = select(leases.c.known).where(
    leases.c.worker == _WORKER,
    leases.c.state == "open",
    leases.c.until > _NOW,
    leases.c.task == _TASK,
    leases.c.known.is_not(None),
)

LATE_KNOWN_LOST = (
    update(leases)
    .where(leases.c.worker == _WORKER, leases.c.known == _NUMBER, leases.c.state == "open")
    .values(state="lost")
)

KNOWN_OF_TASK = (
    select(known.c.number, known.c.photo, known.c.reviewed).where(known.c.task == _TASK).order_by(known.c.number)
)

PHOTOS_OF_WORKER = select(events.c.photo).where(events.c.worker == _WORKER).distinct()

KNOWN = select(known).where(known.c.number == _NUMBER)

KNOWN_COUNT = select(func.count()).select_from(known).where(known.c.task == _TASK)

PHOTO_LOCKED = select(photos.c.place, photos.c.last_event).where(photos.c.id == _PHOTO).with_for_update()

PHOTO_SETTLED = (
    update(photos)
    .where(photos.c.id == _PHOTO)
    .values({name: bindparam(name) for name in ("last_event", "chains", "waiting", "finished")})
)

EVENTS_AFTER = (
    select(events.c.kind, events.c.number, events.c.worker, events.c.at, events.c.body)
    .where(events.c.photo == _PHOTO, events.c.number > _NUMBER, events.c.known.is_(None))
    .order_by(events.c.number)
)

NEW_EVENT = insert(events)

EVENT_OF_KEY = select(events.c.number).where(events.c.key == bindparam("its_key"))

QUESTIONS_OF_PHOTO = select(questions.c.number, questions.c.task, questions.c.subject).where(
    questions.c.photo == _PHOTO
)

BARRED_OF_PHOTO = (
    select(barred.c.question, barred.c.worker)
    .join(questions, questions.c.number == barred.c.question)
    .where(questions.c.photo == _PHOTO)
)

_GONE = bindparam("gone", type_=BigInteger, expanding=True)

LEASES_GONE = update(leases).where(leases.c.question.in_(_GONE), leases.c.state == "open").values(state="lost")

BARRED_GONE = delete(barred).where(barred.c.question.in_(_GONE))

QUESTIONS_GONE = delete(questions).where(questions.c.number.in_(_GONE))

NEW_QUESTION = insert(questions)

STANDING = select(standings.c.level, standings.c.after).where(standings.c.worker == _WORKER, standings.c.task == _TASK)

CHECKS_AFTER = (
    select(checks.c.purpose, checks.c.right)
    .where(checks.c.worker == _WORKER, checks.c.task == _TASK, checks.c.right.is_not(None), checks.c.number > _NUMBER)
    .order_by(checks.c.number)
)

LAST_HIDDEN = (
    select(checks.c.right)
    .where(checks.c.worker == _WORKER, checks.c.purpose == "hidden", checks.c.right.is_not(None))
    .order_by(checks.c.number.desc())
    .limit(bindparam("most", type_=Integer))
)

NEW_CHECK = insert(checks)
