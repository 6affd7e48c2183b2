"""Mixed load on `deixis serve` while hostile files and requests are tried beside it: python -m tests.soak.soaking.

    python -m tests.soak.soaking [--minutes 60] [--rate 4] [--index DIR] [--keep]

For all that time the server is asked for everything it can do, a few times a second, some of it nonsense; each answer
must be one that the API promises, and the memory it holds must stay level once it is warm. Meanwhile every harness of
tests/fuzz gets its share of the time, and the API is tried by schemathesis with many more examples than in the tests.
--keep puts the figures into docs/benchmarks.md.
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
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import all as benchmarks  # noqa: E402
from serve import SENTENCES, Client, Request, made_index, memory_of, photo_ids, served, share  # noqa: E402

from tests.fuzz.names import NAMES  # noqa: E402

PROMISED = {200, 304, 400, 404, 409, 413, 422, 503}
WARM = 0.3
"""The share of the time after which memory must stay level: models are read when they are first asked for."""

GROWTH, LEAST_MB = 0.03, 16.0
SCHEMA_EXAMPLES_A_MINUTE = 20


@dataclass
class Seen:
    """What was met so far."""

    codes: Counter[str] = field(default_factory=Counter)
    milliseconds: dict[str, list[float]] = field(default_factory=dict)
    memory: list[tuple[float, float]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def asked_for(client: Client, ids: list[str], chance: random.Random) -> dict[str, Callable[[], Request]]:
    """Everything that visitors do, and some nonsense."""

    def sentence() -> str:
        return chance.choice(SENTENCES)

    def photo() -> str:
        return chance.choice(ids)

    return {
        "search": lambda: client.get(f"/api/search?q={quote(sentence())}&top=20"),
        "explain": lambda: client.get(f"/api/search?q={quote(sentence())}&explain=true&all=true"),
        "like": lambda: client.get(f"/api/search?like={photo()}"),
        "ground": lambda: client.post("/api/ground", {"photo": photo(), "sentence": sentence()}),
        "caption": lambda: client.post("/api/caption", {"photo": photo()}),
        "describe": lambda: client.post("/api/describe", {"photo": photo(), "top": 2}),
        "thumbnail": lambda: client.get(f"/api/photos/{photo()}/thumbnail"),
        "image": lambda: client.get(f"/api/photos/{photo()}/image?side=640"),
        "page": lambda: client.get("/api/photos?limit=100"),
        "nonsense": lambda: chance.choice(
            [
                client.get("/api/search?q=" + quote(chance.randbytes(20))),
                client.get("/api/photos/" + quote("../../etc/passwd", safe="") + "/image"),
                client.post("/api/ground", {"photo": photo(), "sentence": "x" * 10_000}),
                client.post("/api/describe", {"photo": photo(), "region": [1e308, -1, "a", None]}),
                client.get("/" + quote(chance.randbytes(9))),
            ]
        ),
    }


async def soak(link: str, server: int, minutes: float, rate: float) -> Seen:
    address = urlsplit(link)
    client = Client(address.hostname or "127.0.0.1", address.port or 80)
    chance, seen = random.Random(3), Seen()
    kinds = asked_for(client, await photo_ids(client), chance)
    begin, end, waiting = time.monotonic(), time.monotonic() + 60 * minutes, set[asyncio.Task[None]]()
    sampled = begin

    async def one(kind: str, request: Request) -> None:
        due = time.perf_counter()
        try:
            code = await asyncio.wait_for(client.ask(request), 120)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, StopIteration) as error:
            seen.wrong.append(f"{kind}: {type(error).__name__} {error}")
            return
        seen.codes[f"{kind} {code}"] += 1
        seen.milliseconds.setdefault(kind, []).append(1000 * (time.perf_counter() - due))
        if code not in PROMISED:
            seen.wrong.append(f"{kind}: answered {code}")

    while time.monotonic() < end and not seen.wrong:
        kind = chance.choice(list(kinds))
        task = asyncio.create_task(one(kind, kinds[kind]()))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        if time.monotonic() - sampled >= 2:
            sampled = time.monotonic()
            seen.memory.append((sampled - begin, memory_of(server)))
        await asyncio.sleep(chance.expovariate(rate))
    await asyncio.gather(*waiting)
    return seen


def growth_of(memory: list[tuple[float, float]]) -> tuple[float, float]:
    """Megabytes by which memory grew along its straight line once it was warm, and its median."""
    warm = [(when, held) for when, held in memory if when >= WARM * memory[-1][0]]
    when, held = np.array(warm).T
    slope = np.polyfit(when, held, 1)[0]
    return float(slope * (when[-1] - when[0])), float(np.median(held))


def is_level(memory: list[tuple[float, float]]) -> bool:
    """Whether memory stays where it is, but for what any allocator leaves lying about."""
    grown, median = growth_of(memory)
    return grown <= max(LEAST_MB, GROWTH * median)


def beside(minutes: float, found: Path) -> list[tuple[str, subprocess.Popen[str]]]:
    """What runs at the same time: hostile files, and requests that the API does not expect."""
    each_s = max(1.0, 60 * minutes * 0.8 / len(NAMES))
    environment = {**os.environ, "DEIXIS_SCHEMA_EXAMPLES": str(max(25, int(SCHEMA_EXAMPLES_A_MINUTE * minutes)))}
    commands = {
        "hostile files": [sys.executable, "-m", "tests.fuzz.fuzzing", str(each_s), str(found)],
        "hostile requests": [sys.executable, "-m", "pytest", "-q", "tests/server/test_schema.py"],
    }
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return [(name, subprocess.Popen(command, cwd=ROOT, env=environment, **pipes)) for name, command in commands.items()]


def told(seen: Seen, runs: int) -> list[str]:
    """The figures in a few lines."""
    grown, median = growth_of(seen.memory)
    answers, refused = sum(seen.codes.values()), sum(n for code, n in seen.codes.items() if code.endswith(" 503"))
    lines = [
        f"{answers:,} requests, {refused:,} told to come again, {len(seen.wrong):,} unanswered or answered otherwise"
    ]
    lines.append(f"memory of the server, once warm: {median:.0f} MB in the median, {grown:+.1f} MB along its line")
    for kind, times in sorted(seen.milliseconds.items()):
        lines.append(
            f"{kind}: {len(times):,}, p50 {share(sorted(times), 0.5):.0f} ms, p99 {share(sorted(times), 0.99):.0f} ms"
        )
    lines.append(f"{runs:,} hostile files for {len(NAMES)} readers")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=4.0)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index = options.index or made_index(None, 100, Path(folder))
        others = beside(options.minutes, ROOT / "tests" / "fuzz" / "found")
        with served(index) as (link, server):
            print(f"{link}, {options.minutes:g} minutes", flush=True)
            seen = asyncio.run(soak(link, server, options.minutes, options.rate))
        said = {name: process.communicate()[0] for name, process in others}
    failed = [name for name, process in others if process.returncode]
    runs = sum(int(line.split()[1].replace(",", "")) for line in said["hostile files"].splitlines() if " runs" in line)
    lines = told(seen, runs)
    print("\n".join(lines), flush=True)
    if seen.wrong or failed:
        sys.exit("\n".join([*seen.wrong[:5], *(f"{name}:\n{said[name][-4000:]}" for name in failed)]))
    if not is_level(seen.memory):
        sys.exit(f"memory grows: {json.dumps(seen.memory[:: max(1, len(seen.memory) // 20)])}")
    if options.keep:
        when = datetime.now(UTC).isoformat(timespec="minutes")
        record = {"minutes": options.minutes, "when": when, "machine": benchmarks.machine(), "lines": lines}
        benchmarks.keep("soak", record)


if __name__ == "__main__":
    main()
