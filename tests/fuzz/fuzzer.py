"""Run harnesses on mutated files: python -m tests.fuzz.fuzzer SECONDS FOUND [HARNESS…]

Fuzzing is guided by branch coverage (atheris, which supports Linux). Failing inputs are written to FOUND/HARNESS, where
every later run tries them first, and the process exits with 1. DEIXIS_FUZZ_CORPUS names a folder for the inputs that
reached new code, of which `tests.fuzz.corpus` makes the saved corpus.
"""

from __future__ import annotations

import faulthandler
import hashlib
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deixis.errors import DeixisError
from tests.fuzz.names import NAMES

if TYPE_CHECKING:
    from tests.fuzz.harnesses import Harness

TIMEOUT_S = 30
MAX_MB = 3000
MAX_LENGTH = 8192
FAILED = 77
SEED, RUNS = (int(os.environ.get(f"DEIXIS_FUZZ_{name}", "0")) for name in ("SEED", "RUNS"))
"""0 means a random seed, and as many runs as the time allows."""
EDGE_CASES = [
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


def check_input(harness: Harness, data: bytes, folder: Path) -> None:
    """Check that an input is read or refused with a one-line error."""
    try:
        harness.check(data, folder)
    except DeixisError as error:
        message = str(error)
        if not message or "\n" in message:
            raise AssertionError(f"not one line: {message!r}") from error
        message.encode(errors="surrogateescape")


def check_and_save(harness: Harness, data: bytes, folder: Path, found: Path) -> None:
    """Check an input and save it if it fails."""
    try:
        check_input(harness, data, folder)
    except BaseException:
        file = found / harness.name / hashlib.sha256(data).hexdigest()[:16]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        raise


def fuzz_all(names: Sequence[str], seconds: float, found: Path) -> Iterator[tuple[str, int, str]]:
    """Run each harness in a process that is forked after all imports.

    Yield its name, exit code (0: nothing found) and output.
    """
    atheris = _import_atheris()
    from tests.fuzz.harnesses import HARNESSES

    for name in names:
        with tempfile.TemporaryFile() as stream:
            child = os.fork()
            if child == 0:
                os.dup2(stream.fileno(), 1)
                os.dup2(stream.fileno(), 2)
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
            stream.seek(0)
            yield name, code, stream.read().decode(errors="replace")


def fuzz(atheris: Any, harness: Harness, seconds: float, found: Path) -> None:
    """Fuzz one harness; atheris ends the process."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    harness.prepare(folder)
    with tempfile.TemporaryDirectory() as other:
        seeds = [*harness.seeds(Path(other)), *EDGE_CASES]
    seeds += [path.read_bytes() for path in sorted((found / harness.name).glob("*"))]
    for seed in seeds:
        check_and_save(harness, seed, folder, found)
    corpus = Path(os.environ.get("DEIXIS_FUZZ_CORPUS") or tempfile.mkdtemp(), harness.name)
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seed for seed in seeds if len(seed) <= MAX_LENGTH):
        (corpus / f"seed{number}").write_bytes(seed)
    artifacts = tempfile.mkdtemp()
    options = {
        "max_total_time": max(1, round(seconds)),
        "max_len": MAX_LENGTH,
        "timeout": TIMEOUT_S,
        "rss_limit_mb": MAX_MB,
        "artifact_prefix": f"{artifacts}/",
        "print_final_stats": 1,
        "verbosity": 1,
    }
    options |= {key: value for key, value in (("seed", SEED), ("runs", RUNS)) if value}
    command = [sys.argv[0], *(f"-{key}={value}" for key, value in options.items()), str(corpus)]
    atheris.Setup(command, lambda data: check_and_save(harness, bytes(data), folder, found))
    atheris.Fuzz()


def _import_atheris() -> Any:
    """Import atheris, and then the harnesses and deixis with coverage instrumentation."""
    import atheris
    import torch  # noqa: F401 - must not be instrumented

    with atheris.instrument_imports(include=["deixis"], enable_loader_override=False):
        from tests.fuzz import harnesses  # noqa: F401
    return atheris


def main(seconds: str, found: str, *names: str) -> int:
    """Run the named harnesses, or all; return 1 if something was found."""
    failed = False
    for name, code, output in fuzz_all(names or NAMES, float(seconds), Path(found)):
        units = re.search(r"number_of_executed_units: (\d+)", output)
        print(f"{name:24} {int(units[1]) if units else 0:9,} runs  {f'FAILED ({code})' if code else ''}", flush=True)
        if code:
            failed = True
            print(output[-6000:], flush=True)
    return int(failed)


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(main(*sys.argv[1:]))
