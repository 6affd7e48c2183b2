"""Mechanical Turk: its page, HITs, and approvals."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from deixis.annotate import mturk
from deixis.annotate.mturk import HOSTS, external_question, hire, list_hits, settle
from deixis.annotate.people import Role, forget_worker, list_workers
from deixis.annotate.progress import read_progress
from deixis.annotate.project import Project, read_secret
from deixis.annotate.workforce import (
    APPROVED,
    ENTRY_POINTS,
    Offer,
    count_item,
    external_name,
    find_workforce,
    list_assignments,
    make_items_key,
    parse_items_key,
    start_assignment,
)
from deixis.errors import DeixisError
from tests.annotate.conftest import Bench, Browser, MakeBench, MakeProject, on_both_databases
from tests.annotate.fakes import next_question

ROOT = Path(__file__).parents[2]


def entry(bench: Bench, items: int = 2, **more: str) -> dict[str, str]:
    key = make_items_key(read_secret(bench.project), items)
    body = {"key": key, "assignmentId": "A1", "hitId": "H1", "workerId": "W1", "turkSubmitTo": HOSTS[1]}
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


@on_both_databases
def test_an_assignment_is_entered_once_and_continued_with_its_session(bench: MakeBench) -> None:
    opened = bench(photos=3)
    worker, _ = enter(opened)
    worker.answer("yes")
    _, again = enter(opened, session=worker.token)
    assert (again["done"], again["session"]) == (1, worker.token)
    [first] = list_assignments(opened.project)
    for other in ({}, {"session": "x"}, {"workerId": "W2"}, {"hitId": "H2"}):
        assert opened.client.post("/api/external/enter", json=entry(opened, **other)).status_code == 422
    other = entry(opened, assignmentId="A3", session=worker.token)
    assert opened.client.post("/api/external/enter", json=other).json()["session"] != worker.token
    opened.clock.now += 1
    enter(opened, assignmentId="A2")
    assert [(each.id, each.worker) for each in list_assignments(opened.project)] == [
        ("A1", first.worker),
        ("A3", first.worker),
        ("A2", first.worker),
    ]
    assert external_name(opened.project, first.worker) == "W1"
    forget_worker(opened.project, first.worker)
    assert external_name(opened.project, first.worker) is None


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
    assert f"frame-ancestors {' '.join(HOSTS)}" in theirs.headers["content-security-policy"]
    assert "x-frame-options" not in theirs.headers
    assert client.get("/", headers=in_frame).status_code == 403
    assert "frame-ancestors 'none'" in client.get("/").headers["content-security-policy"]


def start(project: Project, assignment: str, worker: str, items: int) -> None:
    start_assignment(project, assignment, "H1", worker, items, "https://x/")


def count(project: Project, assignment: str) -> None:
    with project.database.writing() as connection:
        count_item(connection, assignment)


class Turk:
    """Mechanical Turk as boto3 describes it; requests that it would refuse are refused."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        boto3 = pytest.importorskip("boto3", reason="boto3 is not installed: pip install deixis[mturk]")
        from botocore.stub import Stubber

        secret = {"aws_access_key_id": "x", "aws_secret_access_key": "y"}
        self.client = boto3.client("mturk", region_name="us-east-1", **secret)
        self.stub = Stubber(self.client)
        self.stub.activate()
        monkeypatch.setattr(mturk, "_connect", lambda live: self.client)


@pytest.fixture
def turk(monkeypatch: pytest.MonkeyPatch) -> Turk:
    return Turk(monkeypatch)


def test_a_hit_shows_the_page_and_requires_a_history(new_project: MakeProject, turk: Turk) -> None:
    project, _ = new_project(history_items=500, history_accuracy=0.95)
    from botocore.stub import ANY

    wanted = Offer("https://dogs.example.org/", people=5, reward=0.5, items=7)
    for items in (500, 0):
        project.settings = replace(project.settings, history_items=items)
        with pytest.raises(DeixisError, match="claimed_workers"):
            hire(project, wanted, live=False)
    project.settings = replace(project.settings, history_items=500, claimed_workers=True)
    secret = read_secret(project)
    question = external_question(wanted, secret)
    expected: dict[str, Any] = {
        "MaxAssignments": 5,
        "LifetimeInSeconds": 7 * 86400,
        "AssignmentDurationInSeconds": 3600,
        "Reward": "0.50",
        "Title": wanted.title,
        "Description": wanted.description,
        "Keywords": ANY,
        "Question": question,
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
    assert hire(project, wanted, live=False) == "H1"
    assert list_hits(project) == ["H1"]
    address, _, rest = question.partition("key=")
    assert address.endswith("<ExternalURL>https://dogs.example.org/external?")
    assert parse_items_key(secret, rest.partition("<")[0]) == 7


def test_only_complete_assignments_of_the_same_worker_are_approved(new_project: MakeProject, turk: Turk) -> None:
    project, _ = new_project()
    turk.stub.add_response("create_hit", {"HIT": {"HITId": "H1"}})
    hire(project, Offer("https://dogs.example.org", 5, 0.5), live=False)
    for number, items in ((1, 1), (2, 1), (3, 9)):
        start(project, f"A{number}", f"W{number}", items)
        count(project, f"A{number}")
    submitted = [("A1", "W1"), ("A2", "W9"), ("A3", "W3"), ("A4", "W4")]
    listed = [{"AssignmentId": assignment, "WorkerId": worker} for assignment, worker in submitted]
    request = {"HITId": "H1", "AssignmentStatuses": ["Submitted"], "MaxResults": 100}
    turk.stub.add_response("list_assignments_for_hit", {"Assignments": listed[:2], "NextToken": "more"}, request)
    turk.stub.add_response("approve_assignment", {}, {"AssignmentId": "A1"})
    turk.stub.add_response("list_assignments_for_hit", {"Assignments": listed[2:]}, {**request, "NextToken": "more"})
    done = settle(project, live=False)
    turk.stub.assert_no_pending_responses()
    assert (done.approved, done.not_done, done.unknown) == (["A1"], ["A3"], ["A2", "A4"])
    assert [each.id for each in list_assignments(project) if each.state == APPROVED] == ["A1"]
    assert {each.name: each.claimed for each in list_workers(project)} == {
        "outside W1": False,
        "outside W2": True,
        "outside W3": False,
    }
    assert [line for line in read_progress(project).advice if line.startswith("1 person claims")]


def test_invented_workers_get_questions_only_if_the_lead_accepts_claims(new_project: MakeProject) -> None:
    project, _ = new_project(2, history_items=500, history_accuracy=0.95)
    start(project, "A1", "invented", 5)
    start_assignment(project, "A2", "H1", "known", 5, "https://x/", confirmed=True)
    workers = {str(each.name): each.worker for each in list_workers(project)}
    assert next_question(project, workers["outside invented"]) is None
    assert next_question(project, workers["outside known"]) is not None
    project.settings = replace(project.settings, claimed_workers=True)
    assert next_question(project, workers["outside invented"]) is not None


def test_errors_of_mechanical_turk_are_one_line(new_project: MakeProject, turk: Turk) -> None:
    project, _ = new_project()
    turk.stub.add_client_error("create_hit", "RequestError", "Your balance\nis too low")
    with pytest.raises(DeixisError, match=r"^Mechanical Turk: .*Your balance is too low"):
        hire(project, Offer("https://dogs.example.org", 5, 0.5), live=False)
    with pytest.raises(DeixisError, match="http://dogs.example.org"):
        hire(project, Offer("http://dogs.example.org", 5, 0.5), live=False)
    assert list_hits(project) == []


def test_the_workbench_finds_it_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    (line,) = declared[ENTRY_POINTS].items()
    monkeypatch.setattr(metadata, "entry_points", lambda group: [EntryPoint(*line, group)])
    assert find_workforce() is mturk
    monkeypatch.setattr(metadata, "entry_points", lambda group: [])
    with pytest.raises(DeixisError, match="mturk"):
        find_workforce()
