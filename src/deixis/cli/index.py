"""`deixis index`: a person's photos into an index that can be searched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deixis.cli.output import Json, note, plural, print_json, progress
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.index import UpdateReport

_SHOWN = 10
"""Skipped files that are named one by one."""


def index(
    photos: Annotated[
        list[Path], typer.Argument(metavar="PHOTOS…", help="Folders, looked through to their depths, and photos.")
    ],
    into: Annotated[Path, typer.Option(metavar="DIR", help="Where the index is, or is to be.")] = Path("photos.deixis"),
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Forget all that is in the index, and begin anew.")
    ] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Look again at files that could not be read before.")] = False,
    json: Json = False,
) -> None:
    """Read photos into an index, so that search finds them by what they show.

    Run again, it does only what is new and forgets what is gone. It may be stopped at any time, and searched meanwhile.
    """
    from deixis.index import update_index
    from deixis.tasks.search.searching import shipped_seer

    with progress("photos") as on_progress:
        report = update_index(into, photos, shipped_seer(), rebuild=rebuild, retry=retry, on_progress=on_progress)
    if not report.photos and not report.skipped:
        raise DeixisError("no photos were found there (.jpg, .png, .webp, .heic, .tif, .gif, .bmp)")
    if json:
        skipped = [{"path": str(each.path), "reason": each.reason} for each in report.skipped]
        print_json(
            {"added": report.added, "updated": report.updated, "removed": report.removed, "skipped": skipped}
            | {"moved": report.moved, "unchanged": report.unchanged, "photos": report.photos}
        )
        return
    _say(report, into)


def _say(report: UpdateReport, into: Path) -> None:
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
    print(f"{into}: {plural(report.photos, 'photo')} ({said})")
    if not report.photos:
        raise DeixisError("none of these files is a photo that can be read")
    option = "" if into == Path("photos.deixis") else f" --index {into}"
    note(f'next: deixis search "two dogs in the snow"{option}')
