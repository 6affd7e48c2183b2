"""Many concurrent workers in the annotation workbench, over HTTP, against a server in another process.

    python benchmarks/annotate_load.py DATA [--workers 200] [--seconds 60] [--think 2] [--kills 0] [--database URL]

Each worker sends an answer every --think seconds on a fixed schedule and holds one question ahead, as the page does. A
request sends an answer and fetches the next question; its latency is measured from when it was due, so that a stall
affects every request due in that time. With --kills the server is killed (SIGKILL) at random times and restarted;
workers send unacknowledged answers again. At the end the database must contain every acknowledged judgement once, as it
was sent.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import scripts_path  # noqa: F401
from simulated_crowd import HONEST, SimulatedWorker, Truth
from sqlalchemy import select

from deixis.annotate.known_answers import add_known_photos
from deixis.annotate.material import prepare_photo
from deixis.annotate.people import accept_invitation, invite, start_session
from deixis.annotate.project import Project, add_photos, make_project, open_project, read_secret
from deixis.annotate.settings import Settings
from deixis.annotate.store import events
from deixis.annotate.web.context import cookie_name
from deixis.annotate.web.photos import PhotoLibrary
from deixis.annotate.workflow import Task
from deixis.data.dataset import Dataset
from deixis.data.records import Photo

KNOWN_PHOTOS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="train")
    parser.add_argument("--photos", type=int, default=500)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--think", type=float, default=2.0)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--database", help="postgresql://…, instead of an SQLite file")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    photos = [photo for photo in Dataset(options.data).split(options.split) if photo.width and photo.chains]
    random.Random(options.seed).shuffle(photos)
    images = Dataset(options.data).images
    for line in measure(photos, images, options):
        print(line, flush=True)


def measure(photos: Sequence[Photo], images: Path | None, options: argparse.Namespace) -> Iterator[str]:
    """Make a project, let the crowd annotate it and check the database; yield lines to print."""
    work, gold = photos[: options.photos], photos[options.photos : options.photos + KNOWN_PHOTOS]
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder) / "project", url=options.database, images=images, settings=Settings())
        add_known_photos(project, gold)
        add_photos(project, (prepare_photo(photo, keep_mentions=True) for photo in work))
        library, cookie = PhotoLibrary(project, read_secret(project)), cookie_name(project)
        truths = {library.public_id(photo.id): Truth(photo) for photo in [*work, *gold]}
        crowd = []
        for number in range(options.workers):
            worker, token = invite(project, f"worker {number}", vouched=True)
            accept_invitation(project, token, "no password")
            mind = SimulatedWorker(worker, HONEST, random.Random(number))
            crowd.append(Person(mind, start_session(project, worker), cookie))
        project.close()
        with ServerProcess(Path(folder) / "project") as server:
            asyncio.run(_work(crowd, truths, server, options))
            cpu = server.processor_s
        yield from _report(crowd, options, cpu)
        yield from _check_database(project.folder, crowd)


@dataclass
class Person:
    """A worker, and the server's acknowledgements."""

    mind: SimulatedWorker
    session: str
    cookie: str
    held: list[dict[str, Any]] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    acknowledged: dict[str, tuple[int, str]] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    pictures: set[str] = field(default_factory=set)
    sent_again: int = 0

    @property
    def head(self) -> str:
        """HTTP headers of the worker's requests."""
        return f"host: 127.0.0.1\r\ncookie: {self.cookie}={self.session}\r\ncontent-type: application/json\r\n"


class ServerProcess:
    """The server in another process, on a fixed port."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.earlier_s = 0.0
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def __enter__(self) -> ServerProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)

    def start(self) -> None:
        command = [sys.executable, "-m", "deixis", "annotate", "serve", str(self.project)]
        command += ["--port", str(self.port), "--no-open"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("http"), "the server did not start"
        self.start_s = self._of_process()

    def kill(self) -> None:
        self.earlier_s = self.processor_s
        self.process.kill()
        self.process.wait()

    @property
    def processor_s(self) -> float:
        """CPU seconds of the server so far, without its start."""
        return self.earlier_s + self._of_process() - self.start_s

    def _of_process(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Connection:
    """A keep-alive connection that reconnects after the server was killed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.writer: asyncio.StreamWriter | None = None
        self.one_at_a_time = asyncio.Lock()

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Send a request; return status and body of the response."""
        try:
            if self.writer is None:
                self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
            self.writer.write(request)
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = int(head.partition("content-length:")[2].partition("\r\n")[0])
            return int(head.split(" ", 2)[1]), await self.reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            raise ConnectionError from None

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.writer = None


async def _work(
    crowd: list[Person], truths: dict[str, Truth], server: ServerProcess, options: argparse.Namespace
) -> None:
    began = time.perf_counter() + 1.0
    people = [
        asyncio.create_task(
            _person(each, truths, server.port, began + options.think * number / len(crowd), began, options)
        )
        for number, each in enumerate(crowd)
    ]
    rng = random.Random(options.seed)
    for moment in sorted(rng.uniform(0.1, 0.9) for _ in range(options.kills)):
        await asyncio.sleep(max(began + moment * options.seconds - time.perf_counter(), rng.uniform(0.2, 1.0)))
        server.kill()
        await asyncio.to_thread(server.start)
    await asyncio.gather(*people)


async def _person(
    me: Person, truths: dict[str, Truth], port: int, due: float, began: float, options: argparse.Namespace
) -> None:
    connection, second = Connection(port), Connection(port)
    pictures: list[asyncio.Task[None]] = []
    while due < began + options.seconds:
        await asyncio.sleep(due - time.perf_counter())
        path, body = _request(me, truths)
        response = await _until_answered(me, connection, path, body)
        me.took_s.append(time.perf_counter() - due)
        _receive(me, body, response)
        if not options.kills:
            pictures += [asyncio.create_task(_fetch_picture(me, second, url)) for url in _new_pictures(me)]
        due += options.think
    for task in pictures:
        await task
    connection.close()
    second.close()


def _request(me: Person, truths: dict[str, Truth]) -> tuple[str, dict[str, Any]]:
    """Return the request that sends the next answer, or that fetches a question if none is held."""
    if not me.held:
        return "/api/next", {"besides": []}
    question = me.held.pop(0)
    content = {"task": question["task"], "mentions": [each["id"] for each in question["mentions"]]}
    content |= {"boxes": question["boxes"], "new_box": question["new_box"]}
    shown = _Question(Task(question["task"]), content)
    answer, box = me.mind.answer(shown, truths[question["photo"]["id"]])  # type: ignore[arg-type]
    ahead = {"besides": [each["token"] for each in me.held]}
    return "/api/answer", {
        "token": question["token"], "answer": answer.value, "box": box, "seconds": 2.0, "next": ahead
    }  # fmt: skip


@dataclass
class _Question:
    """The part of a question that a simulated worker reads."""

    task: Task
    content: dict[str, Any]


async def _until_answered(me: Person, connection: Connection, path: str, body: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(body).encode()
    request = f"POST {path} HTTP/1.1\r\n{me.head}content-length: {len(text)}\r\n\r\n".encode() + text
    while True:
        try:
            status, content = await connection.send(request)
        except ConnectionError:
            me.sent_again += 1
            await asyncio.sleep(0.2)
            continue
        me.statuses[status] += 1
        if status not in (429, 503):
            return json.loads(content) | {"status": status}
        await asyncio.sleep(0.5)


def _receive(me: Person, body: dict[str, Any], response: dict[str, Any]) -> None:
    if response["status"] == 200 and "event" in response:
        me.acknowledged[body["token"]] = response["event"], body["answer"]
    question = response.get("next") or response.get("question")
    if question is not None:
        me.held.append(question)


def _new_pictures(me: Person) -> list[str]:
    urls = {question["photo"]["url"] for question in me.held} - me.pictures
    me.pictures |= urls
    return sorted(urls)


async def _fetch_picture(me: Person, connection: Connection, url: str) -> None:
    async with connection.one_at_a_time:
        status, _ = await connection.send(f"GET {url} HTTP/1.1\r\n{me.head}\r\n".encode())
    if status != 200:
        me.statuses[status] += 1


def _report(crowd: Sequence[Person], options: argparse.Namespace, cpu_s: float) -> Iterator[str]:
    took = sorted(each for person in crowd for each in person.took_s)
    shares = {share: 1000 * took[int(share * (len(took) - 1))] for share in (0.5, 0.9, 0.95, 0.99, 1.0)}
    statuses = sum((person.statuses for person in crowd), Counter())
    timetable = f"an answer every {options.think:g} s each, {options.seconds:g} s"
    yield f"{options.workers} workers, {timetable}, {options.kills} kills"
    yield f"{len(took):,} requests; ms from when they were due: " + ", ".join(
        f"{share:.0%} {ms:.0f}" for share, ms in shares.items()
    )
    yield f"answers by status: {dict(statuses)}; sent again after a kill: {sum(p.sent_again for p in crowd)}"
    yield f"CPU ms of the server per request, pictures included: {1000 * cpu_s / max(len(took), 1):.2f}"


def _check_database(folder: Path, crowd: Sequence[Person]) -> Iterator[str]:
    """Check that the database has every acknowledged answer once, and nothing else."""
    project: Project = open_project(folder)
    with project.database.reading() as connection:
        chosen = select(events.c.key, events.c.number, events.c.worker, events.c.body).where(events.c.kind == "judged")
        kept = {row.key: row for row in connection.execute(chosen)}
        subjects = Counter(
            (row.worker, row.photo, row.body["task"], row.body["subject"])
            for row in connection.execute(select(events).where(events.c.kind == "judged"))
        )
    project.close()
    lost = wrong = acknowledged = 0
    for person in crowd:
        for token, (number, answer) in person.acknowledged.items():
            acknowledged += 1
            row = kept.pop(token, None)
            lost += row is None
            wrong += row is not None and (row.number, row.worker, row.body["answer"]) != (
                number, person.mind.id, answer
            )  # fmt: skip
    doubled = sum(count - 1 for count in subjects.values())
    yield f"acknowledged {acknowledged:,}: lost {lost}, not as sent {wrong}, asked the same person twice {doubled}; "
    yield f"kept without acknowledgement: {len(kept)}"


if __name__ == "__main__":
    main()
