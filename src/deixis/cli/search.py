"""`deixis search`: finds photos of an index by a sentence, or by another photo."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deixis.cli.output import Index, Json, argument, flag, hint, note, option, plural, print_json, show_name, working
from deixis.errors import DeixisError
from deixis.search.places import index_place, place_option

if TYPE_CHECKING:
    from deixis.search.query import Reading
    from deixis.search.results import Hit, SearchResults


_NAMED = re.compile(r'(?P<key>-?in:|camera:|album:)(?!.*\s[+-]\w)(?P<words>[^":][^:]*\s[^:]*)', re.IGNORECASE)
_SIGNED = re.compile(r'(?P<key>[+-])(?!.*\s[+-]\w)(?P<words>[^":]*\s[^":]*)')
"""A filter or a sign, and several words that the shell has joined."""


def search(
    words: Annotated[
        list[str] | None,
        argument(
            "SENTENCE",
            'English sentence. +WORD requires and -WORD excludes something: "dog +ball -snow", '
            '"a beach without people". Filters: in:FOLDER -in:FOLDER camera:NAME after:DATE before:DATE album:NAME '
            "is:favourite is:undated.",
        ),
    ] = None,
    index: Index = None,
    like: Annotated[
        Path | None, option("PHOTO", "Find photos similar to this one, alone or together with SENTENCE.")
    ] = None,
    weight: Annotated[
        float, option("W", "How much --like counts beside SENTENCE: 0 nothing, 1 all.", min=0, max=1)
    ] = 0.5,
    top: Annotated[int, option("N", "Maximum number of results.", min=1, max=1000)] = 10,
    explain: Annotated[
        bool, flag("--explain", "Print the boxes and the probability of each phrase of the sentence.")
    ] = False,
    after: Annotated[str | None, option("DATE", "Only photos taken on this date or later, such as 2024-06.")] = None,
    before: Annotated[str | None, option("DATE", "Only photos taken before this date.")] = None,
    everything: Annotated[bool, flag("--all", "Include improbable photos.")] = False,
    exact: Annotated[
        bool, flag("--exact", "Search for the words as typed: no corrections, and no dates in words.")
    ] = False,
    paths: Annotated[bool, flag("--paths", "Print only the paths of the photos.")] = False,
    null: Annotated[
        bool, typer.Option("--null", "-0", help="Like --paths, with a NUL after each path, for xargs -0.")
    ] = False,
    csv: Annotated[Path | None, option("FILE", "Write the results to a CSV file.")] = None,
    links: Annotated[Path | None, option("DIR", "Create a folder of symbolic links to the photos.")] = None,
    json: Json = False,
) -> None:
    """Find photos by a sentence or by another photo."""
    from deixis.search.collection import open_index
    from deixis.search.results import all_photos, write_csv, write_links

    sentence = None if words is None else join_words(words)
    if sentence is None and like is None:
        raise DeixisError("give a sentence, such as deixis search two dogs in the snow, or --like PHOTO, or both")
    with working("searching"), open_index(index) as photos:
        if sentence is None and like is not None:
            hits = photos.like(like, top, after=after, before=before, everything=everything)
        else:
            find = partial(
                photos.search,
                top=top,
                explain=explain,
                after=after,
                before=before,
                everything=everything,
                like=like,
                like_weight=weight,
                exact=exact,
            )
            hits = _search(find, sentence or "")
    if csv is not None:
        write_csv(csv, hits)
    if links is not None:
        write_links(links, hits)
    missing = [photo.path for photo in all_photos(hits) if not photo.path.exists()]
    if missing:
        note(f"{plural(len(missing), 'file')} no longer there; run deixis index again to update the index")
    if json:
        documents = [hit.as_json() for hit in hits]
        print_json(
            {"query": sentence or str(like), "hits": documents, "gone": [str(path) for path in missing]}
            | {"unknown_words": list(hits.unknown_words), "suggestions": hits.suggestions}
            | {"photos": hits.photos, "searched": hits.searched, "filter_reason": hits.filter_reason}
            | {"found": hits.found, "readings": [vars(reading) for reading in hits.readings]}
        )
        return
    if paths or null:
        for photo in all_photos(hits):
            if photo.path not in missing:
                print(photo.path, end="\0" if null else "\n")
        return
    for hit in hits:
        _print_hit(hit, missing, hits.is_listing)
    for file, kind in ((csv, "table"), (links, "links")):
        if file is not None:
            hint(f"{kind}: {file}")
    if hits.unknown_words:
        named = ", ".join(_with_suggestions(word, hits) for word in hits.unknown_words)
        note(f"unknown to the models, which read English, and not searched for: {named}")
    for reading in hits.readings:
        note(explain_reading(reading))
    if hits and (more := hits.found - len(all_photos(hits))) > 0:
        hint(f"{plural(more, 'more photo')}; --top N shows more results")
    if hits and hits[0].probability is None and not hits.is_listing:
        hint(
            "ranked without percentages, because this index has no calibration; fit one to photos with captions: "
            f"deixis calibrate DATA{place_option(index_place(index))}"
        )
    if not hits:
        hint(_no_hits_message(hits, everything))


def join_words(words: Sequence[str]) -> str:
    """Join the words of a query that was typed without quotes; quotes inside it, which the shell removes, come back.

    Examples
    --------
    >>> join_words(["dog", "in:Ski Trip", "-red collar"])
    'dog in:"Ski Trip" -"red collar"'
    """
    return words[0] if len(words) == 1 else " ".join(map(_quote, words))


def _quote(word: str) -> str:
    if found := _NAMED.fullmatch(word) or _SIGNED.fullmatch(word):
        escaped = found["words"].replace('"', '""')
        return f'{found["key"]}"{escaped}"'
    return word


def _search(find: Callable[[str], SearchResults], sentence: str) -> SearchResults:
    """Search for a sentence, such as in:Ski Trip, first for a folder or an album whose name has several words."""
    if name := _NAMED.fullmatch(sentence):
        with suppress(DeixisError):  # no album has this name
            named = find(_quote(sentence))
            inside = named.photos - named.searched if name["key"].startswith("-") else named.searched
            if inside:
                return named
    return find(sentence)


def explain_reading(reading: Reading) -> str:
    """Say how words were read, and what to do if they mean something else."""
    if reading.kind == "date":
        return f"only photos with {reading.read_as}, for '{reading.text}'; --exact searches for the words"
    if reading.kind == "spelling":
        return f"showing {reading.read_as}; --exact searches for {reading.text}"
    if reading.kind == "part":
        return f"nothing for the whole sentence; photos with '{reading.read_as}'"
    folder = f"{reading.read_as} (the folders of that name)" if reading.read_as else "a folder (in:NAME)"
    named = f"'{reading.text}' may be a name of a person or a place, and the models know none"
    return f"{named}; try {folder}, or a date: after:2024-06 before:2024-09"


def _print_hit(hit: Hit, missing: list[Path], is_listing: bool) -> None:
    probability = "     " if hit.probability is None else f"{hit.probability:4.0%} "
    if is_listing:
        probability = f"{(hit.photo.taken or '')[:10]:10} {hit.photo.date_source or '':4} "
    remarks = []
    if hit.path in missing:
        remarks.append("file missing")
    if hit.duplicates:
        remarks.append(f"and {plural(len(hit.duplicates), 'similar photo')}")
    print(f"{probability} {show_name(hit.path)}" + (f"  ({'; '.join(remarks)})" if remarks else ""))
    for phrase in hit.phrases:
        boxes = " ".join(f"[{', '.join(f'{side:.0f}' for side in box)}]" for box in phrase.boxes)
        location = "probably not in this photo" if phrase.absent else boxes
        figure = "" if phrase.presence is None else f"  ({phrase.presence:.0%})"
        figure = "  (a guess: it has a word unknown to the models)" if phrase.guess else figure
        print(f"        {phrase.text}: {location}{figure}")


def _no_hits_message(hits: SearchResults, everything: bool) -> str:
    if hits.photos and not hits.searched:
        return f"nothing found: none of {plural(hits.photos, 'photo')} passes the filters: {hits.filter_reason}"
    parts = [f"nothing found in {plural(hits.searched, 'photo')}"]
    if untrained := [word for word in hits.suggestions if word not in hits.unknown_words]:
        named = ", ".join(_with_suggestions(word, hits) for word in untrained)
        parts.append(f"the models have not seen photos of {named}")
    if not everything and hits.searched:
        parts.append("--all shows the nearest, unlikely photos")
    return "; ".join(parts)


def _with_suggestions(word: str, hits: SearchResults) -> str:
    near = hits.suggestions.get(word)
    return f"{word} (try {', '.join(near)})" if near else word
