"""What people see of their own work: where they stand, how far their tests are, their hours and their pay."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from deixis.annotate.control import Standing, levels_of, standing_in
from deixis.annotate.people import worker_and_levels
from deixis.annotate.progress import counted_seconds
from deixis.annotate.project import Project
from deixis.annotate.standing import Level
from deixis.annotate.store.schema import events, photos
from deixis.annotate.walks import Task

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Mine:
    """Somebody's own work."""

    standings: tuple[Standing, ...]
    judged: dict[Task, int]
    hours: float
    pay: float
    photos: int
    finished: int


def my_work(project: Project, worker: str) -> Mine:
    """Look at somebody's own work."""

    def work(connection: Connection) -> Mine:
        who, written = worker_and_levels(connection, worker)
        levels = levels_of(project, connection, who, written)
        judged = (events.c.worker == worker) & (events.c.kind == "judged")
        rows = connection.execute(
            select(events.c.task, func.count(), func.sum(counted_seconds(project)))
            .where(judged)
            .group_by(events.c.task)
        ).all()
        hours = sum(float(seconds or 0) for _, _, seconds in rows) / _HOUR
        total, finished = connection.execute(
            select(func.count(), func.count().filter(photos.c.finished)).where(photos.c.known.is_(False))
        ).one()
        return Mine(
            tuple(_standing(project, connection, worker, task, level) for task, level in levels.items()),
            {Task(task): count for task, count, _ in rows},
            hours,
            hours * project.settings.pay_per_hour,
            total,
            finished,
        )

    return project.database.run(work)


def _standing(project: Project, connection: Connection, worker: str, task: Task, level: Level) -> Standing:
    return standing_in(project, connection, worker, task) if level is Level.TEST else Standing(task, level)
