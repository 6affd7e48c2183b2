"""Sessions, invitations and passwords, on both databases."""

from __future__ import annotations

import threading

import pytest

from deixis.annotate.people import Role, accept, change, forget, invite, invite_again, password_of, set_password
from deixis.annotate.sessions import begin_session, end_session, find_session
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject


def test_a_session_is_known_until_it_ends(new_project: MakeProject) -> None:
    project, clock = new_project()
    ann, _ = invite(project, "Ann", role=Role.REVIEWER)
    token, other = begin_session(project, ann), begin_session(project, ann, lasts_s=10.0)
    found = find_session(project, token)
    assert found is not None
    assert found.worker.name == "Ann"
    assert find_session(project, token[::-1]) is None
    clock.now += 11
    assert find_session(project, other) is None
    end_session(project, token)
    assert find_session(project, token) is None


def test_an_invitation_that_two_take_at_once_lets_one_in(new_project: MakeProject) -> None:
    project, _ = new_project()
    _, token = invite(project, "Ann")
    taken: list[str] = []

    def take(number: int) -> None:
        try:
            accept(project, token, f"hash {number}")
            taken.append(f"hash {number}")
        except DeixisError:
            pass

    threads = [threading.Thread(target=take, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1
    found = password_of(project, "Ann")
    assert found is not None
    assert found[1] == taken[0]


def test_whoever_is_invited_again_or_forgotten_is_logged_out(new_project: MakeProject) -> None:
    project, _ = new_project()
    ann, token = invite(project, "Ann")
    accept(project, token, "hash")
    session = begin_session(project, ann)
    invite_again(project, ann)
    assert find_session(project, session) is None
    assert password_of(project, "Ann") is None
    session = begin_session(project, ann)
    set_password(project, ann, "another")
    assert find_session(project, session) is None
    session = begin_session(project, ann)
    forget(project, "Ann")
    assert find_session(project, session) is None
    with pytest.raises(DeixisError, match="was forgotten"):
        invite_again(project, ann)


def test_roles_and_the_word_of_the_owner_can_be_changed(new_project: MakeProject) -> None:
    project, _ = new_project()
    ann, _ = invite(project, "Ann")
    assert change(project, ann, vouched=True).vouched
    changed = change(project, ann, role=Role.REVIEWER)
    assert (changed.role, changed.vouched) == (Role.REVIEWER, True)
