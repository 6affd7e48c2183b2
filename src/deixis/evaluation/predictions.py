"""Predicted boxes of phrases from any system: the file format, its checks, and the matching with items.

A prediction file is JSON Lines in UTF-8, one line per mention::

    {"photo": "1000092795", "caption": 0, "span": [0, 15],
     "boxes": [[10, 20, 110, 220], [0, 0, 50, 50]], "scores": [0.9, 0.1]}

`boxes` are ``x1, y1, x2, y2`` in pixels of the photo as opened (after EXIF rotation), 0-based, end exclusive. The box
with the higher score is better; of equal scores, the first one. A line may also have the boxes of a phrase in a photo
that does not mention it; such lines count only in average precision::

    {"photo": "1007129816", "phrase": "a man", "boxes": [[0, 0, 30, 40]], "scores": [0.2]}

A system that finds one box for each thing that a phrase names, such as two boxes for "two dogs", adds them as
``"set": [[10, 20, 60, 220], [70, 20, 110, 220]]``; without the key, the set is the best box.

Blank lines and other keys are ignored. Errors name the file and the line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from deixis.arrays import FloatArray
from deixis.data.documents import Value, parse_line, read_text
from deixis.errors import DeixisError
from deixis.evaluation.items import Item
from deixis.geometry import Boxes
from deixis.storage.atomic import new_file
from deixis.tokens import distinct_phrase

Key = tuple[str, int, tuple[int, int]]
Missing = Literal["error", "miss"]
Extra = Literal["error", "ignore"]


@dataclass(frozen=True, eq=False)
class Prediction:
    """The predicted boxes of one mention, in any order.

    Attributes
    ----------
    photo, caption, span
        As in `Item`.
    boxes, scores
        (n, 4) and (n,) arrays or lists, n ≥ 0; higher scores are better. They must be finite, and no box may end before
        it begins. An empty box, or a box outside the photo, is never correct.
    source
        File and line, for error messages.
    selected
        (n, 4), one box for each thing that the mention names, for `box_set_scores`; None for the best box.

    Examples
    --------
    >>> Prediction("7", 0, (0, 5), boxes=[[0, 0, 40, 30]], scores=[0.8]).boxes.shape
    (1, 4)
    >>> Prediction("7", 0, (0, 5), boxes=[[50, 0, 20, 30]], scores=[0.8], source="p.jsonl: line 3")
    Traceback (most recent call last):
        ...
    deixis.errors.DeixisError: p.jsonl: line 3: box 1 ends before it begins (x1 50, x2 20)
    """

    photo: str
    caption: int
    span: tuple[int, int]
    boxes: Boxes
    scores: FloatArray
    source: str = ""
    selected: Boxes | None = None

    def __post_init__(self) -> None:
        _store_checked(self)
        if self.selected is not None:
            selected = _box_array(self.selected, self, "set")
            _check_values(selected, np.zeros(len(selected)), self)
            object.__setattr__(self, "selected", selected)

    @property
    def key(self) -> Key:
        """The photo, caption and span that identify the mention."""
        return self.photo, self.caption, self.span

    def __str__(self) -> str:
        return self.source or _describe(self.key)


@dataclass(frozen=True, eq=False)
class NegativePrediction:
    """The predicted boxes of a phrase in a photo that does not mention it: all of them are wrong."""

    photo: str
    phrase: str
    boxes: Boxes
    scores: FloatArray
    source: str = ""

    def __post_init__(self) -> None:
        _store_checked(self)

    def __str__(self) -> str:
        return self.source or f"photo {self.photo}, phrase {self.phrase!r}"


def read_predictions(path: str | os.PathLike[str]) -> list[Prediction | NegativePrediction]:
    """Read a JSON Lines file of predictions; the format is described in the module.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "mine.jsonl"
    ...     write_predictions(file, [Prediction("7", 0, (0, 5), [[0, 0, 40, 30]], [0.8])])
    ...     read_predictions(file)[0].key
    ('7', 0, (0, 5))
    """
    file = Path(path)
    lines = enumerate(read_text(file).split("\n"), start=1)
    return [_parse(parse_line(line, number, file), f"{path}: line {number}") for number, line in lines if line.strip()]


def write_predictions(path: str | os.PathLike[str], predictions: Iterable[Prediction | NegativePrediction]) -> None:
    """Write predictions in the format of `read_predictions`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "mine.jsonl"
    ...     write_predictions(file, [Prediction("7", 0, (0, 5), [[0, 0, 40, 30]], [0.8])])
    ...     print(file.read_text(), end="")
    {"photo": "7", "caption": 0, "span": [0, 5], "boxes": [[0.0, 0.0, 40.0, 30.0]], "scores": [0.8]}
    """
    with new_file(path) as temporary, temporary.open("w", encoding="utf-8") as lines:
        for prediction in predictions:
            record: dict[str, Any] = {"photo": prediction.photo}
            if isinstance(prediction, Prediction):
                record |= {"caption": prediction.caption, "span": list(prediction.span)}
            else:
                record |= {"phrase": prediction.phrase}
            record |= {"boxes": prediction.boxes.tolist(), "scores": prediction.scores.tolist()}
            if isinstance(prediction, Prediction) and prediction.selected is not None:
                record["set"] = prediction.selected.tolist()
            lines.write(json.dumps(record) + "\n")


@dataclass(frozen=True)
class Matched:
    """Predictions in the order of the items (None for an item without one), and the number of ignored ones."""

    by_item: tuple[Prediction | None, ...]
    negatives: tuple[NegativePrediction, ...]
    ignored: int

    @property
    def missing(self) -> int:
        """The number of items without a prediction."""
        return sum(prediction is None for prediction in self.by_item)


def match_predictions(
    predictions: Iterable[Prediction | NegativePrediction],
    items: Sequence[Item],
    *,
    missing: Missing = "error",
    extra: Extra = "error",
) -> Matched:
    """Match predictions with items, at most one with each.

    With `missing="miss"`, an item without a prediction counts as wrong. With `extra="ignore"`, predictions for other
    spans or photos are left out and counted, for systems that localize every noun phrase.
    """
    if not items:
        raise DeixisError("no phrases to localize: no mention has a chain with a box")
    keys = {(item.photo, item.caption, item.span) for item in items}
    if len(keys) < len(items):
        raise DeixisError("items: two items are the same mention")
    by_key: dict[Key, Prediction] = {}
    negatives: dict[tuple[str, str], NegativePrediction] = {}
    mentioned = {(item.photo, distinct_phrase(item.phrase)) for item in items}
    known = {photo for photo, _ in mentioned}, {phrase for _, phrase in mentioned}
    ignored = 0
    for prediction in predictions:
        problem = _find_problem(prediction, keys, *known)
        if problem and extra == "error":
            raise DeixisError(f"{prediction}: {problem}")
        if problem:
            ignored += 1
        elif isinstance(prediction, Prediction):
            _keep_once(by_key, prediction.key, prediction)
        else:
            key = (prediction.photo, distinct_phrase(prediction.phrase))
            if key in mentioned:
                raise DeixisError(f"{prediction}: the photo mentions {key[1]!r}; predict its boxes by caption and span")
            _keep_once(negatives, key, prediction)
    by_item = tuple(by_key.get((item.photo, item.caption, item.span)) for item in items)
    if missing == "error":
        _check_complete(by_item, items)
    return Matched(by_item, tuple(negatives.values()), ignored)


def _find_problem(
    prediction: Prediction | NegativePrediction, keys: set[Key], photos: set[str], phrases: set[str]
) -> str | None:
    """Why a prediction matches no item, or None."""
    if prediction.photo not in photos:
        return f"photo {prediction.photo!r} has no phrases to localize"
    if isinstance(prediction, NegativePrediction):
        known = distinct_phrase(prediction.phrase) in phrases
        return None if known else f"phrase {prediction.phrase!r} is not one of the items"
    if prediction.key in keys:
        return None
    return f"{_describe(prediction.key)} is not a mention whose chain has a box"


def _keep_once(kept: dict[Any, Any], key: Any, prediction: Prediction | NegativePrediction) -> None:
    if key in kept:
        raise DeixisError(f"{prediction}: a second prediction; the first is {kept[key]}")
    kept[key] = prediction


def _check_complete(by_item: Sequence[Prediction | None], items: Sequence[Item]) -> None:
    missing = [item for item, prediction in zip(items, by_item, strict=True) if prediction is None]
    if missing:
        first = missing[0]
        raise DeixisError(
            f"{len(missing)} of {len(items)} phrases have no prediction; the first is "
            f"{_describe((first.photo, first.caption, first.span))} ({first.phrase!r}); "
            "pass missing='miss' to count them as wrong"
        )


def _describe(key: Key) -> str:
    photo, caption, (start, end) = key
    return f"photo {photo}, caption {caption}, span [{start}, {end}]"


def _parse(record: Value, source: str) -> Prediction | NegativePrediction:
    photo, boxes, scores = record["photo"].text(), record["boxes"].value, record["scores"].value
    phrase, chosen = record.get("phrase"), record.get("set")
    if phrase and not (record.get("caption") or record.get("span")):
        return NegativePrediction(photo, phrase.text(), cast(Any, boxes), cast(Any, scores), source)
    caption, span = record["caption"].integer(), [end.integer() for end in record["span"].items()]
    if len(span) != 2:
        raise record["span"].error("expected [start, end]")
    selected = cast(Any, chosen.value) if chosen else None
    return Prediction(photo, caption, (span[0], span[1]), cast(Any, boxes), cast(Any, scores), source, selected)


def _store_checked(prediction: Prediction | NegativePrediction) -> None:
    """Replace boxes and scores by checked arrays."""
    boxes = _box_array(prediction.boxes, prediction, "boxes")
    scores = _numbers(prediction.scores, prediction, "scores must be a list of numbers")
    if scores.shape != (len(boxes),):
        raise DeixisError(f"{prediction}: {len(boxes)} boxes but {scores.size} scores")
    _check_values(boxes, scores, prediction)
    object.__setattr__(prediction, "boxes", boxes)
    object.__setattr__(prediction, "scores", scores)


def _box_array(values: npt.ArrayLike, prediction: object, name: str) -> Boxes:
    problem = f"{name} must be lists of x1, y1, x2, y2"
    boxes = _numbers(values, prediction, problem)
    if boxes.size == 0:
        boxes = boxes.reshape(0, 4)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise DeixisError(f"{prediction}: {problem}")
    return boxes


def _numbers(values: npt.ArrayLike, prediction: object, problem: str) -> FloatArray:
    try:
        array = np.asarray(values)
    except ValueError as error:  # lists of unequal lengths
        raise DeixisError(f"{prediction}: {problem}") from error
    if array.dtype.kind not in "iuf":
        raise DeixisError(f"{prediction}: {problem}")
    return array.astype(np.float64)


def _check_values(boxes: Boxes, scores: FloatArray, prediction: object) -> None:
    finite = np.isfinite(boxes).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise DeixisError(f"{prediction}: box {row + 1} is not finite ({boxes[row].tolist()})")
    finite = np.isfinite(scores)
    if not finite.all():
        row = int(np.argmin(finite))
        raise DeixisError(f"{prediction}: score {row + 1} is not finite ({scores[row]})")
    inverted = boxes[:, 2:] < boxes[:, :2]
    if inverted.any():
        row, axis = (int(index) for index in np.argwhere(inverted)[0])
        name, low, high = "xy"[axis], boxes[row, axis], boxes[row, axis + 2]
        raise DeixisError(f"{prediction}: box {row + 1} ends before it begins ({name}1 {low:g}, {name}2 {high:g})")
