"""`deixis serve` and `deixis demo`: the web app and the HTTP API for an index."""

from __future__ import annotations

import sys
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from deixis.cli.output import Index, flag, hint, note, option, plural, progress, use_one_blas_thread, working
from deixis.errors import DeixisError
from deixis.search.places import index_place
from deixis.storage.files import cache_folder

if TYPE_CHECKING:
    from socket import socket

    from deixis.web.server import ServerAddress

Host = Annotated[str, option("ADDRESS", "Address to listen on.")]
Port = Annotated[
    int | None, option("PORT", "Port (default: 7860, or a free one if that is in use; 0: any).", min=0, max=65535)
]
Token = Annotated[str | None, option("TOKEN", "Token that clients must send (default: a generated one).")]
NoToken = Annotated[bool, flag("--no-token", "Let every user of this machine in; for addresses of this machine only.")]
Share = Annotated[
    bool, flag("--share", "Let other devices in your network in, such as your phone: prints a password and a QR code.")
]
NoOpen = Annotated[bool, flag("--no-open", "Do not open a browser.")]


def serve(
    index: Index = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    token: Token = None,
    no_token: NoToken = False,
    share: Share = False,
    no_open: NoOpen = False,
) -> None:
    """Start the web app and the HTTP API; Ctrl-C stops the server.

    The printed link has the token. Programs send it as "Authorization: Bearer TOKEN".
    """
    use_one_blas_thread()
    from deixis.storage.remote import is_loopback
    from deixis.web.security import MIN_TOKEN_LENGTH
    from deixis.web.server import ServerAddress, easy_password, listen

    if share:
        host, token = "0.0.0.0", token or easy_password()  # noqa: S104
    if no_token and (token is not None or not is_loopback(host)):
        raise DeixisError("--no-token: only without --token, and on an address of this machine such as 127.0.0.1")
    if token is not None and len(token) < MIN_TOKEN_LENGTH:
        raise DeixisError(f"--token: needs at least {MIN_TOKEN_LENGTH} characters, so that it cannot be guessed")
    address = ServerAddress(host, port, token or "")
    with listen(address) as listening:  # before all else, which takes seconds: the port may be in use
        if share:
            warning = "Anyone in your network who has it sees your photos; the connection is not encrypted."
            note(f"password: {token}. {warning}")
        _serve_index(index_place(index), address, listening, open_browser=not no_open, needs_token=not no_token)


def _serve_index(
    index: str | PathLike[str],
    address: ServerAddress,
    listening: socket,
    *,
    open_browser: bool,
    needs_token: bool = True,
) -> None:
    """Serve an index until Ctrl-C."""
    from deixis.search.collection import open_index
    from deixis.storage.remote import is_loopback
    from deixis.storage.sql import hide_password
    from deixis.web.app import serve
    from deixis.web.server import leave

    with working("opening the index"):
        photos = open_index(index)
    with photos:
        hint(f"{plural(len(photos), 'photo')} in {hide_password(index)}; Ctrl-C stops the server")
        serve(
            photos,
            address,
            listening,
            on_ready=_print_url if is_loopback(address.host) else _print_url_and_code,
            open_browser=open_browser,
            needs_token=needs_token,
        )
    leave()


def _print_url(url: str) -> None:
    print(url, flush=True)


def _print_url_and_code(url: str) -> None:
    """Print a URL, and as a QR code if this is a terminal and the package for it is installed."""
    _print_url(url)
    if not sys.stderr.isatty():
        return
    try:
        from qrcode import QRCode
    except ModuleNotFoundError:
        note("pip install 'deixis[share]' shows a QR code here")
        return
    code = QRCode(border=2)
    code.add_data(url)
    code.print_ascii(out=sys.stderr, invert=True)


def demo(
    into: Annotated[
        Path | None, option("DIR", "Folder of the index (default: in the cache folder of the user).")
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
    from deixis.web.server import ServerAddress, listen

    address = ServerAddress(port=port)
    listening = listen(address)
    index, photos = into or cache_folder() / "demo.deixis", SAMPLES / "images"
    hint("indexing the sample photos …")
    with progress("photos") as on_progress:
        try:
            index_photos(photos, index, on_progress=on_progress)
        except DeixisError:
            if into is not None:
                raise
            # The index in the cache folder belongs to deixis: one of an older version is rebuilt.
            index_photos(photos, index, rebuild=True, on_progress=on_progress)
    hint("try: two dogs, a bee on a flower, a woman with a camera")
    _serve_index(index, address, listening, open_browser=not no_open)
