"""The most uncertain photos first: where models know least, people are needed most."""

from __future__ import annotations

import math
from collections.abc import Iterable

from sqlalchemy import Integer, String, bindparam, select, update

from deixis.annotate.events import Event, ProposedBoxes, ProposedLinks, in_force
from deixis.annotate.project import Project
from deixis.annotate.store.schema import photos, questions


def uncertainty(events: Iterable[Event]) -> float:
    """How little models know about a photo: the mean entropy of all that they proposed, in bits; 1 without proposals.

    Examples
    --------
    >>> links = {"0:0-5 1:0-7": 0.5, "0:0-5 1:9-12": 1.0}
    >>> said = {"model": "m", "fingerprint": "", "links": links, "yes_from": 0.9, "no_below": 0.1}
    >>> uncertainty([ProposedLinks(number=1, worker="m", **said)])
    0.5
    """
    found: list[float] = []
    for event in in_force(list(events)):
        if isinstance(event, ProposedLinks):
            found += event.links.values()
        elif isinstance(event, ProposedBoxes):
            found += (box[4] for boxes in event.boxes.values() for box in boxes)
    return sum(map(_entropy, found)) / len(found) if found else 1.0


def _entropy(probability: float) -> float:
    return -sum(part * math.log2(part) for part in (probability, 1 - probability) if part > 0)


def most_uncertain_first(project: Project) -> int:
    """Ask about the photos that models know least about first; the number of photos.

    Photos added later come after all others, until this is done again.
    """
    with project.database.reading() as connection:
        rows = connection.execute(select(photos.c.id, photos.c.known).order_by(photos.c.place)).all()
        certain = {
            row.id: -math.inf if row.known else -uncertainty(project.folds.at(connection, row.id).events)
            for row in rows
        }
    names = sorted(certain, key=lambda name: certain[name])
    moved = [{"its_photo": name, "new": place} for place, name in enumerate(names, start=1)]
    place = bindparam("new", type_=Integer)
    photo = bindparam("its_photo", type_=String)
    with project.database.writing() as connection:
        # No two photos have the same place, not even for a moment.
        connection.execute(update(photos).values(place=-photos.c.place))
        connection.execute(update(photos).where(photos.c.id == photo).values(place=place), moved)
        connection.execute(update(questions).where(questions.c.photo == photo).values(place=place), moved)
    return sum(not row.known for row in rows)
