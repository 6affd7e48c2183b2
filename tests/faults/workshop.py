"""A process that has imported everything and forks for each piece of work, so that killing many of them is cheap.

It lives in a mount namespace of its own where that is allowed: full disks and read-only folders are real, and gone with
it. Orders and answers are lines of JSON: python -m tests.faults.workshop
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
from tests.faults.works import WORKS

# What may leave something on the disk: a kill comes just before or just after one of these.
TOUCHES = re.compile(
    r"write|writelines|flush|close|fsync|open|rename|replace|unlink|remove|mkdir|rmdir|chmod|f?truncate|link|sync|"
    r"execute|executemany|executescript|commit|serialize_file"
)
_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_RDONLY, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 32, 4096, 16384, 1 << 18


class Moments:
    """Counts what touches the disk, and kills or stops the process at one such moment."""

    def __init__(self, at: int | None, how: signal.Signals) -> None:
        self.at, self.how, self.count = at, how, 0

    def watch(self) -> None:
        threading.setprofile(self._touched)
        sys.setprofile(self._touched)

    def _touched(self, frame: Any, event: str, argument: Any) -> None:
        if event in ("c_call", "c_return") and TOUCHES.fullmatch(getattr(argument, "__name__", "")):
            self.count += 1
            if self.count == self.at:
                os.kill(os.getpid(), self.how)


def work_in_child(order: dict[str, Any], pipe: int) -> None:
    """Do one piece of work and say through the pipe what came of it."""

    def say(kind: str, what: Any) -> None:
        os.write(pipe, json.dumps([kind, what]).encode() + b"\n")

    work, folder = WORKS[order["work"]], Path(order["folder"])
    if order.get("clock"):
        _turn_clock(order["clock"])
    if order.get("user"):
        os.setgid(order["user"])
        os.setuid(order["user"])
    how = signal.SIGSTOP if order.get("stop") else signal.SIGKILL
    moments = Moments(order.get("at"), how)
    try:
        if order["do"] == "run":
            moments.watch()
            work.run(folder, _halting(lambda what: say("said", what), order.get("stop_said", 0)))
            sys.setprofile(None)
            say("done", moments.count)
        elif order["do"] == "prepare":
            for name in ("in", "out"):
                (folder / name).mkdir()
            work.prepare(folder)
            say("done", 0)
        else:
            say("seen", work.seen(folder))
    except DeixisError as error:
        sys.setprofile(None)
        say("refused", str(error))
    except BaseException:
        sys.setprofile(None)
        say("crashed", traceback.format_exc())


def _halting(say: Callable[[str], None], after: int) -> Callable[[str], None]:
    """Halt the process when it has said so much: between two pieces of work, holding nothing."""
    left = after

    def said(what: str) -> None:
        nonlocal left
        say(what)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGSTOP)

    return said


def _turn_clock(shift_s: float) -> None:
    """Let the clock on the wall jump to and fro; only what measures waiting goes on evenly."""
    true, calls = time.time, 0

    def jumping() -> float:
        nonlocal calls
        calls += 1
        return true() + (shift_s if calls % 2 else -shift_s)

    time.time = jumping


class Shop:
    """Forks for each order and tells how it ended."""

    def __init__(self) -> None:
        self.mounts = _private_mounts()
        self.stopped: dict[int, int] = {}

    def serve(self) -> None:
        _answer({"ready": True, "mounts": self.mounts})
        for line in sys.stdin:
            order = json.loads(line)
            _answer(getattr(self, "do_" + order.get("as", "fork"))(order))

    def do_fork(self, order: dict[str, Any]) -> dict[str, Any]:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            try:
                work_in_child(order, writing)
            finally:
                os._exit(0)
        os.close(writing)
        if order.get("stop") or order.get("stop_said"):
            _, status = os.waitpid(child, os.WUNTRACED)
            if os.WIFSTOPPED(status):
                self.stopped[child] = reading
                return {"pid": child}
            return self._ended(child, reading, None, status)
        return self._ended(child, reading, order.get("after_s"))

    def do_resume(self, order: dict[str, Any]) -> dict[str, Any]:
        os.kill(order["pid"], signal.SIGCONT)
        return self._ended(order["pid"], self.stopped.pop(order["pid"]), None)

    def do_mount(self, order: dict[str, Any]) -> dict[str, Any]:
        """A small disk, or the same with another size."""
        flags = _REMOUNT if order.get("again") else 0
        return _mount(b"tmpfs", order["place"], b"tmpfs", flags, f"size={order['bytes']}".encode())

    def do_read_only(self, order: dict[str, Any]) -> dict[str, Any]:
        place = order["place"]
        first = _mount(os.fsencode(place), place, None, _BIND, None)
        return first if first["errno"] else _mount(None, place, None, _BIND | _REMOUNT | _RDONLY, None)

    def do_unmount(self, order: dict[str, Any]) -> dict[str, Any]:
        return {"errno": _libc().umount2(os.fsencode(order["place"]), 2) and ctypes.get_errno()}

    def do_copy(self, order: dict[str, Any]) -> dict[str, Any]:
        shutil.copytree(order["source"], order["place"], dirs_exist_ok=True)
        return {}

    def do_list(self, order: dict[str, Any]) -> dict[str, Any]:
        return {"files": sorted(str(path.relative_to(order["place"])) for path in Path(order["place"]).rglob("*"))}

    def _ended(self, child: int, pipe: int, after_s: float | None, status: int | None = None) -> dict[str, Any]:
        end = None if after_s is None else time.monotonic() + after_s
        said, text = [], b""
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
                said.append(json.loads(line))
        killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        acknowledged = [what for kind, what in said if kind == "said"]
        return {"said": acknowledged, "last": said[-1] if said else None, "killed": killed}


def _answer(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _mount(source: bytes | None, place: str, kind: bytes | None, flags: int, options: bytes | None) -> dict[str, Any]:
    failed = _libc().mount(source, os.fsencode(place), kind, ctypes.c_ulong(flags), options)
    return {"errno": ctypes.get_errno() if failed else 0}


def _private_mounts() -> bool:
    """Whether this process now has mounts of its own."""
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
    Shop().serve()
