"""Captions, question sentences, labels and boxes of COCO train2017 as examples for ``scripts/encoder_examples.py``.

The folder holds `captions`, `questions`, `labels` and `boxes` as ``.jsonl.xz`` (one photo a line, by COCO's id) and
`dev.txt`. Boxes are fractions of the photo. A photo whose boxes are not complete has no boxes here: a proposal head
would learn that its other things are background.
"""

from __future__ import annotations

import json
import lzma
from collections import defaultdict
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
    """Return photos with captions, photos with question sentences or boxes only, and the dev photos."""
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
    dev = {int(Path(name).stem) for name in (folder / "dev.txt").read_text().split()}
    kept = [each for _, each in sorted(photos.items()) if each.texts]
    train = [each for each in kept if each.id not in dev]
    return (
        [each for each in train if each.captions],
        [each for each in train if not each.captions],
        [each for each in kept if each.id in dev],
    )


def rows(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    with lzma.open(folder / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
