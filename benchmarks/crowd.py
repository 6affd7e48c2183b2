"""Measure `deixis serve` under a crowd: 200 clients that search, 20 that upload photos, 50 that send very slowly, and
40 that download an original of 5 GB, of which 38 hardly read and two read on.

    python benchmarks/crowd.py [--index DIR | --images FOLDER [--photos 200]] [--seconds 60]

A client that searches sends the next request when it has an answer, or a second after a 503. Each client has an address
of its own (127.0.0.2 and so on, Linux). Every answer to a search is compared with the one that the server gave before
the crowd came. Exits with 1 if an answer is wrong, if the 95th percentile of answered searches is over a second, if a
refusal takes as long, or if the memory of the server grows by more than a tenth from the second to the last quarter or
exceeds 260 MB.
The clients run on the same machine, so that part of the times is theirs.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from urllib.parse import quote, urlsplit

from PIL import Image
from serve import SENTENCES, connect, make_index, memory_of, quantile, serve_index

from deixis.data.samples import SAMPLES

SEARCHING, UPLOADING, SLOW = 200, 20, 50
DOWNLOADING, READING_ON = 40, 2
ORIGINAL_BYTES = 5 * 2**30
QUERIES = 200
LIMIT_MS = 1000.0
MAX_GROWTH, MAX_MB = 1.1, 260.0
_PATIENCE_S = 30.0


@dataclass
class Outcome:
    """What clients of one kind have seen."""

    codes: Counter[int] = field(default_factory=Counter)
    ms: dict[int, list[float]] = field(default_factory=dict)
    wrong: int = 0

    def add(self, code: int, ms: float) -> None:
        self.codes[code] += 1
        self.ms.setdefault(code, []).append(ms)

    def line(self, name: str) -> str:
        parts = [f"{count:,} × {code or 'no answer'}" for code, count in sorted(self.codes.items())]
        for code in (200, 503):
            times = sorted(self.ms.get(code, []))
            parts.append(f"{code}: " + ", ".join(f"p{q} {quantile(times, q / 100):.0f} ms" for q in (50, 95, 99)))
        return f"{name}: {'; '.join(parts)}"


class Visitor:
    """One client with a connection of its own, which it opens again when the server has closed it."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, data: bytes) -> tuple[int, bytes]:
        try:
            return await asyncio.wait_for(self._send(data), _PATIENCE_S)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            self._streams = None
            return 0, b""

    async def _send(self, data: bytes) -> tuple[int, bytes]:
        if self._streams is None or self._streams[0].at_eof():
            self._streams = await connect(self.host, self.port)
        reader, writer = self._streams
        writer.write(data)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
        body = await reader.readexactly(length)
        if b"connection: close" in head:
            self._streams = None
        return int(head.split(b" ", 2)[1]), body

    def get(self, path: str) -> bytes:
        return f"GET {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n\r\n".encode()

    def upload(self, path: str, photo: bytes) -> bytes:
        part = (
            b'--b\r\nContent-Disposition: form-data; name="photo"; filename="a.jpg"\r\n\r\n' + photo + b"\r\n--b--\r\n"
        )
        head = f"POST {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nContent-Length: {len(part)}\r\n"
        return head.encode() + b"Content-Type: multipart/form-data; boundary=b\r\n\r\n" + part


def hits(body: bytes) -> list[tuple[str, float]]:
    return [(hit["id"], hit["probability"]) for hit in json.loads(body)["hits"]]


async def crowd(link: str, server: int, seconds: float, large: str | None = None) -> bool:
    address = urlsplit(link)
    host, port = address.hostname or "127.0.0.1", address.port or 80
    first = Visitor(host, port)
    queries = random.Random(3).sample(SENTENCES, QUERIES)
    expected = {}
    for query in queries:
        code, body = await first.send(first.get(f"/api/search?q={quote(query)}&top=10"))
        assert code == 200, code
        expected[query] = hits(body)
    photo = make_photo()
    _, listed = await first.send(first.get("/api/photos"))
    original = next((each["id"] for each in json.loads(listed)["photos"] if each["name"] == large), None)
    downloaded = 0
    await first.send(first.upload("/api/caption", photo))  # loads the model
    end = time.perf_counter() + seconds
    searched, uploaded, memory = Outcome(), Outcome(), list[tuple[float, float]]()

    async def search(number: int) -> None:
        visitor, rng = Visitor(host, port), random.Random(number)
        while time.perf_counter() < end:
            query = rng.choice(queries)
            begin = time.perf_counter()
            code, body = await visitor.send(visitor.get(f"/api/search?q={quote(query)}&top=10"))
            searched.add(code, 1000 * (time.perf_counter() - begin))
            if code == 200 and hits(body) != expected[query]:
                searched.wrong += 1
            if code != 200:
                await asyncio.sleep(1.0)

    async def upload(number: int) -> None:
        visitor = Visitor(host, port)
        while time.perf_counter() < end:
            begin = time.perf_counter()
            path = "/api/caption" if number % 2 else "/api/search/like?top=10"
            code, _ = await visitor.send(visitor.upload(path, photo))
            uploaded.add(code, 1000 * (time.perf_counter() - begin))
            if code != 200:
                await asyncio.sleep(1.0)

    async def send_slowly(number: int) -> None:
        while time.perf_counter() < end:
            with suppress(OSError):
                reader, writer = await connect(host, port)
                data = first.upload("/api/caption", photo) if number % 2 else first.get("/api/status")
                for byte in data[:120]:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(0.5)
                    if time.perf_counter() > end or reader.at_eof():
                        break
                writer.close()

    async def download(number: int) -> None:
        nonlocal downloaded
        while original and time.perf_counter() < end:
            with suppress(OSError, TimeoutError):
                reader, writer = await connect(host, port)
                writer.write(first.get(f"/api/photos/{original}/original"))
                while time.perf_counter() < end:
                    part = await asyncio.wait_for(reader.read(2**20 if number < READING_ON else 100), _PATIENCE_S)
                    if not part:
                        break
                    downloaded += len(part)
                    await asyncio.sleep(0.01 if number < READING_ON else 5.0)
                writer.close()
            await asyncio.sleep(1.0)

    async def watch() -> None:
        while time.perf_counter() < end:
            memory.append((time.perf_counter(), memory_of(server)))
            await asyncio.sleep(1.0)

    begin = time.perf_counter()
    await asyncio.gather(
        watch(),
        *(search(number) for number in range(SEARCHING)),
        *(upload(number) for number in range(UPLOADING)),
        *(send_slowly(number) for number in range(SLOW)),
        *(download(number) for number in range(DOWNLOADING)),
    )
    print(f"downloaded: {downloaded / 2**20:,.0f} MB")
    return report(searched, uploaded, memory, begin, seconds)


def report(
    searched: Outcome, uploaded: Outcome, memory: list[tuple[float, float]], begin: float, seconds: float
) -> bool:
    print(searched.line("searches"))
    print(uploaded.line("uploads"))
    quarters = [
        median(value for moment, value in memory if quarter <= 4 * (moment - begin) / seconds < quarter + 1)
        for quarter in range(4)
    ]
    growth = quarters[3] / quarters[1] if quarters[1] else 1.0
    highest = max(value for _, value in memory)
    shown = ", ".join(f"{value:.0f}" for value in quarters)
    print(f"memory of the server in each quarter: {shown} MB; highest: {highest:.0f} MB")
    answered, refused = (sorted(searched.ms.get(code, [])) for code in (200, 503))
    silent = searched.codes[0] + uploaded.codes[0]
    problems = {
        f"{searched.wrong} wrong answers": searched.wrong > 0,
        f"{silent} requests without an answer": silent > 0,
        "answered searches are slow": quantile(answered, 0.95) > LIMIT_MS,
        "refusals are slow": quantile(refused, 0.95) > LIMIT_MS,
        "memory grows": growth > MAX_GROWTH,
        f"memory exceeds {MAX_MB:.0f} MB": highest > MAX_MB,
    }
    for problem, found in problems.items():
        if found:
            print(f"problem: {problem}")
    return not any(problems.values())


def make_photo() -> bytes:
    """Return a photo of two megapixels."""
    written = io.BytesIO()
    Image.effect_noise((160, 120), 90).convert("RGB").resize((1600, 1200)).save(written, "JPEG", quality=85)
    return written.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--photos", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index, large = options.index, None
        if index is None:
            photos = Path(shutil.copytree(options.images or SAMPLES / "images", Path(folder) / "photos"))
            index = make_index(photos, options.photos, Path(folder))
            large = max(photos.glob("*.jpg")).name
            os.truncate(photos / large, ORIGINAL_BYTES)
        with serve_index(index) as (link, server):
            if not asyncio.run(crowd(link, server, options.seconds, large)):
                sys.exit(1)


if __name__ == "__main__":
    main()
