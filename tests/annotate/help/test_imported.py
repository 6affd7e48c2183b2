"""Pre-annotations of a data set."""

from __future__ import annotations

from pathlib import Path

import pytest

from deixis.annotate.export import export_photo
from deixis.annotate.help.imported import propose_annotations
from deixis.annotate.known_answers import add_known_photos
from deixis.annotate.material import prepare_photo
from deixis.annotate.project import add_photos
from deixis.annotate.schema import known_questions
from deixis.annotate.workflow import Task
from deixis.data.dataset import Dataset, make_dataset
from deixis.data.imports import CaptionFile, import_dataset
from deixis.data.records import Photo
from deixis.data.writers import convert_dataset
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import ask, gold, next_question, people, record, snapshot

ACCEPT = {Task.VERIFY: "yes", Task.QUALITY: "good", Task.COVERAGE: "all", Task.REQUIREMENT: "scene"}


def chains_and_boxes(photo: Photo) -> set[tuple[frozenset[str], frozenset[tuple[float, ...]]]]:
    """The chains as sets of phrases and boxes, without their names."""
    found = set()
    for chain in photo.chains:
        phrases = frozenset(
            f"{number}:{mention.start}"
            for number, caption in enumerate(photo.captions)
            for mention in caption.mentions
            if mention.chain == chain.id
        )
        found.add((phrases, frozenset(tuple(round(side, 2) for side in box.xyxy) for box in photo.boxes_of(chain.id))))
    return found


@pytest.mark.parametrize("new_project", ["sqlite"], indirect=True)
def test_imported_chains_and_boxes_are_verified_and_judged_and_come_out_again(new_project: MakeProject) -> None:
    project, _ = new_project(0, test_questions=0, first_items=0, hidden_share=0.0)
    photo = gold()
    add_photos(project, [prepare_photo(photo)])
    add_known_photos(project, [gold("known")])
    assert propose_annotations(project, [photo], "f" * 12) == 1
    workers = people(project, "Ann", "Bob", "Cy")
    asked = []
    while questions := [(worker, each) for worker in workers if (each := next_question(project, worker))]:
        for worker, question in questions:
            asked.append(question.task)
            assert question.task in ACCEPT
            record(project, worker, question.token, ACCEPT[question.task])
    assert asked.count(Task.REQUIREMENT) == 2  # of the park, which has no box
    exported, provenance = export_photo(snapshot(project, photo.id), project.settings)
    assert chains_and_boxes(exported) == chains_and_boxes(photo)
    assert provenance[0]["proposed"]["links"]["model"] == "imported"
    with project.database.reading() as connection:
        marks = [row.asked.get("proposal") for row in connection.execute(known_questions.select())]
    assert any(marks)


@pytest.mark.parametrize("new_project", ["sqlite"], indirect=True)
def test_photos_with_judgements_stay_as_they_are(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    add_photos(project, [prepare_photo(gold())])
    [ann] = people(project, "Ann")
    record(project, ann, ask(project, ann).token, "no")
    assert propose_annotations(project, [gold()], "f" * 12) == 0


@pytest.mark.parametrize(
    ("name", "file"),
    [("label-studio", "tasks.json"), ("odvg", "rest.jsonl"), ("jsonl", "photos.jsonl"), ("parquet", "")],
)
def test_a_round_trip_keeps_chains_and_boxes(tmp_path: Path, name: str, file: str) -> None:
    photo = gold("1")
    make_dataset(tmp_path / "data", [photo])
    convert_dataset(Dataset(tmp_path / "data"), name, tmp_path / "out")
    import_dataset(tmp_path / "again", captions=[CaptionFile(tmp_path / "out" / file)])
    [again] = Dataset(tmp_path / "again").photos
    expected = chains_and_boxes(photo)
    if name == "odvg":  # has no phrases without a box
        expected = {(phrases, boxes) for phrases, boxes in expected if boxes}
    assert chains_and_boxes(again) == expected
    assert (again.width, again.height) == (100, 80)
    if name != "odvg":
        assert {(each.id, each.scene, each.no_box) for each in again.chains} == {
            (each.id, each.scene, each.no_box) for each in photo.chains
        }
        assert any(each.scene or each.no_box for each in again.chains)
