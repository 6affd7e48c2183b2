"""Opening a project for work, and keeping its questions consistent with edited settings and suspensions."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from sqlalchemy import delete, select

from deixis.annotate.database import read_property, write_property
from deixis.annotate.events import Discounted, Judged, Skipped
from deixis.annotate.project import SETTINGS_FILE, Project, open_project
from deixis.annotate.schema import photos, requeue
from deixis.annotate.settings import read_settings
from deixis.annotate.transactions import PhotoTransaction, SnapshotCache, change_photo, find_event
from deixis.annotate.workflow import Task

_RULES = "rules"


def open_for_work(folder: Path) -> Project:
    """Open a project; apply edited settings and complete the work of an interrupted process."""
    project = open_project(folder)
    apply_settings(project)
    requeue_suspended(project)
    return project


def reload_settings(project: Project) -> bool:
    """Apply settings that were edited while the project is open; return whether there were any.

    All processes that have the project open do this, because one set of rules must determine a photo's questions.
    """
    settings = read_settings(project.folder / SETTINGS_FILE)
    if settings == project.settings:
        return False
    project.settings_changing = True
    project.settings, project.snapshots = settings, SnapshotCache(settings)
    try:
        apply_settings(project)
    finally:
        project.settings_changing = False
    return True


def apply_settings(project: Project) -> int:
    """Rebuild the questions of all photos if the rules were edited, and return the number of photos.

    Events stay as they are; only the states derived from them change. After an interruption, it starts again.
    """
    rules = json.dumps(asdict(project.settings.rules) | {"independent": project.settings.independent})
    with project.database.reading() as connection:
        applied = read_property(connection, _RULES)
        names = list(connection.scalars(select(photos.c.id).where(photos.c.known.is_(False))))
    if applied == rules:
        return 0
    if applied is None:  # a new project
        names = []
    for name in names:
        with change_photo(project, name) as transaction:
            transaction.apply(rebuild=True)
    with project.database.writing() as connection:
        write_property(connection, _RULES, rules)
    return len(names)


def requeue_suspended(project: Project, limit: int | None = None) -> int:
    """Exclude the judgements of suspended workers, one photo per transaction, and return the number of photos.

    After an interruption, the next call continues.
    """
    with project.database.reading() as connection:
        if connection.execute(select(requeue.c.photo).limit(1)).first() is None:
            return 0
    done = 0
    while limit is None or done < limit:
        with project.database.writing() as connection:
            row = connection.execute(select(requeue).limit(1).with_for_update(skip_locked=True)).first()
            if row is None:
                return done
            transaction = PhotoTransaction(project, connection, row.photo)
            _discount_worker(transaction, row.worker, Task(row.task))
            key = (requeue.c.worker == row.worker) & (requeue.c.task == row.task) & (requeue.c.photo == row.photo)
            connection.execute(delete(requeue).where(key))
            transaction.apply()
        transaction.cache_snapshot()
        done += 1
    return done


def _discount_worker(transaction: PhotoTransaction, worker: str, task: Task) -> None:
    numbers = [
        event.number
        for event in transaction.snapshot.events
        if isinstance(event, Judged | Skipped) and event.worker == worker and event.task is task
    ]
    key = f"discount:{worker}:{task.value}:{transaction.photo}:{max(numbers, default=0)}"
    if numbers and find_event(transaction.connection, key) is None:
        transaction.add_event(key, worker, Discounted.kind, {"whom": worker, "task": task.value})
