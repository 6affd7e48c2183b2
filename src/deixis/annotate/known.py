"""Questions whose answer is known, made from photos that were annotated before, and from what reviewers decided."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from sqlalchemy import insert

from deixis import geometry
from deixis.annotate.material import Material, material_of
from deixis.annotate.project import Project, add_photos
from deixis.annotate.questions import Question
from deixis.annotate.store.schema import known
from deixis.annotate.walks import XYXY, Answer, DrawnBox, Task
from deixis.data.records import Photo

_CLEARLY_OFF = 0.4
"""A box with a smaller IoU is plainly bad."""


@dataclass(frozen=True, slots=True)
class Known:
    """A question, its answer, and for Drawing the boxes of which one should be drawn."""

    question: Question
    answer: Answer
    boxes: tuple[XYXY, ...] = ()


@dataclass(frozen=True, slots=True)
class _Gold:
    """A chain of an annotated photo: its mentions, the longest of them, and its boxes."""

    mentions: tuple[str, ...]
    captions: frozenset[str]
    types: frozenset[str]
    shown: str
    boxes: tuple[XYXY, ...]
    scene: bool
    decided: bool


def add_known(project: Project, photos: Iterable[Photo], *, seed: int = 0) -> int:
    """Add annotated photos as a source of questions with known answers; how many questions they gave.

    They are not annotated again, and nobody can tell their questions from others. A photo that is in the project
    already is left out.
    """
    count = 0
    for photo in photos:
        material = material_of(photo)
        chance = random.Random(f"{seed} {photo.id}")  # noqa: S311 - no secret
        rows = {(made.question.task, made.question.subject): made for made in known_questions(photo, material, chance)}
        if rows and add_photos(project, [material], known=True)[0]:
            with project.database.writing() as connection:
                connection.execute(insert(known), [known_row(made) for made in rows.values()])
            count += len(rows)
    return count


def known_row(made: Known, *, reviewed: bool = False) -> dict[str, object]:
    """What the table of known questions says of one."""
    question = made.question
    return {
        "photo": question.photo,
        "task": question.task.value,
        "subject": question.subject,
        "asked": question.as_json(),
        "answer": made.answer.value,
        "boxes": [list(box) for box in made.boxes],
        "reviewed": reviewed,
    }


def known_questions(photo: Photo, material: Material, chance: random.Random) -> Iterator[Known]:
    """Questions of all tasks about an annotated photo; for each task about as many of every answer.

    Parameters
    ----------
    photo
        With chains and boxes.
    material
        Made from it, with the mentions that it has.
    chance
        The dice: how bad boxes are bad.
    """
    chains = _gold_chains(photo, material)
    yield from _links(material.photo, chains, chance)
    yield from _verifications(material.photo, chains, chance)
    size = (material.width, material.height)
    for chain in chains:
        if chain.decided:
            yield from _about_boxes(material.photo, chain, size, chance)


def _gold_chains(photo: Photo, material: Material) -> list[_Gold]:
    by_place = {mention.id: mention for mention in material.mentions}
    members: dict[str, list[str]] = {}
    for number, caption in enumerate(photo.sentences):
        for mention in caption.mentions:
            place = f"{number}:{mention.start}-{mention.end}"
            if mention.chain is not None and place in by_place:
                members.setdefault(mention.chain, []).append(place)
    flags = {chain.id: chain for chain in photo.chains}
    found = []
    for name, places in members.items():
        mentions = [by_place[place] for place in places]
        boxes = tuple(box.xyxy for box in photo.boxes_of(name))
        flag = flags[name]
        found.append(
            _Gold(
                tuple(places),
                frozenset(_caption(place) for place in places),
                frozenset(kind for mention in mentions for kind in mention.types),
                max(mentions, key=lambda mention: len(mention.text)).id,
                boxes,
                flag.scene,
                flag.annotated and bool(boxes or flag.scene or flag.no_box),
            )
        )
    return found


def _links(photo: str, chains: list[_Gold], chance: random.Random) -> Iterator[Known]:
    """A pair of each chain, and a pair of each two chains that could be taken for each other."""
    for chain in chains:
        pairs = [pair for pair in combinations(chain.mentions, 2) if _caption(pair[0]) != _caption(pair[1])]
        if pairs:
            yield Known(Question(photo, Task.LINK, chance.choice(pairs)), Answer.YES)
    for one, other in combinations(chains, 2):
        pairs = [(a, b) for a in one.mentions for b in other.mentions if _caption(a) != _caption(b)]
        if one.types & other.types and pairs:
            yield Known(Question(photo, Task.LINK, chance.choice(pairs)), Answer.NO)


def _verifications(photo: str, chains: list[_Gold], chance: random.Random) -> Iterator[Known]:
    """A chain as it is, and one with a mention of another."""
    for chain in chains:
        if len(chain.mentions) > 1:
            yield Known(Question(photo, Task.VERIFY, chain.mentions), Answer.YES)
        strangers = [
            mention
            for other in chains
            if other is not chain and other.types & chain.types
            for mention in other.mentions
            if _caption(mention) not in chain.captions
        ]
        if strangers:
            yield Known(Question(photo, Task.VERIFY, (*chain.mentions, chance.choice(strangers))), Answer.NO)


def _about_boxes(photo: str, chain: _Gold, size: tuple[int, int], chance: random.Random) -> Iterator[Known]:
    shown = (chain.shown,)
    if not chain.boxes:
        yield Known(Question(photo, Task.REQUIREMENT, shown), Answer.SCENE if chain.scene else Answer.NO_BOX)
        return
    yield Known(Question(photo, Task.REQUIREMENT, shown), Answer.BOX)
    drawn = tuple(DrawnBox(f"k{place}", box, "") for place, box in enumerate(chain.boxes))
    yield Known(Question(photo, Task.DRAWING, shown), Answer.DRAWN, chain.boxes)
    yield Known(Question(photo, Task.QUALITY, shown, drawn[1:], drawn[0]), Answer.GOOD)
    if (bad := _bad_box(chain.boxes, size, chance)) is not None:
        yield Known(Question(photo, Task.QUALITY, shown, (), DrawnBox("k-bad", bad, "")), Answer.BAD)
    yield Known(Question(photo, Task.COVERAGE, shown, drawn), Answer.ALL)
    if len(drawn) > 1:
        yield Known(Question(photo, Task.COVERAGE, shown, drawn[:-1]), Answer.MORE)


def _bad_box(boxes: tuple[XYXY, ...], size: tuple[int, int], chance: random.Random) -> XYXY | None:
    """One of the boxes, moved or shrunk so far that nobody can think it good."""
    x1, y1, x2, y2 = chance.choice(boxes)
    for _ in range(20):
        scale = chance.uniform(0.3, 0.6)
        width, height = (x2 - x1) * scale, (y2 - y1) * scale
        left, top = chance.uniform(0, size[0] - width), chance.uniform(0, size[1] - height)
        made = geometry.clip([left, top, left + width, top + height], *size)
        if width >= 1 and height >= 1 and float(np.max(geometry.iou([made], boxes))) < _CLEARLY_OFF:
            return tuple(made.tolist())
    return None


def _caption(mention: str) -> str:
    return mention.partition(":")[0]
