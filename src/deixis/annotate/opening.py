"""Opening a project to work in it: what its settings, or a kill, left undone is done first."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from sqlalchemy import delete, insert, select

from deixis.annotate.changing import Changing
from deixis.annotate.project import Project, open_project
from deixis.annotate.reviewing import requeue_suspended
from deixis.annotate.store.schema import about, photos

_RULES = "rules"


def open_to_work(folder: Path) -> Project:
    """Open a project; after its rules were edited, all photos are looked at anew by the new ones."""
    project = open_project(folder)
    follow_settings(project)
    requeue_suspended(project)
    return project


def follow_settings(project: Project) -> int:
    """Bring the questions of all photos up to date with edited rules; the number of photos, 0 where nothing was edited.

    Events stay as they are: the same judgements are read by other rules. Whoever is killed in between begins again.
    """
    rules = json.dumps(asdict(project.settings.rules) | {"independent": project.settings.independent})
    with project.database.reading() as connection:
        followed = connection.scalar(select(about.c.value).where(about.c.key == _RULES))
        names = list(connection.scalars(select(photos.c.id).where(photos.c.known.is_(False))))
    if followed == rules:
        return 0
    for name in names if followed is not None else []:
        with project.database.writing() as connection:
            changing = Changing(project, connection, name)
            changing.settle()
        changing.keep()
    with project.database.writing() as connection:
        connection.execute(delete(about).where(about.c.key == _RULES))
        connection.execute(insert(about), {"key": _RULES, "value": rules})
    return len(names) if followed is not None else 0
