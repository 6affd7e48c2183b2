"""Which modules of deixis take part in something: those whose functions are called. Imports do not count.

python tests/tracing.py COMMAND… runs a command and prints them as JSON, with all modules that are loaded.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

Calls = set[tuple[str, str]]
"""Pairs of a calling and a called module; calls that pass through other libraries count."""


@contextmanager
def tracing(*open_functions: str) -> Iterator[Calls]:
    """Trace this thread and those that start meanwhile; calls inside the named functions do not count."""
    calls: Calls = set()
    depth = 0

    def on_event(frame: FrameType, event: str, _: Any) -> None:
        nonlocal depth
        if event not in ("call", "return") or not _is_ours(frame):
            return
        if frame.f_code.co_name in open_functions:
            depth += 1 if event == "call" else -1
        if event == "return" or depth:
            return
        caller = _caller(frame)
        if caller is None or not _is_ours(caller):
            return
        calls.add((caller.f_globals["__name__"], frame.f_globals["__name__"]))

    threading.setprofile(on_event)
    sys.setprofile(on_event)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def _is_ours(frame: FrameType) -> bool:
    """Whether a frame is a function of deixis: no module, class body or generated code."""
    code = frame.f_code
    optimized = bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_filename.startswith("<")
    return optimized and frame.f_globals.get("__name__", "").startswith("deixis.")


def _caller(frame: FrameType) -> FrameType | None:
    """Return the frame of deixis that called, or the frame itself if nobody did; None during an import."""
    found, caller = None, frame.f_back
    while caller is not None:
        if caller.f_globals.get("__name__", "").startswith("deixis"):
            if caller.f_code.co_name == "<module>":
                return None
            found = found or caller
        caller = caller.f_back
    return found or frame


def trace_command(
    *arguments: object,
    open_functions: Sequence[str] = (),
) -> tuple[Calls, list[str]]:
    """Run a command in a process of its own; return its calls and the modules of deixis that were loaded."""
    command = [sys.executable, __file__, ",".join(open_functions), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return {(caller, called) for caller, called in found["calls"]}, found["loaded"]


def _main() -> None:
    from deixis.cli import main

    with tracing(*sys.argv[1].split(",")) as calls:
        code = main._run(sys.argv[2:])
    loaded = [name for name in sys.modules if name.startswith("deixis.")]
    print("\n" + json.dumps({"calls": sorted(calls), "loaded": loaded}))
    sys.exit(code)


if __name__ == "__main__":
    _main()
