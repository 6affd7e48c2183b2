"""The address of a server: where it listens, its token, and opening it in a browser."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import sys
import threading
from dataclasses import dataclass, field
from urllib.parse import quote

from deixis.errors import DeixisError
from deixis.web.security import is_loopback

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
