"""`deixis serve`: the web app and the HTTP API on an index."""

from __future__ import annotations

from os import PathLike
from typing import Annotated

import typer

from deixis.cli.indexes import DEFAULT_INDEX, Index, one_thread_a_product
from deixis.cli.output import note, plural, working
from deixis.errors import DeixisError

Host = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Where to listen. Any but this machine's own needs a token.")
]
Port = Annotated[
    int | None,
    typer.Option(metavar="PORT", min=0, max=65535, help="7860, or a free one where that is taken; 0 for any free one."),
]
Token = Annotated[
    str | None, typer.Option(metavar="TOKEN", help="What visitors must show; made up where one is needed.")
]
NoOpen = Annotated[bool, typer.Option("--no-open", help="Open no browser.")]


def serve(
    index: Index = DEFAULT_INDEX,
    host: Host = "127.0.0.1",
    port: Port = None,
    token: Token = None,
    no_open: NoOpen = False,
) -> None:
    """Look at photos, search them and point at them in a browser; Ctrl-C ends it."""
    one_thread_a_product()
    serve_index(index, host=host, port=port, token=token, open_browser=not no_open)


def serve_index(
    index: str | PathLike[str], *, host: str, port: int | None, token: str | None, open_browser: bool
) -> None:
    """Serve an index until Ctrl-C."""
    from deixis.server.limits import SHORTEST_TOKEN

    if token is not None and len(token) < SHORTEST_TOKEN:
        raise DeixisError(f"--token: at least {SHORTEST_TOKEN} characters, or it could be guessed")
    from deixis.index import PhotoIndex
    from deixis.index.places import shown

    with PhotoIndex(index):  # says at once that there is none, before models are read
        pass
    from deixis.server.listening import Address
    from deixis.server.running import serve
    from deixis.tasks.search.searching import open_index

    with working("opening the index"):
        photos = open_index(index)
    with photos:
        note(f"{plural(len(photos), 'photo')} in {shown(index)}; Ctrl-C ends this")
        serve(photos, Address(host, port, token or ""), say=_say, open_browser=open_browser)


def _say(link: str) -> None:
    print(link, flush=True)
