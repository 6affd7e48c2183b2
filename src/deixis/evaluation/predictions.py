"""Anybody's boxes for phrases: the file format, its checks, and how predictions meet the items.

A file of predictions is JSON Lines in UTF-8, one line per mention::

    {"photo": "1000092795", "caption": 0, "span": [0, 15],
     "boxes": [[10, 20, 110, 220], [0, 0, 50, 50]], "scores": [0.9, 0.1]}

`boxes` are ``x1, y1, x2, y2`` in pixels of the photo as opened (after EXIF rotation), 0-based, end exclusive;
of two boxes the one with the higher score is the better one, and of equal scores the one that stands first.
A line may also say what a model found for a phrase in a photo that does not mention it; such lines only enter
average precision::

    {"photo": "1007129816", "phrase": "a man", "boxes": [[0, 0, 30, 40]], "scores": [0.2]}

Blank lines and further keys are ignored. Everything else that is wrong is an error that names the file and
the line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeGuard

import numpy as np
import numpy.typing as npt

from deixis.errors import DeixisError
from deixis.evaluation.localization_items import Item, distinct_phrase
from deixis.files.atomic import explained, new_file
from deixis.geometry import Boxes

Scores = npt.NDArray[np.float64]
Key = tuple[str, int, tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Prediction:
    """The boxes that a model gives for one mention, in any order.

    Attributes
    ----------
    photo, caption, span
        As in `Item`.
    boxes, scores
        (n, 4) and (n,), n ≥ 0, higher scores are better. Lists are taken too. They must be finite, and no box
        may end before it begins; a box without any pixel, or beyond the photo's border, is merely never
        right.
    place
        Where it was read, for error messages.

    Examples
    --------
    >>> Prediction("7", 0, (0, 5), boxes=[[0, 0, 40, 30]], scores=[0.8]).boxes.shape
    (1, 4)
    >>> Prediction("7", 0, (0, 5), boxes=[[50, 0, 20, 30]], scores=[0.8], place="p.jsonl: line 3")
    Traceback (most recent call last):
        ...
    deixis.errors.DeixisError: p.jsonl: line 3: box 1 ends before it begins (x1 50, x2 20)
    """

    photo: str
    caption: int
    span: tuple[int, int]
    boxes: Boxes
    scores: Scores
    place: str = ""

    def __post_init__(self) -> None:
        """Refuse bad numbers here, so that no later step has to."""
        _keep_checked(self)

    @property
    def key(self) -> Key:
        """What tells mentions apart."""
        return self.photo, self.caption, self.span

    def __str__(self) -> str:
        """The place, or else the mention, for error messages."""
        return self.place or _describe(self.key)


@dataclass(frozen=True, eq=False)
class PhraseElsewhere:
    """The boxes that a model gives for a phrase in a photo that does not mention it: all of them are wrong.

    Examples
    --------
    >>> PhraseElsewhere("8", "a dog", boxes=[[0, 0, 40, 30]], scores=[0.3]).phrase
    'a dog'
    """

    photo: str
    phrase: str
    boxes: Boxes
    scores: Scores
    place: str = ""

    def __post_init__(self) -> None:
        """Refuse bad numbers here, so that no later step has to."""
        _keep_checked(self)

    def __str__(self) -> str:
        """The place, or else the phrase, for error messages."""
        return self.place or f"photo {self.photo}, phrase {self.phrase!r}"


def read_predictions(path: str | os.PathLike[str]) -> list[Prediction | PhraseElsewhere]:
    """Read a JSON Lines file of predictions (its form is in the module's description).

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
    found: list[Prediction | PhraseElsewhere] = []
    with explained(file), file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                found.append(_parse(line, f"{path}: line {number}"))
    return found


def write_predictions(path: str | os.PathLike[str], predictions: Iterable[Prediction | PhraseElsewhere]) -> None:
    """Write predictions so that `read_predictions`, here or elsewhere, gives them back.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "mine.jsonl"
    ...     write_predictions(file, [Prediction("7", 0, (0, 5), [[0, 0, 40, 30]], [0.8])])
    ...     print(file.read_text(), end="")
    {"photo": "7", "caption": 0, "span": [0, 5], "boxes": [[0.0, 0.0, 40.0, 30.0]], "scores": [0.8]}
    """
    with new_file(path) as unfinished, unfinished.open("w", encoding="utf-8") as lines:
        for prediction in predictions:
            record: dict[str, Any] = {"photo": prediction.photo}
            if isinstance(prediction, Prediction):
                record |= {"caption": prediction.caption, "span": list(prediction.span)}
            else:
                record |= {"phrase": prediction.phrase}
            record |= {"boxes": prediction.boxes.tolist(), "scores": prediction.scores.tolist()}
            lines.write(json.dumps(record) + "\n")


@dataclass(frozen=True)
class Matched:
    """Predictions in the order of the items, None where an item has none, and how many fitted no item."""

    by_item: tuple[Prediction | None, ...]
    elsewhere: tuple[PhraseElsewhere, ...]
    ignored: int

    @property
    def missing(self) -> int:
        """The number of items without a prediction."""
        return sum(prediction is None for prediction in self.by_item)


def match_predictions(
    predictions: Iterable[Prediction | PhraseElsewhere],
    items: Sequence[Item],
    *,
    missing: Literal["error", "miss"] = "error",
    extra: Literal["error", "ignore"] = "error",
) -> Matched:
    """Bring predictions and items together.

    Parameters
    ----------
    predictions, items
        In any order; no two predictions may be for the same mention.
    missing
        An item without a prediction is an error, or counts as wrong (`miss`).
    extra
        A prediction for an unknown photo, or for a span that is no mention with boxes, is an error, or is
        left out and counted (`ignore`): for systems that localise every noun phrase they see.

    Examples
    --------
    >>> item = Item("7", 0, (0, 5), "A dog", ("animals",), ((0, 0, 40, 30),))
    >>> match_predictions([], [item], missing="miss").missing
    1
    """
    if not items:
        raise DeixisError("there is no phrase to localise: no mention has a chain with a box")
    wanted = {(item.photo, item.caption, item.span) for item in items}
    if len(wanted) < len(items):
        raise DeixisError("two items to localise are the same mention")
    at: dict[Key, Prediction] = {}
    elsewhere: dict[tuple[str, str], PhraseElsewhere] = {}
    mentioned = {(item.photo, distinct_phrase(item.phrase)) for item in items}
    known = {photo for photo, _ in mentioned}, {phrase for _, phrase in mentioned}
    ignored = 0
    for prediction in predictions:
        problem = _misfit(prediction, wanted, *known)
        if problem and extra == "error":
            raise DeixisError(f"{prediction}: {problem}")
        if problem:
            ignored += 1
        elif isinstance(prediction, Prediction):
            _keep_once(at, prediction.key, prediction)
        else:
            key = (prediction.photo, distinct_phrase(prediction.phrase))
            if key in mentioned:
                raise DeixisError(f"{prediction}: the photo mentions {key[1]!r}; give its boxes by caption and span")
            _keep_once(elsewhere, key, prediction)
    by_item = tuple(at.get((item.photo, item.caption, item.span)) for item in items)
    if missing == "error":
        _refuse_missing(by_item, items)
    return Matched(by_item, tuple(elsewhere.values()), ignored)


def _misfit(
    prediction: Prediction | PhraseElsewhere, wanted: set[Key], photos: set[str], phrases: set[str]
) -> str | None:
    """Why a prediction belongs to no item, if so."""
    if prediction.photo not in photos:
        return f"photo {prediction.photo!r} is not among those with phrases to localise"
    if isinstance(prediction, PhraseElsewhere):
        known = distinct_phrase(prediction.phrase) in phrases
        return None if known else f"no phrase to localise is {prediction.phrase!r}"
    if prediction.key in wanted:
        return None
    return f"{_describe(prediction.key)} is no mention whose chain has a box"


def _keep_once(kept: dict[Any, Any], key: Any, prediction: Prediction | PhraseElsewhere) -> None:
    if key in kept:
        raise DeixisError(f"{prediction}: a second prediction for what {kept[key]} predicts already")
    kept[key] = prediction


def _refuse_missing(by_item: Sequence[Prediction | None], items: Sequence[Item]) -> None:
    lacking = [item for item, prediction in zip(items, by_item, strict=True) if prediction is None]
    if lacking:
        first = lacking[0]
        raise DeixisError(
            f"{len(lacking)} of {len(items)} phrases have no prediction; the first is "
            f"{_describe((first.photo, first.caption, first.span))} ({first.phrase!r}); "
            "missing='miss' would count them as wrong"
        )


def _describe(key: Key) -> str:
    photo, caption, (start, end) = key
    return f"photo {photo}, caption {caption}, span [{start}, {end}]"


def _parse(line: bytes, place: str) -> Prediction | PhraseElsewhere:
    try:
        record = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DeixisError(f"{place}: not UTF-8 text") from error
    except json.JSONDecodeError as error:
        raise DeixisError(f"{place}: not a line of JSON ({error.msg})") from error
    except (RecursionError, ValueError) as error:
        raise DeixisError(f"{place}: nested too deeply, or a number with too many digits") from error
    if not isinstance(record, dict):
        raise DeixisError(f"{place}: must be an object with photo, caption, span, boxes and scores")
    absent = [key for key in ("photo", "boxes", "scores") if key not in record]
    if absent:
        raise DeixisError(f"{place}: has no {absent[0]!r}")
    photo, boxes, scores = record["photo"], record["boxes"], record["scores"]
    if not isinstance(photo, str):
        raise DeixisError(f"{place}: photo must be text, not {json.dumps(photo)}")
    phrase, caption, span = record.get("phrase"), record.get("caption"), record.get("span")
    if caption is None and span is None and isinstance(phrase, str):
        return PhraseElsewhere(photo, phrase, boxes, scores, place)
    if not _is_whole(caption):
        raise DeixisError(f"{place}: caption must be a whole number from 0, not {json.dumps(caption)}")
    if not (isinstance(span, list) and len(span) == 2 and all(map(_is_whole, span))):
        raise DeixisError(f"{place}: span must be two whole numbers, not {json.dumps(span)}")
    return Prediction(photo, caption, (span[0], span[1]), boxes, scores, place)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _keep_checked(prediction: Prediction | PhraseElsewhere) -> None:
    """Put checked arrays in the place of whatever boxes and scores were given."""
    boxes = _numbers(prediction.boxes, prediction, "boxes must be lists of x1, y1, x2, y2")
    if boxes.size == 0:
        boxes = boxes.reshape(0, 4)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise DeixisError(f"{prediction}: boxes must be lists of x1, y1, x2, y2")
    scores = _numbers(prediction.scores, prediction, "scores must be a list of numbers")
    if scores.shape != (len(boxes),):
        raise DeixisError(f"{prediction}: {len(boxes)} boxes but {scores.size} scores")
    _refuse_bad(boxes, scores, prediction)
    object.__setattr__(prediction, "boxes", boxes)
    object.__setattr__(prediction, "scores", scores)


def _numbers(values: npt.ArrayLike, prediction: object, complaint: str) -> npt.NDArray[np.float64]:
    try:
        array = np.asarray(values)
    except ValueError as error:  # lists of unequal lengths
        raise DeixisError(f"{prediction}: {complaint}") from error
    if array.dtype.kind not in "iuf":
        raise DeixisError(f"{prediction}: {complaint}")
    return array.astype(np.float64)


def _refuse_bad(boxes: Boxes, scores: Scores, prediction: object) -> None:
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
