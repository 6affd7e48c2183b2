"""`deixis index`: a person's photos into an index that can be searched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deixis.cli.indexes import (
    DEFAULT_INDEX,
    Approximate,
    Into,
    copy_from,
    one_thread_a_product,
    refuse_graphs_in_folders,
    say_what_next,
    search_by_graphs,
)
from deixis.cli.output import Json, note, plural, print_json, progress
from deixis.cli.scheduler import Scheduler, workers_at
from deixis.errors import DeixisError
from deixis.files.remote import photo_path

if TYPE_CHECKING:
    from deixis.index import UpdateReport
    from deixis.index.file_facts import ReadFacts
    from deixis.index.seeing import PhotoSeer

_SHOWN = 10
"""Skipped files that are named one by one."""


def index(
    photos: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PHOTOS…", parser=photo_path, help="Folders, looked through to their depths, and photos; or s3://…"
        ),
    ] = None,
    into: Into = DEFAULT_INDEX,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="INDEX", help="Copy what another index holds instead of looking at photos."),
    ] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Forget all that is in the index, and begin anew.")
    ] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Look again at files that could not be read before.")] = False,
    approximate: Approximate = None,
    scheduler: Scheduler = None,
    json: Json = False,
) -> None:
    """Read photos into an index, so that search finds them by what they show.

    Run again, it does only what is new and forgets what is gone. It may be stopped at any time, and searched meanwhile.
    """
    if (not photos) == (source is None):
        raise DeixisError("give folders or photos, or --from INDEX, one of the two")
    if source is not None and (rebuild or retry or scheduler):
        raise DeixisError("--from copies what was seen, so --rebuild, --retry and --scheduler do not go with it")
    one_thread_a_product()
    refuse_graphs_in_folders(into, approximate)
    if source is not None:
        copy_from(source, into, json)
        search_by_graphs(into, approximate)
        return
    from deixis.index import update_index
    from deixis.index.file_facts import read_facts
    from deixis.tasks.search.searching import shipped_seer

    seer: PhotoSeer = shipped_seer()
    read: ReadFacts = read_facts
    with workers_at(scheduler) as workers, progress("photos") as on_progress:
        if workers:
            from deixis.tasks.bulk.seeing import SeerOfWorkers, facts_by

            seer, read = SeerOfWorkers(workers, shipped_seer()), facts_by(workers)
        report = update_index(
            into, photos or [], seer, rebuild=rebuild, retry=retry, read=read, on_progress=on_progress
        )
    search_by_graphs(into, approximate)
    seen = report.added + report.updated + report.moved + report.unchanged + len(report.skipped)
    if not seen and not report.removed:
        raise DeixisError("no photos were found there (.jpg, .png, .webp, .heic, .tif, .gif, .bmp)")
    if json:
        skipped = [{"path": str(each.path), "reason": each.reason} for each in report.skipped]
        print_json(
            {"added": report.added, "updated": report.updated, "removed": report.removed, "skipped": skipped}
            | {"moved": report.moved, "unchanged": report.unchanged, "photos": report.photos}
        )
        return
    _say(report, into)


def _say(report: UpdateReport, into: str) -> None:
    from deixis.index.places import shown

    for error in report.skipped[:_SHOWN]:
        note(f"skipped {error.path}: {error.reason}")
    if len(report.skipped) > _SHOWN:
        note(f"skipped {len(report.skipped) - _SHOWN:,} more; --json lists them all")
    done = {
        "added": report.added,
        "updated": report.updated,
        "moved": report.moved,
        "removed": report.removed,
        "skipped": len(report.skipped),
    }
    said = ", ".join(f"{count:,} {what}" for what, count in done.items() if count) or "nothing new"
    print(f"{shown(into)}: {plural(report.photos, 'photo')} ({said})")
    if not report.photos:
        raise DeixisError("none of these files is a photo that can be read")
    say_what_next(into)
