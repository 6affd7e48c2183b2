"""People whom an outside workforce sends, and what Mechanical Turk is told."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from deixis.annotate.people import Role
from deixis.annotate.workforce import APPROVED, all_assignments
from deixis.errors import DeixisError
from deixis.server.annotate.app import project_secret
from deixis.server.annotate.outside import HOSTS, Workforce
from deixis.server.annotate.turk import Offer, external_question, known_hits, offer, settle
from tests.server.annotate.conftest import Bench, MakeBench

pytestmark = pytest.mark.parametrize("new_project", ["sqlite"], indirect=True)


def entering(bench: Bench, items: int = 2, **more: str) -> dict[str, str]:
    key = Workforce(project_secret(bench.project)).key_for(items)
    given = {"key": key, "assignmentId": "A1", "hitId": "H1", "workerId": "W1", "turkSubmitTo": HOSTS[1]}
    return given | more


def entered(bench: Bench, **more: Any) -> tuple[TestClient, Any]:
    said = bench.client.post("/api/external/enter", json=entering(bench, **more))
    assert said.status_code == 200, said.text
    client = TestClient(bench.client.app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    client.headers["authorization"] = f"Bearer {said.json()['session']}"
    return client, said.json()


def test_whoever_only_looks_gets_a_preview_and_no_session(bench: MakeBench) -> None:
    opened = bench()
    given = entering(opened, assignmentId="ASSIGNMENT_ID_NOT_AVAILABLE")
    said = opened.client.post("/api/external/enter", json=given).json()
    assert said["preview"] is True
    assert said["session"] is None
    assert all_assignments(opened.project) == []


def test_an_assignment_is_done_after_its_questions_and_then_handed_in(bench: MakeBench) -> None:
    opened = bench(photos=3)
    client, said = entered(opened)
    assert (said["items"], said["done"], said["submit"]) == (2, 0, None)
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


def test_an_answer_taken_back_is_not_counted_twice(bench: MakeBench) -> None:
    opened = bench(photos=3)
    client, _ = entered(opened, items=5)
    question = client.post("/api/next", json={}).json()["question"]
    said = client.post("/api/answer", json={"token": question["token"], "answer": "yes"}).json()
    question = client.post("/api/undo", json={"event": said["event"]}).json()["question"]
    assert client.get("/api/session").json()["external"]["done"] == 0
    client.post("/api/answer", json={"token": question["token"], "answer": "no"})
    assert client.get("/api/session").json()["external"]["done"] == 1


def test_nobody_enters_under_the_name_of_an_invited_person(bench: MakeBench) -> None:
    opened = bench()
    opened.person("outside boss", Role.OWNER)
    answer = opened.client.post("/api/external/enter", json=entering(opened, workerId="boss"))
    assert (answer.status_code, answer.json()) == (422, {"error": "this name is somebody else's"})


def test_coming_back_goes_on_where_it_was(bench: MakeBench) -> None:
    opened = bench(photos=3)
    client, _ = entered(opened)
    question = client.post("/api/next", json={}).json()["question"]
    client.post("/api/answer", json={"token": question["token"], "answer": "yes"})
    _, said = entered(opened)
    assert said["done"] == 1
    assert len(all_assignments(opened.project)) == 1
    other = opened.client.post("/api/external/enter", json=entering(opened, workerId="W2"))
    assert (other.status_code, "somebody else's" in other.text) == (422, True)


def test_whoever_finds_nothing_to_do_can_hand_in_at_once(bench: MakeBench) -> None:
    opened = bench(photos=1, judgements_to_end=1)
    client, _ = entered(opened, items=50)
    question = client.post("/api/next", json={}).json()["question"]
    said: Any = None
    while question:
        answer = {"drawing": "no more"}.get(question["task"], question["answers"][0])
        said = client.post("/api/answer", json={"token": question["token"], "answer": answer, "next": {}}).json()
        question = said["next"]
    assert said["external"]["submit"]["fields"]["answered"] == str(said["external"]["done"])


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
def test_forged_addresses_are_refused(bench: MakeBench, forged: dict[str, str], status: int) -> None:
    opened = bench()
    assert opened.client.post("/api/external/enter", json=entering(opened, **forged)).status_code == status
    assert all_assignments(opened.project) == []


def test_only_the_page_for_them_may_be_shown_in_a_frame(bench: MakeBench) -> None:
    client = bench().client
    in_frame = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
    theirs = client.get("/external?key=1", headers=in_frame)
    assert f"frame-ancestors {' '.join(HOSTS)}" in theirs.headers["content-security-policy"]
    assert "x-frame-options" not in theirs.headers
    assert client.get("/", headers=in_frame).status_code == 403
    assert "frame-ancestors 'none'" in client.get("/").headers["content-security-policy"]


class Turk:
    """Mechanical Turk as boto3 describes it; requests that it would refuse are refused."""

    def __init__(self) -> None:
        boto3 = pytest.importorskip("boto3", reason="boto3 is not installed: pip install deixis[mturk]")
        from botocore.stub import Stubber

        secret = {"aws_access_key_id": "x", "aws_secret_access_key": "y"}
        self.client = boto3.client("mturk", region_name="us-east-1", **secret)
        self.stub = Stubber(self.client)
        self.stub.activate()


def test_a_hit_shows_our_page_and_asks_for_a_history(bench: MakeBench) -> None:
    opened = bench(history_items=500, history_accuracy=0.95)
    turk = Turk()
    wanted = Offer("https://dogs.example.org/", people=5, reward=0.5, items=7)
    secret = project_secret(opened.project)
    expected = {
        "MaxAssignments": 5,
        "LifetimeInSeconds": 7 * 86400,
        "AssignmentDurationInSeconds": 3600,
        "Reward": "0.50",
        "Title": wanted.title,
        "Description": wanted.description,
        "Keywords": "photo, image, annotation, bounding box",
        "Question": external_question(wanted, secret),
        "QualificationRequirements": [
            {
                "QualificationTypeId": name,
                "Comparator": "GreaterThanOrEqualTo",
                "IntegerValues": [value],
                "ActionsGuarded": "Accept",
            }
            for name, value in (("00000000000000000040", 500), ("000000000000000000L0", 95))
        ],
    }
    turk.stub.add_response("create_hit", {"HIT": {"HITId": "H1"}}, expected)
    assert offer(opened.project, turk.client, wanted, secret) == "H1"
    assert known_hits(opened.project) == ["H1"]
    key = expected["Question"].partition("key=")[2].partition("<")[0]  # type: ignore[attr-defined]
    assert Workforce(secret).items_of(key) == 7


def test_only_what_was_done_by_the_one_who_handed_it_in_is_approved(bench: MakeBench) -> None:
    opened = bench(photos=5)
    turk = Turk()
    turk.stub.add_response("create_hit", {"HIT": {"HITId": "H1"}})
    offer(opened.project, turk.client, Offer("https://dogs.example.org", 5, 0.5), project_secret(opened.project))
    for number, items in ((1, 1), (2, 1), (3, 9)):
        client, _ = entered(opened, items=items, assignmentId=f"A{number}", workerId=f"W{number}")
        question = client.post("/api/next", json={}).json()["question"]
        client.post("/api/answer", json={"token": question["token"], "answer": question["answers"][0]})
    handed_in = [("A1", "W1"), ("A2", "W9"), ("A3", "W3"), ("A4", "W4")]
    listed = [{"AssignmentId": assignment, "WorkerId": worker} for assignment, worker in handed_in]
    asked = {"HITId": "H1", "AssignmentStatuses": ["Submitted"], "MaxResults": 100}
    turk.stub.add_response("list_assignments_for_hit", {"Assignments": listed[:2], "NextToken": "more"}, asked)
    turk.stub.add_response("approve_assignment", {}, {"AssignmentId": "A1"})
    turk.stub.add_response("list_assignments_for_hit", {"Assignments": listed[2:]}, {**asked, "NextToken": "more"})
    done = settle(opened.project, turk.client)
    turk.stub.assert_no_pending_responses()
    assert (done.approved, done.not_done, done.unknown) == (["A1"], ["A3"], ["A2", "A4"])
    assert [each.id for each in all_assignments(opened.project) if each.state == APPROVED] == ["A1"]


def test_what_mechanical_turk_refuses_is_one_line(bench: MakeBench) -> None:
    opened = bench()
    turk = Turk()
    turk.stub.add_client_error("create_hit", "RequestError", "Your balance\nis too low")
    with pytest.raises(DeixisError, match=r"^Mechanical Turk: .*Your balance is too low"):
        offer(opened.project, turk.client, Offer("https://dogs.example.org", 5, 0.5), b"")
    with pytest.raises(DeixisError, match="begin with https"):
        Offer("http://dogs.example.org", 5, 0.5)
    assert known_hits(opened.project) == []
