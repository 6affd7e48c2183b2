"""Mixed load on `deixis serve` while its readers and its API are fuzzed.

    python -m tests.soak.soak [--minutes 60] [--rate 4] [--index DIR] [--keep]

The server gets requests of every kind, a few per second, some of them invalid. Each response must have a documented
status, and memory must stay level after a warm-up. At the same time every harness of tests/fuzz runs for its share of
the time, and schemathesis tries the API with many more examples than in the tests. --keep writes the figures to
docs/benchmarks.md.
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
from serve import SENTENCES, Client, Request, make_index, memory_of, photo_ids, quantile, serve_index  # noqa: E402

from tests.fuzz.names import NAMES  # noqa: E402

ANSWERED, REFUSED = {200, 304, 503}, {400, 404, 409, 413, 422}
"""Statuses of valid requests, and those that only invalid ones may have."""

WARM = 0.3
"""Share of the time after which memory must stay level; models are loaded on their first use."""

MAX_GROWTH, MIN_MB = 0.03, 16.0
SCHEMA_EXAMPLES_PER_MINUTE = 20


@dataclass
class Measurements:
    """Responses and memory so far."""

    codes: Counter[str] = field(default_factory=Counter)
    milliseconds: dict[str, list[float]] = field(default_factory=dict)
    memory: list[tuple[float, float]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def request_kinds(client: Client, ids: list[str], rng: random.Random) -> dict[str, Callable[[], Request]]:
    """Return a factory for each kind of request: everything the page does, and invalid ones."""

    def sentence() -> str:
        return rng.choice(SENTENCES)

    def photo() -> str:
        return rng.choice(ids)

    return {
        "search": lambda: client.get(f"/api/search?q={quote(sentence())}&top=20"),
        "explain": lambda: client.get(f"/api/photos/{photo()}/phrases?q={quote(sentence())}"),
        "like": lambda: client.get(f"/api/search?like={photo()}"),
        "ground": lambda: client.post("/api/ground", {"photo": photo(), "sentence": sentence()}),
        "caption": lambda: client.post("/api/caption", {"photo": photo()}),
        "describe": lambda: client.post("/api/describe", {"photo": photo(), "top": 2}),
        "thumbnail": lambda: client.get(f"/api/photos/{photo()}/thumbnail"),
        "image": lambda: client.get(f"/api/photos/{photo()}/image?side=640"),
        "page": lambda: client.get("/api/photos?limit=100"),
        "invalid": lambda: rng.choice(
            [
                client.get("/api/search?q=" + quote(rng.randbytes(20))),
                client.get("/api/photos/" + quote("../../etc/passwd", safe="") + "/image"),
                client.post("/api/ground", {"photo": photo(), "sentence": "x" * 10_000}),
                client.post("/api/describe", {"photo": photo(), "region": [1e308, -1, "a", None]}),
                client.get("/" + quote(rng.randbytes(9))),
            ]
        ),
    }


async def soak(link: str, server: int, minutes: float, rate: float) -> Measurements:
    address = urlsplit(link)
    client = Client(address.hostname or "127.0.0.1", address.port or 80)
    rng, results = random.Random(3), Measurements()
    kinds = request_kinds(client, await photo_ids(client), rng)
    begin, end, waiting = time.monotonic(), time.monotonic() + 60 * minutes, set[asyncio.Task[None]]()
    sampled = begin

    async def one(kind: str, request: Request) -> None:
        due = time.perf_counter()
        try:
            code = await asyncio.wait_for(client.send(request), 120)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, StopIteration) as error:
            results.wrong.append(f"{kind}: {type(error).__name__} {error}")
            return
        results.codes[f"{kind} {code}"] += 1
        results.milliseconds.setdefault(kind, []).append(1000 * (time.perf_counter() - due))
        if code not in ANSWERED and not (kind == "invalid" and code in REFUSED):
            results.wrong.append(f"{kind}: status {code}")

    while time.monotonic() < end and not results.wrong:
        kind = rng.choice(list(kinds))
        task = asyncio.create_task(one(kind, kinds[kind]()))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        if time.monotonic() - sampled >= 2:
            sampled = time.monotonic()
            results.memory.append((sampled - begin, memory_of(server)))
        await asyncio.sleep(rng.expovariate(rate))
    await asyncio.gather(*waiting)
    return results


def memory_growth(memory: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the growth of memory in MB after the warm-up, by a linear fit, and its median."""
    warm = [(when, held) for when, held in memory if when >= WARM * memory[-1][0]]
    when, held = np.array(warm).T
    slope = np.polyfit(when, held, 1)[0]
    return float(slope * (when[-1] - when[0])), float(np.median(held))


def is_level(memory: list[tuple[float, float]]) -> bool:
    """Return whether memory stays level, up to fragmentation."""
    grown, median = memory_growth(memory)
    return grown <= max(MIN_MB, MAX_GROWTH * median)


def start_fuzzers(minutes: float, found: Path) -> list[tuple[str, subprocess.Popen[str]]]:
    """Start the processes that fuzz file readers and the API."""
    each_s = max(1.0, 60 * minutes * 0.8 / len(NAMES))
    environment = {**os.environ, "DEIXIS_SCHEMA_EXAMPLES": str(max(25, int(SCHEMA_EXAMPLES_PER_MINUTE * minutes)))}
    commands = {
        "hostile files": [sys.executable, "-m", "tests.fuzz.fuzzer", str(each_s), str(found)],
        "hostile requests": [sys.executable, "-m", "pytest", "-q", "tests/web/test_schema.py"],
    }
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return [(name, subprocess.Popen(command, cwd=ROOT, env=environment, **pipes)) for name, command in commands.items()]


def format_results(results: Measurements, runs: int) -> list[str]:
    """Describe the figures in a few lines."""
    grown, median = memory_growth(results.memory)
    answers, refused = sum(results.codes.values()), sum(n for code, n in results.codes.items() if code.endswith(" 503"))
    lines = [
        f"{answers:,} requests, {refused:,} refused (503), {len(results.wrong):,} unanswered or with a wrong status"
    ]
    lines.append(f"memory of the server after warm-up: median {median:.0f} MB, growth {grown:+.1f} MB")
    for kind, times in sorted(results.milliseconds.items()):
        p50, p99 = (quantile(sorted(times), q) for q in (0.5, 0.99))
        lines.append(f"{kind}: {len(times):,}, p50 {p50:.0f} ms, p99 {p99:.0f} ms")
    lines.append(f"{runs:,} hostile files for {len(NAMES)} readers")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=4.0, help="requests per second")
    parser.add_argument("--index", type=Path, help="index to serve (default: an index of the sample photos)")
    parser.add_argument("--keep", action="store_true", help="write the figures to docs/benchmarks.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index = options.index or make_index(None, 100, Path(folder))
        others = start_fuzzers(options.minutes, ROOT / "tests" / "fuzz" / "found")
        with serve_index(index) as (link, server):
            print(f"{link}, {options.minutes:g} minutes", flush=True)
            results = asyncio.run(soak(link, server, options.minutes, options.rate))
        outputs = {name: process.communicate()[0] for name, process in others}
    failed = [name for name, process in others if process.returncode]
    runs = sum(
        int(line.split()[1].replace(",", "")) for line in outputs["hostile files"].splitlines() if " runs" in line
    )
    lines = format_results(results, runs)
    print("\n".join(lines), flush=True)
    if results.wrong or failed:
        sys.exit("\n".join([*results.wrong[:5], *(f"{name}:\n{outputs[name][-4000:]}" for name in failed)]))
    if not is_level(results.memory):
        sys.exit(f"memory grows: {json.dumps(results.memory[:: max(1, len(results.memory) // 20)])}")
    if options.keep:
        when = datetime.now(UTC).isoformat(timespec="minutes")
        record = {"minutes": options.minutes, "when": when, "machine": benchmarks.machine(), "lines": lines}
        benchmarks.save_record("soak", record)


if __name__ == "__main__":
    main()
