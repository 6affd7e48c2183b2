"""The HTTP server of all apps: its address, and uvicorn with limits of time, connections and log lines.

The limits hold before a token is looked at. A connection has some seconds for the head of a request and for each part
of its body, and a request has two minutes until its response; then the client has some seconds to read each part. If
there are too many connections, the oldest one that waits for a request is closed, so that clients that send nothing
cannot keep others out.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from types import FrameType
from typing import Any
from urllib.parse import quote

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from deixis.errors import DeixisError
from deixis.storage.remote import is_loopback

HEAD_S = 10.0
REQUEST_S = 120.0
READER_S = 20.0
"""Time for the client to read what is buffered, about 64 kB."""

MAX_CONNECTIONS = 4096
_OTHER_FILES = 256
"""Open files of the server that are no connections; the limit of the process is raised as far as it may."""

_MAX_LINES, _PER_S = 60, 60.0
_SHUTDOWN_S = 0.6
_THREADS_S = 0.6


class LimitedProtocol(H11Protocol):
    """A connection that is closed if a request, or its head, takes too long."""

    limit = MAX_CONNECTIONS
    _timer: asyncio.TimerHandle | None = None
    _was_busy = False
    _since = 0.0

    @property
    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = time.monotonic()  # the clock of the loop stands still in a burst
        self._wait(HEAD_S)
        if len(self.connections) > self.limit:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._update()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._since = time.monotonic()
        self._was_busy = False
        if not self.flow.write_paused:
            self._stop_waiting()  # uvicorn closes idle connections
        self._update()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait(READER_S)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._is_busy:
            self._wait(REQUEST_S)
        else:
            self._stop_waiting()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        if self.transport.get_write_buffer_size():  # closing waits for the client to read
            self._wait(READER_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _update(self) -> None:
        if self._is_busy and not self._was_busy:
            self._was_busy = True
            self._wait(REQUEST_S)
        elif not self._is_busy and self._timer is None and self.timeout_keep_alive_task is None:
            self._wait(HEAD_S)

    def _make_room(self) -> None:
        """Close the connection that has waited longest for a request; the new one if all are busy."""
        others = [each for each in self.connections if isinstance(each, LimitedProtocol)]
        waiting = [each for each in others if not each._is_busy and not each.transport.is_closing()]
        first = min(waiting, key=lambda each: each._since)
        first.transport.abort()

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self._is_busy and self.cycle.response_started and not self.flow.write_paused:
            self._wait(REQUEST_S)  # a long response, whose client reads
        else:
            self.transport.abort()


class FewLines(logging.Filter):
    """Passes at most 60 records a minute: what clients do must not fill the disk."""

    def __init__(self) -> None:
        super().__init__()
        self._begin = -_PER_S
        self._count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written; the last one of a minute says that there may be more.

        Requests that are given up because the server ends are no errors.
        """
        if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
            return False
        now = time.monotonic()
        if now - self._begin >= _PER_S:
            self._begin, self._count = now, 0
        self._count += 1
        if self._count == _MAX_LINES:
            record.msg, record.args = f"{record.getMessage()} (further messages of this minute are not shown)", ()
        return self._count <= _MAX_LINES


class _Server(uvicorn.Server):
    """A server that a second Ctrl-C does not stop in the middle of ending, which would print tracebacks."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End within `_SHUTDOWN_S`, however often it is asked to."""
        super().handle_exit(sig, frame)
        self.force_exit = False


def allow_connections() -> int:
    """Raise the limit of open files of this process, and return the maximum number of connections."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return MAX_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + _OTHER_FILES
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(min(MAX_CONNECTIONS, allowed - _OTHER_FILES), 1)


def run_server(app: ASGIApp, listening: socket.socket, **options: Any) -> None:
    """Serve an app on a socket until Ctrl-C; further options are those of `uvicorn.Config`."""
    LimitedProtocol.limit = allow_connections()
    few_lines = FewLines()
    # Libraries such as the reader of forms have no handler of their own.
    logs = [each for each in (logging.getLogger("uvicorn.error"), logging.lastResort) if each]
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        use_colors=False,  # control characters are not passed to terminals
        timeout_graceful_shutdown=_SHUTDOWN_S,  # type: ignore[arg-type] # seconds of asyncio.wait_for
        h11_max_incomplete_event_size=32 * 2**10,
        **options,
    )
    for log in logs:
        log.addFilter(few_lines)
    try:
        _Server(config).run(sockets=[listening])
    except KeyboardInterrupt:  # the normal way to stop a server
        pass
    finally:
        for log in logs:
            log.removeFilter(few_lines)
        listening.close()


def leave() -> None:
    """End the process, also if threads wait for a disk that does not answer. For commands, as their last step."""
    deadline = time.monotonic() + _THREADS_S
    try:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join(max(deadline - time.monotonic(), 0))
    except KeyboardInterrupt:
        pass
    if any(each is not threading.current_thread() and not each.daemon for each in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


DEFAULT_PORT = 7860


@dataclass(frozen=True)
class ServerAddress:
    """Where a server listens, and the token that clients must send."""

    host: str = "127.0.0.1"
    port: int | None = None  # 0 is any free port; None is `DEFAULT_PORT`, or any free port if that is in use
    token: str = field(default="", repr=False)

    def with_token(self, *, on_loopback: bool = False) -> ServerAddress:
        """Return the address with a generated token, unless it has one.

        Only on a loopback address a server may do without, and then every user of this machine can reach it.
        """
        if self.token or (is_loopback(self.host) and not on_loopback):
            return self
        return ServerAddress(self.host, self.port, secrets.token_urlsafe(24))

    def url(self, port: int) -> str:
        """Return the URL to open in a browser."""
        name = network_address() if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104
        name = f"[{name}]" if ":" in name else name
        query = f"?token={quote(self.token)}" if self.token else ""
        return f"http://{name}:{port}/{query}"


def network_address() -> str:
    """Return the address of this machine in its network; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # a documentation address: only the route is looked up
        except OSError:
            return socket.gethostname()
        return str(probe.getsockname()[0])


def easy_password() -> str:
    """Return a password of 60 bits that is easy to type on a phone."""
    letters = "".join(secrets.choice("abcdefghjkmnpqrstuvwxyz23456789") for _ in range(12))
    return "-".join(letters[begin : begin + 4] for begin in range(0, 12, 4))


def listen(address: ServerAddress, default_port: int = DEFAULT_PORT) -> socket.socket:
    """Return a socket that already listens, so that the URL works as soon as it is printed."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    wanted = default_port if address.port is None else address.port
    for port in (wanted, 0):
        try:
            listening = socket.create_server((address.host, port), family=family, backlog=2048)
            # Connections inherit it. Without it, a body waits 40 ms until the client has acknowledged the head.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return listening
        except (OSError, OverflowError) as error:
            if address.port is not None or port == 0:
                raise DeixisError(_explain(address.host, wanted, error)) from None
    raise AssertionError("unreachable")


def _explain(host: str, port: int, error: OSError | OverflowError) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is used by another program; --port 0 takes a free one"
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} of {host} needs administrator rights; --port 0 takes a free one"
    return f"cannot listen on {host}, port {port}: {getattr(error, 'strerror', None) or error}"


def open_in_browser(url: str) -> None:
    """Open a URL in a browser, if this machine has a display; otherwise Python would start a terminal browser."""
    has_display = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if sys.platform in ("darwin", "win32") or has_display:
        import webbrowser

        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
