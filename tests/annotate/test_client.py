"""The client for programs, against a real server."""

from __future__ import annotations

import io
import threading
import time
import tracemalloc
import zipfile
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from deixis.annotate import Client, RequestError
from deixis.annotate import client as client_module
from deixis.annotate.people import Role, create_token
from deixis.annotate.project import Project
from deixis.annotate.web.app import make_app
from deixis.annotate.webhooks import JUDGEMENT, add_webhook, list_webhooks
from deixis.errors import DeixisError, UnavailableError
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import join, people
from tests.annotate.http_server import answering, send, serving


@pytest.fixture
def project(new_project: MakeProject) -> Project:
    made, clock = new_project(1, judgements_to_end=1, independent=False)
    clock.now = time.time()
    return made


def test_a_program_annotates_and_exports_a_project(project: Project, tmp_path: Path) -> None:
    people(project, "Olga", role=Role.OWNER)
    _, token = create_token(project, "Olga", "test")
    with serving(make_app(project)) as url:
        client = Client(url, token)
        assert client.session()["user"]["name"] == "Olga"
        assert [photo["name"] for photo in client.photos()] == ["dog0"]
        answers = {"link": "yes", "verify": "yes", "requirement": "no box"}
        while question := client.next_question():
            last = client.answer(question, answers[question["task"]], seconds=2.0)
        assert client.progress()["finished"] == 1
        client.undo(last["event"])
        again = client.next_question(tasks=["requirement"])
        assert again is not None
        client.answer(again, "scene")
        out = client.export("entities", tmp_path / "out")
        assert {path.name for path in out.iterdir()} >= {"provenance.jsonl"}
        assert any("Sentences" in str(path) for path in out.rglob("*.txt"))
        link = client.invite("Ann")
        assert "#/join/" in link
        ann = next(each["worker"] for each in client.people() if each["name"] == "Ann")
        assert client.suspend(ann)["suspended"]
        assert not client.suspend(ann, resume=True)["suspended"]
        with pytest.raises(RequestError) as refused:
            client.decide("p" + 24 * "0", "0:0-5", "box")
        assert refused.value.status == 404
        with pytest.raises(RequestError):
            client.answer({"token": "nothing"}, "yes")


def test_the_whole_review_queue_is_returned(new_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    project, clock = new_project(3)
    clock.now = time.time()
    people(project, "Olga", role=Role.OWNER)
    join(project, "Ann")
    monkeypatch.setattr(client_module, "_PAGE_SIZE", 1)
    with serving(make_app(project)) as url:
        worker = Client(url, create_token(project, "Ann", "test")[1])
        while question := worker.next_question():
            worker.skip(question)
        client = Client(url, create_token(project, "Olga", "test")[1])
        assert len({item["photo"]["id"] for item in client.review()}) == 3


def test_a_wrong_token_and_a_server_that_is_not_there_are_errors(project: Project) -> None:
    with serving(make_app(project)) as url:
        with pytest.raises(RequestError) as refused:
            Client(url, "dxa_wrong").session()
        assert refused.value.status == 401
        with pytest.raises(RequestError):
            Client(url, "dxa_wrong").progress()
    with pytest.raises(UnavailableError):
        Client(url, "x", retries=0).session()
    with pytest.raises(DeixisError):
        Client("ftp://example.org", "x")


def test_a_busy_server_is_asked_again_and_a_redirect_does_not_get_the_token() -> None:
    seen: list[str] = []
    busy = [503, 429, 200]

    def respond(request: BaseHTTPRequestHandler) -> None:
        seen.append(request.path)
        status = 302 if request.path.startswith("/api/people") else busy.pop(0)
        body = b'{"photos": 1}' if status == 200 else b'{"error": "busy"}'
        send(request, status, body, location="/elsewhere")

    with answering(respond) as url:
        client = Client(url, "t")
        assert client.progress() == {"photos": 1}
        assert len(seen) == 3
        with pytest.raises(RequestError):
            client.people()
        assert "/elsewhere" not in seen


def test_the_server_sends_messages_and_judgements_do_not_wait_for_them(project: Project) -> None:
    received, release = threading.Event(), threading.Event()

    def respond(request: BaseHTTPRequestHandler) -> None:
        received.set()
        release.wait(20)  # a slow receiver
        send(request, 204)

    people(project, "Ann")
    _, token = create_token(project, "Ann", "test")
    with answering(respond) as receiver, serving(make_app(project)) as url:
        add_webhook(project, receiver, [JUDGEMENT])
        client = Client(url, token)
        question = client.next_question()
        assert question is not None
        client.answer(question, "yes")
        try:
            assert received.wait(20)
            second = client.next_question()  # while the receiver has not answered
            assert second is not None
            assert client.answer(second, "yes")["event"]
            assert list_webhooks(project)[0].waiting == 2
        finally:
            release.set()


def zip_of(size: int) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("a.bin", bytes(size))
    return content.getvalue()


def cut(responses: list[tuple[bytes, int]]) -> AbstractContextManager[str]:
    """A server that sends only so many bytes of each response, and closes the connection."""

    def respond(request: BaseHTTPRequestHandler) -> None:
        content, sent = responses.pop(0)
        request.send_response(200)
        request.send_header("content-length", str(len(content)))
        request.end_headers()
        request.wfile.write(content[:sent])

    return answering(respond)


def test_a_part_of_a_response_is_never_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_FIRST_DELAY_S", 0.01)
    image, archive = bytes(100_000), zip_of(3_000_000)
    with cut([(image, 502), (image, 0), (image, len(image))]) as url:
        assert Client(url, "t").image({"url": "/p.jpg"}) == image
    with cut([(archive, 2_500_000), (archive, len(archive))]) as url:
        out = Client(url, "t").export("entities", tmp_path / "out")
        assert (out / "a.bin").stat().st_size == 3_000_000
        assert sorted(path.name for path in out.iterdir()) == [".made-by-deixis", "a.bin"]
    with cut([(image, 502)] * 2) as url, pytest.raises(UnavailableError, match=r"ended after 502 bytes, 99,498 too"):
        Client(url, "t", retries=1).image({"url": "/p.jpg"})
    with cut([(archive, 502)]) as url, pytest.raises(UnavailableError):
        Client(url, "t", retries=0).export("entities", tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    "head", ["HTTP/1.1 200 OK\r\ncontent-le", "HTTP/1.1 200 OK\r\ncontent-type: image/jpeg\r\n\r\n"]
)
def test_a_response_that_does_not_say_where_it_ends_is_none(head: str) -> None:
    with (
        answering(lambda request: request.wfile.write(head.encode())) as url,
        pytest.raises(UnavailableError, match="where it ends"),
    ):
        Client(url, "t", retries=0).image({"url": "/p.jpg"})


def test_an_export_is_not_held_in_memory(tmp_path: Path) -> None:
    archive = zip_of(40_000_000)
    with cut([(archive, len(archive))]) as url:
        tracemalloc.start()
        try:
            Client(url, "t").export("entities", tmp_path / "out")
            assert tracemalloc.get_traced_memory()[1] < 10_000_000
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(("field", "value"), [("flags", 1), ("method", 99), ("method", 8), ("method", 14)])
def test_an_export_that_cannot_be_unpacked_is_an_error_of_one_line(field: str, value: int, tmp_path: Path) -> None:
    archive = bytearray(zip_of(100))
    central = archive.index(b"PK\1\2")
    for at in (6, central + 8) if field == "flags" else (8, central + 10):
        archive[at] = value
    with cut([(bytes(archive), len(archive))]) as url, pytest.raises(DeixisError, match="not a zip file"):
        Client(url, "t", retries=0).export("entities", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
