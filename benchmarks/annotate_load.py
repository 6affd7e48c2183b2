"""Many people at once in the annotation workbench, over HTTP, against a server in a process of its own.

    python benchmarks/annotate_load.py DATA [--workers 200] [--seconds 60] [--think 2] [--kills 0] [--database URL]

Each worker has a fixed timetable, an answer every --think seconds, and holds one question ahead, as the page does. A
request is an answer and the next question; how long it took is counted from when it was due, so a stall is felt by all
who were due meanwhile. With --kills the server is killed (SIGKILL) at random moments and started again; workers send
what was not acknowledged once more. In the end the database is read: every acknowledged judgement must be there, as it
was sent, once.
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

from sqlalchemy import select

from deixis.annotate.known import add_known
from deixis.annotate.material import material_of
from deixis.annotate.people import invite
from deixis.annotate.project import Project, add_photos, make_project, open_project
from deixis.annotate.rehearsal import HONEST, Simulated, Truth
from deixis.annotate.sessions import begin_session, csrf_of
from deixis.annotate.settings import Settings
from deixis.annotate.store.schema import events
from deixis.annotate.walks import Task
from deixis.data.dataset import Dataset
from deixis.data.records import Photo
from deixis.server.annotate.app import cookie_name, project_secret
from deixis.server.annotate.photos import Gallery

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
    parser.add_argument("--database", help="postgresql://…, instead of a file")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    photos = [photo for photo in Dataset(asked.data).split(asked.split) if photo.width and photo.chains]
    random.Random(asked.seed).shuffle(photos)
    images = Dataset(asked.data).images
    for line in measure(photos, images, asked):
        print(line, flush=True)


def measure(photos: Sequence[Photo], images: Path | None, asked: argparse.Namespace) -> Iterator[str]:
    """Set a project up, let the crowd work on it, look what is there; a line for each finding."""
    work, gold = photos[: asked.photos], photos[asked.photos : asked.photos + KNOWN_PHOTOS]
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder) / "project", url=asked.database, images=images, settings=Settings())
        add_known(project, gold)
        add_photos(project, (material_of(photo, given=True) for photo in work))
        secret = project_secret(project)
        gallery = Gallery(project, secret)
        truths = {gallery.id_of(photo.id): Truth(photo) for photo in [*work, *gold]}
        crowd = []
        for number in range(asked.workers):
            worker, _ = invite(project, f"worker {number}", vouched=True)
            mind = Simulated(worker, HONEST, random.Random(number))
            crowd.append(Person(mind, begin_session(project, worker), cookie_name(secret)))
        project.close()
        with Served(Path(folder) / "project") as served:
            asyncio.run(_work(crowd, truths, served, asked))
            cpu = served.processor_s
        yield from _report(crowd, asked, cpu)
        yield from _look(project.folder, crowd)


@dataclass
class Person:
    """Somebody at work, and what the server has told them."""

    mind: Simulated
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
        """The headers of all their requests."""
        return (
            f"host: 127.0.0.1\r\ncookie: {self.cookie}={self.session}\r\n"
            f"x-deixis-csrf: {csrf_of(self.session)}\r\ncontent-type: application/json\r\n"
        )


class Served:
    """The server, in a process of its own, on a port that stays the same."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.earlier_s = 0.0
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def __enter__(self) -> Served:
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
        """Processor time of the server so far, without starting."""
        return self.earlier_s + self._of_process() - self.start_s

    def _of_process(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Line:
    """A connection that stays open, and is opened again where the server went away."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.writer: asyncio.StreamWriter | None = None
        self.one_at_a_time = asyncio.Lock()

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request; status and body of the answer."""
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


async def _work(crowd: list[Person], truths: dict[str, Truth], served: Served, asked: argparse.Namespace) -> None:
    began = time.perf_counter() + 1.0
    people = [
        asyncio.create_task(_person(each, truths, served.port, began + asked.think * place / len(crowd), began, asked))
        for place, each in enumerate(crowd)
    ]
    dice = random.Random(asked.seed)
    for moment in sorted(dice.uniform(0.1, 0.9) for _ in range(asked.kills)):
        await asyncio.sleep(max(began + moment * asked.seconds - time.perf_counter(), dice.uniform(0.2, 1.0)))
        served.kill()
        await asyncio.to_thread(served.start)
    await asyncio.gather(*people)


async def _person(
    me: Person, truths: dict[str, Truth], port: int, due: float, began: float, asked: argparse.Namespace
) -> None:
    line, second = Line(port), Line(port)
    looking: list[asyncio.Task[None]] = []
    while due < began + asked.seconds:
        await asyncio.sleep(due - time.perf_counter())
        path, body = _request(me, truths)
        said = await _until_answered(me, line, path, body)
        me.took_s.append(time.perf_counter() - due)
        _hear(me, body, said)
        if not asked.kills:
            looking += [asyncio.create_task(_look_at(me, second, url)) for url in _new_pictures(me)]
        due += asked.think
    for task in looking:
        await task
    line.close()
    second.close()


def _request(me: Person, truths: dict[str, Truth]) -> tuple[str, dict[str, Any]]:
    """The next answer; only a question while nothing is held."""
    if not me.held:
        return "/api/next", {"besides": []}
    question = me.held.pop(0)
    asked = {"task": question["task"], "mentions": [each["id"] for each in question["mentions"]]}
    asked |= {"boxes": question["boxes"], "new_box": question["new_box"]}
    given = _Given(Task(question["task"]), asked)
    answer, box = me.mind.answer(given, truths[question["photo"]["id"]])  # type: ignore[arg-type]
    ahead = {"besides": [each["token"] for each in me.held]}
    return "/api/answer", {
        "token": question["token"], "answer": answer.value, "box": box, "seconds": 2.0, "next": ahead
    }  # fmt: skip


@dataclass
class _Given:
    """What a simulated worker looks at."""

    task: Task
    asked: dict[str, Any]


async def _until_answered(me: Person, line: Line, path: str, body: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(body).encode()
    request = f"POST {path} HTTP/1.1\r\n{me.head}content-length: {len(text)}\r\n\r\n".encode() + text
    while True:
        try:
            status, said = await line.ask(request)
        except ConnectionError:
            me.sent_again += 1
            await asyncio.sleep(0.2)
            continue
        me.statuses[status] += 1
        if status not in (429, 503):
            return json.loads(said) | {"status": status}
        await asyncio.sleep(0.5)


def _hear(me: Person, body: dict[str, Any], said: dict[str, Any]) -> None:
    if said["status"] == 200 and "event" in said:
        me.acknowledged[body["token"]] = said["event"], body["answer"]
    question = said.get("next") or said.get("question")
    if question is not None:
        me.held.append(question)


def _new_pictures(me: Person) -> list[str]:
    urls = {question["photo"]["url"] for question in me.held} - me.pictures
    me.pictures |= urls
    return sorted(urls)


async def _look_at(me: Person, line: Line, url: str) -> None:
    async with line.one_at_a_time:
        status, _ = await line.ask(f"GET {url} HTTP/1.1\r\n{me.head}\r\n".encode())
    if status != 200:
        me.statuses[status] += 1


def _report(crowd: Sequence[Person], asked: argparse.Namespace, cpu_s: float) -> Iterator[str]:
    took = sorted(each for person in crowd for each in person.took_s)
    shares = {share: 1000 * took[int(share * (len(took) - 1))] for share in (0.5, 0.9, 0.95, 0.99, 1.0)}
    statuses = sum((person.statuses for person in crowd), Counter())
    yield f"{asked.workers} workers, an answer every {asked.think:g} s each, {asked.seconds:g} s, {asked.kills} kills"
    yield f"{len(took):,} requests; ms from when they were due: " + ", ".join(
        f"{share:.0%} {ms:.0f}" for share, ms in shares.items()
    )
    yield f"answers by status: {dict(statuses)}; sent again after a kill: {sum(p.sent_again for p in crowd)}"
    yield f"processor ms of the server per request, pictures included: {1000 * cpu_s / max(len(took), 1):.2f}"


def _look(folder: Path, crowd: Sequence[Person]) -> Iterator[str]:
    """Whether all that was acknowledged is there, once, and nothing else."""
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
