"""Workers, invitations and sessions."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import text

from deixis.annotate.people import (
    DAY_S,
    InvitationError,
    NameTakenError,
    Role,
    UnknownTokenError,
    accept_invitation,
    create_token,
    end_session,
    find_invitation,
    find_password,
    find_session,
    find_worker,
    forget_worker,
    invite,
    list_tokens,
    renew_invitation,
    revoke_token,
    set_password,
    start_session,
    suspend_worker,
)
from deixis.annotate.review import review_queue
from deixis.annotate.store import api_tokens
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject, on_both_databases
from tests.annotate.fakes import ask, people, record


@on_both_databases
def test_an_invitation_is_found_by_its_token_which_is_not_stored(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    worker, token = invite(project, "Ann", role=Role.REVIEWER)
    found = find_invitation(project, token)
    assert (found.id, found.name, found.can_review) == (worker, "Ann", True)
    with project.database.reading() as connection:
        assert token not in str(connection.execute(text("SELECT * FROM workers")).all())
    with pytest.raises(InvitationError):
        find_invitation(project, token[:-1])


def test_names_are_printable_and_unique(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    for name in ("", "  ", "a" * 101, "a\nb", "a\x1b[31mb", "\u3164", "Ann\u034f", "\u115fAnn", "Ann\ufe0f"):
        with pytest.raises(DeixisError):
            invite(project, name)
    invite(project, "Ann ")
    with pytest.raises(NameTakenError, match="Ann"):
        invite(project, "Ann")
    invite(project, "Jos\u00e9")
    for name in ("Jose\u0301", "jOSE\u0301", "\uff21\uff4e\uff4e"):  # é in two characters, and wide letters
        with pytest.raises(NameTakenError):
            invite(project, name)
    with project.database.reading() as connection:
        assert find_worker(connection, "Jose\u0301").name == "Jos\u00e9"


@on_both_databases
def test_forgetting_a_worker_keeps_only_judgements_under_an_id(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    worker, token = invite(project, "Ann Example", vouched=True)
    record(project, worker, ask(project, worker).token, "yes", remark="call me at 555-0100, Ann")
    assert forget_worker(project, "Ann Example").id == worker
    with pytest.raises(DeixisError, match="Ann"), project.database.reading() as connection:
        find_worker(connection, "Ann Example")
    with pytest.raises(InvitationError):
        find_invitation(project, token)
    assert review_queue(project) == []
    with project.database.reading() as connection:
        for table in ("workers", "events", "remarks", "leases", "checks"):
            left = str(connection.execute(text(f"SELECT * FROM {table}")).all())
            assert "Ann" not in left
            assert "555" not in left
        assert len(project.snapshots.read(connection, "dog0").events) == 1
    invite(project, "Ann Example")


@on_both_databases
def test_a_session_is_valid_until_it_ends(new_project: MakeProject) -> None:
    project, clock = new_project()
    ann, _ = invite(project, "Ann", role=Role.REVIEWER)
    token, other = start_session(project, ann), start_session(project, ann, seconds=10.0)
    found = find_session(project, token)
    assert found is not None
    assert found.worker.name == "Ann"
    assert find_session(project, token[::-1]) is None
    clock.now += 11
    assert find_session(project, other) is None
    end_session(project, token)
    assert find_session(project, token) is None


@on_both_databases
def test_an_invitation_accepted_twice_at_once_admits_one(new_project: MakeProject) -> None:
    project, _ = new_project()
    _, token = invite(project, "Ann")
    taken: list[str] = []

    def take(number: int) -> None:
        try:
            accept_invitation(project, token, f"hash {number}")
            taken.append(f"hash {number}")
        except DeixisError:
            pass

    threads = [threading.Thread(target=take, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1
    found = find_password(project, "Ann")
    assert found is not None
    assert found[1] == taken[0]


def test_renewing_an_invitation_or_forgetting_ends_sessions(new_project: MakeProject) -> None:
    project, _ = new_project()
    ann, token = invite(project, "Ann")
    accept_invitation(project, token, "hash")
    session = start_session(project, ann)
    renew_invitation(project, ann)
    assert find_session(project, session) is None
    assert find_password(project, "Ann") is None
    session = start_session(project, ann)
    set_password(project, ann, "another")
    assert find_session(project, session) is None
    session = start_session(project, ann)
    forget_worker(project, "Ann")
    assert find_session(project, session) is None
    with pytest.raises(DeixisError):
        renew_invitation(project, ann)


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


@on_both_databases
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
    for arguments, days in ((("Bob", "x"), 1), (("Ann", " "), 1), (("Ann", "x"), 0), (("Ann", "x"), 10**400)):
        with pytest.raises(DeixisError):
            create_token(project, *arguments, days=days)


def test_a_forgotten_owner_does_not_count_as_another_owner(new_project: MakeProject) -> None:
    project, _ = new_project()
    for name in ("Eve", "Olga"):
        accept_invitation(project, invite(project, name, role=Role.OWNER)[1], "hash")
    forget_worker(project, "Olga")
    with pytest.raises(DeixisError, match="only owner"):
        suspend_worker(project, "Eve")
