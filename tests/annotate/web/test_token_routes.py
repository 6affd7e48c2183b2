"""API tokens and suspensions over HTTP."""

from __future__ import annotations

from deixis.annotate.people import Role, accept_invitation, find_session, invite, suspend_worker
from deixis.annotate.web.authentication import hash_password
from tests.annotate.fakes import ask
from tests.annotate.web.conftest import Bench, Browser, MakeBench


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
    client.headers["x-deixis-csrf"] = client.post("/api/login", json=login).json()["csrf"]
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
