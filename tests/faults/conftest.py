"""Runs scenarios with injected faults, and the random seed of the fault tests."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SEED = int(os.environ.get("DEIXIS_FAULT_SEED", "10"))


@dataclass(frozen=True)
class Outcome:
    """How a scenario ended: killed by a signal, with an error, or normally (then with its number of disk calls)."""

    acknowledged: list[str]
    killed: int
    error: str | None
    disk_calls: int
    state: Any


class FaultRunner:
    """Client of the process in `tests.faults.fork_server`, which runs the scenarios."""

    def __init__(self, failing_calls: Path | None) -> None:
        command = [sys.executable, "-m", "tests.faults.fork_server"]
        # One thread: a forked process must not wait for threads that were not forked.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.fails_calls = failing_calls is not None
        if failing_calls:
            environment["LD_PRELOAD"] = str(failing_calls)
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.mounts = bool(self._read()["mounts"])

    def run(self, scenario: str, folder: Path, *, signals: Container[int] = (signal.SIGKILL,), **fault: Any) -> Outcome:
        return self._outcome(self._request(do="run", scenario=scenario, folder=str(folder), **fault), signals)

    def prepare(self, scenario: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._outcome(self._request(do="prepare", scenario=scenario, folder=str(folder)))

    def inspect(self, scenario: str, folder: Path) -> Outcome:
        return self._outcome(self._request(do="inspect", scenario=scenario, folder=str(folder)))

    def stop_at(self, scenario: str, folder: Path, at: int) -> int:
        """Start a scenario and stop it at its disk call number `at`; return the process id."""
        return int(self._request(do="run", scenario=scenario, folder=str(folder), at=at, stop=True)["pid"])

    def stop_after(self, scenario: str, folder: Path, acknowledged: int) -> int | None:
        """Start a scenario and stop it after a number of acknowledgements; None if it ended before."""
        response = self._request(do="run", scenario=scenario, folder=str(folder), stop_after=acknowledged)
        return response.get("pid")

    def resume(self, pid: int) -> Outcome:
        return self._outcome(self._request(do="resume", pid=pid))

    def small_disk(self, path: Path, size: int, *, again: bool = False) -> None:
        self._need_mounts()
        path.mkdir(parents=True, exist_ok=True)
        assert not self._request(do="mount", path=str(path), bytes=size, again=again)["errno"]

    def read_only(self, path: Path) -> None:
        self._need_mounts()
        assert not self._request(do="read_only", path=str(path))["errno"]

    def unmount(self, path: Path) -> None:
        assert not self._request(do="unmount", path=str(path))["errno"]

    def copy(self, source: Path, path: Path) -> None:
        """Copy into a folder that is mounted only in the fork server."""
        self._request(do="copy", source=str(source), path=str(path))

    def files(self, path: Path) -> list[str]:
        return list(self._request(do="list", path=str(path))["files"])

    def close(self) -> None:
        self._process.communicate(timeout=30)

    def _need_mounts(self) -> None:
        if not self.mounts:
            pytest.skip("no private mounts: this needs Linux, and root or user namespaces")

    def _request(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        response: dict[str, Any] = json.loads(self._process.stdout.readline())
        return response

    def _outcome(self, response: dict[str, Any], signals: Container[int] = (signal.SIGKILL,)) -> Outcome:
        kind, what = response["last"] or (None, None)
        assert kind != "crashed", f"seed {SEED}: {what}"
        if kind is None:
            assert response["killed"] in signals, f"seed {SEED}: died by signal {response['killed']}"
        if kind == "error":
            assert_one_line(what)
        return Outcome(
            response["acknowledged"],
            response["killed"],
            what if kind == "error" else None,
            what if kind == "done" else 0,
            what if kind == "state" else None,
        )


@dataclass(frozen=True)
class Scenario:
    """A scenario in a folder before its run, and what an undisturbed run in another folder gave."""

    name: str
    prepared: Path
    complete: Path
    expected: Any
    disk_calls: int
    seconds: float

    def copy(self, folder: Path) -> Path:
        """Copy the prepared folder."""
        return Path(shutil.copytree(self.prepared, folder))


def trials(few: int, many: int) -> pytest.MarkDecorator:
    """Try a few random faults in the fast tier and many in the slow one."""
    return pytest.mark.parametrize("trials", [few, pytest.param(many, marks=pytest.mark.slow)])


def assert_one_line(message: str) -> None:
    assert message, "an empty error message"
    assert "\n" not in message, message
    assert "Traceback" not in message, message


def compile_failing_calls(folder: Path) -> Path | None:
    """Compile the library that lets calls fail; None without a C compiler, or without the GNU C library."""
    library, source = folder / "failing_calls.so", Path(__file__).with_name("failing_calls.c")
    if sys.platform != "linux" or not shutil.which("gcc"):
        return None
    done = subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], capture_output=True)
    return library if done.returncode == 0 else None


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultRunner]:
    if sys.platform == "win32":
        pytest.skip("needs fork, which Windows lacks")
    started = FaultRunner(compile_failing_calls(tmp_path_factory.mktemp("failing")))
    yield started
    started.close()


@pytest.fixture(scope="session")
def undisturbed() -> dict[str, Scenario]:
    """The scenarios that were run without a fault, by name."""
    return {}


@pytest.fixture
def run(
    scenario: str, runner: FaultRunner, undisturbed: dict[str, Scenario], tmp_path_factory: pytest.TempPathFactory
) -> Scenario:
    """The scenario of the test, run once per session without a fault; read only."""
    if scenario not in undisturbed:
        folder = tmp_path_factory.mktemp(scenario.replace(" ", "-"))
        runner.prepare(scenario, folder / "prepared")
        complete = Path(shutil.copytree(folder / "prepared", folder / "complete"))
        begin = time.monotonic()
        done = runner.run(scenario, complete)
        assert done.error is None, done.error
        seconds = time.monotonic() - begin
        expected = runner.inspect(scenario, complete).state
        undisturbed[scenario] = Scenario(scenario, folder / "prepared", complete, expected, done.disk_calls, seconds)
    return undisturbed[scenario]


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random generator seeded by the test's name; set DEIXIS_FAULT_SEED=N to vary it."""
    print(f"DEIXIS_FAULT_SEED={SEED}")
    return random.Random(f"{SEED} {request.node.name}")
