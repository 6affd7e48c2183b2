"""Serving the search app: saying where it is, and ending cleanly."""

from __future__ import annotations

import threading
from collections.abc import Callable

from deixis.server.app import make_app
from deixis.server.eyes import Eyes
from deixis.server.guard import Door
from deixis.server.library import Library
from deixis.server.limits import Limits
from deixis.server.listening import Address, listen, show

_SECONDS_TO_END = 2


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
    listening = listen(address)
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
        if open_browser:
            show(link)
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:  # how a server is meant to end
        pass
    finally:
        eyes.close()
        listening.close()
