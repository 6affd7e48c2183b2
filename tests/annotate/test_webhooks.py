"""Webhooks: what is sent, when, and again after failures."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from sqlalchemy import func, select, update

from deixis.annotate import Client
from deixis.annotate.people import Role, suspend_worker
from deixis.annotate.project import Project, open_project
from deixis.annotate.review import announce_blocked, blocked_questions
from deixis.annotate.store import messages, webhooks
from deixis.annotate.webhooks import (
    DELAYS_S,
    FINISHED,
    JUDGEMENT,
    KINDS,
    REOPENED,
    SignatureError,
    add_webhook,
    list_webhooks,
    post_message,
    read_webhooks,
    remove_webhook,
    retry_failed,
    send_due_messages,
    sign_message,
    verify_webhook,
)
from deixis.annotate.workflow import Answer
from deixis.errors import DeixisError, UnavailableError
from tests.annotate.conftest import MakeProject, on_both_databases
from tests.annotate.fakes import answer, ask, join, link_and_verify, next_question, people, record, undo
from tests.annotate.http_server import answering, send


class Inbox:
    """Receives messages, and refuses as many as a test says."""

    def __init__(self) -> None:
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.refusals = 0

    def __call__(self, url: str, headers: dict[str, str], body: bytes) -> None:
        if self.refusals:
            self.refusals -= 1
            raise DeixisError("answered 500")
        self.received.append((headers, body))

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.received]


def waiting(project: Project) -> int:
    with project.database.reading() as connection:
        return connection.scalar(select(func.count()).select_from(messages)) or 0


def finish_photo(project: Project) -> None:
    """Two people say that the dog has no box."""
    ann, bob = people(project, "Ann", "Bob")
    link_and_verify(project, ann)
    answer(project, ann, Answer.NO_BOX)
    answer(project, bob, Answer.NO_BOX)


@on_both_databases
def test_judgements_and_finished_photos_are_sent_signed(new_project: MakeProject) -> None:
    project, clock = new_project()
    made = add_webhook(project, "https://example.org/hook", KINDS)
    finish_photo(project)
    inbox = Inbox()
    assert send_due_messages(project, inbox) == 5
    assert [body["type"] for body in inbox.bodies] == [JUDGEMENT] * 4 + [FINISHED]
    first = inbox.bodies[0]["data"]
    assert (first["photo"], first["task"], first["answer"]) == ("dog0", "link", "yes")
    assert first["mentions"] == ["0:0-5", "1:0-7"]
    ids = {verify_webhook(made.secret, headers, body, now=clock.now) for headers, body in inbox.received}
    assert len(ids) == 5
    assert waiting(project) == 0
    assert send_due_messages(project, inbox) == 0


def test_only_the_chosen_kinds_are_sent_and_an_undo_reopens_a_photo(new_project: MakeProject) -> None:
    project, _ = new_project()
    add_webhook(project, "https://example.org/hook", [FINISHED, REOPENED])
    ann, bob = people(project, "Ann", "Bob")
    link_and_verify(project, ann)
    answer(project, ann, Answer.NO_BOX)
    last = answer(project, bob, Answer.NO_BOX)
    undo(project, bob, last)
    inbox = Inbox()
    send_due_messages(project, inbox)
    assert [body["type"] for body in inbox.bodies] == [FINISHED, REOPENED]


def test_reviewers_are_called(new_project: MakeProject) -> None:
    project, _ = new_project(votes_to_review=1)
    add_webhook(project, "https://example.org/hook")
    ann = people(project, "Ann")[0]
    link_and_verify(project, ann)
    answer(project, ann, Answer.NO_BOX)
    inbox = Inbox()
    send_due_messages(project, inbox)
    assert [(body["type"], body["data"]["holds_up"]) for body in inbox.bodies] == [("review.needed", True)]


@on_both_databases
def test_a_refused_message_is_sent_again_later_with_the_same_id_and_then_given_up(new_project: MakeProject) -> None:
    project, clock = new_project()
    made = add_webhook(project, "https://example.org/hook")
    finish_photo(project)
    inbox = Inbox()
    inbox.refusals = 1
    assert send_due_messages(project, inbox) == 0
    assert list_webhooks(project)[0].error == "answered 500"
    assert send_due_messages(project, inbox) == 0, "not before the delay has passed"
    inbox.refusals = len(DELAYS_S)
    for delay in DELAYS_S:
        clock.now += delay
        assert send_due_messages(project, inbox) == 0
    clock.now += 1e9
    assert send_due_messages(project, inbox) == 0
    found = list_webhooks(project)[0]
    assert (found.waiting, found.failed) == (0, 1)
    assert retry_failed(project, made.id) == 1
    assert send_due_messages(project, inbox) == 1
    assert verify_webhook(made.secret, *inbox.received[0], now=clock.now)


def test_a_message_survives_a_restart_and_a_rolled_back_judgement_sends_none(new_project: MakeProject) -> None:
    project, _ = new_project()
    add_webhook(project, "https://example.org/hook", [JUDGEMENT])
    [ann] = people(project, "Ann")
    token = ask(project, ann).token
    with pytest.raises(DeixisError):
        record(project, ann, token, "nonsense")
    assert waiting(project) == 0
    record(project, ann, token, "yes")
    other = open_project(project.folder)
    inbox = Inbox()
    assert send_due_messages(other, inbox) == 1
    other.close()


def test_a_failing_webhook_does_not_hold_up_another(new_project: MakeProject) -> None:
    project, _ = new_project()
    add_webhook(project, "https://example.org/bad", [JUDGEMENT])
    add_webhook(project, "https://example.org/good", [JUDGEMENT])
    finish_photo(project)
    inbox = Inbox()
    tried: list[str] = []

    def post(url: str, headers: dict[str, str], body: bytes) -> None:
        tried.append(url)
        if url.endswith("bad"):
            raise UnavailableError("unreachable")
        inbox(url, headers, body)

    assert send_due_messages(project, post) == 4
    assert sum(url.endswith("bad") for url in tried) == 1, "the others wait for the next call"
    assert {each.url.rpartition("/")[2]: each.waiting for each in list_webhooks(project)} == {"bad": 4, "good": 0}


@on_both_databases
def test_a_removed_webhook_gets_nothing(new_project: MakeProject) -> None:
    project, _ = new_project()
    made = add_webhook(project, "https://example.org/hook", [JUDGEMENT])
    finish_photo(project)
    remove_webhook(project, made.id)
    assert waiting(project) == 0
    assert send_due_messages(project, Inbox()) == 0
    with pytest.raises(DeixisError):
        remove_webhook(project, made.id)


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://example.org/x", "example.org", "https://user:pw@example.org/", "file:///etc", "http://[", "http:///x"),
        *("http://127.0.0.1:1/h\xf6k", "http://127.0.0.1:1/\n", "http://\udc80/", "http://127.0.0.1:70000/"),
    ],
)
def test_other_addresses_are_refused(new_project: MakeProject, url: str) -> None:
    project, _ = new_project()
    for use in (
        lambda: add_webhook(project, url),
        lambda: post_message(url, {}, b"{}"),
        lambda: Client(url, "token", retries=0),
    ):
        with pytest.raises(DeixisError, match="use (an|the) address"):
            use()


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("http://[", "whsec_AAAA"),
        ("http://a..b/", "whsec_AAAA"),
        ("http://127.0.0.1:1/h\xf6k", "whsec_AAAA"),
        ("http://127.0.0.1:1/", "whsec_\xf6"),
    ],
)
def test_a_webhook_of_a_strangers_project_does_not_end_the_sending(
    url: str, secret: str, new_project: MakeProject
) -> None:
    project, _ = new_project(1, judgements_to_end=1, independent=False)
    made = add_webhook(project, "http://127.0.0.1:1/", [JUDGEMENT])
    with project.database.writing() as connection:
        connection.execute(update(webhooks).values(url=url, secret=secret))
    read_webhooks(project)
    answer(project, people(project, "Ann")[0], Answer.YES)
    assert send_due_messages(project) == 0
    assert [(each.id, each.waiting, bool(each.error)) for each in list_webhooks(project)] == [(made.id, 1, True)]


def test_what_a_receiver_answers_is_not_read() -> None:
    done = threading.Event()

    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        with suppress(OSError):
            while not done.wait(0.05):
                request.wfile.write(b"x")

    with answering(drip) as url:
        sending = threading.Thread(target=post_message, args=(url, {}, b"{}"), daemon=True)
        sending.start()
        sending.join(5)
        is_over = not sending.is_alive()
        done.set()
    assert is_over


@pytest.mark.parametrize(
    "changed", [{"webhook-timestamp": 5000 * "9"}, {"webhook-id": "\udc80"}, {"webhook-signature": "\udc80"}]
)
def test_hostile_headers_are_not_signed(changed: dict[str, str]) -> None:
    headers = {"webhook-id": "1", "webhook-timestamp": "1000", "webhook-signature": "v1,AAAA"}
    with pytest.raises(SignatureError):
        verify_webhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", headers | changed, b"{}")


def test_changed_messages_old_ones_and_other_secrets_are_recognized() -> None:
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b"{}"
    headers = {"Webhook-Id": "1", "Webhook-Timestamp": "1000"}
    headers["Webhook-Signature"] = f"v1,wrong {sign_message(secret, '1', 1000, body)}"
    assert verify_webhook(secret, headers, body, now=1200.0) == "1"
    for now, changed, key in ((1200.0, b"[]", secret), (1400.0, body, secret), (1200.0, body, "whsec_AAAA")):
        with pytest.raises(SignatureError):
            verify_webhook(key, headers, changed, now=now)


def test_messages_are_sent_over_http_and_redirects_are_not_followed() -> None:
    received: list[bytes] = []

    def accept(request: BaseHTTPRequestHandler) -> None:
        received.append(request.rfile.read(int(request.headers["content-length"])))
        send(request, 204)

    with answering(accept) as url:
        post_message(url, {"content-type": "application/json"}, b"{}")
        assert received == [b"{}"]
        with answering(lambda request: send(request, 307, location=url)) as moved, pytest.raises(DeixisError):
            post_message(moved, {}, b"secret")
        assert received == [b"{}"]
    with pytest.raises(UnavailableError):
        post_message(url, {}, b"{}")


def test_reviewers_are_called_once_when_nobody_present_and_qualified_is_left_to_answer(
    new_project: MakeProject,
) -> None:
    project, clock = new_project(absent_after_h=1.0)
    add_webhook(project, "https://example.org/hook")
    ann, bob, cy = join(project, "Ann", "Bob", "Cy")
    link_and_verify(project, ann)
    answer(project, ann, Answer.SCENE)
    answer(project, bob, Answer.NO_BOX)
    inbox = Inbox()
    assert announce_blocked(project) == 0  # Cy can answer
    clock.now += 3601
    for worker in (ann, bob):
        assert next_question(project, worker) is None
    assert [announce_blocked(project), announce_blocked(project)] == [1, 0]
    send_due_messages(project, inbox)
    [body] = inbox.bodies
    assert (body["type"], body["data"]["holds_up"]) == ("review.needed", True)
    assert "Cy" in body["data"]["reason"]
    assert body["data"]["mention"] == blocked_questions(project)[0].mention
    ask(project, cy)  # Cy is back
    assert announce_blocked(project) == 0
    suspend_worker(project, "Cy")
    assert announce_blocked(project) == 1


def test_reviewers_decisions_send_messages_too(new_project: MakeProject) -> None:
    from deixis.annotate.review import decide_chain

    project, _ = new_project(votes_to_review=1)
    add_webhook(project, "https://example.org/hook", [FINISHED])
    [ann], [rob] = people(project, "Ann"), people(project, "Rob", role=Role.REVIEWER)
    link_and_verify(project, ann)
    answer(project, ann, Answer.NO_BOX)
    decide_chain(project, rob, "dog0", "1:0-7", "no box")
    inbox = Inbox()
    send_due_messages(project, inbox)
    assert [body["type"] for body in inbox.bodies] == [FINISHED]
