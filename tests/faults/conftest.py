"""Orders for the workshop, and the seed of all that is random."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SEED = int(os.environ.get("DEIXIS_FAULT_SEED", "10"))


@dataclass(frozen=True)
class Ended:
    """How a piece of work ended: killed, refused with a line, or done (then with how often it touched the disk)."""

    said: list[str]
    killed: int
    refused: str | None
    moments: int
    seen: Any


class Workshop:
    """Gives orders; `tests.faults.workshop` carries them out."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.faults.workshop"]
        # One thread: what is forked must not wait for threads that were not.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.mounts = bool(self._read()["mounts"])

    def run(self, work: str, folder: Path, **fault: Any) -> Ended:
        return self._ended(self._ask(do="run", work=work, folder=str(folder), **fault))

    def prepare(self, work: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._ended(self._ask(do="prepare", work=work, folder=str(folder)))

    def see(self, work: str, folder: Path) -> Ended:
        return self._ended(self._ask(do="see", work=work, folder=str(folder)))

    def stop_at(self, work: str, folder: Path, at: int) -> int:
        """Begin, and halt at a moment; the number of the process that waits there."""
        return int(self._ask(do="run", work=work, folder=str(folder), at=at, stop=True)["pid"])

    def stop_said(self, work: str, folder: Path, said: int) -> int | None:
        """Begin, and halt when so much was acknowledged; None where it ended before."""
        answer = self._ask(do="run", work=work, folder=str(folder), stop_said=said)
        return answer.get("pid")

    def resume(self, pid: int) -> Ended:
        return self._ended(self._ask(**{"as": "resume"}, pid=pid))

    def small_disk(self, place: Path, size: int, *, again: bool = False) -> None:
        self._need_mounts()
        place.mkdir(parents=True, exist_ok=True)
        assert not self._ask(**{"as": "mount"}, place=str(place), bytes=size, again=again)["errno"]

    def read_only(self, place: Path) -> None:
        self._need_mounts()
        assert not self._ask(**{"as": "read_only"}, place=str(place))["errno"]

    def unmount(self, place: Path) -> None:
        assert not self._ask(**{"as": "unmount"}, place=str(place))["errno"]

    def copy(self, source: Path, place: Path) -> None:
        """Into a folder that only the workshop sees."""
        self._ask(**{"as": "copy"}, source=str(source), place=str(place))

    def files(self, place: Path) -> list[str]:
        return list(self._ask(**{"as": "list"}, place=str(place))["files"])

    def close(self) -> None:
        self._process.communicate(timeout=30)

    def _need_mounts(self) -> None:
        if not self.mounts:
            pytest.skip("no private mounts: this needs Linux, and root or user namespaces")

    def _ask(self, **order: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def _ended(self, answer: dict[str, Any]) -> Ended:
        kind, what = answer["last"] or (None, None)
        assert kind != "crashed", f"seed {SEED}: {what}"
        if kind is None:
            assert answer["killed"] == 9, f"seed {SEED}: died by signal {answer['killed']}"
        if kind == "refused":
            assert_one_line(what)
        return Ended(
            answer["said"],
            answer["killed"],
            what if kind == "refused" else None,
            what if kind == "done" else 0,
            what if kind == "seen" else None,
        )


def assert_one_line(message: str) -> None:
    assert message, "an error without a word"
    assert "\n" not in message, message
    assert "Traceback" not in message, message


@pytest.fixture(scope="session")
def workshop() -> Iterator[Workshop]:
    if sys.platform == "win32":
        pytest.skip("forks are of Unix")
    shop = Workshop()
    yield shop
    shop.close()


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Dice that fall the same way for the same test; DEIXIS_FAULT_SEED=N throws others."""
    print(f"DEIXIS_FAULT_SEED={SEED}")
    return random.Random(f"{SEED} {request.node.name}")
