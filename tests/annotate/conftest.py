"""Projects on both databases, with a clock that tests set."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from deixis.annotate.database import Database
from deixis.annotate.project import Project, add_photos, make_project
from deixis.annotate.settings import Settings
from tests.annotate.fakes import Clock, dogs

MakeProject = Callable[..., tuple[Project, Clock]]


@pytest.fixture(params=["sqlite", "postgres"])
def new_project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeProject]:
    """Makes projects with photos of a dog, on SQLite and then on PostgreSQL."""
    made: list[Project] = []
    server = request.getfixturevalue("postgres") if request.param == "postgres" else None

    def make(photos: int = 1, **settings: object) -> tuple[Project, Clock]:
        few_workers = {"history_items": 0, "history_accuracy": 0.0, "verify_own": True}
        chosen = Settings(**few_workers | settings)  # type: ignore[arg-type]
        url = _new_database(server) if server else None
        project = make_project(tmp_path / f"project{len(made)}", url=url, settings=chosen)
        clock = Clock()
        project.clock = clock
        made.append(project)
        add_photos(project, dogs(photos))
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


def _new_database(server: str) -> str:
    """Return the address of a new schema for one project, which is created much faster than a database."""
    name = f"test_{uuid.uuid4().hex}"
    database = Database(server)
    with database.writing() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    database.close()
    return f"{server}&options=-csearch_path%3D{name}"
