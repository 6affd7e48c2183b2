"""API tokens."""

from __future__ import annotations

import pytest

from deixis.annotate.api_tokens import DAY_S, UnknownTokenError, create_token, list_tokens, revoke_token
from deixis.annotate.people import find_session, forget_worker, suspend_worker
from deixis.annotate.schema import api_tokens
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import people


def test_a_token_has_the_rights_of_a_worker_until_it_expires(new_project: MakeProject) -> None:
    project, clock = new_project()
    [ann] = people(project, "Ann")
    number, secret = create_token(project, "Ann", "nightly export", days=2)
    session = find_session(project, secret)
    assert session is not None
    assert session.worker.id == ann
    assert [(each.id, each.name, each.who) for each in list_tokens(project)] == [(number, "nightly export", "Ann")]
    clock.now += 2 * DAY_S
    assert find_session(project, secret) is None


def test_only_a_hash_of_a_token_is_stored(new_project: MakeProject) -> None:
    project, _ = new_project()
    people(project, "Ann")
    _, secret = create_token(project, "Ann", "x")
    with project.database.reading() as connection:
        assert secret not in str(connection.execute(api_tokens.select()).all())


def test_a_token_is_revoked_by_its_worker_only(new_project: MakeProject) -> None:
    project, _ = new_project()
    ann, bob = people(project, "Ann", "Bob")
    number, secret = create_token(project, ann, "x")
    with pytest.raises(UnknownTokenError):
        revoke_token(project, number, bob)
    assert find_session(project, secret)
    revoke_token(project, number, ann)
    assert find_session(project, secret) is None


@pytest.mark.parametrize("end", [forget_worker, suspend_worker])
def test_tokens_of_forgotten_and_suspended_workers_do_not_work(new_project: MakeProject, end: object) -> None:
    project, _ = new_project()
    people(project, "Ann")
    _, secret = create_token(project, "Ann", "x")
    end(project, "Ann")  # type: ignore[operator]
    assert find_session(project, secret) is None


def test_a_token_needs_a_worker_a_name_and_a_day(new_project: MakeProject) -> None:
    project, _ = new_project()
    people(project, "Ann")
    for arguments, days in ((("Bob", "x"), 1), (("Ann", " "), 1), (("Ann", "x"), 0)):
        with pytest.raises(DeixisError):
            create_token(project, *arguments, days=days)
