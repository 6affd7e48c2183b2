"""Pre-annotations: the chains and boxes of a data set as proposals that workers verify and judge.

They take the same way as the proposals of a model, except that nobody is asked whether a chain with boxes needs one.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

from sqlalchemy import select, update

from deixis import geometry
from deixis.annotate.events import IMPORTED, ProposedBoxes, ProposedLinks
from deixis.annotate.help.proposals import add_proposals
from deixis.annotate.judgements import MIN_BOX_SIDE
from deixis.annotate.material import Material
from deixis.annotate.project import Project
from deixis.annotate.schema import known_questions, photos
from deixis.annotate.workflow import Task
from deixis.data.records import Photo


def propose_annotations(project: Project, annotated: Iterable[Photo], fingerprint: str) -> int:
    """Propose the chains and boxes of photos of the project that have no judgements; return the number of photos.

    `fingerprint` identifies the data set in the provenance. Known questions get the same marks.
    """
    count = 0
    for photo in annotated:
        with project.database.reading() as connection:
            known = connection.scalar(select(photos.c.known).where(photos.c.id == photo.id))
            if known is None or known:
                continue
            material = project.snapshots.read(connection, photo.id).material
        bodies = {kind: body | {"fingerprint": fingerprint} for kind, body in _proposals(photo, material).items()}
        count += bool(bodies) and add_proposals(project, photo.id, bodies)
    if count:
        _mark_known_questions(project)
    return count


def _proposals(photo: Photo, material: Material) -> dict[str, dict[str, Any]]:
    chains: dict[str, str] = {}
    present = {mention.id for mention in material.mentions}
    for number, caption in enumerate(photo.sentences):
        for mention in caption.mentions:
            name = f"{number}:{mention.start}-{mention.end}"
            if mention.chain is not None and name in present:
                chains[name] = mention.chain
    if not chains:
        return {}
    links = {
        f"{one.id} {other.id}": float(chains[one.id] == chains[other.id])
        for one, other in combinations(material.mentions, 2)
        if one.caption != other.caption and one.id in chains and other.id in chains
    }
    boxes = {name: found for name, chain in chains.items() if (found := _boxes(photo, chain, material))}
    bodies: dict[str, dict[str, Any]] = {}
    bodies[ProposedLinks.kind] = {"model": IMPORTED, "links": links, "yes_from": 0.5, "no_below": 0.5}
    if boxes:
        bodies[ProposedBoxes.kind] = {"model": IMPORTED, "boxes": boxes, "show_from": 0.0}
    return bodies


def _boxes(photo: Photo, chain: str, material: Material) -> list[list[float]]:
    """Return the boxes of a chain inside the photo, in the form of `ProposedBoxes`."""
    found = []
    for box in photo.boxes_of(chain):
        x1, y1, x2, y2 = geometry.clip(box.xyxy, material.width, material.height).tolist()
        if x2 - x1 >= MIN_BOX_SIDE and y2 - y1 >= MIN_BOX_SIDE:
            found.append([x1, y1, x2, y2, 1.0])
    return found


def _mark_known_questions(project: Project) -> None:
    """Mark known questions like the others, so that a page cannot distinguish them."""
    with project.database.writing() as connection:
        tasks = known_questions.c.task.in_([Task.VERIFY.value, Task.QUALITY.value])
        for row in connection.execute(select(known_questions).where(tasks)).all():
            mark = {"model": IMPORTED, "links": len(row.asked["mentions"]) - 1}
            values = {"asked": {"proposal": mark} | row.asked}
            connection.execute(update(known_questions).where(known_questions.c.number == row.number).values(**values))
