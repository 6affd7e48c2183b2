"""Serving a project: where, to whom, and who owns it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from sqlalchemy import select

from deixis.annotate.opening import remember_link
from deixis.annotate.people import Role, invite, invite_again
from deixis.annotate.project import Project
from deixis.annotate.store.schema import workers
from deixis.errors import DeixisError
from deixis.server.annotate.app import WorkbenchDoor, make_app
from deixis.server.annotate.outside import HOSTS
from deixis.server.listening import Address, listen, show

PORT = 7861
"""Where the workbench listens if nobody says otherwise and nobody else does."""

_SECONDS_TO_END = 5
_SECONDS_TO_THINK = 75
"""A connection is kept open between two answers."""

_SWITCH_S = 0.001
"""How long a thread that computes keeps the others waiting: who answers people should not wait for a picture."""


@dataclass(frozen=True)
class Serving:
    """How a project is served.

    Attributes
    ----------
    address
        Where to listen.
    url
        Where people find it, if something that speaks HTTPS stands before it.
    workforce_hosts
        Of an outside workforce.
    """

    address: Address
    url: str = ""
    workforce_hosts: tuple[str, ...] = HOSTS


def serve_project(
    project: Project, serving: Serving, *, say: Callable[[str], None] = print, open_browser: bool = False
) -> None:
    """Serve a project until Ctrl-C.

    Parameters
    ----------
    project
        From `deixis.annotate.opening.open_to_work`.
    serving
        Where, and to whom.
    say
        Told the link once it works; the owner's invitation, where the project has no owner yet.
    open_browser
        Open the link too, where this machine has a screen.
    """
    import uvicorn

    url = checked_url(serving.url)
    # Behind something that speaks HTTPS, people log in; on an open address they need the link's token besides.
    address = serving.address if url else serving.address.with_token()
    listening = listen(address, PORT)
    link = f"{url}/" if url else address.link(listening.getsockname()[1])
    door = WorkbenchDoor(address.host, address.token, url=url)
    app = make_app(project, door=door, link=link, workforce_hosts=serving.workforce_hosts)
    remember_link(project, link)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(url),
        forwarded_allow_ips="127.0.0.1",
        timeout_graceful_shutdown=_SECONDS_TO_END,
        timeout_keep_alive=_SECONDS_TO_THINK,
        h11_max_incomplete_event_size=32 * 2**10,
    )
    sys.setswitchinterval(_SWITCH_S)
    try:
        opened = owner_link(project, link) or link
        say(opened)
        if open_browser:
            show(opened)
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:  # how a server is meant to end
        pass
    finally:
        listening.close()


def checked_url(url: str) -> str:
    """A public address without its slash.

    Examples
    --------
    >>> checked_url("https://dogs.example.org/")
    'https://dogs.example.org'
    """
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/") or parts.query):
        raise DeixisError(f"--url {url}: give an address such as https://dogs.example.org")
    return url.rstrip("/")


def owner_link(project: Project, link: str) -> str | None:
    """An invitation for the first owner, until one has joined; None afterwards."""
    owners = select(workers.c.id, workers.c.joined_at).where(workers.c.role == Role.OWNER.value)
    with project.database.reading() as connection:
        found = connection.execute(owners.order_by(workers.c.invited_at)).all()
    if any(row.joined_at is not None for row in found):
        return None
    token = invite_again(project, found[0].id) if found else invite(project, "owner", role=Role.OWNER, vouched=True)[1]
    return f"{link}#/join/{token}"
