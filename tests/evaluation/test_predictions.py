"""Predictions: the file format, its errors, and matching with items."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.evaluation.items import Item
from deixis.evaluation.predictions import (
    NegativePrediction,
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


def test_a_line_is_read(tmp_path: Path) -> None:
    file = lines(tmp_path, GOOD | {"model": "further keys are ignored"}, "", GOOD | {"caption": 1})
    first, second = read_predictions(file)
    assert isinstance(first, Prediction)
    assert first.key == ("7", 0, (0, 5))
    assert first.boxes.tolist() == [[0, 0, 10, 10]]
    assert (first.source, second.source) == (f"{file}: line 1", f"{file}: line 3")


def test_a_prediction_may_have_no_boxes(tmp_path: Path) -> None:
    (found,) = read_predictions(lines(tmp_path, GOOD | {"boxes": [], "scores": []}))
    assert found.boxes.shape == (0, 4)


WRONG = {
    "{": "JSON",
    "[1]": "object",
    "[" * 200_000: "nested|JSON",
    "9" * 10_000: "digits",
    json.dumps({"photo": "7"}): '"boxes" is missing',
    json.dumps(GOOD | {"photo": 7}): "photo.*number",
    json.dumps(GOOD | {"caption": "0"}): "caption.*text",
    json.dumps(GOOD | {"caption": -1}): "caption.* 0 to",
    json.dumps(GOOD | {"caption": True}): "caption.*true",
    json.dumps(GOOD | {"span": [0]}): r"span.*\[start, end\]",
    json.dumps(GOOD | {"span": None}): '"span" is missing',
    json.dumps(GOOD | {"boxes": [[0, 0, 10]]}): "boxes",
    json.dumps(GOOD | {"boxes": [[0, 0, 10, 10], [1]]}): "boxes",
    json.dumps(GOOD | {"boxes": [["0", "0", "1", "1"]]}): "boxes",
    json.dumps(GOOD | {"boxes": {}}): "boxes",
    json.dumps(GOOD | {"scores": [1, 2]}): "1 boxes but 2 scores",
    json.dumps(GOOD | {"scores": 1}): "1 boxes but 1 scores",
    json.dumps(GOOD | {"scores": ["high"]}): "scores",
    json.dumps(GOOD | {"scores": [float("nan")]}): "score 1.*nan",
    json.dumps(GOOD | {"boxes": [[0, 0, float("nan"), 1]]}): "box 1",
    json.dumps(GOOD | {"boxes": [[0, 0, 1e999, 1]]}): "box 1",
    json.dumps(GOOD | {"boxes": [[0, 0, 5, 5], [50, 0, 20, 9]], "scores": [1, 2]}): ("box 2.*x1 50, x2 20"),
    json.dumps(GOOD | {"boxes": [[0, 9, 5, 2]]}): "box 1.*y1 9, y2 2",
}


@pytest.mark.parametrize("line", WRONG, ids=range(len(WRONG)))
def test_an_invalid_line_is_reported_with_file_and_line(tmp_path: Path, line: str) -> None:
    file = lines(tmp_path, GOOD, line)
    with pytest.raises(DeixisError, match=WRONG[line]) as caught:
        read_predictions(file)
    assert str(caught.value).startswith(f"{file}: line 2")
    assert "\n" not in str(caught.value)


def test_binary_and_missing_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_bytes(b"\xff\xfe{}")
    with pytest.raises(DeixisError, match="mine.jsonl: line 1"):
        read_predictions(tmp_path / "mine.jsonl")
    with pytest.raises(DeixisError, match="nowhere.jsonl"):
        read_predictions(tmp_path / "nowhere.jsonl")


finite = st.floats(-1e6, 1e6)


@given(st.text(min_size=1), st.integers(0, 9), st.lists(st.tuples(finite, finite, finite, finite, finite), max_size=4))
def test_predictions_survive_writing_and_reading(
    tmp_path_factory: pytest.TempPathFactory, photo: str, caption: int, rows: list[tuple[float, ...]]
) -> None:
    boxes = [[min(a, c), min(b, d), max(a, c), max(b, d)] for a, b, c, d, _ in rows]
    scores = [row[4] for row in rows]
    file = tmp_path_factory.mktemp("round") / "mine.jsonl"
    predictions = [Prediction(photo, caption, (0, 5), boxes, scores), NegativePrediction(photo, "a dog", boxes, scores)]
    write_predictions(file, predictions)
    mention, elsewhere = read_predictions(file)
    assert isinstance(mention, Prediction)
    assert isinstance(elsewhere, NegativePrediction)
    assert mention.key == predictions[0].key
    for found in (mention, elsewhere):
        assert found.boxes.tolist() == [[float(x) for x in row] for row in boxes]
        assert found.scores.tolist() == scores


def prediction(photo: str = "7", span: tuple[int, int] = (0, 5), source: str = "") -> Prediction:
    return Prediction(photo, 0, span, np.array([[0.0, 0, 1, 1]]), np.array([1.0]), source)


def test_predictions_are_matched_in_the_order_of_the_items() -> None:
    matched = match_predictions([prediction("8"), prediction("7")], [item("7"), item("8")])
    assert [found.photo for found in matched.by_item if found] == ["7", "8"]


def test_predictions_that_match_no_item_are_errors_or_ignored() -> None:
    unmatched = {
        "photo '9'": prediction("9", source="f: line 4"),
        r"photo 7, caption 0, span \[1, 5\]": prediction("7", (1, 5), "f: line 4"),
        ".*'a whale'": NegativePrediction("7", "a whale", [], [], "f: line 4"),
    }
    for problem, extra in unmatched.items():
        with pytest.raises(DeixisError, match=f"^f: line 4: {problem}"):
            match_predictions([prediction(), extra], [item()])
        assert match_predictions([prediction(), extra], [item()], extra="ignore").ignored == 1


def test_a_second_prediction_of_a_mention_is_an_error_that_names_both_lines() -> None:
    twice = [prediction(source="f: line 1"), prediction(source="f: line 9")]
    with pytest.raises(DeixisError, match="^f: line 9: .*f: line 1"):
        match_predictions(twice, [item()])


def test_a_negative_prediction_of_a_mentioned_phrase_is_an_error() -> None:
    here = NegativePrediction("7", "the dog", [[0, 0, 1, 1]], [1], "f: line 2")
    with pytest.raises(DeixisError, match="f: line 2: .*'dog'"):
        match_predictions([prediction(), here], [item()])


def test_an_error_about_a_prediction_from_memory_names_its_mention() -> None:
    with pytest.raises(DeixisError, match=r"^photo 7, caption 0, span \[0, 5\]: score 1 is not finite"):
        Prediction("7", 0, (0, 5), np.zeros((1, 4)), np.array([np.nan]))
