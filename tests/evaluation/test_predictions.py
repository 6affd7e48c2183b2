"""Anybody's predictions: the file, its mistakes, and how they meet the items."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.evaluation.localization_items import Item
from deixis.evaluation.predictions import (
    PhraseElsewhere,
    Prediction,
    match_predictions,
    read_predictions,
    write_predictions,
)

GOOD = {"photo": "7", "caption": 0, "span": [0, 5], "boxes": [[0, 0, 10, 10]], "scores": [0.5]}


def item(photo: str = "7", phrase: str = "A dog") -> Item:
    return Item(photo, 0, (0, 5), phrase, (), ((0, 0, 10, 10),))


def lines(path: Path, *records: object) -> Path:
    file = path / "mine.jsonl"
    file.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in records))
    return file


def test_a_line_is_read_as_it_stands(tmp_path: Path) -> None:
    file = lines(tmp_path, GOOD | {"model": "further keys are ignored"}, "", GOOD | {"caption": 1})
    first, second = read_predictions(file)
    assert isinstance(first, Prediction)
    assert first.key == ("7", 0, (0, 5))
    assert first.boxes.tolist() == [[0, 0, 10, 10]]
    assert (first.place, second.place) == (f"{file}: line 1", f"{file}: line 3")


def test_no_boxes_at_all_may_be_predicted(tmp_path: Path) -> None:
    (found,) = read_predictions(lines(tmp_path, GOOD | {"boxes": [], "scores": []}))
    assert found.boxes.shape == (0, 4)


WRONG = {
    "{": "not a line of JSON",
    "[1]": "must be an object with photo",
    json.dumps({"photo": "7"}): "has no 'boxes'",
    json.dumps(GOOD | {"photo": 7}): "photo must be text, not 7",
    json.dumps(GOOD | {"caption": "0"}): 'caption must be a whole number from 0, not "0"',
    json.dumps(GOOD | {"caption": -1}): "caption must be a whole number from 0, not -1",
    json.dumps(GOOD | {"caption": True}): "caption must be a whole number from 0, not true",
    json.dumps(GOOD | {"span": [0]}): r"span must be two whole numbers, not \[0\]",
    json.dumps(GOOD | {"span": None}): "span must be two whole numbers, not null",
    json.dumps(GOOD | {"boxes": [[0, 0, 10]]}): "boxes must be lists of x1, y1, x2, y2",
    json.dumps(GOOD | {"boxes": [[0, 0, 10, 10], [1]]}): "boxes must be lists of x1, y1, x2, y2",
    json.dumps(GOOD | {"boxes": [["0", "0", "1", "1"]]}): "boxes must be lists of x1, y1, x2, y2",
    json.dumps(GOOD | {"boxes": {}}): "boxes must be lists of x1, y1, x2, y2",
    json.dumps(GOOD | {"scores": [1, 2]}): "1 boxes but 2 scores",
    json.dumps(GOOD | {"scores": 1}): "1 boxes but 1 scores",
    json.dumps(GOOD | {"scores": ["high"]}): "scores must be a list of numbers",
    json.dumps(GOOD | {"scores": [float("nan")]}): r"score 1 is not finite \(nan\)",
    json.dumps(GOOD | {"boxes": [[0, 0, float("nan"), 1]]}): "box 1 is not finite",
    json.dumps(GOOD | {"boxes": [[0, 0, 1e999, 1]]}): "box 1 is not finite",
    json.dumps(GOOD | {"boxes": [[0, 0, 5, 5], [50, 0, 20, 9]], "scores": [1, 2]}): (
        r"box 2 ends before it begins \(x1 50, x2 20\)"
    ),
    json.dumps(GOOD | {"boxes": [[0, 9, 5, 2]]}): r"box 1 ends before it begins \(y1 9, y2 2\)",
}


@pytest.mark.parametrize("line", WRONG, ids=WRONG.values())
def test_what_is_wrong_is_named_with_its_file_and_line(tmp_path: Path, line: str) -> None:
    file = lines(tmp_path, GOOD, line)
    with pytest.raises(DeixisError, match=WRONG[line]) as caught:
        read_predictions(file)
    assert str(caught.value).startswith(f"{file}: line 2: ")
    assert "\n" not in str(caught.value)


def test_bytes_that_are_not_text_and_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_bytes(b"\xff\xfe{}")
    with pytest.raises(DeixisError, match=r"mine.jsonl: line 1: not UTF-8 text"):
        read_predictions(tmp_path / "mine.jsonl")
    with pytest.raises(DeixisError, match=r"nowhere.jsonl: No such file"):
        read_predictions(tmp_path / "nowhere.jsonl")


@pytest.mark.parametrize("line", ["[" * 200_000, "9" * 10_000], ids=["nested without end", "endless number"])
def test_a_hostile_line_is_an_error_of_one_line(tmp_path: Path, line: str) -> None:
    with pytest.raises(DeixisError, match="line 1: nested too deeply, or a number with too many digits"):
        read_predictions(lines(tmp_path, line))


finite = st.floats(-1e6, 1e6)


@settings(deadline=None)
@given(st.text(min_size=1), st.integers(0, 9), st.lists(st.tuples(finite, finite, finite, finite, finite), max_size=4))
def test_predictions_written_and_read_again_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, photo: str, caption: int, rows: list[tuple[float, ...]]
) -> None:
    boxes = [[min(a, c), min(b, d), max(a, c), max(b, d)] for a, b, c, d, _ in rows]
    scores = [row[4] for row in rows]
    file = tmp_path_factory.mktemp("round") / "mine.jsonl"
    given_ = [Prediction(photo, caption, (0, 5), boxes, scores), PhraseElsewhere(photo, "a dog", boxes, scores)]
    write_predictions(file, given_)
    mention, elsewhere = read_predictions(file)
    assert isinstance(mention, Prediction)
    assert isinstance(elsewhere, PhraseElsewhere)
    assert mention.key == given_[0].key  # type: ignore[union-attr]
    for found in (mention, elsewhere):
        assert found.boxes.tolist() == [[float(x) for x in row] for row in boxes]
        assert found.scores.tolist() == scores


def prediction(photo: str = "7", span: tuple[int, int] = (0, 5), place: str = "") -> Prediction:
    return Prediction(photo, 0, span, np.array([[0.0, 0, 1, 1]]), np.array([1.0]), place)


def test_predictions_meet_items_in_the_order_of_the_items() -> None:
    matched = match_predictions([prediction("8"), prediction("7")], [item("7"), item("8")])
    assert [found.photo for found in matched.by_item if found] == ["7", "8"]


def test_an_unknown_photo_and_a_span_that_is_no_mention_are_errors_unless_extra_is_ignored() -> None:
    strange = {
        "photo '9' is not among those with phrases to localise": prediction("9", place="f: line 4"),
        r"photo 7, caption 0, span \[1, 5\] is no mention whose chain has a box": prediction("7", (1, 5), "f: line 4"),
        "no phrase to localise is 'a whale'": PhraseElsewhere("7", "a whale", [], [], "f: line 4"),  # type: ignore[arg-type]
    }
    for complaint, extra in strange.items():
        with pytest.raises(DeixisError, match=f"^f: line 4: {complaint}"):
            match_predictions([prediction(), extra], [item()])
        assert match_predictions([prediction(), extra], [item()], extra="ignore").ignored == 1


def test_a_second_prediction_for_a_mention_names_both_places() -> None:
    twice = [prediction(place="f: line 1"), prediction(place="f: line 9")]
    with pytest.raises(DeixisError, match="^f: line 9: a second prediction for what f: line 1 predicts already"):
        match_predictions(twice, [item()])


def test_a_phrase_elsewhere_must_be_elsewhere() -> None:
    here = PhraseElsewhere("7", "the dog", [[0, 0, 1, 1]], [1], "f: line 2")  # type: ignore[arg-type]
    with pytest.raises(DeixisError, match=r"f: line 2: the photo mentions 'dog'; give its boxes by caption and span"):
        match_predictions([prediction(), here], [item()])


def test_an_error_about_a_prediction_from_memory_names_its_mention() -> None:
    with pytest.raises(DeixisError, match=r"^photo 7, caption 0, span \[0, 5\]: score 1 is not finite"):
        Prediction("7", 0, (0, 5), np.zeros((1, 4)), np.array([np.nan]))
