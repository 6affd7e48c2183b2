"""`deixis demo`: the web app on the sample photos."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from deixis.cli.indexes import one_thread_a_product
from deixis.cli.output import note, progress
from deixis.cli.serve import NoOpen, Port, serve_index


def demo(
    into: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to put the index; among the caches, if nothing is said.")
    ] = None,
    port: Port = None,
    no_open: NoOpen = False,
) -> None:
    """Index the sample photos and open the web app on them; Ctrl-C ends it."""
    one_thread_a_product()
    from deixis.data.samples import SAMPLES
    from deixis.errors import DeixisError
    from deixis.index import update_index
    from deixis.tasks.search.searching import shipped_seer

    index, photos = into or cache_folder() / "demo.deixis", [SAMPLES / "images"]
    note("looking at the sample photos …")
    with progress("photos") as on_progress:
        try:
            update_index(index, photos, shipped_seer(), on_progress=on_progress)
        except DeixisError:
            if into is not None:
                raise
            # Ours alone: one that an older deixis left there is made anew.
            update_index(index, photos, shipped_seer(), rebuild=True, on_progress=on_progress)
    note("try: two dogs, a bee on a flower, a woman with a camera")
    serve_index(index, host="127.0.0.1", port=port, token=None, open_browser=not no_open)


def cache_folder() -> Path:
    """Where this system keeps what can be made again."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "deixis"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "deixis"
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "deixis" / "Cache"
    return Path.home() / ".cache" / "deixis"
