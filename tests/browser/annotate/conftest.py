"""Annotation servers for workers in browsers and over HTTP."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from deixis.annotate import mturk
from deixis.annotate.known_answers import add_known_photos
from deixis.annotate.material import prepare_photo
from deixis.annotate.people import Role, invite
from deixis.annotate.project import Project, add_photos, make_project, open_for_work
from deixis.annotate.settings import Settings
from deixis.annotate.web.app import make_app
from deixis.annotate.web.context import Limits
from deixis.data.records import Photo
from deixis.data.samples import SAMPLES
from tests.annotate.http_server import serving
from tests.browser.annotate.crowd import Member, Truths

if TYPE_CHECKING:
    from playwright.sync_api import Page

collect_ignore_glob = [] if find_spec("playwright") else ["test_*.py"]

NO_LIMITS = Limits(answers_per_second=1e6, answers_at_once=1e6, attempts_per_minute=1e6, attempts_at_once=1e6)


@dataclass
class Bench:
    """A project with a running server."""

    project: Project
    address: str
    truths: Truths
    server: ExitStack = field(repr=False)
    workforce: tuple[str, ...] = ()

    def invite(self, name: str, role: Role = Role.WORKER) -> str:
        """Return an invitation link."""
        return f"{self.address}#/join/{invite(self.project, name, role=role, vouched=True)[1]}"

    def member(self, name: str, role: Role = Role.WORKER) -> Member:
        """Return a member who works over HTTP."""
        return Member.join(self.address, self.invite(name, role), self.truths)

    def stop(self) -> None:
        """Stop the server."""
        self.server.close()

    def start(self) -> None:
        """Start the server at the same URL."""
        workforce: Any = SimpleNamespace(HOSTS=self.workforce, router=mturk.router)
        app = make_app(self.project, link=self.address, limits=NO_LIMITS, workforces=[workforce])
        self.server.enter_context(serving(app, int(self.address.rpartition(":")[2].rstrip("/"))))


MakeBench = Callable[..., Bench]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[MakeBench]:
    """Make projects of photos and serve them."""
    with ExitStack() as running:

        def make(
            photos: Sequence[Photo], known: Sequence[Photo] = (), workforce: tuple[str, ...] = (), **settings: object
        ) -> Bench:
            folder = tmp_path / "project"
            make_project(folder, images=SAMPLES / "images", settings=Settings(**settings)).close()  # type: ignore[arg-type]
            project = open_for_work(folder)
            running.callback(project.close)
            add_known_photos(project, known)
            add_photos(project, map(prepare_photo, photos))
            server = running.enter_context(ExitStack())
            made = Bench(project, f"http://127.0.0.1:{_free_port()}/", Truths([*photos, *known]), server, workforce)
            made.start()
            return made

        yield make


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def laptop(page: Page) -> Page:
    """A page of a laptop's size."""
    page.set_viewport_size({"width": 1280, "height": 800})
    return page
