"""A server of its own process, with photos that need no model: python -m tests.web.serving FOLDER [PORT]."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deixis.web.app import serve
from deixis.web.server import ServerAddress, leave, listen
from tests.web.fakes import FakeCollection, FakeInference

ROOT = Path(__file__).parents[2]


@contextmanager
def served(*arguments: object) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The link to such a server and its process; it is ended in the end."""
    command = [sys.executable, "-m", "tests.web.serving", *map(str, arguments)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "DISPLAY": ""}
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line.startswith("http"), process.stderr.read() if process.stderr else ""
        yield line, process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def main(folder: str, host: str = "127.0.0.1") -> None:
    collection = FakeCollection(sorted(Path(folder).glob("*.jpg")), Path(folder))
    address = ServerAddress(host, 0)
    serve(
        collection,
        address,
        listen(address),
        inference=FakeInference(),
        on_ready=lambda url: print(url, flush=True),
        needs_token=False,
    )
    leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
