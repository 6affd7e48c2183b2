"""What the tests of the server share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from deixis.server.app import make_app
from deixis.server.guard import Door
from deixis.server.limits import Limits
from tests.server.fakes import FakeEyes, FakeLibrary, photo_bytes

Visit = Callable[..., TestClient]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three photos."""
    for name, colour in (("dog", "brown"), ("cat", "grey"), ("boat", "blue")):
        (tmp_path / f"{name}.jpg").write_bytes(photo_bytes((64, 48), colour=colour))
    return tmp_path


@pytest.fixture
def library(folder: Path) -> FakeLibrary:
    return FakeLibrary(sorted(folder.glob("*.jpg")), folder)


@pytest.fixture
def visit(library: FakeLibrary) -> Iterator[Visit]:
    """A browser of somebody who visits the server."""
    entered: list[TestClient] = []

    def make(
        door: Door | None = None,
        limits: Limits | None = None,
        eyes: FakeEyes | None = None,
        shown: FakeLibrary | None = None,
        host: str = "127.0.0.1:7860",
    ) -> TestClient:
        app = make_app(library if shown is None else shown, eyes=eyes or FakeEyes(), door=door, limits=limits)
        client = TestClient(app, base_url=f"http://{host}", raise_server_exceptions=False)
        entered.append(client.__enter__())
        return entered[-1]

    yield make
    for client in entered:
        client.__exit__(None, None, None)


@pytest.fixture
def client(visit: Visit) -> TestClient:
    return visit()
