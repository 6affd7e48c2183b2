"""Projects of photos of a dog, with a clock that tests set."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from deixis.annotate.project import Project, add_photos, make_project, open_project
from deixis.annotate.settings import Settings
from deixis.annotate.store import Database
from tests.annotate.fakes import Clock, dogs

MakeProject = Callable[..., tuple[Project, Clock]]

on_both_databases = pytest.mark.parametrize("new_project", ["sqlite", "postgres"], indirect=True)
"""Runs a test on PostgreSQL, too: the contract of `deixis.annotate.store` and of the SQL beside its users."""


@pytest.fixture(scope="session")
def made_projects(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes each kind of SQLite project once; tests work on copies."""
    folder, made = tmp_path_factory.mktemp("projects"), dict[str, Path]()

    def make(photos: int, settings: Settings) -> Path:
        kind = f"{photos} {settings}"
        if kind not in made:
            made[kind] = folder / str(len(made))
            project = make_project(made[kind], settings=settings)
            add_photos(project, dogs(photos))
            project.close()
        return made[kind]

    return make


@pytest.fixture
def new_project(
    request: pytest.FixtureRequest, tmp_path: Path, made_projects: Callable[..., Path]
) -> Iterator[MakeProject]:
    """Makes projects with photos of a dog, on SQLite or, with `on_both_databases`, on both databases."""
    made: list[Project] = []
    server = request.getfixturevalue("postgres") if getattr(request, "param", "sqlite") == "postgres" else None

    def make(photos: int = 1, **settings: object) -> tuple[Project, Clock]:
        few_workers = {"history_items": 0, "history_accuracy": 0.0, "verify_own": True}
        chosen = Settings(**few_workers | settings)  # type: ignore[arg-type]
        folder = tmp_path / f"project{len(made)}"
        if server:
            project = make_project(folder, url=_new_schema(server), settings=chosen)
            add_photos(project, dogs(photos))
        else:
            shutil.copytree(made_projects(photos, chosen), folder)
            project = open_project(folder)
            do_not_wait_for_disk(project.database)
        clock = Clock()
        project.clock = clock
        made.append(project)
        return project, clock

    yield make
    for project in made:
        project.close()


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """An SQLite database with empty tables."""
    made = Database(f"sqlite:///{tmp_path / 'a.sqlite'}")
    made.create_tables()
    return made


def do_not_wait_for_disk(database: Database) -> None:
    """Let SQLite commit without fsync; durability has tests of its own in `tests.faults`."""
    database.engine.dispose()

    @event.listens_for(database.engine, "connect")
    def _prepare(connection: Any, record: Any) -> None:
        connection.execute("PRAGMA synchronous = OFF")


def _new_schema(server: str) -> str:
    """Return the address of a new schema for one project, which is created much faster than a database."""
    name = f"test_{uuid.uuid4().hex}"
    database = Database(server)
    with database.writing() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    database.close()
    return f"{server}&options=-csearch_path%3D{name}"
