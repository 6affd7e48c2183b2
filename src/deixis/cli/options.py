"""Options that several commands share: the index, and the Dask scheduler."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from deixis.cli.output import note

if TYPE_CHECKING:
    from deixis.cluster import ClusterWorkers

Index = Annotated[str, typer.Option("--index", metavar="DIR", help="Index: a folder or a postgresql:// address.")]

Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Distribute the work: tcp://HOST:PORT of a Dask scheduler, or local:N for N processes on this machine.",
    ),
]


def use_one_blas_thread() -> None:
    """Limit OpenBLAS to one thread unless the user has chosen; call it before numpy is imported.

    Where several tasks run at once, the threads of one matrix product would wait for those of the others.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@contextmanager
def open_scheduler(address: str | None) -> Iterator[ClusterWorkers | None]:
    """Connect to the workers of a scheduler; None if no address is given."""
    if address is None:
        yield None
        return
    from deixis.cluster import open_workers

    with open_workers(address, note) as workers:
        yield workers
