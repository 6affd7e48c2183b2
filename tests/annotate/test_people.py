"""Who works in a project."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from deixis.annotate.people import Role, find_worker, forget, invite, invited
from deixis.annotate.recording import record
from deixis.annotate.reviewing import review_queue
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import ask


def test_an_invitation_opens_the_door_and_its_token_is_not_kept(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    worker, token = invite(project, "Ann", role=Role.REVIEWER)
    found = invited(project, token)
    assert (found.id, found.name, found.reviews) == (worker, "Ann", True)
    with project.database.reading() as connection:
        assert token not in str(connection.execute(text("SELECT * FROM workers")).all())
    with pytest.raises(DeixisError, match="this invitation is not known"):
        invited(project, token[:-1])


@pytest.mark.parametrize("name", ["", "  ", "a" * 101, "a\nb", "a\x1b[31mb"])
def test_what_cannot_be_a_name_is_refused(name: str, new_project: MakeProject) -> None:
    project, _ = new_project(0)
    with pytest.raises(DeixisError, match="cannot be a name"):
        invite(project, name)


def test_names_are_given_once(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    invite(project, "Ann ")
    with pytest.raises(DeixisError, match="Ann: there is somebody of that name already"):
        invite(project, "Ann")


def test_a_person_forgotten_leaves_judgements_under_an_id_and_nothing_else(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    worker, token = invite(project, "Ann Example", vouched=True)
    record(project, worker, ask(project, worker).token, "yes", remark="call me at 555-0100, Ann")
    assert forget(project, "Ann Example").id == worker
    with pytest.raises(DeixisError, match="nobody of that name"), project.database.reading() as connection:
        find_worker(connection, "Ann Example")
    with pytest.raises(DeixisError, match="not known"):
        invited(project, token)
    assert review_queue(project) == []
    with project.database.reading() as connection:
        for table in ("workers", "events", "remarks", "leases", "checks"):
            left = str(connection.execute(text(f"SELECT * FROM {table}")).all())
            assert "Ann" not in left
            assert "555" not in left
        assert len(project.folds.at(connection, "dog0").events) == 1
    invite(project, "Ann Example")
