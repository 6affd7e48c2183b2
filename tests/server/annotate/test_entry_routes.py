"""Invitations, passwords, sessions and the sign of our own pages."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from deixis.annotate.people import Role, forget, invite
from deixis.server.annotate.app import make_app
from deixis.server.annotate.desk import Limits
from tests.server.annotate.conftest import Bench, MakeBench

pytestmark = pytest.mark.parametrize("new_project", ["sqlite"], indirect=True)

PASSWORD = "correct horse battery"


def browser(bench: Bench) -> TestClient:
    return TestClient(bench.client.app, base_url="http://127.0.0.1", raise_server_exceptions=False)


def joined(bench: Bench, name: str = "Ann", role: Role = Role.WORKER) -> TestClient:
    client = browser(bench)
    _, token = invite(bench.project, name, role=role, vouched=True)
    said = client.post("/api/join", json={"token": token, "password": PASSWORD})
    assert said.status_code == 200
    client.headers["x-deixis-csrf"] = said.json()["csrf"]
    return client


def test_an_invitation_lets_in_once(bench: MakeBench) -> None:
    opened = bench()
    _, token = invite(opened.project, "Ann", role=Role.REVIEWER)
    client = browser(opened)
    assert client.get("/api/session").json()["user"] is None
    assert client.post("/api/invitation", json={"token": token}).json()["role"] == "reviewer"
    said = client.post("/api/join", json={"token": token, "password": PASSWORD}).json()
    assert said["user"]["name"] == "Ann"
    cookie = client.cookies.jar
    assert all(each.has_nonstandard_attr("HttpOnly") for each in cookie)
    assert client.get("/api/session").json()["user"] == said["user"]
    for path in ("invitation", "join"):
        again = browser(opened).post(f"/api/{path}", json={"token": token, "password": PASSWORD})
        assert (again.status_code, "was used" in again.text) == (404, True)


def test_a_short_password_leaves_the_invitation_as_it_is(bench: MakeBench) -> None:
    opened = bench()
    _, token = invite(opened.project, "Ann")
    client = browser(opened)
    said = client.post("/api/join", json={"token": token, "password": "short"})
    assert (said.status_code, said.json()["error"]) == (400, "a password has 10 to 200 characters")
    assert client.post("/api/join", json={"token": token, "password": PASSWORD}).status_code == 200


def test_logging_in_needs_the_right_password_and_says_the_same_of_names_that_are_not_there(bench: MakeBench) -> None:
    opened = bench()
    joined(opened)
    client = browser(opened)
    wrong = client.post("/api/login", json={"name": "Ann", "password": "wrong password"})
    nobody = client.post("/api/login", json={"name": "Zoe", "password": PASSWORD})
    assert wrong.status_code == nobody.status_code == 401
    assert wrong.json() == nobody.json()
    right = client.post("/api/login", json={"name": "Ann", "password": PASSWORD})
    assert right.json()["user"]["name"] == "Ann"
    client.headers["x-deixis-csrf"] = right.json()["csrf"]
    assert client.post("/api/logout", json={}).status_code == 200
    assert client.get("/api/session").json()["user"] is None


def test_guessing_passwords_is_slowed_down(bench: MakeBench) -> None:
    opened = bench(limits=Limits(logins_per_minute=1, logins_at_once=2))
    client = browser(opened)
    tries = [client.post("/api/login", json={"name": "Ann", "password": "guess number one"}) for _ in range(3)]
    assert [each.status_code for each in tries] == [401, 401, 429]
    assert int(tries[2].headers["retry-after"]) > 10


def test_answers_that_come_too_fast_are_slowed_down(bench: MakeBench) -> None:
    ann = bench(limits=Limits(answers_per_second=0.001, answers_at_once=3)).person("Ann")
    for status in (200, 200, 200, 429):
        ann.post("next", status)


def test_a_new_password_ends_all_other_sessions(bench: MakeBench) -> None:
    opened = bench()
    here = joined(opened)
    there = browser(opened)
    there.post("/api/login", json={"name": "Ann", "password": PASSWORD})
    new = {"old": PASSWORD, "new": "another long password"}
    assert here.post("/api/password", json={**new, "old": "not the old one"}).status_code == 403
    assert here.post("/api/password", json=new).json()["user"]["name"] == "Ann"
    assert here.get("/api/me").status_code == 200
    assert there.get("/api/me").status_code == 401


def test_what_does_not_come_from_our_page_is_refused(bench: MakeBench) -> None:
    ann = bench().person("Ann")
    shown = ann.client.headers.pop("x-deixis-csrf")
    assert ann.client.post("/api/next", json={}).status_code == 403
    assert ann.client.post("/api/next", json={}, headers={"x-deixis-csrf": shown[::-1]}).status_code == 403
    with_origin = {"x-deixis-csrf": shown, "origin": "https://evil.example"}
    assert ann.client.post("/api/next", json={}, headers=with_origin).status_code == 403
    assert ann.client.post("/api/next", json={}, headers={"x-deixis-csrf": shown}).status_code == 200
    assert ann.client.get("/api/me", headers={"host": "evil.example"}).status_code == 421


def test_the_session_of_another_project_opens_nothing(bench: MakeBench) -> None:
    one, other = bench(), bench()
    ann = one.person("Ann")
    question = ann.next()
    stranger = other.person("Bob")
    for client in (TestClient(other.client.app, base_url="http://127.0.0.1"),):
        client.cookies.update(dict.fromkeys(stranger.client.cookies, ann.token))
        client.headers.update(ann.client.headers)
        assert client.post("/api/next", json={}).status_code == 401
        assert client.get("/api/me", headers={"authorization": f"Bearer {ann.token}"}).status_code == 401
    said = stranger.post("answer", 404, token=question["token"], answer="yes")
    assert "never given" in said["error"]
    assert stranger.client.get(question["photo"]["url"]).status_code == 404


def test_sessions_end_when_their_time_is_over_or_their_person_is_forgotten(bench: MakeBench) -> None:
    opened = bench()
    ann, bob = opened.person("Ann"), opened.person("Bob")
    forget(opened.project, "Bob")
    assert bob.client.get("/api/me").status_code == 401
    assert ann.get("me")
    opened.clock.now += 31 * 86400
    assert ann.client.get("/api/me").status_code == 401


def test_the_database_knows_no_token(bench: MakeBench) -> None:
    opened = bench()
    joined(opened)
    ann = opened.person("Bob")
    text = b"".join(path.read_bytes() for path in opened.project.folder.glob("annotations.sqlite*"))
    assert ann.token.encode() not in text
    assert PASSWORD.encode() not in text
    assert b"$argon2id$" in text


def test_every_route_is_closed_to_visitors(bench: MakeBench) -> None:
    app = make_app(bench().project)
    client = TestClient(app, base_url="http://127.0.0.1")
    open_to_all = {"/api/session", "/api/login", "/api/invitation", "/api/join", "/api/external/enter"}
    tried = 0
    for path, methods in client.get("/api/openapi.json").json()["paths"].items():
        if path in open_to_all:
            continue
        path = path.replace("{photo_id}", "p" + "0" * 24).replace("{worker}", "w" + "0" * 12).replace("{task}", "link")
        for method in methods:
            bodies = ({"token": "t", "answer": "yes", "event": 1, "text": "", "phrases": [], "old": "", "new": "",
                       "photo": "p" + "0" * 24, "mention": "0:0-1", "decision": "keep", "worker": "w" + "0" * 12,
                       "task": "link", "name": "x"},)  # fmt: skip
            answer = client.request(method, path, json=None if method in ("get", "delete") else bodies[0])
            assert answer.status_code == 401, (method, path, answer.text)
            tried += 1
    assert tried > 20
