"""Invitations, passwords, sessions, API tokens and suspensions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from argon2 import PasswordHasher
from starlette.testclient import TestClient

from deixis.annotate.people import Role, accept_invitation, find_session, forget_worker, invite, suspend_worker
from deixis.annotate.web.app import make_app
from deixis.annotate.web.auth import hash_password, verify_password
from deixis.annotate.web.context import Limits
from tests.annotate.conftest import Bench, Browser, MakeBench
from tests.annotate.fakes import ask

PASSWORD = "correct horse battery"


def invited(bench: Bench, name: str = "Eve", role: Role = Role.WORKER) -> str:
    return invite(bench.project, name, role=role, vouched=True)[1]


def joined(bench: Bench, name: str = "Ann", role: Role = Role.WORKER) -> TestClient:
    client = bench.new_client()
    response = client.post("/api/join", json={"token": invited(bench, name, role), "password": PASSWORD})
    assert response.status_code == 200
    return client


def test_an_invitation_can_be_used_once(bench: MakeBench) -> None:
    opened = bench()
    _, token = invite(opened.project, "Ann", role=Role.REVIEWER)
    client = opened.new_client()
    assert client.get("/api/session").json()["user"] is None
    assert client.post("/api/invitation", json={"token": token}).json()["role"] == "reviewer"
    response = client.post("/api/join", json={"token": token, "password": PASSWORD}).json()
    assert response["user"]["name"] == "Ann"
    cookie = client.cookies.jar
    assert all(each.has_nonstandard_attr("HttpOnly") for each in cookie)
    assert client.get("/api/session").json()["user"] == response["user"]
    for path in ("invitation", "join"):
        again = opened.new_client().post(f"/api/{path}", json={"token": token, "password": PASSWORD})
        assert again.status_code == 404


def test_a_short_password_does_not_use_up_the_invitation(bench: MakeBench) -> None:
    opened = bench()
    _, token = invite(opened.project, "Ann")
    client = opened.new_client()
    response = client.post("/api/join", json={"token": token, "password": "short"})
    assert response.status_code == 400
    assert client.post("/api/join", json={"token": token, "password": PASSWORD}).status_code == 200


def test_wrong_passwords_and_unknown_names_are_refused_alike(bench: MakeBench) -> None:
    opened = bench()
    joined(opened)
    client = opened.new_client()
    wrong = client.post("/api/login", json={"name": "Ann", "password": "wrong password"})
    nobody = client.post("/api/login", json={"name": "Zoe", "password": PASSWORD})
    assert wrong.status_code == nobody.status_code == 401
    assert wrong.json() == nobody.json()
    right = client.post("/api/login", json={"name": "Ann", "password": PASSWORD})
    assert right.json()["user"]["name"] == "Ann"
    assert client.post("/api/logout", json={}).status_code == 200
    assert client.get("/api/session").json()["user"] is None


@pytest.mark.parametrize("typed", ["caf\u00e9 horse battery", "cafe\u0301 horse battery"])
@pytest.mark.parametrize("stored", ["caf\u00e9 horse battery", "cafe\u0301 horse battery"])
def test_names_and_passwords_are_those_of_any_keyboard(bench: MakeBench, stored: str, typed: str) -> None:
    """Phones and computers write é as one character or as two."""
    opened = bench()
    token = invited(opened, "Jos\u00e9")
    joining = opened.new_client().post("/api/join", json={"token": token, "password": stored})
    assert joining.status_code == 200
    for name in ("Jos\u00e9", "Jose\u0301", "JOSE\u0301"):
        assert opened.new_client().post("/api/login", json={"name": name, "password": typed}).status_code == 200


def test_passwords_of_older_versions_are_those_that_were_typed() -> None:
    hashed = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("cafe\u0301 horse battery".encode())
    assert verify_password(hashed, "cafe\u0301 horse battery")
    assert not verify_password(hashed, "cafe horse battery")
    assert not verify_password(None, "nobody has this password")


def test_ways_of_writing_a_name_do_not_give_more_attempts(bench: MakeBench) -> None:
    opened = bench()
    joined(opened)
    client, wide = opened.new_client(), [chr(ord(letter) + 0xFEE0) for letter in "Ann"]
    names = map("".join, product(*zip("Ann", wide, strict=True)))
    codes = [client.post("/api/login", json={"name": name, "password": "wrong password"}).status_code for name in names]
    assert codes == [401] * 5 + [429] * 3


def test_login_attempts_are_rate_limited(bench: MakeBench) -> None:
    opened = bench(limits=Limits(attempts_per_minute=1, attempts_at_once=2))
    client = opened.new_client()
    tries = [client.post("/api/login", json={"name": "Ann", "password": "guess number one"}) for _ in range(3)]
    assert [each.status_code for each in tries] == [401, 401, 429]
    assert int(tries[2].headers["retry-after"]) > 10


def test_wrong_passwords_of_others_do_not_lock_a_worker_out(bench: MakeBench) -> None:
    opened = bench()
    joined(opened)
    others = TestClient(opened.new_client().app, base_url="http://localhost", client=("192.0.2.7", 5000))
    tries = [others.post("/api/login", json={"name": "Ann", "password": f"guess number {n}"}) for n in range(7)]
    assert tries[-1].status_code == 429
    wait_s = int(tries[-1].headers["retry-after"])
    assert wait_s <= 61
    assert f"try again in {wait_s} s" in tries[-1].json()["error"]
    right = opened.new_client().post("/api/login", json={"name": "Ann", "password": PASSWORD})
    assert right.status_code == 200


def test_right_passwords_are_no_failures(bench: MakeBench) -> None:
    """Many people of one address, and one who mistypes the password now and then, are never delayed."""
    opened = bench(limits=Limits(attempts_per_minute=1000, attempts_at_once=1000))
    joined(opened)
    client = opened.new_client()
    for number in range(25):
        response = client.post("/api/login", json={"name": "Ann", "password": PASSWORD})
        assert response.status_code == 200, number
    for _ in range(2):
        assert client.post("/api/login", json={"name": "Ann", "password": "wrong password"}).status_code == 401
        assert client.post("/api/login", json={"name": "Ann", "password": PASSWORD}).status_code == 200


def test_answers_are_rate_limited(bench: MakeBench) -> None:
    ann = bench(limits=Limits(answers_per_second=0.001, answers_at_once=3)).person("Ann")
    for status in (200, 200, 200, 429):
        ann.post("next", status)


def test_a_new_password_ends_all_other_sessions(bench: MakeBench) -> None:
    opened = bench()
    here = joined(opened)
    there = opened.new_client()
    there.post("/api/login", json={"name": "Ann", "password": PASSWORD})
    new = {"old": PASSWORD, "new": "another long password"}
    assert here.post("/api/password", json={**new, "old": "not the old one"}).status_code == 403
    assert here.post("/api/password", json=new).json()["user"]["name"] == "Ann"
    assert here.get("/api/me").status_code == 200
    assert there.get("/api/me").status_code == 401


def test_requests_from_pages_of_other_sites_are_refused(bench: MakeBench) -> None:
    opened = bench()
    cookie = opened.new_client().post("/api/join", json={"token": invited(opened), "password": PASSWORD})
    assert "samesite=strict" in cookie.headers["set-cookie"].casefold()
    ann = opened.person("Ann")
    for header, value in (
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
    ):
        assert ann.client.post("/api/next", json={}, headers={header: value}).status_code == 403, value
    for header, value in (("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1")):
        assert ann.client.post("/api/next", json={}, headers={header: value}).status_code == 200, value
    assert ann.client.get("/api/me", headers={"host": "evil.example"}).status_code == 421


def test_a_session_of_another_project_is_invalid(bench: MakeBench) -> None:
    one, other = bench(), bench()
    ann = one.person("Ann")
    question = ann.next()
    stranger = other.person("Bob")
    client = other.new_client()
    client.cookies.update(dict.fromkeys(stranger.client.cookies, ann.token))
    client.headers.update(ann.client.headers)
    assert client.post("/api/next", json={}).status_code == 401
    assert client.get("/api/me", headers={"authorization": f"Bearer {ann.token}"}).status_code == 401
    stranger.post("answer", 404, token=question["token"], answer="yes")
    assert stranger.client.get(question["photo"]["url"]).status_code == 404


def test_sessions_end_when_they_expire_or_the_worker_is_forgotten(bench: MakeBench) -> None:
    opened = bench()
    ann, bob = opened.person("Ann"), opened.person("Bob")
    forget_worker(opened.project, "Bob")
    assert bob.client.get("/api/me").status_code == 401
    assert ann.get("me")
    opened.clock.now += 31 * 86400
    assert ann.client.get("/api/me").status_code == 401


def test_the_database_stores_no_tokens(bench: MakeBench) -> None:
    opened = bench()
    joined(opened)
    ann = opened.person("Bob")
    text = b"".join(path.read_bytes() for path in opened.project.folder.glob("annotations.sqlite*"))
    assert ann.token.encode() not in text
    assert PASSWORD.encode() not in text
    assert b"$argon2id$" in text


OPEN_TO_ALL = {"session", "login", "invitation", "join", "external/enter"}
REVIEWERS = ("review", "gallery", "dashboard")
OWNERS = ("people", "pay.csv", "export", "photos", "photos/{photo_id}/phrases", "guidelines/{task}")


def request_every_route(client: TestClient, *besides: str) -> Iterator[tuple[str, str, int]]:
    """Request each route that is not open to all; yield its method, its path and the status of the response."""
    photo, worker = "p" + "0" * 24, "w" + "0" * 12
    body = {"token": "t", "answer": "yes", "event": 1, "text": "", "phrases": [], "old": "", "new": "", "name": "x"}
    body |= {"photo": photo, "mention": "0:0-1", "decision": "keep", "worker": worker, "task": "link", "seen": 0}
    body["action"] = "draw"
    for path, methods in client.get("/api/openapi.json").json()["paths"].items():
        name = path.removeprefix("/api/")
        if name in OPEN_TO_ALL or name in besides:
            continue
        address = path.format(photo_id=photo, worker=worker, task="link", token="0" * 8)
        for method in methods:
            sent = None if method in ("get", "delete") else body
            yield method, name, client.request(method, address, json=sent).status_code


def test_every_route_requires_a_login(bench: MakeBench) -> None:
    client = TestClient(make_app(bench().project), base_url="http://127.0.0.1")
    found = list(request_every_route(client))
    assert len(found) > 20
    assert [each for each in found if each[2] != 401] == []


@pytest.mark.parametrize(
    ("role", "refused"), [(Role.WORKER, (*REVIEWERS, *OWNERS)), (Role.REVIEWER, OWNERS), (Role.OWNER, ())]
)
def test_every_route_requires_its_role(bench: MakeBench, role: Role, refused: tuple[str, ...]) -> None:
    def needs_more(name: str) -> bool:
        return any(name == each or (name.startswith(f"{each}/") and each != "photos") for each in refused)

    client = bench().person("Ann", role).client
    found = [
        (method, name, status == 403) for method, name, status in request_every_route(client, "logout", "password")
    ]
    assert found == [(method, name, needs_more(name)) for method, name, _ in found]


def with_token(bench: Bench, token: str) -> Browser:
    client = bench.new_client()
    client.headers["authorization"] = f"Bearer {token}"
    return Browser("", token, client)


def test_a_token_works_until_it_is_revoked_but_cannot_make_others(bench: MakeBench) -> None:
    opened = bench()
    ann, bob = opened.person("Ann"), opened.person("Bob")
    made = ann.post("tokens", name="script")
    program = with_token(opened, made["token"])
    assert program.post("next")["question"]
    program.post("tokens", 403, name="another")
    program.get("tokens", 403)
    assert [each["name"] for each in ann.get("tokens")["tokens"]] == ["script"]
    assert bob.get("tokens")["tokens"] == []
    assert bob.client.delete(f"/api/tokens/{made['id']}").status_code == 404
    assert ann.client.delete(f"/api/tokens/{made['id']}").status_code == 200
    program.post("next", 401)


def test_a_token_has_the_rights_of_its_role(bench: MakeBench) -> None:
    opened = bench()
    worker = with_token(opened, opened.person("Ann").post("tokens", name="x")["token"])
    owner = with_token(opened, opened.person("Olga", Role.OWNER).post("tokens", name="x")["token"])
    worker.get("people", 403)
    assert worker.client.get("/api/export").status_code == 403
    assert owner.get("people")["people"]
    assert owner.client.get("/api/export?to=entities").status_code == 400, "no photo is finished"
    response = owner.client.get("/api/export?to=jsonl&unfinished=true")
    assert response.headers["content-type"] == "application/zip"
    assert response.content.startswith(b"PK")


def test_a_suspended_person_is_signed_out_keeps_the_judgements_and_can_come_back(bench: MakeBench) -> None:
    opened = bench(photos=2)
    olga = opened.person("Olga", Role.OWNER)
    _, invitation = invite(opened.project, "Ann", vouched=True)
    ann_id = accept_invitation(opened.project, invitation, hash_password("a long password")).id
    client = opened.new_client()
    login = {"name": "ann", "password": "a long password"}
    client.post("/api/login", json=login)
    ann = Browser(ann_id, "", client)
    ann.answer("yes")
    held = ann.next()
    assert olga.post(f"people/{ann_id}", suspended=True)["suspended"]
    ann.post("next", 401)
    ann.post("answer", 401, token=held["token"], answer="yes")
    assert client.post("/api/login", json=login).status_code == 403
    assert olga.get("dashboard")["judged"] == 1
    others = opened.person("Bob")
    assert others.next()["photo"] == held["photo"], "what they held is asked of others"
    person = next(each for each in olga.get("people")["people"] if each["worker"] == ann_id)
    assert (person["name"], person["suspended"], person["forgotten"]) == ("Ann", True, False)
    assert not olga.post(f"people/{ann_id}", suspended=False)["suspended"]
    assert client.post("/api/login", json=login).status_code == 200


def test_nobody_suspends_themselves_and_an_owner_stays(bench: MakeBench) -> None:
    opened = bench()
    olga = opened.person("Olga", Role.OWNER)
    olga.post(f"people/{olga.worker}", 400, suspended=True)
    ann = opened.person("Ann")
    ann.post(f"people/{olga.worker}", 403, suspended=True)
    suspend_worker(opened.project, "Ann")
    assert find_session(opened.project, ann.token) is None
    bob = opened.person("Bob")
    assert ask(opened.project, bob.worker)
