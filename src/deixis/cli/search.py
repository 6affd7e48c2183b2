"""`deixis search`: finds photos of an index by a sentence, or by another photo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deixis.cli.output import Index, Json, note, plural, print_json, working
from deixis.errors import DeixisError
from deixis.search import DEFAULT_INDEX

if TYPE_CHECKING:
    from deixis.search.results import Hit, SearchResults


def search(
    sentence: Annotated[
        str | None,
        typer.Argument(
            metavar="SENTENCE",
            help='English sentence in quotes. +WORD requires and -WORD excludes something: "dog +ball -snow". '
            "Filters: in:FOLDER camera:NAME after:DATE before:DATE.",
            show_default=False,
        ),
    ] = None,
    index: Index = DEFAULT_INDEX,
    like: Annotated[
        Path | None, typer.Option(metavar="PHOTO", help="Instead of SENTENCE: find photos similar to this one.")
    ] = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Maximum number of results.")] = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the box and the probability of each phrase of the sentence.")
    ] = False,
    after: Annotated[
        str | None, typer.Option(metavar="DATE", help="Only photos taken on this date or later, such as 2024-06.")
    ] = None,
    before: Annotated[str | None, typer.Option(metavar="DATE", help="Only photos taken before this date.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Include improbable photos.")] = False,
    paths: Annotated[bool, typer.Option("--paths", help="Print only the paths of the photos.")] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the results to a CSV file.")] = None,
    links: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Create a folder of symbolic links to the photos.")
    ] = None,
    json: Json = False,
) -> None:
    """Find photos by a sentence or by another photo."""
    from deixis.search.collection import open_index
    from deixis.search.results import all_photos, write_csv, write_links

    if (sentence is None) == (like is None):
        raise DeixisError("give either a sentence in quotes, or --like PHOTO")
    with working("searching"), open_index(index) as photos:
        if like is not None:
            hits = photos.like(like, top, after=after, before=before, everything=everything)
        else:
            hits = photos.search(
                sentence or "", top, explain=explain, after=after, before=before, everything=everything
            )
    if csv is not None:
        write_csv(csv, hits)
    if links is not None:
        write_links(links, hits)
    missing = [photo.path for photo in all_photos(hits) if not photo.path.exists()]
    if missing:
        note(f"{plural(len(missing), 'file')} no longer there; run deixis index again to update the index")
    if json:
        documents = [hit.as_json() for hit in hits]
        print_json({"query": sentence or str(like), "hits": documents, "gone": [str(path) for path in missing]})
        return
    if paths:
        for photo in all_photos(hits):
            if photo.path not in missing:
                print(photo.path)
        return
    for hit in hits:
        _print_hit(hit, like, missing)
    for file, kind in ((csv, "table"), (links, "links")):
        if file is not None:
            note(f"{kind}: {file}")
    if hits.unknown_words:
        note(f"unknown to the models, which read English, and not searched for: {', '.join(hits.unknown_words)}")
    if not hits:
        note(_no_hits_message(hits, everything))


def _print_hit(hit: Hit, like: Path | None, missing: list[Path]) -> None:
    probability = "     " if hit.probability is None else f"{hit.probability:4.0%} "
    remarks = []
    if hit.path in missing:
        remarks.append("file missing")
    elif like is not None and hit.path in (like.absolute(), like.resolve()):
        remarks.append("the photo itself")
    if hit.duplicates:
        remarks.append(f"and {plural(len(hit.duplicates), 'similar photo')}")
    print(f"{probability} {hit.path}" + (f"  ({'; '.join(remarks)})" if remarks else ""))
    for phrase in hit.phrases:
        box = ", ".join(f"{side:.0f}" for side in phrase.box)
        location = "probably not in this photo" if phrase.absent else f"[{box}]"
        print(f"        {phrase.text}: {location}  (presence {phrase.presence:.0%})")


def _no_hits_message(hits: SearchResults, everything: bool) -> str:
    if hits.photos and not hits.searched:
        return f"nothing found: none of {plural(hits.photos, 'photo')} passes the filters"
    message = f"nothing found in {plural(hits.searched, 'photo')}"
    return message if everything or not hits.searched else f"{message}; --all shows the nearest photos"
