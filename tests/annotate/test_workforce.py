"""Assignments of an external workforce, on both databases, and Mechanical Turk."""

from __future__ import annotations

from typing import Any

import pytest

from deixis.annotate.people import forget_worker
from deixis.annotate.project import Project, read_secret
from deixis.annotate.transactions import RefusedError
from deixis.annotate.workforce import (
    APPROVED,
    Assignment,
    Hit,
    approve_assignments,
    count_item,
    create_hit,
    external_name,
    external_question,
    list_assignments,
    list_hits,
    parse_items_key,
    start_assignment,
)
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject


def start(project: Project, assignment: str = "A1", worker: str = "W1", items: int = 2, hit: str = "H1") -> Assignment:
    return start_assignment(project, assignment, hit, worker, items, "https://x/")


def count(project: Project, assignment: str) -> int:
    with project.database.writing() as connection:
        return count_item(connection, assignment).done


def test_an_external_worker_is_one_worker_in_all_assignments(new_project: MakeProject) -> None:
    project, clock = new_project()
    first = start(project)
    clock.now += 1
    second = start(project, "A2")
    assert first.worker == second.worker
    assert external_name(project, first.worker) == "W1"
    assert [each.id for each in list_assignments(project)] == ["A1", "A2"]
    forget_worker(project, first.worker)
    assert external_name(project, first.worker) is None


def test_an_assignment_is_done_when_its_questions_are_answered(new_project: MakeProject) -> None:
    project, _ = new_project()
    start(project)
    assert [count(project, "A1"), count(project, "A1")] == [1, 2]
    assert start(project).is_done


def test_an_assignment_of_another_worker_is_refused(new_project: MakeProject) -> None:
    project, _ = new_project()
    start(project)
    for hit, worker in (("H1", "W2"), ("H2", "W1")):
        with pytest.raises(RefusedError):
            start(project, worker=worker, hit=hit)


class Turk:
    """Mechanical Turk as boto3 describes it; requests that it would refuse are refused."""

    def __init__(self) -> None:
        boto3 = pytest.importorskip("boto3", reason="boto3 is not installed: pip install deixis[mturk]")
        from botocore.stub import Stubber

        secret = {"aws_access_key_id": "x", "aws_secret_access_key": "y"}
        self.client = boto3.client("mturk", region_name="us-east-1", **secret)
        self.stub = Stubber(self.client)
        self.stub.activate()


def test_a_hit_shows_the_page_and_requires_a_history(new_project: MakeProject) -> None:
    project, _ = new_project(history_items=500, history_accuracy=0.95)
    turk = Turk()
    from botocore.stub import ANY

    wanted = Hit("https://dogs.example.org/", people=5, reward=0.5, items=7)
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
    assert create_hit(project, turk.client, wanted) == "H1"
    assert list_hits(project) == ["H1"]
    address, _, rest = question.partition("key=")
    assert address.endswith("<ExternalURL>https://dogs.example.org/external?")
    assert parse_items_key(secret, rest.partition("<")[0]) == 7


def test_only_complete_assignments_of_the_same_worker_are_approved(new_project: MakeProject) -> None:
    project, _ = new_project()
    turk = Turk()
    turk.stub.add_response("create_hit", {"HIT": {"HITId": "H1"}})
    create_hit(project, turk.client, Hit("https://dogs.example.org", 5, 0.5))
    for number, items in ((1, 1), (2, 1), (3, 9)):
        start(project, f"A{number}", f"W{number}", items)
        count(project, f"A{number}")
    submitted = [("A1", "W1"), ("A2", "W9"), ("A3", "W3"), ("A4", "W4")]
    listed = [{"AssignmentId": assignment, "WorkerId": worker} for assignment, worker in submitted]
    request = {"HITId": "H1", "AssignmentStatuses": ["Submitted"], "MaxResults": 100}
    turk.stub.add_response("list_assignments_for_hit", {"Assignments": listed[:2], "NextToken": "more"}, request)
    turk.stub.add_response("approve_assignment", {}, {"AssignmentId": "A1"})
    turk.stub.add_response("list_assignments_for_hit", {"Assignments": listed[2:]}, {**request, "NextToken": "more"})
    done = approve_assignments(project, turk.client)
    turk.stub.assert_no_pending_responses()
    assert (done.approved, done.not_done, done.unknown) == (["A1"], ["A3"], ["A2", "A4"])
    assert [each.id for each in list_assignments(project) if each.state == APPROVED] == ["A1"]


def test_errors_of_mechanical_turk_are_one_line(new_project: MakeProject) -> None:
    project, _ = new_project()
    turk = Turk()
    turk.stub.add_client_error("create_hit", "RequestError", "Your balance\nis too low")
    with pytest.raises(DeixisError, match=r"^Mechanical Turk: .*Your balance is too low"):
        create_hit(project, turk.client, Hit("https://dogs.example.org", 5, 0.5))
    with pytest.raises(DeixisError, match="http://dogs.example.org"):
        Hit("http://dogs.example.org", 5, 0.5)
    assert list_hits(project) == []
