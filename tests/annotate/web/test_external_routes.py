"""Workers of an external workforce."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from deixis.annotate.people import Role
from deixis.annotate.project import read_secret
from deixis.annotate.web.external_routes import WORKFORCE_HOSTS
from deixis.annotate.workforce import list_assignments, make_items_key
from tests.annotate.web.conftest import Bench, MakeBench

pytestmark = pytest.mark.parametrize("new_project", ["sqlite"], indirect=True)


def entering(bench: Bench, items: int = 2, **more: str) -> dict[str, str]:
    key = make_items_key(read_secret(bench.project), items)
    body = {"key": key, "assignmentId": "A1", "hitId": "H1", "workerId": "W1", "turkSubmitTo": WORKFORCE_HOSTS[1]}
    return body | more


def entered(bench: Bench, **more: Any) -> tuple[TestClient, Any]:
    response = bench.client.post("/api/external/enter", json=entering(bench, **more))
    assert response.status_code == 200, response.text
    client = TestClient(bench.client.app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    client.headers["authorization"] = f"Bearer {response.json()['session']}"
    return client, response.json()


def test_a_preview_has_no_session(bench: MakeBench) -> None:
    opened = bench()
    body = entering(opened, assignmentId="ASSIGNMENT_ID_NOT_AVAILABLE")
    response = opened.client.post("/api/external/enter", json=body).json()
    assert response["preview"] is True
    assert response["session"] is None
    assert list_assignments(opened.project) == []


def test_an_assignment_is_submitted_after_its_questions(bench: MakeBench) -> None:
    opened = bench(photos=3)
    client, progress = entered(opened)
    assert (progress["items"], progress["done"], progress["submit"]) == (2, 0, None)
    question = client.post("/api/next", json={}).json()["question"]
    assert client.get(question["photo"]["url"]).status_code in (200, 404), "its address has a key"
    first = client.post("/api/answer", json={"token": question["token"], "answer": "yes", "next": {}}).json()
    assert first["external"] == {"items": 2, "done": 1, "submit": None}
    again = client.post("/api/answer", json={"token": question["token"], "answer": "yes"}).json()
    assert again["external"]["done"] == 1, "a request that comes again counts once"
    body = {"token": first["next"]["token"], "answer": first["next"]["answers"][0], "next": {}}
    last = client.post("/api/answer", json=body).json()
    assert last["next"] is None
    assert last["external"]["submit"] == {
        "url": "https://workersandbox.mturk.com/mturk/externalSubmit",
        "fields": {"assignmentId": "A1", "answered": "2"},
    }
    again = client.post("/api/answer", json=body).json()
    assert (again["again"], again["external"]) == (True, last["external"]), "its acknowledgement was lost on the way"
    assert client.post("/api/next", json={}).json()["question"] is None
    assert client.get("/api/session").json()["external"]["done"] == 2


def test_an_undone_answer_is_not_counted_twice(bench: MakeBench) -> None:
    opened = bench(photos=3)
    client, _ = entered(opened, items=5)
    question = client.post("/api/next", json={}).json()["question"]
    response = client.post("/api/answer", json={"token": question["token"], "answer": "yes"}).json()
    question = client.post("/api/undo", json={"event": response["event"]}).json()["question"]
    assert client.get("/api/session").json()["external"]["done"] == 0
    client.post("/api/answer", json={"token": question["token"], "answer": "no"})
    assert client.get("/api/session").json()["external"]["done"] == 1


def test_the_name_of_an_invited_worker_is_refused(bench: MakeBench) -> None:
    opened = bench()
    opened.person("outside boss", Role.OWNER)
    answer = opened.client.post("/api/external/enter", json=entering(opened, workerId="boss"))
    assert answer.status_code == 422
    assert list_assignments(opened.project) == []


def test_an_assignment_continues_where_it_was(bench: MakeBench) -> None:
    opened = bench(photos=3)
    client, _ = entered(opened)
    question = client.post("/api/next", json={}).json()["question"]
    client.post("/api/answer", json={"token": question["token"], "answer": "yes"})
    _, progress = entered(opened)
    assert progress["done"] == 1
    assert len(list_assignments(opened.project)) == 1
    other = opened.client.post("/api/external/enter", json=entering(opened, workerId="W2"))
    assert other.status_code == 422


def test_an_assignment_can_be_submitted_if_no_questions_are_left(bench: MakeBench) -> None:
    opened = bench(photos=1, judgements_to_end=1)
    client, _ = entered(opened, items=50)
    question = client.post("/api/next", json={}).json()["question"]
    response: Any = None
    while question:
        answer = {"drawing": "no more"}.get(question["task"], question["answers"][0])
        response = client.post("/api/answer", json={"token": question["token"], "answer": answer, "next": {}}).json()
        question = response["next"]
    assert response["external"]["submit"]["fields"]["answered"] == str(response["external"]["done"])


@pytest.mark.parametrize(
    ("forged", "status"),
    [
        ({"key": "2.00000000000000000000000000000000"}, 403),
        ({"key": "ünïcode"}, 403),
        ({"workerId": ""}, 422),
        ({"turkSubmitTo": "https://evil.example"}, 422),
        ({"turkSubmitTo": "javascript:alert(1)"}, 422),
        ({"turkSubmitTo": "https://www.mturk.com.evil.example/"}, 422),
    ],
)
def test_forged_links_are_refused(bench: MakeBench, forged: dict[str, str], status: int) -> None:
    opened = bench()
    assert opened.client.post("/api/external/enter", json=entering(opened, **forged)).status_code == status
    assert list_assignments(opened.project) == []


def test_only_the_external_page_can_be_shown_in_a_frame(bench: MakeBench) -> None:
    client = bench().client
    in_frame = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
    theirs = client.get("/external?key=1", headers=in_frame)
    assert f"frame-ancestors {' '.join(WORKFORCE_HOSTS)}" in theirs.headers["content-security-policy"]
    assert "x-frame-options" not in theirs.headers
    assert client.get("/", headers=in_frame).status_code == 403
    assert "frame-ancestors 'none'" in client.get("/").headers["content-security-policy"]
