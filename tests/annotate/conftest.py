"""Projects of photos of a dog, with a clock that tests set, and the workbench with users who are logged in."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher
from sqlalchemy import event, text
from starlette.testclient import TestClient

from deixis.annotate import mturk
from deixis.annotate.people import Role, invite, start_session
from deixis.annotate.project import Project, add_photos, make_project, open_project
from deixis.annotate.settings import Settings
from deixis.annotate.store import Database
from deixis.annotate.web.app import WorkbenchPolicy, make_app
from deixis.annotate.web.context import Limits, cookie_name
from tests.annotate.fakes import Clock, dogs
from tests.web.fakes import photo_bytes

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
            project = make_project(folder, url=new_schema(server), settings=chosen)
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


def new_schema(server: str) -> str:
    """Return the address of a new schema for one project, which is created much faster than a database."""
    name = f"test_{uuid.uuid4().hex}"
    database = Database(server)
    with database.writing() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    database.close()
    return f"{server}&options=-csearch_path%3D{name}"


QUICK = Limits(answers_per_second=1e6, answers_at_once=1e6)


@pytest.fixture(scope="session", autouse=True)
def cheap_password_hashes() -> Iterator[None]:
    """Argon2 with one pass over 8 KiB, so that a log-in does not take a tenth of a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PasswordHasher.__init__, "__defaults__", (1, 8, 1, *PasswordHasher.__init__.__defaults__[3:]))
        yield


@dataclass
class Bench:
    """A project and a client of its server that is not logged in."""

    project: Project
    clock: Clock
    client: TestClient

    def new_client(self) -> TestClient:
        """Another client, without cookies."""
        return TestClient(self.client.app, base_url="http://127.0.0.1", raise_server_exceptions=False)

    def person(self, name: str, role: Role = Role.WORKER) -> Browser:
        """Somebody who is logged in; the invitation and the password have tests of their own."""
        worker, _ = invite(self.project, name, role=role, vouched=True)
        token = start_session(self.project, worker)
        client = self.new_client()
        client.cookies.set(cookie_name(self.project), token)
        return Browser(worker, token, client)


@dataclass
class Browser:
    """The browser of a user who is logged in."""

    worker: str
    token: str
    client: TestClient

    def get(self, path: str, status: int = 200) -> Any:
        return _checked_json(self.client.get(f"/api/{path}"), status)

    def post(self, path: str, status: int = 200, **body: Any) -> Any:
        return _checked_json(self.client.post(f"/api/{path}", json=body), status)

    def put(self, path: str, status: int = 200, **body: Any) -> Any:
        return _checked_json(self.client.put(f"/api/{path}", json=body), status)

    def next(self, *besides: str) -> Any:
        """The next question, which must be there."""
        question = self.post("next", besides=list(besides))["question"]
        assert question is not None
        return question

    def answer(self, value: str, **more: Any) -> Any:
        """Take the next question and answer it."""
        return self.post("answer", token=self.next()["token"], answer=value, seconds=2.0, **more)


def _checked_json(response: httpx.Response, status: int) -> Any:
    assert response.status_code == status, response.text
    return response.json()


MakeBench = Callable[..., Bench]


@pytest.fixture
def bench(new_project: MakeProject, tmp_path: Path) -> Iterator[MakeBench]:
    """Makes workbenches whose photos have pictures."""
    opened: list[TestClient] = []

    def make(
        photos: int = 1, limits: Limits = QUICK, policy: WorkbenchPolicy | None = None, **settings: object
    ) -> Bench:
        project, clock = new_project(photos, **settings)
        project.images = tmp_path / f"pictures{len(opened)}"
        project.images.mkdir()
        (project.images / "dog.jpg").write_bytes(photo_bytes((100, 80), colour="brown"))
        app = make_app(project, limits=limits, policy=policy, workforces=[mturk])
        client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
        opened.append(client.__enter__())
        return Bench(project, clock, client)

    yield make
    for client in opened:
        client.__exit__(None, None, None)
