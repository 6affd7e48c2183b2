"""Where a server listens, what its visitors must show, and opening a browser on it. Reads no model."""

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
from deixis.server.guard import is_loopback

PORT = 7860
"""Where the search app listens if nobody says otherwise and nobody else does."""


@dataclass(frozen=True)
class Address:
    """Where the server listens, and what its visitors must show.

    Attributes
    ----------
    host, port
        Port 0 takes any that is free, and so does None where `PORT` is taken.
    token
        Asked for on every address but this machine's own; made up where none is given.
    """

    host: str = "127.0.0.1"
    port: int | None = None
    token: str = field(default="", repr=False)

    def with_token(self) -> Address:
        """The same with a token where one is needed."""
        if self.token or is_loopback(self.host):
            return self
        return Address(self.host, self.port, secrets.token_urlsafe(24))

    def link(self, port: int) -> str:
        """What to open in a browser.

        Examples
        --------
        >>> Address().link(7860)
        'http://127.0.0.1:7860/'
        """
        name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.host, self.host)  # noqa: S104
        name = f"[{name}]" if ":" in name else name
        shown = f"?token={quote(self.token)}" if self.token else ""
        return f"http://{name}:{port}/{shown}"


def listen(address: Address, usual_port: int = PORT) -> socket.socket:
    """A socket that listens already, so that whoever follows the link at once is served."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    wanted = usual_port if address.port is None else address.port
    for port in (wanted, 0):
        try:
            return socket.create_server((address.host, port), family=family, backlog=2048)
        except (OSError, OverflowError) as error:
            if address.port is not None or port == 0:
                raise DeixisError(_why_not(address.host, wanted, error)) from None
    raise AssertionError("one of the two was tried last")


def _why_not(host: str, port: int, error: OSError | OverflowError) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is taken by another program; --port 0 takes one that is free"
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} of {host} is not for everybody to use; --port 0 takes one that is"
    return f"cannot listen on {host}, port {port}: {getattr(error, 'strerror', None) or error}"


def show(link: str) -> None:
    """Open a link in a browser, where this machine has a screen."""
    if _has_screen():
        threading.Thread(target=_open, args=(link,), daemon=True).start()


def _has_screen() -> bool:
    """Without one, Python would start a browser for terminals."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open(link: str) -> None:
    import webbrowser

    webbrowser.open(link)
