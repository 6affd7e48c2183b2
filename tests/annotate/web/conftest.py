"""The workbench of a new project, and users who are logged in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher
from starlette.testclient import TestClient

from deixis.annotate.people import Role, csrf_token, invite, start_session
from deixis.annotate.project import Project, read_secret
from deixis.annotate.web.app import WorkbenchPolicy, cookie_name, make_app
from deixis.annotate.web.context import Limits
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import Clock
from tests.web.fakes import photo_bytes

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
        client.cookies.set(cookie_name(read_secret(self.project)), token)
        client.headers["x-deixis-csrf"] = csrf_token(token)
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
        app = make_app(project, limits=limits, policy=policy, link="http://127.0.0.1/")
        client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
        opened.append(client.__enter__())
        return Bench(project, clock, client)

    yield make
    for client in opened:
        client.__exit__(None, None, None)
