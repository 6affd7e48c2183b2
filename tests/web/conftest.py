"""Fixtures of the tests of the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from deixis.web.app import make_app
from deixis.web.security import AccessPolicy, ServerLimits
from tests.web.fakes import FakeCollection, FakeInference, photo_bytes

Visit = Callable[..., TestClient]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three photos."""
    for name, colour in (("dog", "brown"), ("cat", "grey"), ("boat", "blue")):
        (tmp_path / f"{name}.jpg").write_bytes(photo_bytes((64, 48), colour=colour))
    return tmp_path


@pytest.fixture
def collection(folder: Path) -> FakeCollection:
    return FakeCollection(sorted(folder.glob("*.jpg")), folder)


@pytest.fixture
def visit(collection: FakeCollection) -> Iterator[Visit]:
    """A browser that visits the server."""
    entered: list[TestClient] = []

    def make(
        policy: AccessPolicy | None = None,
        limits: ServerLimits | None = None,
        inference: FakeInference | None = None,
        photos: FakeCollection | None = None,
        host: str = "127.0.0.1:7860",
    ) -> TestClient:
        app = make_app(
            collection if photos is None else photos,
            inference=inference or FakeInference(),
            policy=policy,
            limits=limits,
        )
        client = TestClient(app, base_url=f"http://{host}", raise_server_exceptions=False)
        entered.append(client.__enter__())
        return entered[-1]

    yield make
    for client in entered:
        client.__exit__(None, None, None)


@pytest.fixture
def client(visit: Visit) -> TestClient:
    return visit()
