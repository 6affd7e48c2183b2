"""The gallery: filters, disagreements, who changed a photo, and the leads' agreement with the workers."""

from __future__ import annotations

import pytest

from deixis.annotate.gallery import GalleryFilter, PhotoStage, list_people, list_photos, read_photo
from deixis.annotate.people import Role
from deixis.annotate.progress import read_progress
from deixis.annotate.workflow import Answer, Task
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import BOX, answer, people
from tests.annotate.test_corrections import OTHER, change, finished, undo


def names(project: object, **wanted: object) -> list[str]:
    total, found = list_photos(project, GalleryFilter(**wanted))  # type: ignore[arg-type]
    assert total == len(found)
    return [each.photo for each in found]


def test_photos_are_filtered_by_stage_person_disagreement_and_correction(new_project: MakeProject) -> None:
    project, _ = new_project(photos=3, first_items=0)
    ann, bob, cy = people(project, "ann", "bob", "cy")
    [lead] = people(project, "olga", role=Role.OWNER)
    answer(project, ann, Answer.YES, Task.LINK)
    answer(project, bob, Answer.YES, Task.VERIFY)
    assert names(project, person=bob) == ["dog0"]
    assert names(project, person=cy) == []
    assert names(project, disagreement=True) == []
    answer(project, ann, Answer.SCENE, Task.REQUIREMENT)
    answer(project, bob, Answer.NO_BOX, Task.REQUIREMENT)
    assert names(project, disagreement=True) == ["dog0"]
    [found] = read_photo(project, "dog0").disagreements
    assert (found.task, found.mention) == (Task.REQUIREMENT, "1:0-7")
    assert found.answers == (("ann", "scene"), ("bob", "no box"))
    answer(project, cy, Answer.SCENE, Task.REQUIREMENT)
    assert names(project, stage=PhotoStage.FINISHED) == ["dog0"]
    assert names(project, stage=PhotoStage.OPEN) == ["dog1", "dog2"]
    assert names(project, stage=PhotoStage.WAITING) == []
    assert names(project, changed=True) == []
    change(project, lead, "draw", box=BOX)
    assert names(project, changed=True) == names(project, person=lead) == ["dog0"]
    undo(project, lead)
    assert names(project, changed=True) == []
    assert [name for _, name in list_people(project)] == ["ann", "bob", "cy", "olga"]


def test_a_photo_says_who_drew_judged_and_changed_it(new_project: MakeProject) -> None:
    project, _, lead, _ = finished(new_project)
    change(project, lead, "draw", box=OTHER)
    found = read_photo(project, "dog0")
    assert (found.stage, found.people) == (PhotoStage.FINISHED, ("ann", "bob", "cy", "olga"))
    [chain] = found.chains
    assert [(box.by, box.model, box.is_correction) for box in chain.boxes] == [
        ("ann", None, False),
        ("olga", None, True),
    ]
    assert chain.corrected_by == ("olga",)
    assert [(each.who, each.action) for each in found.corrections] == [("olga", "draw")]
    assert not found.can_redo
    undo(project, lead)
    found = read_photo(project, "dog0")
    assert (found.corrections, found.chains[0].corrected_by, found.can_redo) == ((), (), True)


def test_pages_follow_the_order_of_the_project(new_project: MakeProject) -> None:
    project, _ = new_project(photos=5)
    total, found = list_photos(project, GalleryFilter(), offset=2, limit=2)
    assert (total, [each.photo for each in found]) == (5, ["dog2", "dog3"])


def test_progress_compares_the_leads_with_the_workers(new_project: MakeProject) -> None:
    project, _, lead, drawn = finished(new_project)
    assert read_progress(project).corrections.photos == 0
    change(project, lead, "draw", box=OTHER)
    made = read_progress(project).corrections
    assert (made.photos, made.chains, made.boxes_kept, made.boxes_added, made.same_chain) == (1, 1, 1, 1, 1.0)
    change(project, lead, "move", box_id=f"b{drawn}", box=(20.0, 20.0, 60.0, 50.0))
    made = read_progress(project).corrections
    assert (made.boxes_kept, made.boxes_moved, made.boxes_deleted, made.boxes_added) == (0, 1, 0, 1)
    change(project, lead, "split", mentions=("1:0-7",))
    assert read_progress(project).corrections.same_chain == pytest.approx(0.0)
