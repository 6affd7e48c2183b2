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
    token: str = field(default="", repr=False)  # required on every host except this machine's own

    def with_token(self) -> ServerAddress:
        """Return the address with a generated token if it needs one."""
        if self.token or is_loopback(self.host):
            return self
        return ServerAddress(self.host, self.port, secrets.token_urlsafe(24))

    def url(self, port: int) -> str:
        """Return the URL to open in a browser."""
        name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.host, self.host)  # noqa: S104
        name = f"[{name}]" if ":" in name else name
        query = f"?token={quote(self.token)}" if self.token else ""
        return f"http://{name}:{port}/{query}"


def listen(address: ServerAddress, default_port: int = DEFAULT_PORT) -> socket.socket:
    """Return a socket that already listens, so that the URL works as soon as it is printed."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    wanted = default_port if address.port is None else address.port
    for port in (wanted, 0):
        try:
            return socket.create_server((address.host, port), family=family, backlog=2048)
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
