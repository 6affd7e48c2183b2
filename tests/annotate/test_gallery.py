"""The gallery: filters, disagreements, who changed a photo, and the leads' agreement with the workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from deixis.annotate.export import export_photo
from deixis.annotate.gallery import (
    Correction,
    GalleryFilter,
    PhotoStage,
    assign_photos,
    correct,
    find_photos,
    list_people,
    read_photo,
    redo_correction,
    undo_correction,
)
from deixis.annotate.judgements import JudgementResult
from deixis.annotate.material import prepare_photo
from deixis.annotate.people import Role
from deixis.annotate.progress import read_progress
from deixis.annotate.project import Project, add_photos
from deixis.annotate.queue import explain_no_question
from deixis.annotate.review import decide_phrase, review_queue
from deixis.annotate.state import derive_state
from deixis.annotate.store import RefusedError, checks
from deixis.annotate.workflow import Answer, Status, Task
from tests.annotate.conftest import MakeProject, on_both_databases
from tests.annotate.fakes import BOX, answer, ask, join, link_and_verify, next_question, people, photo, skip, snapshot


def names(project: object, **wanted: object) -> list[str]:
    total, found = find_photos(project, GalleryFilter(**wanted))  # type: ignore[arg-type]
    assert total == len(found)
    return [each.photo for each in found]


@on_both_databases
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


def test_photos_are_found_by_file_name_caption_words_and_phrase_type(new_project: MakeProject) -> None:
    project, _ = new_project(photos=0)
    captions = {"one": "A Dog runs.", "two": "Two dogs and a small man.", "three": "A CAFÉ."}
    material = [prepare_photo(photo(text, name=name)) for name, text in captions.items()]
    add_photos(project, [replace(each, file=f"beach/{each.photo}.JPG") for each in material])
    assert names(project, words="dog") == ["one", "two"]
    assert names(project, words="  MAN dogs ") == ["two"]
    assert names(project, words="beach/o jpg") == ["one"]
    assert names(project, words="café") == ["three"]
    assert names(project, words="cat") == []
    assert names(project, words="og") == []  # "dog" begins with something else
    assert names(project, type="people") == ["two"]
    assert names(project, words="runs", type="animals") == ["one"]
    [lead] = people(project, "olga", role=Role.OWNER)
    decide_phrase(project, lead, "one", "0:0-5", "drop")
    assert names(project, type="animals") == ["two"]


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
    total, found = find_photos(project, GalleryFilter(), offset=2, limit=2)
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


OTHER = (50.0, 40.0, 90.0, 70.0)
MENTION = "0:0-5"


def finished(new_project: MakeProject, **settings: Any) -> tuple[Project, list[str], str, int]:
    """A project with one finished photo of a dog, its workers, a lead, and the event that drew the box."""
    project, _ = new_project(first_items=0, **settings)
    ann, bob, cy = people(project, "ann", "bob", "cy")
    [lead] = people(project, "olga", role=Role.OWNER)
    link_and_verify(project, ann)
    answer(project, bob, Answer.BOX, Task.REQUIREMENT)
    drawn = answer(project, ann, Answer.DRAWN, Task.DRAWING)
    for worker, value in ((bob, Answer.GOOD), (bob, Answer.ALL), (cy, Answer.ALL)):
        answer(project, worker, value)
    assert snapshot(project).state.finished
    return project, [ann, bob, cy], lead, drawn


def change(project: Project, lead: str, action: str, *, seen: int | None = None, **details: Any) -> JudgementResult:
    wanted = Correction(action=action, mention=details.pop("mention", MENTION), **details)
    return project.database.run(lambda each: correct(project, each, lead, "dog0", wanted, seen=seen))


def undo(project: Project, lead: str) -> JudgementResult:
    return project.database.run(lambda each: undo_correction(project, each, lead, "dog0"))


def redo(project: Project, lead: str) -> JudgementResult:
    return project.database.run(lambda each: redo_correction(project, each, lead, "dog0"))


def boxes(project: Project) -> list[list[Any]]:
    state = snapshot(project).state
    return [[box.xyxy for box in chain.workflow.boxes] for chain in state.chains if chain.workflow]


def test_boxes_are_drawn_moved_and_deleted_and_the_photo_stays_finished(new_project: MakeProject) -> None:
    project, _, lead, drawn = finished(new_project)
    change(project, lead, "draw", box=OTHER)
    assert boxes(project) == [[BOX, OTHER]]
    moved = (12.0, 12.0, 60.0, 50.0)
    change(project, lead, "move", box_id=f"b{drawn}", box=moved)
    assert boxes(project) == [[moved, OTHER]]
    second = snapshot(project).state.chains[0].visible_boxes[1].id
    change(project, lead, "delete", box_id=second)
    assert boxes(project) == [[moved]]
    assert snapshot(project).state.finished
    change(project, lead, "delete", box_id=snapshot(project).state.chains[0].visible_boxes[0].id, ending="scene")
    [chain] = snapshot(project).state.chains
    assert chain.workflow is not None
    assert chain.workflow.stage is Status.NOT_VISUAL
    assert chain.workflow.is_scene


@on_both_databases
def test_undo_and_redo_restore_every_state_on_the_way(new_project: MakeProject) -> None:
    project, _, lead, drawn = finished(new_project)
    states = [boxes(project)]
    for action, details in (("draw", {"box": OTHER}), ("delete", {"box_id": f"b{drawn}"})):
        change(project, lead, action, **details)
        states.append(boxes(project))
    for expected in (states[1], states[0]):
        undo(project, lead)
        assert boxes(project) == expected
    with pytest.raises(RefusedError, match="undo"):
        undo(project, lead)
    for expected in (states[1], states[2]):
        redo(project, lead)
        assert boxes(project) == expected
    undo(project, lead)
    change(project, lead, "draw", box=(1.0, 1.0, 9.0, 9.0))  # ends the redo
    with pytest.raises(RefusedError, match="redo"):
        redo(project, lead)


def test_a_split_asks_about_the_part_and_a_merge_puts_it_back(new_project: MakeProject) -> None:
    project, workers, lead, _ = finished(new_project)
    change(project, lead, "split", mentions=("1:0-7",))
    state = snapshot(project).state
    assert [[mention.text for mention in chain.mentions] for chain in state.chains] == [["A dog"], ["The dog"]]
    assert [(question.task, question.mentions) for question in state.questions] == [(Task.REQUIREMENT, ("1:0-7",))]
    assert boxes(project) == [[BOX], []]
    answer(project, workers[0], Answer.BOX, Task.REQUIREMENT)  # judgements about the part count
    assert snapshot(project).state.questions[0].task is Task.DRAWING
    change(project, lead, "merge", other="1:0-7")
    assert snapshot(project).state.finished
    assert boxes(project) == [[BOX]]
    [chain] = snapshot(project).state.chains
    assert [mention.id for mention in chain.mentions] == [MENTION, "1:0-7"]


def test_a_merge_keeps_the_boxes_of_both_once(new_project: MakeProject) -> None:
    project, _, lead, _ = finished(new_project)
    change(project, lead, "split", mentions=("1:0-7",))
    change(project, lead, "draw", mention="1:0-7", box=(11.0, 10.0, 60.0, 50.0))
    change(project, lead, "draw", mention="1:0-7", box=OTHER)
    change(project, lead, "merge", other="1:0-7")
    assert boxes(project) == [[BOX, OTHER]]


def test_new_types_are_exported_and_nobody_is_asked_again(new_project: MakeProject) -> None:
    project, _, lead, _ = finished(new_project)
    change(project, lead, "retype", types=("people",))
    after = snapshot(project)
    assert after.state.finished
    exported, [provenance] = export_photo(after, project.settings)
    assert {mention.types for caption in exported.captions for mention in caption.mentions} == {("people",)}
    assert [(each["worker"], each["action"]) for each in provenance["corrected"]] == [(lead, "retype")]
    with pytest.raises(RefusedError, match="entity type"):
        change(project, lead, "retype", types=("dragon",))


def test_a_reopened_chain_goes_back_to_the_workers(new_project: MakeProject) -> None:
    project, [ann, bob, _], lead, _ = finished(new_project)
    change(project, lead, "decide", ending="open")
    assert [question.task for question in snapshot(project).state.questions] == [Task.COVERAGE]
    answer(project, ann, Answer.ALL, Task.COVERAGE)
    answer(project, bob, Answer.ALL, Task.COVERAGE)
    assert snapshot(project).state.finished


def test_a_correction_outlives_the_undo_of_the_judgements_before_it(new_project: MakeProject) -> None:
    project, _, lead, drawn = finished(new_project)
    change(project, lead, "draw", box=OTHER)
    after = snapshot(project)
    without = [event for event in after.events if event.number != drawn]
    state = derive_state(after.material, without, project.settings)
    assert [box.xyxy for box in state.chains[0].visible_boxes] == [BOX, OTHER]


def test_provenance_names_judges_drawers_and_the_lead(new_project: MakeProject) -> None:
    project, [ann, *_], lead, _ = finished(new_project)
    change(project, lead, "draw", box=OTHER)
    _, [provenance] = export_photo(snapshot(project), project.settings)
    assert [(each["box"], each["worker"]) for each in provenance["drawn"]] == [([*BOX], ann), ([*OTHER], lead)]
    assert provenance["reviewed"]
    assert provenance["judges"] == 3
    undo(project, lead)
    _, [provenance] = export_photo(snapshot(project), project.settings)
    assert provenance["corrected"] == []


def test_a_deleted_box_counts_against_its_drawer_until_that_is_undone(new_project: MakeProject) -> None:
    project, _, lead, drawn = finished(new_project)

    def is_right() -> bool | None:
        with project.database.reading() as connection:
            right: bool | None = connection.scalar(select(checks.c.right).where(checks.c.event == drawn))
            return right

    assert is_right() is True
    change(project, lead, "delete", box_id=f"b{drawn}")
    assert is_right() is False
    undo(project, lead)
    assert is_right() is True
    change(project, lead, "move", box_id=f"b{drawn}", box=(12.0, 11.0, 60.0, 50.0))  # a little
    assert is_right() is True


def test_workers_cannot_correct_and_repeated_requests_are_one_event(new_project: MakeProject) -> None:
    project, [ann, *_], lead, _ = finished(new_project)
    with pytest.raises(RefusedError, match="reviewers"):
        change(project, ann, "draw", box=OTHER)
    seen = snapshot(project).last_event
    first = change(project, lead, "draw", box=OTHER, seen=seen)
    again = change(project, lead, "draw", box=OTHER, seen=seen)
    assert (again.event, again.again) == (first.event, True)
    assert boxes(project) == [[BOX, OTHER]]


def test_a_correction_of_something_that_changed_meanwhile_is_refused(new_project: MakeProject) -> None:
    project, _, lead, drawn = finished(new_project)
    seen = snapshot(project).last_event
    change(project, lead, "draw", box=OTHER)
    with pytest.raises(RefusedError, match="meanwhile"):
        change(project, lead, "delete", box_id=f"b{drawn}", seen=seen)


@pytest.mark.parametrize(
    ("action", "details"),
    [
        ("draw", {"box": (0.0, 0.0, 500.0, 10.0)}),
        ("draw", {}),
        ("move", {"box_id": "b999", "box": OTHER}),
        ("split", {"mentions": (MENTION, "1:0-7")}),
        ("split", {"mentions": ()}),
        ("split", {"mentions": ("9:0-1",)}),
        ("merge", {"other": "1:0-7"}),
        ("merge", {"other": "7:1-2"}),
        ("decide", {"ending": "nonsense"}),
        ("explode", {}),
    ],
)
def test_impossible_corrections_are_refused_and_leave_no_event(
    new_project: MakeProject, action: str, details: dict[str, Any]
) -> None:
    project, _, lead, _ = finished(new_project)
    before = snapshot(project).last_event
    with pytest.raises(RefusedError):
        change(project, lead, action, **details)
    assert snapshot(project).last_event == before


def test_phrases_that_are_still_being_linked_can_only_be_retyped(new_project: MakeProject) -> None:
    project, _ = new_project()
    [lead] = people(project, "olga", role=Role.OWNER)
    with pytest.raises(RefusedError, match="still"):
        change(project, lead, "draw", box=OTHER)
    change(project, lead, "retype", types=("people",))
    assert snapshot(project).state.chains[0].types == ("people",)


@on_both_databases
def test_assigned_photos_come_first_for_their_people_and_never_for_others(new_project: MakeProject) -> None:
    project, _ = new_project(6)
    ann, bob, cy = join(project, "Ann", "Bob", "Cy")
    assert assign_photos(project, None, GalleryFilter(words="dog4"), ["Ann", "Bob", ann]).photos == 1
    assert assign_photos(project, None, GalleryFilter(words="dog5"), [cy]).advice is not None  # one cannot vote twice
    assert [photo.photo for photo in find_photos(project, GalleryFilter(assigned=bob))[1]] == ["dog4"]
    assert find_photos(project, GalleryFilter(assigned=""))[0] == 4
    assert find_photos(project, GalleryFilter(words="dog4"))[1][0].assigned == ("Ann", "Bob")
    assert ask(project, ann).photo == "dog4"
    photos = set()
    while (question := next_question(project, cy)) is not None:
        photos.add(question.photo)
        skip(project, cy, question.token)
    assert photos == {"dog0", "dog1", "dog2", "dog3", "dog5"}
    with project.database.reading() as connection:
        assert "assigned to others" in explain_no_question(project, connection, cy)
    waiting = {(case.photo, case.decisions) for case in review_queue(project)}
    assert waiting == {("dog5", ("yes", "no", "ask again"))}  # nobody else may answer it
    assert assign_photos(project, None, GalleryFilter(words="dog5"), []).advice is None
    assert review_queue(project) == []
    with pytest.raises(RefusedError):
        assign_photos(project, cy, GalleryFilter(), [cy])
