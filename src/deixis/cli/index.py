"""`deixis index`: fills an index with photos, so that they can be searched."""

from __future__ import annotations

import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deixis.cli.output import (
    Json,
    Scheduler,
    argument,
    flag,
    hint,
    note_first,
    open_scheduler,
    option,
    plural,
    print_json,
    progress,
    show_name,
    use_one_blas_thread,
    working,
)
from deixis.errors import DeixisError
from deixis.search.places import index_place, named_places, place_option
from deixis.storage.remote import photo_path
from deixis.storage.sql import hide_password, is_postgres

if TYPE_CHECKING:
    from deixis.search.index import IndexReport, PhotoEncoder
    from deixis.search.index.photo_files import MetadataReader


def index(
    photos: Annotated[
        list[Path] | None,
        argument(
            "PHOTOS",
            "Photos, folders (searched recursively), or s3:// addresses (default: those of the index, again).",
            parser=photo_path,
        ),
    ] = None,
    into: Annotated[
        str | None,
        option(
            "INDEX",
            "Index to create or update: @NAME, a folder or a postgresql:// address (default: your index, which "
            "other commands use too).",
            "--into",
        ),
    ] = None,
    source: Annotated[str | None, option("INDEX", "Copy another index instead of reading photos.", "--from")] = None,
    model: Annotated[
        str | None,
        option(
            "MODEL",
            "Model of whole photos and sentences: a shipped model (two-branch-fast takes half of the time and "
            "finds less), a model directory or open-clip:ARCHITECTURE[:FILE] (default: that of the index, two-branch "
            "for a new one).",
            show_default=False,
        ),
    ] = None,
    rebuild: Annotated[bool, flag("--rebuild", "Empty the index first.")] = False,
    retry: Annotated[bool, flag("--retry", "Retry files that could not be read before.")] = False,
    exclude: Annotated[
        list[str] | None,
        option(
            "PATTERN",
            "Leave out files and folders with such a name (Screenshots, '*.gif') or path ('2019/raw/*'). May be "
            "repeated; the index remembers the patterns, and '' forgets them. Hidden files, trash, @eaDir and "
            "node_modules are always left out.",
            show_default=False,
        ),
    ] = None,
    watch: Annotated[bool, flag("--watch", "Keep running, and update the index whenever photos change.")] = False,
    remove: Annotated[
        bool,
        flag("--remove", "Remove PHOTOS from the index, or the whole index if none are given. No file is deleted."),
    ] = False,
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
    show_list: Annotated[bool, flag("--list", "List your indexes and where they are, and exit.")] = False,
    json: Json = False,
) -> None:
    """Read photos into an index.

    A second run reads only new and changed photos, and removes those whose files are gone. The command can be
    interrupted at any time, and the index can be searched meanwhile.
    """
    if show_list:
        _list_indexes(json)
        return
    if remove:
        _remove(photos or [], index_place(into), json)
        return
    place = index_place(into)
    if not photos and source is None:
        from deixis.search.index.update import remembered_roots

        with suppress(DeixisError) if rebuild else nullcontext():  # an unreadable index needs folders
            photos = remembered_roots(place)
        if photos and not json:
            hint(f"updating {', '.join(map(show_name, photos))}")
    if (not photos) == (source is None):
        raise DeixisError("give folders or photos, such as deixis index ~/Pictures, or --from INDEX")
    if source is not None and (rebuild or retry or scheduler or model or exclude or watch):
        raise DeixisError(
            "--from cannot be combined with --exclude, --model, --rebuild, --retry, --scheduler or --watch"
        )
    if watch and json:
        raise DeixisError("--watch runs until Ctrl-C and prints no JSON document")
    if approximate is not None and not is_postgres(place):
        raise DeixisError("--approximate and --exact are for PostgreSQL; an index in a folder is always exact")
    use_one_blas_thread()
    if source is not None:
        _copy(index_place(source), place, json)
        _set_approximate(place, approximate)
        return
    report = _update(photos or [], place, model, rebuild, retry, exclude, scheduler)
    _set_approximate(place, approximate)
    if not report.files and not report.removed and not watch:
        ignored = _describe_ignored(report)
        raise DeixisError(
            "no photos found there (.jpg, .png, .webp, .heic, .avif, .jxl, .tif, .gif, .bmp and RAW files)"
            + (f"; ignored: {ignored}" if ignored else "")
        )
    if json:
        skipped = [{"path": str(each.path), "reason": each.reason} for each in report.skipped]
        print_json(
            {"added": report.added, "updated": report.updated, "removed": report.removed, "skipped": skipped}
            | {"moved": report.moved, "unchanged": report.unchanged, "photos": report.photos, "ignored": report.ignored}
        )
    else:
        _print_report(report, place)
    if report.skipped and len(report.skipped) == report.files and not (report.removed or watch):
        raise DeixisError(f"{hide_password(place)}: every file was skipped; nothing was indexed")
    if watch:
        _watch(photos or [], place, model, scheduler)


def _watch(photos: list[Path], place: str, model: str | None, scheduler: str | None) -> None:
    from deixis.search.index.photo_files import find_roots
    from deixis.search.index.update import remembered_exclude, wait_for_changes

    hint("waiting for changes; Ctrl-C stops")
    for _ in wait_for_changes(find_roots(photos), remembered_exclude(place)):
        report = _update(photos, place, model, False, False, None, scheduler)
        print(f"{hide_password(place)}: {plural(report.photos, 'photo')} ({_describe_changes(report)})", flush=True)


def _remove(photos: list[Path], place: str, json: bool) -> None:
    from deixis.search.index.photo_files import absolute_path
    from deixis.search.index.photo_index import remove_index
    from deixis.search.index.update import remembered_roots, remove_photos

    if photos:
        removed = remove_photos(place, photos)
        if not removed:
            raise DeixisError(f"{hide_password(place)}: has no photos in {', '.join(map(str, photos))}")
    else:
        if sys.stdin.isatty() and not typer.confirm(f"remove the index {hide_password(place)}? The photos stay."):
            raise typer.Abort
        removed = _count_photos(place)
        remove_index(place)
    if json:
        print_json({"removed": removed, "index": hide_password(place)})
        return
    what = f"{plural(removed, 'photo')} from the index" if photos else f"the index of {plural(removed, 'photo')}"
    print(f"{hide_password(place)}: removed {what}; no photo was deleted")
    roots = remembered_roots(place) if photos else []
    if any(absolute_path(photo).is_relative_to(root) for photo in photos for root in roots):
        hint("the next update of the folder adds them again; --exclude PATTERN leaves them out")


def _count_photos(place: str) -> int:
    from deixis.search.index.photo_index import PhotoIndex

    with PhotoIndex(place) as opened:
        return len(opened)


def _list_indexes(json: bool) -> None:
    """Print the named indexes; the default one first, even if there is none yet."""
    default, places = index_place(), named_places()
    rows = []
    for name, place in {"": default, **places}.items():
        if name and place == default:
            continue
        names = [known for known, other in places.items() if other == place]
        row: dict[str, object] = {"name": names[0] if names else None, "place": hide_password(place)}
        try:
            row["photos"] = _count_photos(place)
        except DeixisError as error:
            row["photos"], row["problem"] = None, str(error)
        rows.append(row | {"default": place == default})
    if json:
        print_json(rows)
        return
    for row in rows:
        label = "default" if row["default"] else f"@{row['name']}"
        count = row["photos"]
        print(f"{label:12} {plural(count, 'photo') if isinstance(count, int) else 'no photos yet':>14}  {row['place']}")


def _update(
    photos: list[Path],
    into: str,
    model: str | None,
    rebuild: bool,
    retry: bool,
    exclude: list[str] | None,
    scheduler: str | None,
) -> IndexReport:
    from deixis.search.collection import encoder_to_fill
    from deixis.search.index import update_index
    from deixis.search.index.photo_files import read_metadata_ahead

    models = encoder_to_fill(into, model)
    encoder: PhotoEncoder = models
    read_metadata: MetadataReader = read_metadata_ahead
    with open_scheduler(scheduler) as workers, progress("photos") as on_progress:
        if workers:
            from deixis.cluster import ClusterEncoder, cluster_metadata_reader

            encoder, read_metadata = ClusterEncoder(workers, models), cluster_metadata_reader(workers)
        return update_index(
            into,
            photos,
            encoder,
            rebuild=rebuild,
            retry=retry,
            exclude=exclude,
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
    note_first("skipped", [f"{show_name(error.path)}: {error.reason}" for error in report.skipped])
    if ignored := _describe_ignored(report):
        hint(f"ignored: {ignored}")
    print(f"{hide_password(into)}: {plural(report.photos, 'photo')} ({_describe_changes(report)})")
    if report.photos:
        _print_next_step(into)


def _describe_changes(report: IndexReport) -> str:
    counts = {"added": report.added, "updated": report.updated, "moved": report.moved, "removed": report.removed}
    changes = [f"{count:,} {name}" for name, count in counts.items() if count] or ["nothing new"]
    return ", ".join(changes + ([f"{len(report.skipped):,} skipped"] if report.skipped else []))


def _describe_ignored(report: IndexReport) -> str:
    """Return the numbers of ignored files and folders by kind, and how to index videos."""
    from deixis.search.index.photo_files import LINK, VIDEO

    hints = {
        LINK: " (name the folders themselves to index them too)",
        VIDEO: " (pip install 'deixis[video]' indexes a frame of each)",
    }
    singular = {"links to folders": "link to a folder"}

    def named(kind: str, count: int) -> str:
        return kind if count > 1 else singular.get(kind, kind.removesuffix("s"))

    return ", ".join(f"{count:,} {named(kind, count)}{hints.get(kind, '')}" for kind, count in report.ignored.items())


def _print_next_step(into: str) -> None:
    hint(f'next: deixis search "two dogs in the snow"{place_option(into)}')
