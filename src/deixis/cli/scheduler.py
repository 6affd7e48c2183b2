"""`--scheduler`: bulk work by the workers of a Dask cluster, and photos from wherever they lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from deixis.cli.output import note

if TYPE_CHECKING:
    from deixis.tasks.bulk.workers import Workers

Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Let the workers of a Dask cluster do it: tcp://HOST:PORT, or local:N for N processes of this machine.",
    ),
]


@contextmanager
def workers_at(address: str | None) -> Iterator[Workers | None]:
    """The workers at an address; none where none is given, and this process does the work."""
    if address is None:
        yield None
        return
    from deixis.tasks.bulk.workers import open_workers

    with open_workers(address, note) as workers:
        yield workers
