"""Feed harnesses with changed files for a while: python -m tests.fuzz.fuzzing SECONDS FOUND [HARNESS…]

With atheris, the fuzzer sees which branches of deixis an input reaches and keeps what reaches new ones. Where atheris
is not to be had (it comes for Linux, and for some versions of Python) files are changed at random instead. What fails
is written to FOUND/HARNESS and the process ends with 1; kept there, it is tried first by every later run.
"""

from __future__ import annotations

import faulthandler
import hashlib
import importlib.util
import os
import random
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deixis.errors import DeixisError

if TYPE_CHECKING:
    from tests.fuzz.harnesses import Harness

TOO_LONG_S = 30
MOST_MB = 3000
LONGEST = 8192
FAILED = 77
SEED, RUNS = (int(os.environ.get(f"DEIXIS_FUZZ_{name}", "0")) for name in ("SEED", "RUNS"))
"""0 for others each time, and for as many as the time allows."""
ODD = [
    b"",
    b"\0",
    b"{}",
    b"[]",
    b"[" * 20_000,
    b'{"a":' * 20_000,
    b"(" * 20_000,
    b"9" * 5000,
    b"\xff\xfe",
    b"\xef\xbb\xbf",
]


class FindingError(AssertionError):
    """An error that is not one clear line."""


def has_atheris() -> bool:
    return importlib.util.find_spec("atheris") is not None


def tried(harness: Harness, data: bytes, folder: Path) -> None:
    """One input: it is read, or refused in one line."""
    try:
        harness.check(data, folder)
    except DeixisError as error:
        message = str(error)
        if not message or "\n" in message:
            raise FindingError(f"not one line: {message!r}") from error
        message.encode(errors="surrogateescape")


def kept(harness: Harness, data: bytes, folder: Path, found: Path) -> None:
    """One input, which is kept where it is a finding."""
    try:
        tried(harness, data, folder)
    except BaseException:
        place = found / harness.name
        place.mkdir(parents=True, exist_ok=True)
        (place / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
        raise


@dataclass(frozen=True)
class Tried:
    """How a harness did: 0 where nothing was found, and how many inputs it was given."""

    name: str
    code: int
    runs: int
    said: str


def fuzz_all(names: Sequence[str], seconds: float, found: Path) -> Iterator[Tried]:
    """Each harness in a process of its own, forked when everything is imported."""
    atheris = _imported_atheris()
    from tests.fuzz.harnesses import HARNESSES

    for name in names:
        with tempfile.TemporaryFile() as said:
            child = os.fork()
            if child == 0:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
                code = FAILED
                try:
                    fuzz(atheris, HARNESSES[name], seconds, found)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(code)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.seek(0)
            text = said.read().decode(errors="replace")
        runs = re.search(r"number_of_executed_units: (\d+)", text)
        yield Tried(name, code, int(runs[1]) if runs else 0, text)


def fuzz(atheris: Any, harness: Harness, seconds: float, found: Path) -> None:
    """Try one harness; with atheris the process ends here."""
    name = harness.name
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    harness.prepare(folder)
    with tempfile.TemporaryDirectory() as other:
        seeds = [*harness.seeds(Path(other)), *ODD]
    known = sorted((found / name).glob("*")) if (found / name).is_dir() else []
    seeds += [path.read_bytes() for path in known]
    for seed in seeds:
        kept(harness, seed, folder, found)
    if atheris is None:
        _by_chance(harness, seeds, seconds, folder, found)
        return
    _with_atheris(atheris, harness, seeds, seconds, folder, found)


def _imported_atheris() -> Any:
    """atheris, once all of deixis that the harnesses use is imported with counters at its branches."""
    if not has_atheris():
        from tests.fuzz import harnesses

        return None
    import atheris
    import torch  # noqa: F401 - before counters are put into what is imported

    with atheris.instrument_imports(include=["deixis"], enable_loader_override=False):
        from tests.fuzz import harnesses  # noqa: F401
    return atheris


def _with_atheris(
    atheris: Any, harness: Harness, seeds: list[bytes], seconds: float, folder: Path, found: Path
) -> None:
    corpus = Path(tempfile.mkdtemp())
    for number, seed in enumerate(seed for seed in seeds if len(seed) <= LONGEST):
        (corpus / f"seed{number}").write_bytes(seed)
    artefacts = tempfile.mkdtemp()
    options = {
        "max_total_time": max(1, round(seconds)),
        "max_len": LONGEST,
        "timeout": TOO_LONG_S,
        "rss_limit_mb": MOST_MB,
        "artifact_prefix": f"{artefacts}/",
        "print_final_stats": 1,
        "verbosity": 1,
    }
    options |= {key: value for key, value in (("seed", SEED), ("runs", RUNS)) if value}
    command = [sys.argv[0], *(f"-{key}={value}" for key, value in options.items()), str(corpus)]
    atheris.Setup(command, lambda data: kept(harness, bytes(data), folder, found))
    atheris.Fuzz()


def _by_chance(harness: Harness, seeds: list[bytes], seconds: float, folder: Path, found: Path) -> None:
    seed = SEED or random.SystemRandom().randrange(2**32)
    chance, end, runs = random.Random(seed), time.monotonic() + seconds, 0
    print(f"DEIXIS_FUZZ_SEED={seed}")
    while time.monotonic() < end and not (RUNS and runs >= RUNS):
        data = changed(chance.choice(seeds), seeds, chance)
        runs += 1
        kept(harness, data, folder, found)
    print(f"stat::number_of_executed_units: {runs}")


def changed(data: bytes, seeds: list[bytes], chance: random.Random) -> bytes:
    """A file with a few changes of the kinds that break readers."""
    made = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randint(0, len(made))
        kind = chance.randrange(6)
        if kind == 0 and made:
            made[place % len(made)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del made[place : place + chance.randint(1, 16)]
        elif kind == 2:
            made[place:place] = chance.randbytes(chance.randint(1, 8))
        elif kind == 3:
            other = chance.choice(seeds)
            begin = chance.randint(0, len(other))
            made[place:place] = other[begin : begin + chance.randint(1, 64)]
        elif kind == 4:
            made[place : place + 4] = chance.choice([b"\xff" * 4, bytes(4), b"9" * 20, b"1e999", b"null", b"-1"])
        else:
            made[place:] = made[place : place + 32] * 2
    return bytes(made[: LONGEST * 4])


def main(seconds: str, found: str, *names: str) -> int:
    """Try harnesses, all where none is named; whether something was found."""
    failed = False
    from tests.fuzz.names import NAMES

    for each in fuzz_all(names or NAMES, float(seconds), Path(found)):
        failed |= each.code != 0
        print(f"{each.name:24} {each.runs:9,} runs  {'' if each.code == 0 else f'FAILED ({each.code})'}", flush=True)
        if each.code != 0:
            print(each.said[-6000:], flush=True)
    return int(failed)


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(main(*sys.argv[1:]))
