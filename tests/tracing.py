"""Which modules of deixis take part in something: those whose functions are called. Imports do not count.

python tests/tracing.py COMMAND… runs a command and prints them as JSON, with all modules that are loaded.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any


@dataclass
class Trace:
    """The modules that were called.

    Attributes
    ----------
    called
        Every module, in the order of its first call.
    calls
        Pairs of a calling and a called module; calls that pass through other libraries count.
    opening
        Modules that were called while models and indexes were opened.
    """

    called: list[str] = field(default_factory=list)
    calls: set[tuple[str, str]] = field(default_factory=set)
    opening: set[str] = field(default_factory=set)


@contextmanager
def tracing(open_function: str = "") -> Iterator[Trace]:
    """Trace this thread and those that start meanwhile; what the named function calls is kept apart."""
    trace, depth = Trace(), 0
    called: dict[str, None] = {}

    def on_event(frame: FrameType, event: str, _: Any) -> None:
        nonlocal depth
        if event not in ("call", "return") or not _is_ours(frame):
            return
        name = frame.f_globals["__name__"]
        if frame.f_code.co_name == open_function:
            depth += 1 if event == "call" else -1
        if event == "return":
            return
        if depth:
            trace.opening.add(name)
            return
        caller = _caller(frame)
        if caller is None or not _is_ours(caller):
            return
        called[name] = None
        trace.calls.add((caller.f_globals["__name__"], name))

    threading.setprofile(on_event)
    sys.setprofile(on_event)
    try:
        yield trace
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        trace.called = list(called)


def _is_ours(frame: FrameType) -> bool:
    """Whether a frame is a function of deixis: no module, class body or generated code."""
    code = frame.f_code
    optimized = bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_filename.startswith("<")
    return optimized and frame.f_globals.get("__name__", "").startswith("deixis.")


def _caller(frame: FrameType) -> FrameType | None:
    """Return the frame of deixis that called, or the frame itself if nobody did; None during an import."""
    caller = frame.f_back
    while caller is not None and not caller.f_globals.get("__name__", "").startswith("deixis"):
        if caller.f_globals.get("__name__", "").startswith("importlib"):
            return None
        caller = caller.f_back
    return caller or frame


def trace_command(*arguments: object, open_function: str = "", cwd: Path | None = None) -> tuple[Trace, list[str]]:
    """Run a command in a process of its own; return its trace and the modules of deixis that were loaded."""
    command = [sys.executable, __file__, open_function, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    calls = {(caller, called) for caller, called in found["calls"]}
    return Trace(found["called"], calls, set(found["opening"])), found["loaded"]


def _main() -> None:
    from deixis.cli import main

    with tracing(sys.argv[1]) as trace:
        code = main._run(sys.argv[2:])
    loaded = [name for name in sys.modules if name.startswith("deixis.")]
    document = {
        "called": trace.called,
        "calls": sorted(trace.calls),
        "opening": sorted(trace.opening),
        "loaded": loaded,
    }
    print("\n" + json.dumps(document))
    sys.exit(code)


if __name__ == "__main__":
    _main()
