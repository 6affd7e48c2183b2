"""Letting models propose: for photos that nobody has begun, and for the questions whose answer is known.

Proposals are events of a worker that is no person. A photo that somebody has begun stays as it is, because a proposal
would take away questions that people have answered. Known questions get the same marks as others, so that a page
cannot tell them apart, and boxes of the model join them, so that who accepts everything is found out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, insert, select, update

from deixis import geometry
from deixis.annotate.changing import Changing
from deixis.annotate.events import ProposedBoxes, ProposedLinks
from deixis.annotate.help.coreference import Coreference
from deixis.annotate.help.proposals import LinkHelp, boxes_for
from deixis.annotate.known import Known, known_row
from deixis.annotate.material import Material
from deixis.annotate.people import MODEL
from deixis.annotate.project import Project
from deixis.annotate.questions import Question
from deixis.annotate.store.schema import known, photos, workers
from deixis.annotate.walks import XYXY, Answer, Task
from deixis.files.progress import OnProgress, silent

CLEARLY_GOOD, CLEARLY_BAD = 0.7, 0.4
"""A model's box is a known question where its IoU with the gold is at least, or less than, this."""

BoxFinder = Callable[[Material], dict[str, list[list[float]]]]
"""The boxes of each mention of a photo, as `deixis.annotate.events.ProposedBoxes` has them."""


@dataclass(frozen=True)
class LinkModel:
    """Who proposes links, and from which probability on, and below which, it answers on its own."""

    model: Coreference
    yes_from: float = 0.9
    no_below: float = 0.05
    name: str = "coreference"

    @property
    def fingerprint(self) -> str:
        """Of the weights."""
        return self.model.fingerprint

    def body(self, material: Material) -> dict[str, Any]:
        """What it says of a photo: the body of an event."""
        names = [mention.id for mention in material.mentions]
        likely = self.model.probabilities(material)
        links = {f"{names[a]} {names[b]}": round(probability, 4) for (a, b), probability in likely.items()}
        bounds = {"yes_from": self.yes_from, "no_below": self.no_below}
        return {"model": self.name, "fingerprint": self.fingerprint, "links": links} | bounds


@dataclass(frozen=True)
class BoxModel:
    """Who proposes boxes: how it finds them, from which probability on they are shown, and what it is called."""

    find: BoxFinder
    fingerprint: str
    show_from: float = 0.35
    name: str = "grounder"

    def body(self, material: Material) -> dict[str, Any]:
        """What it says of a photo: the body of an event."""
        about = {"model": self.name, "fingerprint": self.fingerprint, "show_from": self.show_from}
        return about | {"boxes": self.find(material)}


@dataclass(frozen=True)
class Proposing:
    """What was done: photos that got proposals, those left alone because work on them had begun, known questions."""

    photos: int
    begun: int
    known: int


def propose(
    project: Project,
    *,
    links: LinkModel | None = None,
    boxes: BoxModel | None = None,
    on_progress: OnProgress = silent,
) -> Proposing:
    """Let models propose, while people may be working; what was proposed before stays.

    Parameters
    ----------
    project
        Where.
    links, boxes
        The models; None does without.
    on_progress
        Told how many photos are done.
    """
    makers = {ProposedLinks.kind: links, ProposedBoxes.kind: boxes}
    with project.database.reading() as connection:
        rows = connection.execute(select(photos.c.id, photos.c.known).order_by(photos.c.place)).all()
    done = begun = questions = 0
    for number, row in enumerate(rows, start=1):
        on_progress("proposing", number, len(rows))
        with project.database.reading() as connection:
            folded = project.folds.at(connection, row.id)
        there = {event.kind for event in folded.events}
        if there - set(makers):
            begun += 1
            continue
        # Worked out before the transaction: it takes long.
        wanted = {kind: maker for kind, maker in makers.items() if maker and kind not in there}
        bodies = {kind: maker.body(folded.material) for kind, maker in wanted.items()}
        if row.known:
            questions += _mark_known(project, row.id, folded.material, bodies)
        elif bodies:
            added = _add(project, row.id, bodies)
            done, begun = done + added, begun + (not added)
    return Proposing(done, begun, questions)


def _add(project: Project, photo: str, bodies: dict[str, dict[str, Any]]) -> bool:
    """Add what models say of a photo; False where people have begun."""
    with project.database.writing() as connection:
        changing = Changing(project, connection, photo)
        there = {event.kind for event in changing.folded.events}
        if there - {ProposedLinks.kind, ProposedBoxes.kind}:
            return False
        for kind, body in bodies.items():
            if kind not in there:
                worker = _worker(project, connection, body["model"], body["fingerprint"])
                changing.add(f"{kind}:{photo}", worker, kind, body)
        changing.settle(anew=True)
    changing.keep()
    return True


def _worker(project: Project, connection: Connection, model: str, fingerprint: str) -> str:
    """The id under which a model proposes."""
    name = f"{model} {fingerprint}"
    found: str | None = connection.scalar(select(workers.c.id).where(workers.c.name == name, workers.c.role == MODEL))
    if found is not None:
        return found
    row = {"id": f"m{fingerprint}", "name": name, "role": MODEL, "invited_at": project.clock(), "vouched": False}
    connection.execute(insert(workers), row | {"history_items": 0, "history_accuracy": 0.0, "forgotten": False})
    return str(row["id"])


def _mark_known(project: Project, photo: str, material: Material, bodies: dict[str, dict[str, Any]]) -> int:
    """Mark the known questions of a photo as others are marked, and add some about a model's boxes; how many."""
    count = 0
    with project.database.writing() as connection:
        rows = connection.execute(select(known).where(known.c.photo == photo)).all()
        if body := bodies.get(ProposedLinks.kind):
            for row in rows:
                if row.task == Task.VERIFY.value and (linked := _links_in(body, material, row.asked["mentions"])):
                    mark = {"model": body["model"], "links": linked}
                    marked = update(known).where(known.c.number == row.number)
                    connection.execute(marked.values(asked=row.asked | {"proposal": mark}))
                    count += 1
        if body := bodies.get(ProposedBoxes.kind):
            there = {row.subject for row in rows if row.task == Task.QUALITY.value}
            made = [each for each in _known_boxes(body, material, rows) if each.question.subject not in there]
            if made:
                connection.execute(insert(known), [known_row(each) for each in made])
            count += len(made)
    return count


def _links_in(body: dict[str, Any], material: Material, names: Iterable[str]) -> int:
    """How many mentions of a chain the model would have put there."""
    help_ = LinkHelp(ProposedLinks(number=0, worker="", **body))
    mentions = [material.marked(name) for name in names]
    said = [help_.answer(mention, mentions[:place], "") for place, mention in enumerate(mentions)]
    return sum(each is not None and each.answer is Answer.YES for each in said)


def _known_boxes(body: dict[str, Any], material: Material, rows: Iterable[Any]) -> Iterable[Known]:
    """Questions about boxes of the model that are clearly good or clearly bad."""
    event = ProposedBoxes(number=0, worker="", **body)
    for row in rows:
        if row.task != Task.DRAWING.value:  # one for each chain that has boxes, and it holds them all
            continue
        gold: list[XYXY] = row.boxes
        shown = row.asked["mentions"][0]
        for box in boxes_for(event, [material.marked(shown)])[:1]:
            overlap = float(np.max(geometry.iou([box.xyxy], gold)))
            if CLEARLY_BAD <= overlap < CLEARLY_GOOD or box.proposed is None:
                continue
            mark = {"model": box.proposed.model, "probability": box.proposed.probability}
            question = Question(material.photo, Task.QUALITY, (shown,), (), box, proposal=mark)
            yield Known(question, Answer.GOOD if overlap >= CLEARLY_GOOD else Answer.BAD)
