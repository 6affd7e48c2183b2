"""Workers of an external workforce."""

from __future__ import annotations

from typing import Any

import pytest

from deixis.annotate.people import Role
from deixis.annotate.project import read_secret
from deixis.annotate.web.external_routes import WORKFORCE_HOSTS
from deixis.annotate.workforce import list_assignments, make_items_key
from tests.annotate.web.conftest import Bench, Browser, MakeBench

pytestmark = pytest.mark.parametrize("new_project", ["sqlite"], indirect=True)


def entry(bench: Bench, items: int = 2, **more: str) -> dict[str, str]:
    key = make_items_key(read_secret(bench.project), items)
    body = {"key": key, "assignmentId": "A1", "hitId": "H1", "workerId": "W1", "turkSubmitTo": WORKFORCE_HOSTS[1]}
    return body | more


def enter(bench: Bench, **more: Any) -> tuple[Browser, Any]:
    response = bench.client.post("/api/external/enter", json=entry(bench, **more))
    assert response.status_code == 200, response.text
    token = response.json()["session"]
    client = bench.new_client()
    client.headers["authorization"] = f"Bearer {token}"
    return Browser("", token, client), response.json()


def test_a_preview_has_no_session(bench: MakeBench) -> None:
    opened = bench()
    _, response = enter(opened, assignmentId="ASSIGNMENT_ID_NOT_AVAILABLE")
    assert (response["preview"], response["session"]) == (True, None)
    assert list_assignments(opened.project) == []


def test_an_assignment_is_submitted_after_its_questions(bench: MakeBench) -> None:
    worker, progress = enter(bench(photos=3))
    assert (progress["items"], progress["done"], progress["submit"]) == (2, 0, None)
    question = worker.next()
    assert worker.client.get(question["photo"]["url"]).status_code in (200, 404), "its address has a key"
    first = worker.post("answer", token=question["token"], answer="yes", next={})
    assert first["external"] == {"items": 2, "done": 1, "submit": None}
    again = worker.post("answer", token=question["token"], answer="yes")
    assert again["external"]["done"] == 1, "a repeated request counts once"
    body = {"token": first["next"]["token"], "answer": first["next"]["answers"][0], "next": {}}
    last = worker.post("answer", **body)
    assert last["next"] is None
    assert last["external"]["submit"] == {
        "url": "https://workersandbox.mturk.com/mturk/externalSubmit",
        "fields": {"assignmentId": "A1", "answered": "2"},
    }
    again = worker.post("answer", **body)
    assert (again["again"], again["external"]) == (True, last["external"]), "the acknowledgement was lost"
    assert worker.post("next")["question"] is None
    assert worker.get("session")["external"]["done"] == 2


def test_an_undone_answer_is_not_counted_twice(bench: MakeBench) -> None:
    worker, _ = enter(bench(photos=3), items=5)
    question = worker.post("undo", event=worker.answer("yes")["event"])["question"]
    assert worker.get("session")["external"]["done"] == 0
    worker.post("answer", token=question["token"], answer="no")
    assert worker.get("session")["external"]["done"] == 1


def test_an_assignment_continues_where_it_was(bench: MakeBench) -> None:
    opened = bench(photos=3)
    enter(opened)[0].answer("yes")
    assert enter(opened)[1]["done"] == 1
    assert len(list_assignments(opened.project)) == 1
    assert opened.client.post("/api/external/enter", json=entry(opened, workerId="W2")).status_code == 422


def test_an_assignment_can_be_submitted_if_no_questions_are_left(bench: MakeBench) -> None:
    worker, _ = enter(bench(photos=1, judgements_to_end=1), items=50)
    question: Any = worker.next()
    while question:
        answer = {"drawing": "no more"}.get(question["task"], question["answers"][0])
        response = worker.post("answer", token=question["token"], answer=answer, next={})
        question = response["next"]
    assert response["external"]["submit"]["fields"]["answered"] == str(response["external"]["done"])


def test_forged_links_and_names_of_invited_workers_are_refused(bench: MakeBench) -> None:
    opened = bench()
    opened.person("outside boss", Role.OWNER)
    for forged, status in (
        ({"key": "2.00000000000000000000000000000000"}, 403),
        ({"key": "ünïcode"}, 403),
        ({"workerId": ""}, 422),
        ({"workerId": "boss"}, 422),
        ({"turkSubmitTo": "https://evil.example"}, 422),
        ({"turkSubmitTo": "javascript:alert(1)"}, 422),
        ({"turkSubmitTo": "https://www.mturk.com.evil.example/"}, 422),
    ):
        response = opened.client.post("/api/external/enter", json=entry(opened, **forged))
        assert response.status_code == status, forged
    assert list_assignments(opened.project) == []


def test_only_the_external_page_can_be_shown_in_a_frame(bench: MakeBench) -> None:
    client = bench().client
    in_frame = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
    theirs = client.get("/external?key=1", headers=in_frame)
    assert f"frame-ancestors {' '.join(WORKFORCE_HOSTS)}" in theirs.headers["content-security-policy"]
    assert "x-frame-options" not in theirs.headers
    assert client.get("/", headers=in_frame).status_code == 403
    assert "frame-ancestors 'none'" in client.get("/").headers["content-security-policy"]
