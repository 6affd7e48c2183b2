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

_WORKER_COLUMNS = (
    workers.c.id,
    workers.c.name,
    workers.c.role,
    workers.c.vouched,
    workers.c.history_items,
    workers.c.history_accuracy,
    workers.c.forgotten,
)

WORKER = select(*_WORKER_COLUMNS).where(workers.c.id == _WORKER)

# With their standing, a row for each task. Locked: two pages of one worker do not ask at the same time.
WORKER_AND_LEVELS = (
    select(*_WORKER_COLUMNS, standings.c.task, standings.c.level)
    .outerjoin(standings, standings.c.worker == workers.c.id)
    .where(workers.c.id == _WORKER)
    .with_for_update(of=workers)
)

LEASES_HELD = (
    select(leases)
    .where(leases.c.worker == _WORKER, leases.c.state == "open", leases.c.until > _NOW)
    .order_by(leases.c.until)
)

LEASE = select(leases.c.worker, leases.c.state).where(leases.c.token == bindparam("its_token"))

# The second of two clicks waits for the first, and then finds nothing that is open.
LEASE_ANSWERED = (
    update(leases)
    .where(leases.c.token == bindparam("its_token"), leases.c.worker == _WORKER, leases.c.state == "open")
    .values(state="answered")
    .returning(*leases.c)
)

LATE_LEASE_LOST = update(leases).where(leases.c.question == _NUMBER, leases.c.state == "open").values(state="lost")

NEW_LEASE = insert(leases)

_QUESTION_COLUMNS = (
    questions.c.number,
    questions.c.task,
    questions.c.photo,
    questions.c.subject,
    questions.c.asked,
    questions.c.leased_until,
)

FIRST_OPEN_QUESTION = (
    select(*_QUESTION_COLUMNS)
    .where(
        questions.c.task.in_(bindparam("tasks", expanding=True)),
        questions.c.leased_until <= _NOW,
        ~exists().where(barred.c.question == questions.c.number, barred.c.worker == _WORKER),
    )
    .order_by(questions.c.place, questions.c.number)
    .limit(1)
    .with_for_update(skip_locked=True)
)

OPEN_QUESTION = select(*_QUESTION_COLUMNS).where(
    questions.c.photo == _PHOTO,
    questions.c.task == _TASK,
    questions.c.subject == bindparam("its_subject"),
    questions.c.leased_until <= _NOW,
    ~exists().where(barred.c.question == questions.c.number, barred.c.worker == _WORKER),
)

LEASE_OF_EVENT = (
    select(leases)
    .join(events, events.c.key == leases.c.token)
    .where(events.c.number == _NUMBER, leases.c.worker == _WORKER)
)

QUESTION_LEASED = update(questions).where(questions.c.number == _NUMBER).values(leased_until=bindparam("until"))

# Never asked of this worker, and, where a reviewer has decided, on no photo that they had to do with.
KNOWN_UNSEEN = (
    select(known.c.number)
    .where(
        known.c.task == _TASK,
        known.c.number.not_in(
            select(checks.c.known).where(
                checks.c.worker == _WORKER, checks.c.task == _TASK, checks.c.known.is_not(None)
            )
        ),
        known.c.number.not_in(
            select(leases.c.known).where(
                leases.c.worker == _WORKER,
                leases.c.state == "open",
                leases.c.until > _NOW,
                leases.c.known.is_not(None),
            )
        ),
        known.c.reviewed.is_(False) | known.c.photo.not_in(select(events.c.photo).where(events.c.worker == _WORKER)),
    )
    .order_by(known.c.number)
)

LATE_KNOWN_LOST = (
    update(leases)
    .where(leases.c.worker == _WORKER, leases.c.known == _NUMBER, leases.c.state == "open")
    .values(state="lost")
)

KNOWN = select(known).where(known.c.number == _NUMBER)

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

QUESTIONS_GONE = delete(questions).where(questions.c.number.in_(_GONE))

QUESTION_GONE = (
    delete(questions)
    .where(questions.c.photo == _PHOTO, questions.c.task == _TASK, questions.c.subject == bindparam("its_subject"))
    .returning(questions.c.number)
)

QUESTION_NUMBER = select(questions.c.number).where(
    questions.c.photo == _PHOTO, questions.c.task == _TASK, questions.c.subject == bindparam("its_subject")
)

NEW_QUESTION = insert(questions)

NEW_BARRED = insert(barred)

_ITS_STANDING = (standings.c.worker == _WORKER) & (standings.c.task == _TASK)

STANDING_AND_KNOWN = select(
    select(standings.c.level).where(_ITS_STANDING).scalar_subquery().label("level"),
    select(standings.c.after).where(_ITS_STANDING).scalar_subquery().label("after"),
    select(func.count()).select_from(known).where(known.c.task == _TASK).scalar_subquery().label("known"),
)

NEW_STANDING = insert(standings)

STANDING_CHANGED = update(standings).where(_ITS_STANDING).values(level=bindparam("its_level"))

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

BOX_JUDGED = (
    update(checks).where(checks.c.event == _NUMBER).values(right=bindparam("its_right")).returning(checks.c.worker)
)
