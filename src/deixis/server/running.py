"""Listening, saying where, opening a browser, and ending cleanly."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

from deixis.errors import DeixisError
from deixis.server.app import make_app
from deixis.server.eyes import Eyes
from deixis.server.guard import Door, is_loopback
from deixis.server.library import Library
from deixis.server.limits import Limits

PORT = 7860
"""Where the app listens if nobody says otherwise and nobody else does."""

_SECONDS_TO_END = 2


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


def serve(
    library: Library,
    address: Address,
    *,
    eyes: Eyes | None = None,
    say: Callable[[str], None] = print,
    open_browser: bool = False,
) -> None:
    """Serve the web app until Ctrl-C.

    Parameters
    ----------
    library
        From `deixis.open_index`.
    address
        Where to listen.
    eyes
        The models that look at photos; those that come with deixis where nothing is said.
    say
        Told the link, once it works.
    open_browser
        Open it too, where this machine has a screen.
    """
    import uvicorn

    limits, address = Limits(), address.with_token()
    eyes = eyes or Eyes(limits.looks)
    door = Door(address.host, address.token, limits.upload_bytes)
    app = make_app(library, eyes=eyes, limits=limits, door=door)
    listening = _listen(address)
    link = address.link(listening.getsockname()[1])
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_SECONDS_TO_END,
        h11_max_incomplete_event_size=32 * 2**10,
    )
    try:
        say(link)
        # No daemon: one that is cut off while it reads a model takes the whole process down with a crash.
        threading.Thread(target=eyes.warm_up).start()
        if open_browser and _has_screen():
            threading.Thread(target=_open, args=(link,), daemon=True).start()
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:  # how a server is meant to end
        pass
    finally:
        eyes.close()
        listening.close()


def _listen(address: Address) -> socket.socket:
    """A socket that listens already, so that whoever follows the link at once is served."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    wanted = PORT if address.port is None else address.port
    for port in (wanted, 0):
        try:
            return socket.create_server((address.host, port), family=family, backlog=2048)
        except (OSError, OverflowError) as error:
            if address.port is not None or port == 0:
                raise DeixisError(
                    f"cannot listen on {address.host}, port {wanted}: {getattr(error, 'strerror', None) or error}"
                ) from None
    raise AssertionError("one of the two was tried last")


def _has_screen() -> bool:
    """Without one, Python would start a browser for terminals."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open(link: str) -> None:
    import webbrowser

    webbrowser.open(link)
