"""`deixis index`: fills an index with photos, so that they can be searched."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from deixis.cli.output import (
    Json,
    Scheduler,
    note,
    open_scheduler,
    plural,
    print_json,
    progress,
    use_one_blas_thread,
    working,
)
from deixis.errors import DeixisError
from deixis.search import DEFAULT_INDEX
from deixis.storage.remote import photo_path
from deixis.storage.sql import hide_password, is_postgres

if TYPE_CHECKING:
    from deixis.search.index import IndexReport, PhotoEncoder
    from deixis.search.index.photo_files import MetadataReader

_MAX_LISTED = 10
"""Number of skipped files that are listed."""


def index(
    photos: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PHOTOS", parser=photo_path, help="Photos, folders (searched recursively), or s3:// addresses."
        ),
    ] = None,
    into: Annotated[
        str,
        typer.Option("--into", metavar="DIR", help="Index to create or update: a folder or a postgresql:// address."),
    ] = DEFAULT_INDEX,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="INDEX", help="Copy another index instead of reading photos."),
    ] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Empty the index first.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Retry files that could not be read before.")] = False,
    approximate: Annotated[
        bool | None,
        typer.Option(
            "--approximate/--exact",
            help="PostgreSQL only: search by HNSW graphs, faster but approximate, or exactly. Searches with filters "
            "are always exact.",
            show_default=False,
        ),
    ] = None,
    scheduler: Scheduler = None,
    json: Json = False,
) -> None:
    """Read photos into an index.

    A second run reads only new and changed photos, and removes those whose files are gone. The command can be
    interrupted at any time, and the index can be searched meanwhile.
    """
    if (not photos) == (source is None):
        raise DeixisError("give either folders or photos, or --from INDEX")
    if source is not None and (rebuild or retry or scheduler):
        raise DeixisError("--from cannot be combined with --rebuild, --retry or --scheduler")
    if approximate is not None and not is_postgres(into):
        raise DeixisError("--approximate and --exact are for PostgreSQL; an index in a folder is always exact")
    use_one_blas_thread()
    if source is not None:
        _copy(source, into, json)
        _set_approximate(into, approximate)
        return
    report = _update(photos or [], into, rebuild, retry, scheduler)
    _set_approximate(into, approximate)
    if not report.files and not report.removed:
        raise DeixisError("no photos found there (.jpg, .png, .webp, .heic, .tif, .gif, .bmp)")
    if json:
        skipped = [{"path": str(each.path), "reason": each.reason} for each in report.skipped]
        print_json(
            {"added": report.added, "updated": report.updated, "removed": report.removed, "skipped": skipped}
            | {"moved": report.moved, "unchanged": report.unchanged, "photos": report.photos}
        )
        return
    _print_report(report, into)


def _update(photos: list[Path], into: str, rebuild: bool, retry: bool, scheduler: str | None) -> IndexReport:
    from deixis.search.collection import default_encoder
    from deixis.search.index import update_index
    from deixis.search.index.photo_files import read_metadata_ahead

    encoder: PhotoEncoder = default_encoder()
    read_metadata: MetadataReader = read_metadata_ahead
    with open_scheduler(scheduler) as workers, progress("photos") as on_progress:
        if workers:
            from deixis.cluster import ClusterEncoder, cluster_metadata_reader

            encoder, read_metadata = ClusterEncoder(workers, default_encoder()), cluster_metadata_reader(workers)
        return update_index(
            into,
            photos,
            encoder,
            rebuild=rebuild,
            retry=retry,
            read_metadata=read_metadata,
            on_progress=on_progress,
        )


def _copy(source: str, into: str, json: bool) -> None:
    from deixis.search.index import copy_index

    with progress("photos") as on_progress:
        report = copy_index(source, into, on_progress=on_progress)
    if json:
        print_json({"copied": report.copied, "unchanged": report.unchanged, "photos": report.photos})
        return
    details = f"{report.copied:,} copied from {hide_password(source)}, {report.unchanged:,} unchanged"
    print(f"{hide_password(into)}: {plural(report.photos, 'photo')} ({details})")
    _print_next_step(into)


def _set_approximate(into: str, approximate: bool | None) -> None:
    if approximate is not None:
        from deixis.search.index.postgres import set_approximate

        with working("building graphs" if approximate else "removing graphs"):
            set_approximate(into, approximate)


def _print_report(report: IndexReport, into: str) -> None:
    for error in report.skipped[:_MAX_LISTED]:
        note(f"skipped {error.path}: {error.reason}")
    if len(report.skipped) > _MAX_LISTED:
        note(f"skipped {len(report.skipped) - _MAX_LISTED:,} more; --json lists them all")
    counts = {
        "added": report.added,
        "updated": report.updated,
        "moved": report.moved,
        "removed": report.removed,
        "skipped": len(report.skipped),
    }
    details = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "nothing new"
    print(f"{hide_password(into)}: {plural(report.photos, 'photo')} ({details})")
    if not report.photos:
        raise DeixisError("none of these files is a readable photo")
    _print_next_step(into)


def _print_next_step(into: str) -> None:
    option = "" if into == DEFAULT_INDEX else f" --index {quote(hide_password(into))}"
    note(f'next: deixis search "two dogs in the snow"{option}')
