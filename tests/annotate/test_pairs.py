"""Phrase–region pairs from files to their accuracy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from simulated_crowd import HONEST, Truth, simulate_crowd

from deixis.annotate.known_answers import KnownQuestion, add_known_photos
from deixis.annotate.material import prepare_photo
from deixis.annotate.pairs import (
    PhrasePair,
    add_pairs,
    describe_pairs,
    make_known_pairs,
    read_pairs,
    sample_pairs,
    score_pairs,
)
from deixis.annotate.people import Role, accept_invitation, invite
from deixis.annotate.progress import read_progress
from deixis.annotate.project import add_photos
from deixis.annotate.review import decide, review_queue
from deixis.annotate.workflow import Answer, Task
from deixis.data.records import Photo
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject, on_both_databases
from tests.annotate.fakes import gold, next_question, people, record

HEADER = {"format": "deixis-correspondences", "version": 1, "hash": ""}


def write_lines(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def phrase(text: str, box: list[float], sentence: int = 0) -> dict[str, Any]:
    return {"sentence": sentence, "node": 1, "text": text, "region": 0, "box": box, "confidence": 0.5}


def test_a_reviewer_sees_the_region_of_a_pair_that_nobody_else_can_judge(
    new_project: MakeProject, tmp_path: Path
) -> None:
    project, _ = new_project(0)
    add_photos(project, [prepare_photo(gold())])
    pair = PhrasePair("gold", "0:10-15", (40, 20, 60, 70), 0.5)
    add_pairs(project, [gold()], [pair], write_lines(tmp_path / "c.jsonl", HEADER))
    ann, token = invite(project, "Ann", vouched=True)
    accept_invitation(project, token, "hash")
    [lead] = people(project, "Lead", role=Role.OWNER)
    question = next_question(project, ann, tasks=[Task.PAIR])
    assert question is not None
    record(project, ann, question.token, "right")
    case = next(case for case in review_queue(project) if case.region is not None)
    assert (case.phrase, case.region, case.decisions) == ("a boy", (40, 20, 60, 70), ("right", "wrong"))
    decide(project, lead, case.photo, case.mention, "right")
    assert score_pairs(project).judgements == 2


def test_correspondences_are_found_in_the_captions(tmp_path: Path) -> None:
    phrases = [phrase("a boy", [1, 2, 3, 4]), phrase("two people", [5, 6, 7, 8], sentence=1), phrase("a cat", [0] * 4)]
    file = write_lines(
        tmp_path / "c.jsonl", HEADER, {"photo": "gold", "phrases": phrases}, {"photo": "x", "phrases": []}
    )
    assert read_pairs(file, {"gold": gold()}) == [
        PhrasePair("gold", "0:10-15", (1, 2, 3, 4), 0.5),
        PhrasePair("gold", "1:0-10", (5, 6, 7, 8), 0.5),
    ]


def test_equal_phrases_of_a_caption_are_different_mentions(tmp_path: Path) -> None:
    from tests.annotate.fakes import photo

    phrases = [phrase("a man", [0, 0, 9, 9]), phrase("a man", [20, 0, 29, 9])]
    file = write_lines(tmp_path / "c.jsonl", HEADER, {"photo": "7", "phrases": phrases})
    found = read_pairs(file, {"7": photo("A man greets a man.")})
    assert [pair.mention for pair in found] == ["0:0-5", "0:13-18"]


def test_the_best_box_of_a_prediction_is_its_region(tmp_path: Path) -> None:
    line = {"photo": "gold", "caption": 0, "span": [0, 5], "boxes": [[0, 0, 9, 9], [1, 1, 8, 8]], "scores": [0.1, 0.7]}
    file = write_lines(tmp_path / "p.jsonl", line, line | {"photo": "other"})
    assert read_pairs(file, {"gold": gold()}) == [PhrasePair("gold", "0:0-5", (1, 1, 8, 8), 0.7)]


@pytest.mark.parametrize(
    "lines", [[HEADER], [HEADER, {"photo": "gold", "phrases": [{"sentence": 9}]}], [{"photo": "gold"}]]
)
def test_a_file_without_pairs_or_with_damage_is_named(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    file = write_lines(tmp_path / "c.jsonl", *lines)
    with pytest.raises(DeixisError, match=r"c\.jsonl"):
        read_pairs(file, {"gold": gold()})


def test_a_sample_is_random_but_reproducible() -> None:
    pairs = [PhrasePair(str(number), "0:0-5", (0, 0, 1, 1), 0.0) for number in range(100)]
    drawn = sample_pairs(pairs, 20, seed=1)
    assert drawn == sample_pairs(pairs, 20, seed=1) != sample_pairs(pairs, 20, seed=2)
    assert len({pair.photo for pair in drawn}) == 20
    assert sample_pairs(pairs, 1000) == pairs


def test_known_pairs_are_right_and_wrong() -> None:
    import random

    truth = Truth(gold())
    made: list[KnownQuestion] = list(make_known_pairs(gold(), prepare_photo(gold()), random.Random(0)))
    assert {known.answer for known in made} == {Answer.RIGHT, Answer.WRONG}
    assert all(truth.answer(known.question.as_json()) is known.answer for known in made)


@on_both_databases
def test_people_judge_pairs_and_the_accuracy_has_an_interval(new_project: MakeProject, tmp_path: Path) -> None:
    photos = [replace(gold(), id=f"g{number}") for number in range(12)]
    right, wrong = [10, 10, 30, 70], [70, 0, 99, 20]
    documents = [
        {
            "photo": photo.id,
            "phrases": [phrase("a man", right), phrase("a boy", wrong), phrase("a dog", [70, 50, 95, 75])],
        }
        for photo in photos
    ]
    file = write_lines(tmp_path / "1-correspondences.jsonl", HEADER, *documents)
    project, _ = new_project(0, judges_per_pair=3)
    known = [replace(gold(), id=f"k{number}") for number in range(3)]
    assert add_known_photos(project, known, make=make_known_pairs) > 0
    pairs = read_pairs(file, {photo.id: photo for photo in photos})
    assert add_pairs(project, photos, pairs, file) == 36
    assert score_pairs(project).accuracy is None
    truths = {photo.id: Truth(photo) for photo in [*photos, *known]}
    done = simulate_crowd(project, truths, {HONEST: 5}, known_photos=frozenset(photo.id for photo in known))
    scores = score_pairs(project)
    assert (scores.pairs, scores.judged, scores.judges) == (36, 36, 5)
    assert scores.judgements == sum(done.judged.values()) <= 36 * 3
    assert scores.accuracy is not None
    assert abs(scores.accuracy - 24 / 36) < 0.1
    assert scores.interval is not None
    assert scores.interval[0] <= scores.accuracy <= scores.interval[1]
    assert [task.task for task in read_progress(project).tasks] == [Task.PAIR]
    assert read_progress(project).finished == 12
    rows = list(describe_pairs(project))
    assert len(rows) == 36
    assert {row["phrase"] for row in rows} == {"A man", "a boy", "a dog"}
    assert sum(row["right"] for row in rows) == scores.right


def test_a_region_outside_of_the_photo_is_left_out(new_project: MakeProject, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "c.jsonl", HEADER)
    project, _ = new_project(0)
    photos: list[Photo] = [gold()]
    pairs = [PhrasePair("gold", "0:0-5", (200, 200, 300, 300), 0.1), PhrasePair("gold", "0:0-5", (-5, -5, 20, 20), 0.1)]
    assert add_pairs(project, photos, pairs, file) == 1
