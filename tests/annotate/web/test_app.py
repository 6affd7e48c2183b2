"""The server as a process: killed at any moment, and on public addresses."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from deixis.annotate.people import InvitationError, accept_invitation, invite, start_session
from deixis.annotate.project import Project, add_photos, make_project, open_project
from deixis.annotate.settings import Settings
from deixis.annotate.store import events
from deixis.annotate.web import app as app_module
from deixis.annotate.web.app import WorkbenchPolicy, check_url, invite_owner, make_app
from deixis.errors import DeixisError
from tests.annotate.fakes import BOX, dogs

ROOT = Path(__file__).parents[3]
PEOPLE = 6


class Served:
    """A server in a process of its own, on a port that stays the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "deixis", "annotate", "serve", str(self.folder)]
        command += ["--port", str(self.port), "--no-open"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("http://127.0.0.1")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Person(threading.Thread):
    """A worker who answers until stopped, and repeats requests that were not acknowledged."""

    def __init__(self, port: int, token: str, number: int) -> None:
        super().__init__(daemon=True)
        headers = {"authorization": f"Bearer {token}"}
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=5)
        self.rng = random.Random(number)
        self.acknowledged: dict[str, tuple[int, str]] = {}
        self.stop = False

    def run(self) -> None:
        question = None
        while not self.stop:
            if question is None:
                question = self.post("next", {})["question"]
                time.sleep(0.0 if question else 0.1)
                continue
            answer = self.rng.choice(question["answers"])
            body = {"token": question["token"], "answer": answer, "box": list(BOX) if answer == "drawn" else None}
            reply = self.post("answer", body | {"next": {}})
            if "event" in reply:
                self.acknowledged[question["token"]] = (reply["event"], answer)
            question = reply.get("next")

    def post(self, path: str, body: dict[str, Any]) -> Any:
        while not self.stop:
            try:
                answer = self.client.post(f"/api/{path}", json=body)
            except httpx.HTTPError:
                time.sleep(0.05)
                continue
            if answer.status_code != 429:
                return answer.json()
            time.sleep(0.2)
        return {"question": None}


def test_a_second_server_of_a_project_says_so(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    project.close()
    first = Served(project.folder)
    second = [sys.executable, "-m", "deixis", "annotate", "serve", str(project.folder), "--no-open", "--port", "0"]
    try:
        with subprocess.Popen(second, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            assert f"http://127.0.0.1:{first.port}" in process.stderr.readline()
            process.kill()
    finally:
        first.kill()


def test_every_acknowledged_judgement_survives_kills(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", settings=Settings(history_items=0, history_accuracy=0.0))
    add_photos(project, dogs(60))
    ids = [invite(project, f"person {number}", vouched=True)[0] for number in range(PEOPLE)]
    tokens = [start_session(project, worker) for worker in ids]
    project.close()
    served = Served(project.folder)
    crowd = [Person(served.port, token, number) for number, token in enumerate(tokens)]
    for person in crowd:
        person.start()
    rng = random.Random()
    for _ in range(2):
        enough = sum(len(person.acknowledged) for person in crowd) + 20
        until = time.monotonic() + 30
        while sum(len(person.acknowledged) for person in crowd) < enough and time.monotonic() < until:
            time.sleep(rng.uniform(0.001, 0.05))
        served.kill()
        served.start()
    time.sleep(0.5)
    for person in crowd:
        person.stop = True
    for person in crowd:
        person.join(10)
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(20) == 0
    reopened = open_project(project.folder)
    with reopened.database.reading() as connection:
        kept = {row.key: row for row in connection.execute(select(events).where(events.c.kind == "judged"))}
        times_asked = [
            (row.worker, row.photo, row.task, row.body["subject"])
            for row in kept.values()
            if row.task != "drawing"  # whose box was bad may draw another
        ]
    reopened.close()
    assert len(set(times_asked)) == len(times_asked), "no worker got the same question twice"
    acknowledged = 0
    for worker, person in zip(ids, crowd, strict=True):
        for token, (number, answer) in person.acknowledged.items():
            row = kept[token]
            assert (row.number, row.worker, row.body["answer"]) == (number, worker, answer)
            acknowledged += 1
    assert acknowledged >= 40
    assert len(kept) - acknowledged <= 3 * PEOPLE, "only what was under way when a kill came"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "dogs")


def test_the_first_owner_is_invited_until_one_has_joined(project: Project) -> None:
    first = invite_owner(project, "http://127.0.0.1:7861/")
    again = invite_owner(project, "http://127.0.0.1:7861/")
    assert first is not None
    assert again is not None
    assert first.startswith("http://127.0.0.1:7861/#/join/")
    token = again.rpartition("/")[2]
    with pytest.raises(InvitationError):
        accept_invitation(project, first.rpartition("/")[2], "hash")
    accept_invitation(project, token, "hash")
    assert invite_owner(project, "http://127.0.0.1:7861/") is None


def test_on_an_open_address_the_token_of_the_link_is_needed(project: Project) -> None:
    policy = WorkbenchPolicy("0.0.0.0", "a-token-to-be-shown")
    client = TestClient(make_app(project, policy=policy), base_url="http://127.0.0.1")
    assert client.get("/api/session").status_code == 401
    assert client.get("/?token=wrong").status_code == 401
    assert client.get("/?token=a-token-to-be-shown", follow_redirects=False).status_code == 303
    assert client.get("/api/session").status_code == 200


def test_behind_https_cookies_are_secure(project: Project) -> None:
    policy = WorkbenchPolicy(url="https://dogs.example.org")
    client = TestClient(make_app(project, policy=policy), base_url="https://dogs.example.org")
    _, token = invite(project, "Ann")
    answer = client.post("/api/join", json={"token": token, "password": "long enough for all"})
    cookie = answer.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "secure", "samesite=strict"))
    other = TestClient(make_app(project, policy=policy), base_url="https://evil.example")
    assert other.get("/api/session").status_code == 421


def test_work_in_the_background_goes_on_after_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "_MAINTENANCE_S", 0.0)
    failures = iter([DeixisError("gone for a moment"), ValueError("unforeseen"), asyncio.CancelledError()])

    async def work() -> None:
        raise next(failures)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(app_module._repeat(work))


@pytest.mark.parametrize(
    "url",
    ["dogs.example.org", "ftp://dogs.example.org", "https://dogs.example.org/?x=1", "https://[", "https://a:b@c.d"],
)
def test_an_invalid_url_is_an_error(url: str) -> None:
    with pytest.raises(DeixisError, match="--url"):
        check_url(url)
