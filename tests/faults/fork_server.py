"""A process that imports everything once and forks for each scenario, so that killing many of them is cheap.

It runs in its own mount namespace if the system allows it, so that full disks and read-only folders are real and
disappear with it. Requests and responses are lines of JSON: python -m tests.faults.fork_server
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import select
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deixis.errors import DeixisError
from tests.faults.scenarios import SCENARIOS

# Functions that may change the disk. A process is killed just before or just after such a call.
DISK_CALLS = re.compile(
    r"write|writelines|flush|close|fsync|open|rename|replace|unlink|remove|mkdir|rmdir|chmod|f?truncate|link|sync|"
    r"execute|executemany|executescript|commit|serialize_file"
)
OUT_OF_MEMORY = (2, 3)
"""Kinds of calls that are requests for memory (`failing_calls.c`)."""

_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_RDONLY, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 32, 4096, 16384, 1 << 18


class DiskCallCounter:
    """Counts disk calls, and kills or stops the process at one of them."""

    def __init__(self, at: int | None, how: signal.Signals) -> None:
        self.at, self.how, self.count = at, how, 0

    def watch(self) -> None:
        threading.setprofile(self._count_call)
        sys.setprofile(self._count_call)

    def _count_call(self, frame: Any, event: str, argument: Any) -> None:
        if event in ("c_call", "c_return") and DISK_CALLS.fullmatch(getattr(argument, "__name__", "")):
            self.count += 1
            if self.count == self.at:
                os.kill(os.getpid(), self.how)


def _is_own_call(error: BaseException) -> bool:
    """Whether a test called the function of Python that failed, and not deixis."""
    files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    own = [file for file in files if {"deixis", "tests"} & set(file.parts[-6:-1])]
    return own[-1].parent == Path(__file__).parent


def run_in_child(request: dict[str, Any], pipe: int) -> None:
    """Run one scenario and report its results through the pipe."""

    def report(kind: str, what: Any) -> None:
        os.write(pipe, json.dumps([kind, what]).encode() + b"\n")

    scenario, folder = SCENARIOS[request["scenario"]], Path(request["folder"])
    if request.get("clock"):
        _make_clock_jump(request["clock"])
    if request.get("user"):
        os.setgid(request["user"])
        os.setuid(request["user"])
    how = signal.SIGSTOP if request.get("stop") else signal.SIGKILL
    counter = DiskCallCounter(request.get("at"), how)
    failing = request.get("failing")
    library = ctypes.CDLL(None)
    try:
        if request["do"] == "run" and failing:
            library.faults_arm(*failing)
            scenario.run(folder, lambda what: report("acknowledged", what))
            library.faults_disarm()
            report("done", library.faults_count())
        elif request["do"] == "run":
            counter.watch()
            scenario.run(folder, _stopping(lambda what: report("acknowledged", what), request.get("stop_after", 0)))
            sys.setprofile(None)
            report("done", counter.count)
        elif request["do"] == "prepare":
            for name in ("in", "out"):
                (folder / name).mkdir()
            scenario.prepare(folder)
            report("done", 0)
        else:
            report("state", scenario.inspect(folder))
    except BaseException as error:
        sys.setprofile(None)
        if failing:
            library.faults_disarm()
        if isinstance(error, DeixisError):
            report("error", str(error))
        elif failing and isinstance(error, OSError | MemoryError) and _is_own_call(error):
            report("error", f"a call of the test failed: {error!r}")
        elif failing and failing[0] in OUT_OF_MEMORY:  # libraries raise errors of their own
            report("error", f"out of memory ({type(error).__name__})")
        else:
            report("crashed", traceback.format_exc())


def _stopping(acknowledge: Callable[[str], None], after: int) -> Callable[[str], None]:
    """Stop the process after a number of acknowledgements, when it holds no lock."""
    left = after

    def wrapped(what: str) -> None:
        nonlocal left
        acknowledge(what)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGSTOP)

    return wrapped


def _make_clock_jump(shift_s: float) -> None:
    """Make the wall clock jump back and forth; the monotonic clock stays steady."""
    true, calls = time.time, 0

    def jumping() -> float:
        nonlocal calls
        calls += 1
        return true() + (shift_s if calls % 2 else -shift_s)

    time.time = jumping


class ForkServer:
    """Forks for each request and reports how the child ended."""

    def __init__(self) -> None:
        self.mounts = _make_mounts_private()
        self.stopped: dict[int, int] = {}

    def serve(self) -> None:
        _respond({"ready": True, "mounts": self.mounts})
        for line in sys.stdin:
            request = json.loads(line)
            _respond(getattr(self, request["do"])(request))

    def fork(self, request: dict[str, Any]) -> dict[str, Any]:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            try:
                run_in_child(request, writing)
            finally:
                os._exit(0)
        os.close(writing)
        if request.get("stop") or request.get("stop_after"):
            _, status = os.waitpid(child, os.WUNTRACED)
            if os.WIFSTOPPED(status):
                self.stopped[child] = reading
                return {"pid": child}
            return self._wait(child, reading, None, status)
        return self._wait(child, reading, request.get("after_s"))

    run = prepare = inspect = fork

    def resume(self, request: dict[str, Any]) -> dict[str, Any]:
        os.kill(request["pid"], signal.SIGCONT)
        return self._wait(request["pid"], self.stopped.pop(request["pid"]), None)

    def mount(self, request: dict[str, Any]) -> dict[str, Any]:
        """Mount a small disk, or change its size."""
        flags = _REMOUNT if request.get("again") else 0
        return _mount(b"tmpfs", request["path"], b"tmpfs", flags, f"size={request['bytes']}".encode())

    def read_only(self, request: dict[str, Any]) -> dict[str, Any]:
        path = request["path"]
        first = _mount(os.fsencode(path), path, None, _BIND, None)
        return first if first["errno"] else _mount(None, path, None, _BIND | _REMOUNT | _RDONLY, None)

    def unmount(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"errno": _libc().umount2(os.fsencode(request["path"]), 2) and ctypes.get_errno()}

    def copy(self, request: dict[str, Any]) -> dict[str, Any]:
        shutil.copytree(request["source"], request["path"], dirs_exist_ok=True)
        return {}

    def list(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"files": sorted(str(path.relative_to(request["path"])) for path in Path(request["path"]).rglob("*"))}

    def _wait(self, child: int, pipe: int, after_s: float | None, status: int | None = None) -> dict[str, Any]:
        end = None if after_s is None else time.monotonic() + after_s
        reports, text = [], b""
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([pipe], [], [], left)[0]:
                os.kill(child, signal.SIGKILL)
                end = None
                continue
            if not (more := os.read(pipe, 65536)):
                break
            text += more
        os.close(pipe)
        if status is None:
            _, status = os.waitpid(child, 0)
        for line in text.split(b"\n"):
            if line.endswith(b"]"):
                reports.append(json.loads(line))
        killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        acknowledged = [what for kind, what in reports if kind == "acknowledged"]
        return {"acknowledged": acknowledged, "last": reports[-1] if reports else None, "killed": killed}


def _respond(response: dict[str, Any]) -> None:
    print(json.dumps(response), flush=True)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _mount(source: bytes | None, path: str, kind: bytes | None, flags: int, options: bytes | None) -> dict[str, Any]:
    failed = _libc().mount(source, os.fsencode(path), kind, ctypes.c_ulong(flags), options)
    return {"errno": ctypes.get_errno() if failed else 0}


def _make_mounts_private() -> bool:
    """Give this process its own mounts; return whether that worked."""
    if sys.platform != "linux":
        return False
    user, group = os.getuid(), os.getgid()
    if _libc().unshare(_NEWNS) != 0:
        if _libc().unshare(_NEWNS | _NEWUSER) != 0:
            return False
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    return not _mount(b"none", "/", None, _REC | _PRIVATE, None)["errno"]


if __name__ == "__main__":
    ForkServer().serve()
