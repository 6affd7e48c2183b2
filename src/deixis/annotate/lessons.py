"""Lessons: what a worker is told after each question of a test, so that the test teaches.

The explanations are made with the known questions, where the annotations are at hand, and stored with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deixis import geometry
from deixis.annotate.workflow import XYXY, Answer, Task

REVIEWED = "A reviewer of this project decided so."
ALL_SAME = "Annotators found that all of them name the same."
SCENE = "Annotators called it the scene or place as a whole. “No box” counts as right, too."
NO_BOX = "Annotators drew no box around it. “Scene or place” counts as right, too."
GOOD_BOX = "It fits the box that annotators drew."
BAD_BOX = "It does not fit what annotators drew, which is marked."
RIGHT_REGION = "It is where annotators drew their boxes, which are marked."
WRONG_REGION = "Annotators drew their boxes elsewhere; they are marked."

_MAX_OTHERS = 3


@dataclass(frozen=True, slots=True)
class Lesson:
    """Whether an answer was right, the known answer, why it is right, and boxes that show it."""

    correct: bool
    answer: Answer
    why: str
    boxes: tuple[XYXY, ...] = ()


def make_lesson(known: Any, correct: bool, box: XYXY | None, min_iou: float) -> Lesson:
    """Make the lesson after an answer to a known question, a row of its table; `box` was drawn by the worker."""
    stored = known.lesson or {"why": REVIEWED if known.reviewed else "", "boxes": known.boxes}
    boxes = tuple(tuple(each) for each in stored["boxes"])
    why = stored["why"]
    if Task(known.task) in (Task.DRAWING, Task.QUALITY) and box is not None and boxes:
        overlap = float(np.max(geometry.iou([box], boxes)))
        why = f"{why} Yours overlaps {overlap:.0%} with the closest one; {min_iou:.0%} is needed.".strip()
    return Lesson(correct, Answer(known.answer), why, boxes)


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
