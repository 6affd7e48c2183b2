"""Captions, question sentences, labels and boxes of COCO train2017 as examples for ``scripts/encoder_examples.py``.

The folder holds `captions`, `questions`, `labels` and `boxes` as ``.jsonl.xz`` (one photo a line, by COCO's id) and
`dev.txt`. Boxes are fractions of the photo. A photo whose boxes are not complete has no boxes here: a proposal head
would learn that its other things are background. One with boxes and no text gets the names of its things as its text;
every fifth of them is held out, to measure how well class names are located (``benchmarks/class_names.py``).
"""

from __future__ import annotations

import json
import lzma
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

IRREGULAR = {"person": "people", "sheep": "sheep", "skis": "skis", "scissors": "scissors", "knife": "knives"}
LARGEST_GROUP = 5


@dataclass
class CocoPhoto:
    """Texts, labels and boxes of one photo."""

    id: int
    captions: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    boxes: list[tuple[str, tuple[float, float, float, float]]] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        return self.captions or self.questions

    def phrases(self) -> list[tuple[str, tuple[float, float, float, float]]]:
        """Return each class with the union of its boxes: a name for one box, its plural for a few."""
        by_class = defaultdict(list)
        for name, box in self.boxes:
            by_class[name].append(box)
        return [
            (name if len(boxes) == 1 else plural(name), union(boxes))
            for name, boxes in by_class.items()
            if len(boxes) <= LARGEST_GROUP
        ]


def union(boxes: list[tuple[float, float, float, float]]) -> tuple[float, float, float, float]:
    left, top, right, bottom = zip(*boxes, strict=True)
    return min(left), min(top), max(right), max(bottom)


def plural(name: str) -> str:
    first, _, last = name.rpartition(" ")
    if last in IRREGULAR:
        last = IRREGULAR[last]
    else:
        last += "es" if last.endswith(("s", "ch", "sh", "x")) else "s"
    return f"{first} {last}".strip()


def things_of(photo: CocoPhoto) -> str:
    """Return the classes of a photo as a caption: "a dog, people and a car"."""
    counts = Counter(name for name, _ in photo.boxes)
    *first, last = [f"a {name}" if count == 1 else plural(name) for name, count in counts.most_common(4)]
    return f"{', '.join(first)} and {last}" if first else last


def sentence_of(question: str, answer: str) -> str | None:
    """Return the caption that a question was made from, as far as its words tell."""
    words = question.split()
    start = question.startswith
    if start("what is the color of the "):
        return f"a {answer} {' '.join(words[6:])}"
    if start("how many "):
        return f"{answer} {' '.join(words[2:])}"
    if start(("where is ", "where are ")):
        return f"{' '.join(words[2:])} in the {answer}"
    if start(("what is the ", "what are the ")) and words[-1].endswith(("ing", "with", "on", "in")):
        return f"{' '.join(words[2:])} {answer}"  # "what is the woman holding"
    if start(("what does ", "what do ", "what did ", "where ")):
        return None
    if words[0] in ("what", "who"):
        return " ".join([answer, *words[1:]])
    return " ".join(answer if word == "what" else word for word in words) if "what" in words else None


def read_coco(folder: Path) -> tuple[list[CocoPhoto], list[CocoPhoto], list[CocoPhoto]]:
    """Return photos with captions, photos with sentences from questions or from class names, and the dev photos."""
    photos = read_photos(folder)
    dev, located = dev_ids(folder), {each.id for each in read_located(folder)}
    for each in photos:
        if each.boxes and not each.texts:
            each.questions = [things_of(each)]
    kept = [each for each in photos if each.texts]
    train = [each for each in kept if each.id not in dev | located]
    return (
        [each for each in train if each.captions],
        [each for each in train if not each.captions],
        [each for each in kept if each.id in dev],
    )


def read_located(folder: Path) -> list[CocoPhoto]:
    """Return the photos with complete boxes that teach nothing: those of dev, and some of those without text."""
    complete = [each for each in read_photos(folder) if each.boxes]
    dev = dev_ids(folder)
    without = [each for each in complete if not each.texts and each.id not in dev]
    return sorted([*(each for each in complete if each.id in dev), *without[::5]], key=lambda each: each.id)


def read_photos(folder: Path) -> list[CocoPhoto]:
    """Return all photos that have a text or complete boxes, by id, with their labels."""
    photos: dict[int, CocoPhoto] = {}

    def photo(row: dict[str, Any]) -> CocoPhoto:
        return photos.setdefault(row["id"], CocoPhoto(row["id"]))

    for row in rows(folder, "captions"):
        photo(row).captions = row["captions"]
    for row in rows(folder, "questions"):
        made = (sentence_of(*pair) for pair in row["questions"])
        photo(row).questions = list(dict.fromkeys(text for text in made if text))
    for row in rows(folder, "boxes"):
        if row["complete"]:
            photo(row).boxes = [(name, tuple(box)) for name, *box in row["boxes"]]
    for row in rows(folder, "labels"):
        if row["id"] in photos:
            photo(row).labels = row["labels"]
    return [each for _, each in sorted(photos.items())]


def dev_ids(folder: Path) -> set[int]:
    return {int(Path(name).stem) for name in (folder / "dev.txt").read_text().split()}


MISLEADING = ("hot dog", "teddy bear")
"""Labels with a word that names something else."""

_TINY = 0.01
"""Smallest area of a box that is counted, as a share of the photo."""


def coco_facts(folder: Path) -> dict[str, list[str]]:
    """Return what labels and boxes say of each photo, such as "a dog" and "two cats", by the stem of its file."""
    facts: dict[str, list[str]] = defaultdict(list)
    for row in rows(folder, "labels"):
        things = [label for label in row["labels"] if label not in MISLEADING]
        facts[f"{row['id']:012}"] += [text for thing in things for text in (f"a {thing}", plural(thing))]
    for row in rows(folder, "boxes"):
        large = [name for name, x1, y1, x2, y2 in row["boxes"] if (x2 - x1) * (y2 - y1) > _TINY]
        for number, word in ((2, "two"), (3, "three")):
            counted = [name for name, count in Counter(large).items() if count == number and row["complete"]]
            facts[f"{row['id']:012}"] += [f"{word} {plural(name)}" for name in counted]
    return facts


def rows(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    with lzma.open(folder / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
