"""What was annotated becomes data again: photos with chains and boxes, and where each of them comes from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select

from deixis.annotate.events import ProposedLinks
from deixis.annotate.help.provenance import proposed_for
from deixis.annotate.merging import Chained, Merged, merge
from deixis.annotate.project import Project
from deixis.annotate.settings import Settings
from deixis.annotate.state import ChainState
from deixis.annotate.store.folds import Folded
from deixis.annotate.store.schema import photos
from deixis.annotate.walks import Stop, Task
from deixis.data.records import Annotated, Box, Caption, Chain, Mention, Photo
from deixis.data.writers import write_as
from deixis.errors import DeixisError
from deixis.files.atomic import new_directory
from deixis.files.progress import OnProgress, silent

PROVENANCE = "provenance.jsonl"


@dataclass(frozen=True, slots=True)
class Exported:
    """A photo as data, and one record for each of its chains that says how it was made."""

    photo: Photo
    provenance: tuple[dict[str, Any], ...]


def exported(folded: Folded, settings: Settings) -> Exported:
    """A photo with the chains and boxes that its state has, merged and numbered anew.

    A chain that did not end yet has no boxes and is marked as not annotated.
    """
    material, chains = folded.material, folded.state.chains
    names = {str(place): chain for place, chain in enumerate(chains, start=1)}
    merged = merge([Chained(name, chain.types, _boxes(chain)) for name, chain in names.items()], settings)
    kept = [name for name in names if merged.became[name] == name]
    number_of = {name: str(place) for place, name in enumerate(kept, start=1)}
    joined = {name: number_of[left] for name, left in merged.became.items()}
    chain_of = {mention.id: joined[name] for name, chain in names.items() for mention in chain.mentions}
    marked = {mention.id: mention for chain in chains for mention in chain.mentions}
    captions = []
    for place, text in enumerate(material.captions):
        here = sorted((each for each in marked.values() if each.caption == place), key=lambda each: each.start)
        mentions = tuple(Mention(each.start, each.end, chain_of[each.id], each.types) for each in here)
        captions.append(Caption.from_text(text, mentions))
    boxes = tuple(Box(box.xyxy, tuple(number_of[name] for name in box.chains)) for box in merged.boxes)
    photo = Photo(
        material.photo,
        tuple(captions),
        tuple(_chain(number_of[name], names[name]) for name in kept),
        boxes,
        material.width,
        material.height,
        material.file,
        material.splits,
        Annotated(material.photo, material.file or material.photo, material.width, material.height, 3),
        material.sha256,
    )
    provenance = [_provenance(photo, number_of[name], name, names, merged, folded) for name in kept]
    return Exported(photo, tuple(provenance))


def _boxes(chain: ChainState) -> tuple[tuple[float, float, float, float], ...]:
    walk = chain.walk
    return tuple(box.xyxy for box in walk.boxes) if walk and walk.at is Stop.COMPLETE else ()


def _chain(number: str, chain: ChainState) -> Chain:
    walk = chain.walk
    if walk is None or not walk.ended:
        return Chain(number, annotated=False)
    not_visual = walk.at is Stop.NOT_VISUAL
    return Chain(number, scene=not_visual and walk.is_scene, no_box=not_visual and not walk.is_scene)


def _provenance(
    photo: Photo, number: str, name: str, names: dict[str, ChainState], merged: Merged, folded: Folded
) -> dict[str, Any]:
    """How a chain was made: who judged what, who drew, and which chains were merged into it."""
    parts = [other for other, kept in merged.became.items() if kept == name]
    by_number = {event.number: event for event in folded.events}
    taken = sorted(
        {
            (event, edge.at.value, edge.to.value)
            for other in parts
            for event, edge in names[other].taken
            if not isinstance(by_number[event], ProposedLinks)
        }
    )
    proposed = proposed_for([names[other] for other in parts], folded.events)
    walks = [walk for other in parts if (walk := names[other].walk)]
    return {
        "photo": photo.id,
        "chain": number,
        "mentions": [mention.id for other in parts for mention in names[other].mentions],
        "state": walks[0].at.value if walks else "linking",
        "merged_from": len(parts),
        "judgements": [
            {"event": event, "worker": by_number[event].worker, "at": at, "to": to} for event, at, to in taken
        ],
        "drawn": [
            {"box": list(box.xyxy), "worker": box.worker}
            | ({"proposed_by": box.proposed.model} if box.proposed else {})
            for walk in walks
            for box in walk.boxes
        ],
        "reviewed": any(at == Stop.REVIEW.value for _, at, _ in taken),
        "judges": len({by_number[event].worker for event, at, _ in taken if at in {task.value for task in Task}}),
    } | ({"proposed": proposed} if proposed else {})


def export(
    project: Project,
    format_name: str,
    out: Path,
    *,
    unfinished: bool = False,
    with_photos: bool = False,
    replace_old: bool = False,
    on_progress: OnProgress = silent,
) -> tuple[int, int]:
    """Write what is annotated, with ``provenance.jsonl`` beside it.

    Parameters
    ----------
    project
        What to write.
    format_name
        A name of `deixis.data.writers.FORMATS`.
    out
        The directory to make; it appears only when it is whole.
    unfinished
        Take photos along that are not finished.
    with_photos
        Take the photos' files along.
    replace_old
        Put the new directory in the place of an old one.
    on_progress
        Called as the work goes on.

    Returns
    -------
    tuple of int
        How many photos were written, and how many were left out because they are not finished.
    """
    if with_photos and project.images is None:
        raise DeixisError(f"{project.folder}: there are no photos to take along; the data had none")
    with project.database.reading() as connection:
        rows = connection.execute(
            select(photos.c.id, photos.c.finished).where(photos.c.known.is_(False)).order_by(photos.c.place)
        ).all()
    wanted = [row.id for row in rows if unfinished or row.finished]
    if not wanted:
        raise DeixisError(f"{project.folder}: no photo is finished; --unfinished takes along what there is")
    with new_directory(out, replace=replace_old, inputs=[project.folder, project.images]) as folder:
        images = project.images if with_photos else None
        with (folder / PROVENANCE).open("w", encoding="utf-8", newline="\n") as provenance:
            write_as(_each(project, wanted, provenance.write, on_progress), format_name, folder, images=images)
    return len(wanted), len(rows) - len(wanted)


def _each(project: Project, wanted: list[str], write: Callable[[str], Any], on_progress: OnProgress) -> Iterator[Photo]:
    for done, photo in enumerate(wanted, start=1):
        on_progress("writing", done, len(wanted))
        with project.database.reading() as connection:
            made = exported(project.folds.at(connection, photo), project.settings)
        for record in made.provenance:
            write(json.dumps(record, ensure_ascii=False) + "\n")
        yield made.photo
