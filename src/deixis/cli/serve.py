"""`deixis serve` and `deixis demo`: the web app and the HTTP API for an index."""

from __future__ import annotations

import os
import sys
from os import PathLike
from pathlib import Path
from typing import Annotated

import typer

from deixis.cli.output import Index, note, plural, progress, use_one_blas_thread, working
from deixis.errors import DeixisError
from deixis.search import DEFAULT_INDEX

Host = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS", help="Address to listen on. Addresses other than this machine's own require a token."
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        metavar="PORT", min=0, max=65535, help="Port (default: 7860, or a free one if that is in use; 0: any)."
    ),
]
Token = Annotated[
    str | None, typer.Option(metavar="TOKEN", help="Token that clients must send (default: generated if required).")
]
NoOpen = Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")]


def serve(
    index: Index = DEFAULT_INDEX,
    host: Host = "127.0.0.1",
    port: Port = None,
    token: Token = None,
    no_open: NoOpen = False,
) -> None:
    """Start the web app and the HTTP API; Ctrl-C stops the server."""
    use_one_blas_thread()
    serve_index(index, host=host, port=port, token=token, open_browser=not no_open)


def serve_index(
    index: str | PathLike[str], *, host: str, port: int | None, token: str | None, open_browser: bool
) -> None:
    """Serve an index until Ctrl-C."""
    from deixis.web.security import MIN_TOKEN_LENGTH

    if token is not None and len(token) < MIN_TOKEN_LENGTH:
        raise DeixisError(f"--token: needs at least {MIN_TOKEN_LENGTH} characters, so that it cannot be guessed")
    from deixis.search.index import PhotoIndex

    with PhotoIndex(index):  # a missing index is reported before the models are loaded
        pass
    from deixis.search.collection import open_index
    from deixis.storage.sql import hide_password
    from deixis.web.address import ServerAddress
    from deixis.web.app import serve

    with working("opening the index"):
        photos = open_index(index)
    with photos:
        note(f"{plural(len(photos), 'photo')} in {hide_password(index)}; Ctrl-C stops the server")
        address = ServerAddress(host, port, token or "")
        serve(photos, address, on_ready=lambda url: print(url, flush=True), open_browser=open_browser)


def demo(
    into: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the index (default: in the cache folder of the user).")
    ] = None,
    port: Port = None,
    no_open: NoOpen = False,
) -> None:
    """Index the sample photos and open the web app.

    Ctrl-C stops the server.
    """
    use_one_blas_thread()
    from deixis.data.samples import SAMPLES
    from deixis.search.collection import index_photos

    index, photos = into or cache_folder() / "demo.deixis", SAMPLES / "images"
    note("indexing the sample photos …")
    with progress("photos") as on_progress:
        try:
            index_photos(photos, index, on_progress=on_progress)
        except DeixisError:
            if into is not None:
                raise
            # The index in the cache folder belongs to deixis: one of an older version is rebuilt.
            index_photos(photos, index, rebuild=True, on_progress=on_progress)
    note("try: two dogs, a bee on a flower, a woman with a camera")
    serve_index(index, host="127.0.0.1", port=port, token=None, open_browser=not no_open)


def cache_folder() -> Path:
    """Return the folder for caches on this system."""
    if cache := os.environ.get("XDG_CACHE_HOME"):
        return Path(cache) / "deixis"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "deixis"
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "deixis" / "Cache"
    return Path.home() / ".cache" / "deixis"
