"""Proposals of models, and of the annotations of a data set, for photos without judgements.

Proposals are events of a worker with the role "model". Photos with judgements stay unchanged, because a proposal would
remove questions that workers have answered. Known questions get the same marks as others, so that a page cannot
distinguish them, and boxes of the model become known questions, which detect workers who accept everything.
Pre-annotations of a data set are treated alike, except that nobody is asked whether a chain with boxes needs one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from sqlalchemy import select, update

from deixis import geometry
from deixis.annotate.chains import LinkProposals, proposed_boxes_for
from deixis.annotate.events import IMPORTED, ProposedBoxes, ProposedLinks
from deixis.annotate.help.boxes import BoxCalibration, ground_mentions, proposed_boxes
from deixis.annotate.help.coreference import Coreference
from deixis.annotate.help.order import UncertaintyOrder
from deixis.annotate.judgements import MIN_BOX_SIDE, change_photo
from deixis.annotate.known_answers import BAD_BOX, CLEARLY_BAD_IOU, GOOD_BOX, KnownQuestion, insert_known_questions
from deixis.annotate.material import Material, chains_by_mention
from deixis.annotate.people import find_or_add_model
from deixis.annotate.project import SETTINGS_FILE, Project
from deixis.annotate.settings import Settings
from deixis.annotate.store import known_questions, photos
from deixis.annotate.workflow import XYXY, Answer, Question, Task
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.storage.files import hash_file
from deixis.storage.progress import OnProgress, no_progress, track

CLEARLY_GOOD_IOU = 0.7
"""A model's box becomes a known question if it is clearly good or clearly bad (`CLEARLY_BAD_IOU`)."""

KINDS = ("links", "boxes")
GROUNDER = "grounder"

FindBoxes = Callable[[Material], dict[str, list[list[float]]]]
"""Finds the boxes of each mention of a photo, in the form of `deixis.annotate.events.ProposedBoxes`."""


@dataclass(frozen=True)
class LinkModel:
    """A coreference model with the bounds of `deixis.annotate.events.ProposedLinks`."""

    model: Coreference
    yes_from: float = 0.9
    no_below: float = 0.05

    def event_body(self, material: Material) -> dict[str, Any]:
        names = [mention.id for mention in material.mentions]
        found = self.model.probabilities(material)
        links = {f"{names[a]} {names[b]}": round(probability, 4) for (a, b), probability in found.items()}
        bounds = {"yes_from": self.yes_from, "no_below": self.no_below}
        return {"model": "coreference", "fingerprint": self.model.fingerprint, "links": links} | bounds


@dataclass(frozen=True)
class BoxModel:
    """A function that finds boxes, with the bound of `deixis.annotate.events.ProposedBoxes`."""

    find: FindBoxes
    fingerprint: str
    show_from: float = 0.35

    def event_body(self, material: Material) -> dict[str, Any]:
        about = {"model": GROUNDER, "fingerprint": self.fingerprint, "show_from": self.show_from}
        return about | {"boxes": self.find(material)}


@dataclass(frozen=True)
class ProposalCounts:
    """Numbers of photos with new proposals, of photos skipped because they have judgements, and of known questions."""

    photos: int
    begun: int
    known: int


def with_proposals(settings: Settings, kinds: str | None, order: str | None) -> Settings:
    """Set the proposals and the order as the command line gives them."""
    selected = [kind.strip() for kind in kinds.split(",")] if kinds else []
    for kind in selected:
        if kind not in KINDS:
            raise DeixisError(f"--propose {kinds}: unknown kind {kind!r}; use {', '.join(KINDS)} or {','.join(KINDS)}")
    settings = replace(settings, propose_links="links" in selected, propose_boxes="boxes" in selected)
    return replace(settings, order=order) if order else settings


def wants_proposals(settings: Settings) -> bool:
    return settings.propose_links or settings.propose_boxes


def propose_by_settings(project: Project, on_progress: OnProgress = no_progress) -> ProposalCounts:
    """Make the proposals that the project's settings request, and order the photos accordingly."""
    settings = project.settings
    if not wants_proposals(settings):
        path = project.folder / SETTINGS_FILE
        raise DeixisError(f"{path}: propose_links and propose_boxes are both false; set at least one to true")
    bounds = (settings.links_yes_from, settings.links_no_below)
    links = LinkModel(Coreference.shipped(), *bounds) if settings.propose_links else None
    boxes = load_box_model(project) if settings.propose_boxes else None
    counts = propose(project, links=links, boxes=boxes, on_progress=on_progress)
    if settings.order == "uncertain":
        UncertaintyOrder(project).refresh()
    return counts


def load_box_model(project: Project) -> BoxModel:
    """Load the shipped grounder for the photos of a project."""
    if project.images is None:
        path = project.folder / SETTINGS_FILE
        raise DeixisError(f"{path}: the project has no photos, so no boxes can be proposed; set propose_boxes to false")
    from deixis.models.grounding import load_grounding_model
    from deixis.models.installed import model_folder

    grounder, calibration = load_grounding_model(GROUNDER), BoxCalibration.shipped()

    def find(material: Material) -> dict[str, list[list[float]]]:
        images = project.image_folder(material.folder)
        if images is None or material.file is None or not (images / material.file).is_file():
            return {}
        return proposed_boxes(
            ground_mentions(grounder, grounder.propose(images / material.file), material), calibration
        )

    weights = "".join(hash_file(file) for file in sorted(model_folder(GROUNDER).rglob("*.safetensors")))
    fingerprint = hashlib.sha256(weights.encode()).hexdigest()[:12]
    return BoxModel(find, fingerprint, project.settings.boxes_show_from)


def propose(
    project: Project,
    *,
    links: LinkModel | None = None,
    boxes: BoxModel | None = None,
    on_progress: OnProgress = no_progress,
) -> ProposalCounts:
    """Add proposals, also while workers are active; existing proposals stay."""
    models = {ProposedLinks.kind: links, ProposedBoxes.kind: boxes}
    with project.database.reading() as connection:
        rows = connection.execute(select(photos.c.id, photos.c.known).order_by(photos.c.place)).all()
    proposed = begun = known = 0
    for row in track(rows, "proposing", len(rows), on_progress):
        snapshot = project.read_photo(row.id)
        existing = {event.kind for event in snapshot.events}
        if existing - set(models):
            begun += 1
            continue
        # Computed before the transaction, because it is slow.
        missing = {kind: model for kind, model in models.items() if model and kind not in existing}
        bodies = {kind: model.event_body(snapshot.material) for kind, model in missing.items()}
        if row.known:
            known += _mark_known_questions(project, row.id, snapshot.material, bodies)
        elif bodies:
            added = add_proposals(project, row.id, bodies)
            proposed, begun = proposed + added, begun + (not added)
    return ProposalCounts(proposed, begun, known)


def add_proposals(project: Project, photo: str, bodies: dict[str, dict[str, Any]]) -> bool:
    """Add the events of models; False if the photo has got a judgement meanwhile."""
    with change_photo(project, photo) as transaction:
        existing = {event.kind for event in transaction.snapshot.events}
        if existing - {ProposedLinks.kind, ProposedBoxes.kind}:
            return False
        for kind, body in bodies.items():
            if kind not in existing:
                worker = find_or_add_model(project, transaction.connection, body["model"], body["fingerprint"])
                transaction.add_event(f"{kind}:{photo}", worker, kind, body)
        transaction.apply()
    return True


def _mark_known_questions(project: Project, photo: str, material: Material, bodies: dict[str, dict[str, Any]]) -> int:
    """Mark known questions like others, add some about the model's boxes, and return how many."""
    count = 0
    with project.database.writing() as connection:
        rows = connection.execute(select(known_questions).where(known_questions.c.photo == photo)).all()
        if body := bodies.get(ProposedLinks.kind):
            for row in rows:
                if row.task == Task.VERIFY.value and (links := _count_links(body, material, row.asked["mentions"])):
                    mark = {"model": body["model"], "links": links}
                    same = known_questions.c.number == row.number
                    values = {"asked": row.asked | {"proposal": mark}}
                    connection.execute(update(known_questions).where(same).values(**values))
                    count += 1
        if body := bodies.get(ProposedBoxes.kind):
            existing = {row.subject for row in rows if row.task == Task.QUALITY.value}
            made = [each for each in _box_questions(body, material, rows) if each.question.subject not in existing]
            insert_known_questions(connection, made)
            count += len(made)
    return count


def _count_links(body: dict[str, Any], material: Material, mention_ids: Iterable[str]) -> int:
    """Count the mentions of a chain that the model would link to the ones before."""
    proposals = LinkProposals(ProposedLinks(number=0, worker="", **body))
    mentions = [material.mention_at(mention_id) for mention_id in mention_ids]
    judged = [proposals.answer(mention, mentions[:number], "") for number, mention in enumerate(mentions)]
    return sum(each is not None and each.answer is Answer.YES for each in judged)


def _box_questions(body: dict[str, Any], material: Material, rows: Iterable[Any]) -> Iterable[KnownQuestion]:
    """Make known questions about boxes of the model that are clearly good or clearly bad."""
    event = ProposedBoxes(number=0, worker="", **body)
    for row in rows:
        if row.task != Task.DRAWING.value:  # each chain with boxes has one question of this task, with all its boxes
            continue
        gold: list[XYXY] = row.boxes
        shown = row.asked["mentions"][0]
        for box in proposed_boxes_for(event, [material.mention_at(shown)])[:1]:
            overlap = float(np.max(geometry.iou([box.xyxy], gold)))
            if CLEARLY_BAD_IOU <= overlap < CLEARLY_GOOD_IOU or box.proposed is None:
                continue
            mark = {"model": box.proposed.model, "probability": box.proposed.probability}
            question = Question(material.photo, Task.QUALITY, (shown,), (), box, proposal=mark)
            good = overlap >= CLEARLY_GOOD_IOU
            why = GOOD_BOX if good else BAD_BOX
            yield KnownQuestion(question, Answer.GOOD if good else Answer.BAD, tuple(gold), why, tuple(gold))


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
        bodies = {
            kind: body | {"fingerprint": fingerprint} for kind, body in _imported_proposals(photo, material).items()
        }
        count += bool(bodies) and add_proposals(project, photo.id, bodies)
    if count:
        _mark_all_known_questions(project)
    return count


def _imported_proposals(photo: Photo, material: Material) -> dict[str, dict[str, Any]]:
    chains = chains_by_mention(photo, material)
    if not chains:
        return {}
    links = {
        f"{one.id} {other.id}": float(chains[one.id] == chains[other.id])
        for one, other in combinations(material.mentions, 2)
        if one.caption != other.caption and one.id in chains and other.id in chains
    }
    boxes = {name: found for name, chain in chains.items() if (found := _imported_boxes(photo, chain, material))}
    bodies: dict[str, dict[str, Any]] = {}
    bodies[ProposedLinks.kind] = {"model": IMPORTED, "links": links, "yes_from": 0.5, "no_below": 0.5}
    if boxes:
        bodies[ProposedBoxes.kind] = {"model": IMPORTED, "boxes": boxes, "show_from": 0.0}
    return bodies


def _imported_boxes(photo: Photo, chain: str, material: Material) -> list[list[float]]:
    """Return the boxes of a chain inside the photo, in the form of `ProposedBoxes`."""
    found = []
    for box in photo.boxes_of(chain):
        x1, y1, x2, y2 = geometry.clip(box.xyxy, material.width, material.height).tolist()
        if x2 - x1 >= MIN_BOX_SIDE and y2 - y1 >= MIN_BOX_SIDE:
            found.append([x1, y1, x2, y2, 1.0])
    return found


def _mark_all_known_questions(project: Project) -> None:
    """Mark known questions like the others, so that a page cannot distinguish them."""
    with project.database.writing() as connection:
        tasks = known_questions.c.task.in_([Task.VERIFY.value, Task.QUALITY.value])
        for row in connection.execute(select(known_questions).where(tasks)).all():
            mark = {"model": IMPORTED, "links": len(row.asked["mentions"]) - 1}
            values = {"asked": {"proposal": mark} | row.asked}
            connection.execute(update(known_questions).where(known_questions.c.number == row.number).values(**values))
