"""Measure how many searches and groundings per second `deixis serve` sustains, and how it behaves under overload.

    python benchmarks/serve.py [--index DIR | --images FOLDER [--photos 500]] [--seconds 10] [--limit-ms 200]
                               [--only KIND …] [--sentences FILE]

Requests arrive as a Poisson process of a given rate, whether or not earlier ones were answered; latency is measured
from when a request was due. The rate increases until the 99th percentile exceeds the limit or a request is refused, and
is then refined by bisection: the highest sustained rate is printed. Twice and four times that rate are tried next, to
see how many requests are answered, how many are refused (503) and how fast, and whether the server recovers.

First, `/api/status` is requested a few hundred times over one connection, one after the other: a median above
10 ms would mean that responses wait for acknowledgements.

- search: a new sentence in every request, ten results
- search, popular: sentences of many users, in which the n-th most popular of 3,072 has a share in proportion to 1 / n
- phrases of a query, photo known: boxes for each phrase in a result, as the page asks for them after a search
- ground, photo known: one of the sixteen photos in the server's cache, another sentence
- ground, any photo: each photo is encoded again

Without --index, the first photos of a folder or the sample photos are indexed. The load generator runs on the same
machine; its share of the processors is printed too (from /proc). --sentences has one sentence per line, such as
captions; the built-in ones share a few phrases, as those of the users of one server do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from urllib.parse import quote, urlsplit

SENTENCES = [
    f"{who} {like} {does} {where}"
    for who in ("a dog", "two children", "a man", "a woman", "some people", "a brown horse", "three boys", "an old man")
    for like in (
        "",
        "in a red hat",
        "with a camera",
        "in blue",
        "behind a tree",
        "with a stick",
        "in the sun",
        "and a cat",
    )
    for does in ("runs", "sits", "jumps over something", "plays with a ball", "looks up", "eats", "waits", "walks")
    for where in ("in the snow", "on the beach", "near the water", "in a street at night", "on green grass", "at home")
]
"""3,072 sentences."""

KINDS = ("search", "search, popular", "phrases of a query, photo known", "ground, photo known", "ground, any photo")
KEEP_ALIVE_MS = 10.0
"""Limit of the median response time of `/api/status` over one connection, on a machine that does nothing else."""

PATIENCE_S = 20.0
HELD = 0.99
"""Share of requests that must be answered within the limit."""


@dataclass(frozen=True)
class Request:
    """An HTTP request in bytes."""

    data: bytes


@dataclass(frozen=True)
class Load:
    """Results at one rate; times in milliseconds, from when requests were due."""

    rate: float
    sent: int
    answered: int
    refused: int
    failed: int
    p50: float
    p99: float
    refused_p99: float
    server_cpu: float
    own_cpu: float

    def holds(self, limit_ms: float) -> bool:
        return self.failed == self.refused == 0 and self.p99 <= limit_ms


_addresses = count()


async def connect(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as one of 200 users: the server limits the rate of requests by address."""
    own = (f"127.0.0.{2 + next(_addresses) % 200}", 0) if host == "127.0.0.1" and sys.platform == "linux" else None
    return await asyncio.open_connection(host, port, local_addr=own)


class Client:
    """Keep-alive connections, one per concurrent request."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send(self, request: Request) -> int:
        """Send a request, read the response to its end and return its status."""
        while self._idle:
            reader, writer = self._idle.pop()
            with suppress(ConnectionError, asyncio.IncompleteReadError):  # the server closes idle connections
                return await self._status(request, reader, writer)
        return await self._status(request, *await connect(self.host, self.port))

    async def _status(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        writer.write(request.data)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        await reader.readexactly(length)
        self._idle.append((reader, writer))
        return int(head.split(b" ", 2)[1])

    def get(self, path: str) -> Request:
        return Request(f"GET {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n\r\n".encode())

    def post(self, path: str, document: object) -> Request:
        body = json.dumps(document).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nContent-Type: application/json\r\n"
        return Request(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)


async def load(client: Client, make: Callable[[], Request], rate: float, seconds: float, server: int) -> Load:
    """Send requests at a rate for some seconds, without waiting for responses."""
    rng, begin, moment, waiting = random.Random(f"{rate:.3f}"), time.perf_counter(), 0.0, []
    outcomes: list[tuple[int, float]] = []

    async def one(due: float, request: Request) -> None:
        try:
            code = await asyncio.wait_for(client.send(request), PATIENCE_S)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            code = 0
        outcomes.append((code, 1000 * (time.perf_counter() - due)))

    cpu = cpu_of(server), time.process_time()
    while (moment := moment + rng.expovariate(rate)) < seconds:
        await asyncio.sleep(max(0.0, begin + moment - time.perf_counter()))
        waiting.append(asyncio.create_task(one(begin + moment, make())))
    await asyncio.gather(*waiting)
    taken = time.perf_counter() - begin
    codes = Counter(code for code, _ in outcomes)
    good, refused = (sorted(ms for code, ms in outcomes if code == status) for status in (200, 503))
    return Load(
        rate,
        len(outcomes),
        codes[200],
        codes[503],
        len(outcomes) - codes[200] - codes[503],
        quantile(good, 0.5),
        quantile(good, HELD),
        quantile(refused, HELD),
        (cpu_of(server) - cpu[0]) / taken,
        (time.process_time() - cpu[1]) / taken,
    )


def quantile(sorted_ms: list[float], q: float) -> float:
    return sorted_ms[min(len(sorted_ms) - 1, int(q * len(sorted_ms)))] if sorted_ms else 0.0


def cpu_of(process: int) -> float:
    """CPU seconds used by a process (Linux only; elsewhere 0)."""
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def memory_of(process: int) -> float:
    """Anonymous resident memory of a process in MB (Linux only; elsewhere 0)."""
    with suppress(OSError):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))
    return 0.0


async def find_highest_rate(try_rate: Callable[[float], object], first: float) -> Load | None:
    """Return the highest sustained rate: increase it by half until one fails, then bisect."""
    held, rate, beyond = None, first, 0.0
    while not beyond:
        tried = await try_rate(rate)  # type: ignore[misc]
        if tried is None:
            beyond = rate
        else:
            held, rate = tried, rate * 1.5
        if not held and rate < 0.2:
            return None
        if beyond and not held:
            beyond, rate = 0.0, rate / 2
    for _ in range(3):
        assert held is not None
        tried = await try_rate((held.rate + beyond) / 2)  # type: ignore[misc]
        if tried is None:
            beyond = (held.rate + beyond) / 2
        else:
            held = tried
    return held


@contextmanager
def serve_index(index: Path) -> Iterator[tuple[str, int]]:
    """Run `deixis serve` on an index; yield its URL and process id."""
    command = [sys.executable, "-m", "deixis", "serve", "--index", str(index), "--port", "0", "--no-open", "--no-token"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.terminate()
        process.wait(30)


def make_index(images: Path | None, photos: int, folder: Path) -> Path:
    from deixis.data.images import find_photos
    from deixis.data.samples import SAMPLES

    path = folder / "photos.deixis"
    chosen = find_photos(images or SAMPLES / "images")[:photos]
    command = [sys.executable, "-m", "deixis", "index", *map(str, chosen), "--into", str(path), "--json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return path


def kinds(
    client: Client, ids: list[str], rng: random.Random, sentences: list[str]
) -> dict[str, tuple[Callable[[], Request], float]]:
    """Return a request factory and a first rate for each kind of request."""

    order = rng.sample(sentences, len(sentences))
    shares = [1 / rank for rank in range(1, len(order) + 1)]
    turns = count()

    def new() -> str:
        turn = next(turns)  # a number makes the sentences of another round new
        return order[turn % len(order)] + (f" {turn // len(order)}" if turn >= len(order) else "")

    def popular() -> str:
        return rng.choices(order, shares)[0]

    def search(sentence: Callable[[], str]) -> Callable[[], Request]:
        return lambda: client.get(f"/api/search?q={quote(sentence())}&top=10")

    def explain(photos: list[str]) -> Callable[[], Request]:
        return lambda: client.get(f"/api/photos/{rng.choice(photos)}/phrases?q={quote(new())}")

    def ground(photos: list[str]) -> Callable[[], Request]:
        return lambda: client.post("/api/ground", {"photo": rng.choice(photos), "sentence": rng.choice(sentences)})

    requests = (
        (search(new), 20.0),
        (search(popular), 40.0),
        (explain(ids[:12]), 5.0),
        (ground(ids[:12]), 5.0),
        (ground(ids), 1.0),
    )
    return dict(zip(KINDS, requests, strict=True))


async def measure(link: str, server: int, options: argparse.Namespace) -> dict[str, list[Load]]:
    address = urlsplit(link)
    client = Client(address.hostname or "127.0.0.1", address.port or 80)
    ids = await photo_ids(client)
    await check_keep_alive(client)
    found: dict[str, list[Load]] = {}
    for kind, (make, first) in kinds(client, ids, random.Random(7), options.sentences).items():
        if options.only and kind not in options.only:
            continue
        if kind == "ground, any photo" and len(ids) <= 16:
            print(f"{kind}: left out, it needs more than 16 photos (the size of the server's cache)")
            continue
        for _ in range(8):  # warm-up
            await client.send(make())

        async def held_at(rate: float, make: Callable[[], Request] = make) -> Load | None:
            tried = await load(client, make, rate, options.seconds, server)
            if options.verbose:
                print(f"    {format_load(tried)}", file=sys.stderr)
            return tried if tried.holds(options.limit_ms) else None

        best = await find_highest_rate(held_at, first)
        if best is None:
            print(f"{kind}: no rate was held at p99 under {options.limit_ms:.0f} ms")
            continue
        found[kind] = [best]
        for times in (2, 4):
            found[kind].append(await load(client, make, times * best.rate, options.seconds, server))
        found[kind].append(await load(client, make, best.rate / 2, options.seconds, server))
        print_kind(kind, found[kind], server, options.limit_ms)
    return found


async def check_keep_alive(client: Client, times: int = 300) -> None:
    """Measure requests one after the other over one connection."""
    request, taken = client.get("/api/status"), []
    for _ in range(times):
        begin = time.perf_counter()
        await client.send(request)
        taken.append(1000 * (time.perf_counter() - begin))
    median = sorted(taken)[times // 2]
    print(f"status over keep-alive: median {median:.1f} ms", flush=True)
    if median > KEEP_ALIVE_MS:
        sys.exit(f"over the limit of {KEEP_ALIVE_MS:.0f} ms")


async def photo_ids(client: Client) -> list[str]:
    reader, writer = await asyncio.open_connection(client.host, client.port)
    writer.write(client.get("/api/photos?limit=1000").data.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    response = await reader.read()
    writer.close()
    return [photo["id"] for photo in json.loads(response.partition(b"\r\n\r\n")[2])["photos"]]


def format_load(tried: Load) -> str:
    return (
        f"{tried.rate:7.1f}/s: {tried.answered:5} answered, p50 {tried.p50:6.0f} ms, p99 {tried.p99:6.0f} ms; "
        f"{tried.refused:5} refused within {tried.refused_p99:4.0f} ms; {tried.failed} failed; "
        f"cores {tried.server_cpu:.2f} + {tried.own_cpu:.2f}"
    )


def print_kind(kind: str, loads: list[Load], server: int, limit_ms: float) -> None:
    held, twice, four, after = loads
    print(f"\n{kind}: {held.rate:.1f} per second held at p99 under {limit_ms:.0f} ms")
    for name, tried in (("held", held), ("twice", twice), ("four times", four), ("half, after", after)):
        print(f"  {name:12} {format_load(tried)}")
    print(f"  memory {memory_of(server):.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--photos", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--limit-ms", type=float, default=200.0)
    parser.add_argument("--only", nargs="+", choices=KINDS, metavar="KIND", help="; ".join(KINDS))
    parser.add_argument("--sentences", type=Path, help="one sentence per line, instead of the built-in ones")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    given = options.sentences and options.sentences.read_text(encoding="utf-8").splitlines()
    options.sentences = [line for line in given if line.strip()] if given else SENTENCES
    with tempfile.TemporaryDirectory() as folder:
        index = options.index or make_index(options.images, options.photos, Path(folder))
        with serve_index(index) as (link, server):
            print(f"{link} on {os.cpu_count()} cores, {options.seconds:.0f} s per rate", flush=True)
            found = asyncio.run(measure(link, server, options))
    if options.json:
        document = {kind: [asdict(each) for each in loads] for kind, loads in found.items()}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if any(each.failed for loads in found.values() for each in loads):
        sys.exit("some requests were neither answered nor refused")


if __name__ == "__main__":
    main()
