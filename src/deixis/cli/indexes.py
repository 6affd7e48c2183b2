"""Where an index is, as people type it, and one that is copied into another."""

from __future__ import annotations

import os
from shlex import quote
from typing import Annotated

import typer

from deixis.cli.output import note, plural, print_json, progress, working
from deixis.errors import DeixisError

DEFAULT_INDEX = "photos.deixis"

Index = Annotated[str, typer.Option("--index", metavar="DIR", help="The index: a folder, or postgresql://….")]
Into = Annotated[
    str, typer.Option("--into", metavar="DIR", help="Where the index is, or is to be: a folder, or postgresql://….")
]


Approximate = Annotated[
    bool | None,
    typer.Option(
        "--approximate/--exact",
        help="In PostgreSQL: let searches without filters follow a graph, or look at every photo again.",
        show_default=False,
    ),
]


def one_thread_a_product() -> None:
    """Have numpy take one thread for a product, unless somebody chose; read when numpy is imported.

    Where several things are done at once, the threads of one product wait for those of the others, and burn a core
    while they wait.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def copy_from(source: str, into: str, json: bool) -> None:
    """Copy an index into another one, and say so."""
    from deixis.index import copy_index
    from deixis.index.places import shown

    with progress("photos") as on_progress:
        report = copy_index(source, into, on_progress=on_progress)
    if json:
        print_json({"copied": report.copied, "unchanged": report.unchanged, "photos": report.photos})
        return
    done = f"{report.copied:,} copied from {shown(source)}, {report.unchanged:,} were there"
    print(f"{shown(into)}: {plural(report.photos, 'photo')} ({done})")
    say_what_next(into)


def refuse_graphs_in_folders(into: str, approximate: bool | None) -> None:
    """Before hours of work."""
    from deixis.index.places import is_address

    if approximate is not None and not is_address(into):
        raise DeixisError("--approximate and --exact are for PostgreSQL: an index in a folder is always exact")


def search_by_graphs(into: str, approximate: bool | None) -> None:
    """Have a database searched approximately or exactly from now on, unless nothing was said."""
    if approximate is not None:
        from deixis.index.postgres.graphs import search_by_graphs

        with working("building graphs" if approximate else "removing graphs"):
            search_by_graphs(into, approximate)


def say_what_next(index: str) -> None:
    """How to search an index."""
    from deixis.index.places import shown

    option = "" if index == DEFAULT_INDEX else f" --index {quote(shown(index))}"
    note(f'next: deixis search "two dogs in the snow"{option}')
