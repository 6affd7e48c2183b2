"""`deixis search`: photos of an index for a sentence, or for another photo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deixis.cli.indexes import DEFAULT_INDEX, Index
from deixis.cli.output import Json, note, plural, print_json, working
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.tasks.search.hits import Hit


def search(
    sentence: Annotated[
        str | None,
        typer.Argument(
            metavar="SENTENCE",
            help='In English, in quotes. "dog +ball -snow" wants a ball and no snow. Filters: in:FOLDER camera:NAME.',
            show_default=False,
        ),
    ] = None,
    index: Index = DEFAULT_INDEX,
    like: Annotated[
        Path | None, typer.Option(metavar="PHOTO", help="Look for photos like this one instead of a sentence.")
    ] = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="At most so many hits.")] = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the phrases of the sentence and their boxes.")
    ] = False,
    after: Annotated[str | None, typer.Option(metavar="DATE", help="Taken then or later, such as 2024-06.")] = None,
    before: Annotated[str | None, typer.Option(metavar="DATE", help="Taken before that.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show unlikely photos too.")] = False,
    paths: Annotated[bool, typer.Option("--paths", help="Print paths and nothing else, for other programs.")] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the hits into a table.")] = None,
    links: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Fill a new folder with links to the photos.")
    ] = None,
    json: Json = False,
) -> None:
    """Find photos by what they show."""
    from deixis.tasks.search.exporting import all_photos, write_csv, write_links
    from deixis.tasks.search.searching import open_index

    if (sentence is None) == (like is None):
        raise DeixisError("give a sentence in quotes, or --like PHOTO, one of the two")
    with working("looking"), open_index(index) as photos:
        if like is not None:
            hits = photos.like(like, top, after=after, before=before, everything=everything)
        else:
            asked = sentence or ""
            hits = photos.search(asked, top, explain=explain, after=after, before=before, everything=everything)
        unknown = photos.unknown_words(sentence) if sentence else []
        count, looked_at = len(photos), photos.looked_at(sentence or "", after=after, before=before)
    if csv is not None:
        write_csv(csv, hits)
    if links is not None:
        write_links(links, hits)
    gone = [photo.path for photo in all_photos(hits) if not photo.path.exists()]
    if gone:
        note(f"{plural(len(gone), 'file')} gone since; deixis index forgets what is gone")
    if json:
        found = [hit.as_json() for hit in hits]
        print_json({"query": sentence or str(like), "hits": found, "gone": [str(path) for path in gone]})
        return
    if paths:
        for photo in all_photos(hits):
            if photo.path not in gone:
                print(photo.path)
        return
    _print_hits(hits, like, gone)
    for file, what in ((csv, "table"), (links, "links")):
        if file is not None:
            note(f"{what}: {file}")
    if unknown:
        note(f"the models do not know {_listed(unknown)}, so they cannot look for that; they read English")
    if not hits:
        note(_nothing(count, looked_at, everything))


def _print_hits(hits: list[Hit], like: Path | None, gone: list[Path]) -> None:
    for hit in hits:
        likely = "     " if hit.probability is None else f"{hit.probability:4.0%} "
        remarks = []
        if hit.path in gone:
            remarks.append("the file is gone")
        elif like is not None and hit.path in (like.absolute(), like.resolve()):
            remarks.append("the photo itself")
        if hit.duplicates:
            remarks.append(f"and {plural(len(hit.duplicates), 'photo')} like it")
        print(f"{likely} {hit.path}" + (f"  ({'; '.join(remarks)})" if remarks else ""))
        for phrase in hit.phrases:
            sides = ", ".join(f"{side:.0f}" for side in phrase.box)
            where = "not in this photo, it seems" if phrase.absent else f"[{sides}]"
            print(f"        {phrase.text}: {where}  (there {phrase.score:.0%})")


def _nothing(count: int, looked_at: int, everything: bool) -> str:
    if count and not looked_at:
        return f"nothing found: none of {plural(count, 'photo')} passes the filters"
    looked = f"nothing found in {plural(looked_at, 'photo')}"
    return looked if everything or not looked_at else f"{looked}; --all shows what comes nearest"


def _listed(words: list[str]) -> str:
    quoted = [f"'{word}'" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
