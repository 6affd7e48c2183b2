"""Clients that send nothing, or slowly: they are disconnected, and others are still answered."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from deixis.web import security, server
from deixis.web.security import AccessPolicy, SecurityMiddleware
from deixis.web.server import FewLines, ServerAddress, listen

LARGE = 50 * 2**20
"""More than the system buffers."""


async def _echo(request: Request) -> JSONResponse:
    return JSONResponse({"bytes": len(await request.body())})


async def _large(_: Request) -> Response:
    return Response(bytes(LARGE))


def _app() -> SecurityMiddleware:
    routes = [Route("/", _echo, methods=["GET", "POST"]), Route("/large", _large)]
    return SecurityMiddleware(Starlette(routes=routes), AccessPolicy())


@contextmanager
def running(before_start: Callable[[int], object] = int) -> Iterator[int]:
    """Run the server in a thread; yield its port, to which clients may connect before the start."""
    listening = listen(ServerAddress(port=0))
    port = listening.getsockname()[1]
    started: list[server._Server] = []
    make = server._Server

    class Recorded(make):  # type: ignore[misc, valid-type]
        def __init__(self, config: server.uvicorn.Config) -> None:
            super().__init__(config)
            started.append(self)

    server._Server = Recorded  # type: ignore[misc]
    thread = threading.Thread(target=server.run_server, args=(_app(), listening))
    try:
        before_start(port)
        thread.start()
        yield port
    finally:
        server._Server = make  # type: ignore[misc]
        started[0].should_exit = True
        thread.join(20)


def connect(port: int, sent: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    client.sendall(sent)
    return client


HALF = b"GET / HTTP/1.1\r\nhost: localhost\r\n"
HALF_A_BODY = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nsome"


def test_half_a_head_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_S", 0.3)
    with running() as port, connect(port, HALF) as slow, connect(port, b"") as silent:
        assert _is_closed(slow)
        assert _is_closed(silent)
        assert httpx.get(f"http://127.0.0.1:{port}/").status_code == 200


def test_half_a_second_request_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_S", 0.3)
    with running() as port, connect(port, HALF + b"\r\n") as client:
        assert client.recv(4096).startswith(b"HTTP/1.1 200")
        client.sendall(HALF)
        assert _is_closed(client)


def test_a_body_that_stops_coming_is_answered_with_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "BODY_S", 0.3)
    with running() as port, connect(port, HALF_A_BODY) as client:
        assert client.recv(4096).startswith(b"HTTP/1.1 408")


def test_a_request_that_takes_too_long_in_all_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_S", 0.3)
    with running() as port, connect(port, HALF_A_BODY) as client:
        assert _is_closed(client)


@pytest.mark.parametrize("pause_s", [0.0, 1.5])
def test_a_client_that_does_not_read_is_disconnected(pause_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READER_S", 0.5)
    received = 0
    with running() as port, connect(port, b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n") as client:
        client.recv(1)
        time.sleep(pause_s)
        with suppress(ConnectionResetError):
            while received < LARGE and (part := client.recv(2**20)):
                received += len(part)
    assert (received < LARGE) == (pause_s > 0)


def test_many_half_sent_requests_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 20)
    monkeypatch.setattr(server, "HEAD_S", 600.0)  # so that only the limit of connections closes them
    slow: list[socket.socket] = []
    with ExitStack() as stack:
        # All at once: the server accepts them in one step of its loop.
        burst = lambda port: slow.extend(stack.enter_context(connect(port, HALF)) for _ in range(60))  # noqa: E731
        port = stack.enter_context(running(burst))
        for _ in range(3):
            assert httpx.get(f"http://127.0.0.1:{port}/").status_code == 200
        assert all(map(_is_closed, slow[:30]))  # the oldest ones


def _is_closed(client: socket.socket) -> bool:
    try:
        client.settimeout(10)
        return client.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def test_logs_cannot_grow_without_bound() -> None:
    few_lines, logger, written = FewLines(), logging.getLogger("deixis.test"), []
    handler = logging.Handler()
    handler.emit = lambda record: written.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.addFilter(few_lines)
    for number in range(1000):
        logger.error("socket.accept() out of system resource %d", number)
    assert len(written) == 60
    assert "not shown" in written[-1]


HANGING = """
import threading
from deixis.web.server import ServerAddress, leave, listen, run_server
from tests.trust.test_slow_clients import _app
threading.Thread(target=threading.Event().wait).start()  # as if a disk did not answer
listening = listen(ServerAddress(port=0))
print(listening.getsockname()[1], flush=True)
run_server(_app(), listening)
leave()
"""


@pytest.mark.parametrize("interrupts", [1, 2])
def test_ctrl_c_ends_a_server_whose_threads_hang_without_a_traceback(interrupts: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    port = int(process.stdout.readline())
    with connect(port, HALF), connect(port, HALF_A_BODY):
        httpx.get(f"http://127.0.0.1:{port}/")
        for _ in range(interrupts):
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
        _, errors = process.communicate(timeout=60)  # the thread hangs for ever
    assert process.returncode == 0
    assert "Traceback" not in errors
