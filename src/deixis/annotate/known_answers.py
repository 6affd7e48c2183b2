"""Questions with known answers, made from annotated photos, for qualification tests and hidden checks.

After each question of a test a worker is told the right answer and why it is right. These explanations are made with
the questions, where the annotations are at hand, and stored with them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from sqlalchemy import Connection, insert

from deixis import geometry
from deixis.annotate.chains import find_grouping_problem, groups_by_type, is_groupable
from deixis.annotate.material import Material, chains_by_mention, prepare_photo
from deixis.annotate.project import Project, add_photos
from deixis.annotate.store import known_questions
from deixis.annotate.workflow import XYXY, Answer, DrawnBox, Question, Task
from deixis.data.records import Photo

ALL_SAME = "Annotators found that all of them name the same."
SCENE = "Annotators called it the scene or place as a whole. “No box” counts as right, too."
NO_BOX = "Annotators drew no box around it. “Scene or place” counts as right, too."
GOOD_BOX = "It fits the box that annotators drew."
BAD_BOX = "It does not fit what annotators drew, which is marked."
LOOSE_BOX = "It is not tight: it should end where the marked box does, on all sides."
RIGHT_REGION = "It is where annotators drew their boxes, which are marked."
WRONG_REGION = "Annotators drew their boxes elsewhere; they are marked."

_MAX_OTHERS = 3


def explain_same(texts: Mapping[str, str], chain: Sequence[str], pair: Sequence[str]) -> str:
    """Explain why two mentions of a chain name the same: others of the chain may say more."""
    others = [mention for mention in chain if mention not in pair]
    if not others:
        return "Annotators found that both name the same."
    return f"Annotators found that both name the same, as {_quote(texts, others)} in other captions."


def explain_different(texts: Mapping[str, str], pair: Sequence[str], *chains: Sequence[str]) -> str:
    """Explain why mentions of two chains differ: the others of each chain."""
    said = []
    for mention, chain in zip(pair, chains, strict=True):
        others = [other for other in chain if other != mention]
        if others:
            said.append(f"“{texts[mention]}” names the same as {_quote(texts, others)}")
    told = f": {'; '.join(said)}" if said else ""
    return f"Annotators found that they name different things{told}."


def explain_stranger(texts: Mapping[str, str], mention: str) -> str:
    """Explain which mention does not belong to the others."""
    return f"“{texts[mention]}”, in caption {int(mention.partition(':')[0]) + 1}, names something else."


def explain_groups(texts: Mapping[str, str], groups: Sequence[Sequence[str]]) -> str:
    """Explain which mentions belong together."""
    together = [group for group in groups if len(group) > 1]
    if not together:
        return "Annotators found that each names something else."
    said = "; ".join(" · ".join(f"“{texts[name]}”" for name in group) for group in together)
    return f"Annotators put together: {said}."


def count_boxes(count: int) -> str:
    return "one box" if count == 1 else f"{count} boxes"


def _quote(texts: Mapping[str, str], mentions: Sequence[str]) -> str:
    """Quote different texts of mentions, at most three."""
    shown = list(dict.fromkeys(texts[mention] for mention in mentions))[:_MAX_OTHERS]
    return ", ".join(f"“{text}”" for text in shown)


CLEARLY_BAD_IOU = 0.4
"""A box with a lower IoU is clearly bad."""

_LOOSE_IOU = (0.3, 0.48)
"""IoU with the correct box of one that is around the right thing, but not tight; below `good_box_iou`."""

_GROWN_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class KnownQuestion:
    """A question, its answer, and for a box that is drawn or adjusted the correct boxes."""

    question: Question
    answer: str
    boxes: tuple[XYXY, ...] = ()
    why: str = ""  # told to a worker after a test question
    right_boxes: tuple[XYXY, ...] = ()  # shown with it
    groups: tuple[tuple[str, ...], ...] = ()  # of the answer "grouped"


@dataclass(frozen=True, slots=True)
class _GoldChain:
    """A chain of an annotated photo; `shown` is its longest mention, `decided` whether its boxes are annotated."""

    mentions: tuple[str, ...]
    captions: frozenset[str]
    types: frozenset[str]
    shown: str
    boxes: tuple[XYXY, ...]
    scene: bool
    decided: bool


MakeKnownQuestions = Callable[[Photo, Material, random.Random], Iterable[KnownQuestion]]


def add_known_photos(
    project: Project,
    photos: Iterable[Photo],
    *,
    seed: int = 0,
    folder: int = 0,
    make: MakeKnownQuestions | None = None,
) -> int:
    """Add annotated photos that the project does not have as a source of known questions; return their number.

    `make` makes the questions of a photo, by default those of the six tasks.
    """
    if make is None:
        make = make_grouped_questions if project.settings.group_links else make_known_questions
    count = 0
    for photo in photos:
        material = prepare_photo(photo, folder=folder)
        rng = random.Random(f"{seed} {photo.id}")  # noqa: S311 - no secret
        made = {(each.question.task, each.question.subject): each for each in make(photo, material, rng)}
        if made and add_photos(project, [material], known=True)[0]:
            with project.database.writing() as connection:
                insert_known_questions(connection, made.values())
            count += len(made)
    return count


def insert_known_questions(
    connection: Connection, questions: Iterable[KnownQuestion], *, reviewed: bool = False
) -> None:
    rows = [
        {
            "photo": known.question.photo,
            "task": known.question.task.value,
            "subject": known.question.subject,
            "asked": known.question.as_json(),
            "answer": str(known.answer),
            "boxes": [list(box) for box in known.boxes],
            "reviewed": reviewed,
            "lesson": {"why": known.why, "boxes": [list(box) for box in known.right_boxes]}
            | ({"groups": known.groups} if known.groups else {}),
        }
        for known in questions
    ]
    if rows:
        connection.execute(insert(known_questions), rows)


def make_known_questions(photo: Photo, material: Material, rng: random.Random) -> Iterator[KnownQuestion]:
    """Make questions of the six tasks about an annotated photo, with each answer about equally often."""
    chains, texts = _gold_chains(photo, material), {mention.id: mention.text for mention in material.mentions}
    yield from _link_questions(material.photo, chains, texts, rng)
    yield from _verification_questions(material.photo, chains, texts, rng)
    size = (material.width, material.height)
    for chain in chains:
        if chain.decided:
            yield from _box_questions(material.photo, chain, size, rng)


def make_grouped_questions(photo: Photo, material: Material, rng: random.Random) -> Iterator[KnownQuestion]:
    """Make the same questions, with groups instead of pairs."""
    for known in make_known_questions(photo, material, rng):
        if known.question.task is not Task.LINK:
            yield known
    texts = {mention.id: mention.text for mention in material.mentions}
    chain_of = {name: number for number, chain in enumerate(_gold_chains(photo, material)) for name in chain.mentions}
    for mentions in groups_by_type(material.mentions):
        names = tuple(mention.id for mention in mentions)
        if not is_groupable(mentions) or not chain_of.keys() >= set(names):
            continue
        chains: dict[int, list[str]] = {}
        for name in names:
            chains.setdefault(chain_of[name], []).append(name)
        groups = tuple(map(tuple, chains.values()))
        if find_grouping_problem(names, groups) is None:
            why = explain_groups(texts, groups)
            yield KnownQuestion(Question(material.photo, Task.GROUP, names), Answer.GROUPED, why=why, groups=groups)


def _gold_chains(photo: Photo, material: Material) -> list[_GoldChain]:
    by_id = {mention.id: mention for mention in material.mentions}
    members: dict[str, list[str]] = {}
    for mention_id, chain in chains_by_mention(photo, material).items():
        members.setdefault(chain, []).append(mention_id)
    flags = {chain.id: chain for chain in photo.chains}
    found = []
    for name, ids in members.items():
        mentions = [by_id[mention_id] for mention_id in ids]
        boxes = tuple(box.xyxy for box in photo.boxes_of(name))
        flag = flags[name]
        found.append(
            _GoldChain(
                tuple(ids),
                frozenset(map(_caption, ids)),
                frozenset(kind for mention in mentions for kind in mention.types),
                max(mentions, key=lambda mention: len(mention.text)).id,
                boxes,
                flag.scene,
                flag.annotated and bool(boxes or flag.scene or flag.no_box),
            )
        )
    return found


def _link_questions(
    photo: str, chains: list[_GoldChain], texts: Mapping[str, str], rng: random.Random
) -> Iterator[KnownQuestion]:
    """One pair of each chain, and one pair of each two chains with a common type."""
    for chain in chains:
        pairs = [pair for pair in combinations(chain.mentions, 2) if _caption(pair[0]) != _caption(pair[1])]
        if pairs:
            pair = rng.choice(pairs)
            why = explain_same(texts, chain.mentions, pair)
            yield KnownQuestion(Question(photo, Task.LINK, pair), Answer.YES, why=why, right_boxes=chain.boxes)
    for one, other in combinations(chains, 2):
        pairs = [(a, b) for a in one.mentions for b in other.mentions if _caption(a) != _caption(b)]
        if one.types & other.types and pairs:
            pair = rng.choice(pairs)
            why = explain_different(texts, pair, one.mentions, other.mentions)
            yield KnownQuestion(Question(photo, Task.LINK, pair), Answer.NO, why=why)


def _verification_questions(
    photo: str, chains: list[_GoldChain], texts: Mapping[str, str], rng: random.Random
) -> Iterator[KnownQuestion]:
    """Each chain as it is, and with a mention of another chain."""
    for chain in chains:
        if len(chain.mentions) > 1:
            question = Question(photo, Task.VERIFY, chain.mentions)
            yield KnownQuestion(question, Answer.YES, why=ALL_SAME, right_boxes=chain.boxes)
        foreign = [
            mention
            for other in chains
            if other is not chain and other.types & chain.types
            for mention in other.mentions
            if _caption(mention) not in chain.captions
        ]
        if foreign:
            stranger = rng.choice(foreign)
            why = explain_stranger(texts, stranger)
            yield KnownQuestion(Question(photo, Task.VERIFY, (*chain.mentions, stranger)), Answer.NO, why=why)


def _box_questions(photo: str, chain: _GoldChain, size: tuple[int, int], rng: random.Random) -> Iterator[KnownQuestion]:
    shown = (chain.shown,)
    if not chain.boxes:
        answer, why = (Answer.SCENE, SCENE) if chain.scene else (Answer.NO_BOX, NO_BOX)
        yield KnownQuestion(Question(photo, Task.REQUIREMENT, shown), answer, why=why)
        return
    count, right = count_boxes(len(chain.boxes)), chain.boxes
    why = f"Annotators drew {count} around it."
    yield KnownQuestion(Question(photo, Task.REQUIREMENT, shown), Answer.BOX, why=why, right_boxes=right)
    drawn = tuple(DrawnBox(f"k{number}", box, "") for number, box in enumerate(chain.boxes))
    why = f"Annotators drew {count}."
    yield KnownQuestion(Question(photo, Task.DRAWING, shown), Answer.DRAWN, chain.boxes, why, right)
    question = Question(photo, Task.QUALITY, shown, drawn[1:], drawn[0])
    yield KnownQuestion(question, Answer.GOOD, right[:1], GOOD_BOX, right)
    makers = [(clearly_bad_box, BAD_BOX), (loose_box, LOOSE_BOX)]
    rng.shuffle(makers)  # one of them is asked
    for make, why in makers:
        if (bad := make(chain.boxes, size, rng)) is not None:
            question = Question(photo, Task.QUALITY, shown, (), DrawnBox("k-bad", bad, ""))
            yield KnownQuestion(question, Answer.BAD, right, why, right)
            break
    why = f"Annotators drew {count}, and all are there."
    yield KnownQuestion(Question(photo, Task.COVERAGE, shown, drawn), Answer.ALL, why=why, right_boxes=right)
    if len(drawn) > 1:
        why = f"Annotators drew {count}; the marked one is missing."
        question = Question(photo, Task.COVERAGE, shown, drawn[:-1])
        yield KnownQuestion(question, Answer.MORE, why=why, right_boxes=right[-1:])


def clearly_bad_box(boxes: tuple[XYXY, ...], size: tuple[int, int], rng: random.Random) -> XYXY | None:
    """Move and shrink one of the boxes until it is clearly bad; None if that does not succeed."""
    x1, y1, x2, y2 = rng.choice(boxes)
    for _ in range(20):
        scale = rng.uniform(0.3, 0.6)
        width, height = (x2 - x1) * scale, (y2 - y1) * scale
        left, top = rng.uniform(0, size[0] - width), rng.uniform(0, size[1] - height)
        made = geometry.clip([left, top, left + width, top + height], *size)
        if width >= 1 and height >= 1 and float(np.max(geometry.iou([made], boxes))) < CLEARLY_BAD_IOU:
            return tuple(made.tolist())
    return None


def loose_box(boxes: tuple[XYXY, ...], size: tuple[int, int], rng: random.Random) -> XYXY | None:
    """Enlarge one of the boxes, or cut a part of it off, until it is not tight; None if that does not succeed."""
    x1, y1, x2, y2 = rng.choice(boxes)
    for _ in range(20):
        grown = rng.random() < _GROWN_SHARE
        factor = rng.uniform(*_LOOSE_IOU) ** (-0.5 if grown else 0.5)
        width, height = (x2 - x1) * factor, (y2 - y1) * factor
        left = rng.uniform(min(x1, x2 - width), max(x1, x2 - width))
        top = rng.uniform(min(y1, y2 - height), max(y1, y2 - height))
        made = geometry.clip([left, top, left + width, top + height], *size)
        low, high = _LOOSE_IOU
        if min(made[2] - made[0], made[3] - made[1]) >= 1 and low <= float(np.max(geometry.iou([made], boxes))) <= high:
            return tuple(made.tolist())
    return None


def _caption(mention: str) -> str:
    return mention.partition(":")[0]
