"""Editing the phrases of a photo: freely before work on it begins, by decisions that stay on record afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sqlalchemy import Connection, update

from deixis.annotate.changing import Changing, RefusedError
from deixis.annotate.events import Marking
from deixis.annotate.material import Marked, Material
from deixis.annotate.people import Role, read_worker
from deixis.annotate.project import Project
from deixis.annotate.state import phrases_in
from deixis.annotate.store.folds import Folded
from deixis.annotate.store.schema import photos
from deixis.data.records import ENTITY_TYPES

MOST_PHRASES = 200


@dataclass(frozen=True, slots=True)
class Phrases:
    """The phrases of a photo that people are asked about, and whether they have begun."""

    material: Material
    phrases: tuple[Marked, ...]
    begun: bool


def phrases_of(project: Project, photo: str) -> Phrases:
    """The phrases of a photo as they are now."""
    with project.database.reading() as connection:
        return _phrases(project.folds.at(connection, photo))


def edit_phrases(project: Project, owner: str, photo: str, wanted: Sequence[tuple[str, tuple[str, ...]]]) -> Phrases:
    """Make the phrases of a photo those that its owner wants.

    Parameters
    ----------
    project, owner, photo
        Where, and who.
    wanted
        All phrases that shall be: their places, and their types, which are found out where there are none.

    Raises
    ------
    RefusedError
        Where phrases overlap, or types are to change after work has begun.
    """
    with project.database.writing() as connection:
        if read_worker(connection, owner).role is not Role.OWNER:
            raise RefusedError("only owners can edit phrases")
        changing = Changing(project, connection, photo)
        marked = _checked(changing.folded.material, wanted)
        if changing.folded.events:
            _decide(changing, owner, marked)
        else:
            _replace(connection, changing, marked)
        changing.settle()
    changing.keep()
    return _phrases(changing.folded)


def _phrases(folded: Folded) -> Phrases:
    return Phrases(folded.material, tuple(phrases_in(folded.material, folded.events)), bool(folded.events))


def _checked(material: Material, wanted: Sequence[tuple[str, tuple[str, ...]]]) -> list[Marked]:
    if len(wanted) > MOST_PHRASES:
        raise RefusedError(f"photo {material.photo}: {len(wanted)} phrases; at most {MOST_PHRASES} can be asked about")
    for _, types in wanted:
        if unknown := sorted(set(types) - set(ENTITY_TYPES)):
            raise RefusedError(f"{unknown[0][:40]!r} is no type; choose from: {', '.join(ENTITY_TYPES)}")
    marked = [material.marked(place, types) for place, types in wanted]
    marked.sort(key=lambda mention: (mention.caption, mention.start))
    for one, other in pairwise(marked):
        if one.caption == other.caption and other.start < one.end:
            raise RefusedError(f"photo {material.photo}: {one.id} ({one.text}) overlaps with {other.id} ({other.text})")
    return marked


def _replace(connection: Connection, changing: Changing, marked: list[Marked]) -> None:
    """Nobody has said anything yet: the photo begins with other phrases."""
    material = replace(changing.folded.material, mentions=tuple(marked))
    connection.execute(update(photos).where(photos.c.id == changing.photo).values(material=material.as_json()))
    changing.begin_with(material)


def _decide(changing: Changing, owner: str, marked: list[Marked]) -> None:
    """Drop what is not wanted any more, and add what is new."""
    now = {mention.id: mention for mention in _phrases(changing.folded).phrases}
    wanted = {mention.id: mention for mention in marked}
    for name in now.keys() & wanted.keys():
        if set(now[name].types) != set(wanted[name].types):
            raise RefusedError(f"photo {changing.photo}: work has begun, so {name} keeps the types it has")
    ours = {mention.id for mention in changing.folded.material.mentions}
    decisions = [(mention, "drop") for name, mention in now.items() if name not in wanted]
    decisions += [(mention, "keep" if name in ours else "add") for name, mention in wanted.items() if name not in now]
    for mention, decision in decisions:
        key = f"mark:{changing.photo}:{changing.folded.last}:{mention.id}"
        body = {"mention": mention.id, "decision": decision, "types": list(mention.types)}
        changing.add(key, owner, Marking.kind, body)
