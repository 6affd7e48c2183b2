"""Opening a project to work in it: what its settings, or a kill, left undone is done first."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from sqlalchemy import delete, insert, select

from deixis.annotate.changing import Changing
from deixis.annotate.project import SETTINGS, Project, open_project
from deixis.annotate.reviewing import requeue_suspended
from deixis.annotate.settings import read_settings
from deixis.annotate.store.folds import Folds
from deixis.annotate.store.schema import about, photos

_RULES = "rules"
_LINK = "link"


def open_to_work(folder: Path) -> Project:
    """Open a project; after its rules were edited, all photos are looked at anew by the new ones."""
    project = open_project(folder)
    follow_settings(project)
    requeue_suspended(project)
    return project


def refresh(project: Project) -> bool:
    """Take over settings that were edited while the project is open; whether they were.

    Every other process that opens the project does so too, and a photo's questions must come from one set of rules.
    """
    settings = read_settings(project.folder / SETTINGS)
    if settings == project.settings:
        return False
    project.following = True
    project.settings, project.folds = settings, Folds(settings)
    try:
        follow_settings(project)
    finally:
        project.following = False
    return True


def served_at(project: Project) -> str:
    """Where the project is served, as far as it is known: what a link for others begins with."""
    with project.database.reading() as connection:
        return connection.scalar(select(about.c.value).where(about.c.key == _LINK)) or "…/"


def remember_link(project: Project, link: str) -> None:
    """Keep where the project is served."""
    with project.database.writing() as connection:
        connection.execute(delete(about).where(about.c.key == _LINK))
        connection.execute(insert(about), {"key": _LINK, "value": link})


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
            changing.settle(anew=True)
        changing.keep()
    with project.database.writing() as connection:
        connection.execute(delete(about).where(about.c.key == _RULES))
        connection.execute(insert(about), {"key": _RULES, "value": rules})
    return len(names) if followed is not None else 0
