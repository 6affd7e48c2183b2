"""Answering, skipping and undoing, and cached snapshots."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from deixis.annotate.judgements import SnapshotCache, UnknownQuestionError
from deixis.annotate.material import prepare_photo
from deixis.annotate.people import Role
from deixis.annotate.project import Project, add_photos, open_project
from deixis.annotate.review import review_queue
from deixis.annotate.state import derive_state
from deixis.annotate.store import RefusedError, checks
from deixis.annotate.workflow import XYXY, Answer, Task
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject, on_both_databases
from tests.annotate.fakes import (
    BOX,
    answer,
    answer_box,
    ask,
    link_and_verify,
    next_question,
    people,
    photo,
    record,
    skip,
    snapshot,
    undo,
)


def events_of(project: Project) -> list[str]:
    return [event.kind for event in snapshot(project).events]


@on_both_databases
def test_a_repeated_answer_is_recorded_once_and_the_first_one_counts(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    [ann] = people(project, "Ann")
    question = ask(project, ann)
    first = record(project, ann, question.token, "yes")
    again = record(project, ann, question.token, "no")
    assert (first.again, again.again, again.event) == (False, True, first.event)
    assert skip(project, ann, question.token).event == first.event
    assert events_of(project) == ["judged"]
    assert ask(project, ann).task is Task.VERIFY


@on_both_databases
def test_forged_tokens_and_tokens_of_other_workers_are_refused_alike(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    question = ask(project, ann)
    forged = ["", "forged", "' OR 1=1 --", "a\0b", "\ud800", "🐶", "a" * 100_000, "\n"]
    for worker, token in [(bob, question.token), ("nobody", question.token), *((ann, token) for token in forged)]:
        with pytest.raises(UnknownQuestionError):
            record(project, worker, token, "yes")
    assert events_of(project) == []


def test_an_invalid_answer_is_refused_and_the_question_stays_open(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    [ann] = people(project, "Ann")
    question = ask(project, ann)
    for value in ("", "maybe", "drawn", "YES", "yes ", "<script>"):
        with pytest.raises(RefusedError, match="link"):
            record(project, ann, question.token, value)
    assert ask(project, ann) == question


BAD_BOXES: list[XYXY | None] = [
    None,
    (0, 0, math.nan, 5),
    (0, 0, math.inf, 5),
    (0, 0, 5),  # type: ignore[list-item]
    ("0", 0, 5, 5),  # type: ignore[list-item]
    (-1, 0, 5, 5),
    (0, 0, 101, 5),
    (0, 0, 5, 81),
    (50, 0, 20, 5),
    (5, 5, 5.5, 30),
]


def test_boxes_outside_the_photo_are_refused(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob, cy = people(project, "Ann", "Bob", "Cy")
    link_and_verify(project, ann)
    answer(project, bob, Answer.BOX, Task.REQUIREMENT)
    question = ask(project, cy)
    for box in BAD_BOXES:
        with pytest.raises(RefusedError):
            record(project, cy, question.token, "drawn", box=box)
    with pytest.raises(RefusedError, match="no more"):
        record(project, cy, question.token, "no more", box=BOX)
    record(project, cy, question.token, "drawn", box=(0, 0, 100, 80))
    assert len(events_of(project)) == 4


@on_both_databases
def test_workers_undo_their_own_judgements_and_reviewers_any_event(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    [rob] = people(project, "Rob", role=Role.REVIEWER)
    number = answer(project, ann, Answer.NO, Task.LINK)
    with pytest.raises(RefusedError, match="Bob"):
        undo(project, bob, number)
    with pytest.raises(RefusedError, match="999"):
        undo(project, ann, 999)
    first = undo(project, ann, number)
    assert undo(project, ann, number).again
    assert ask(project, ann).task is Task.LINK
    undo(project, rob, first.event)
    assert next_question(project, ann) is not None
    assert events_of(project) == ["judged", "undone", "undone"]


def test_impossible_durations_are_limited(new_project: MakeProject) -> None:
    project, _ = new_project(5)
    [ann] = people(project, "Ann")
    for seconds in (math.nan, math.inf, -5.0, 1e12):
        question = ask(project, ann, tasks=[Task.LINK])
        record(project, ann, question.token, "no", seconds=seconds)
        [event] = snapshot(project, question.photo).events
        assert 0 <= getattr(event, "seconds", -1) <= 86400


def test_a_reported_phrase_must_belong_to_the_question(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    question = ask(project, ann)
    with pytest.raises(RefusedError, match="9:9-9"):
        skip(project, ann, question.token, bad_phrase="9:9-9")
    skip(project, ann, question.token, bad_phrase=question.content["mentions"][0])
    skip(project, bob, ask(project, bob).token, bad_phrase=question.content["mentions"][0])
    assert ask(project, ann).task is Task.REQUIREMENT


def test_two_processes_see_each_others_events(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    other = open_project(Path(project.folder))
    other.clock = project.clock
    ann, bob = people(project, "Ann", "Bob")
    answer(project, ann, Answer.YES, Task.LINK)
    answer(other, bob, Answer.YES, Task.VERIFY)
    answer(project, ann, Answer.SCENE, Task.REQUIREMENT)
    answer(other, bob, Answer.SCENE, Task.REQUIREMENT)
    assert snapshot(project, "dog0").state.finished
    other.close()


@on_both_databases
def test_hostile_captions_and_remarks_are_stored_unchanged(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    texts = (
        "<script>alert(1)</script> A dog \u202eruns\u202c 👩‍👩‍👧",
        "The dog'); DROP TABLE events;-- \0 {{7*7}} \ud800",
    )
    add_photos(project, [prepare_photo(photo(*texts, name="odd"))])
    [ann] = people(project, "Ann")
    question = ask(project, ann, tasks=[Task.LINK])
    record(project, ann, question.token, "yes", remark="<img onerror=x> \0\ud800 🐶" + "a" * 10_000)
    assert snapshot(project, "odd").material.captions == texts
    remark = next(item.reason for item in review_queue(project) if item.reason.startswith("remark"))
    assert remark.startswith("remark: <img onerror=x> ? 🐶aaa")
    assert len(remark) < 2100


@on_both_databases
def test_an_adjusted_box_is_judged_by_somebody_else_and_both_drawers_are_checked(new_project: MakeProject) -> None:
    project, _ = new_project(first_items=0)
    ann, bob, cy = people(project, "ann", "bob", "cy")
    link_and_verify(project, ann)
    answer(project, bob, Answer.BOX, Task.REQUIREMENT)
    drawn = answer(project, ann, Answer.DRAWN, Task.DRAWING)
    question = ask(project, bob)
    near = (12.0, 11.0, 60.0, 52.0)
    with pytest.raises(RefusedError, match="box"):
        record(project, bob, question.token, "adjusted")
    adjusted = record(project, bob, question.token, "adjusted", box=near).event
    assert next_question(project, bob) is None
    assert ask(project, cy).content["new_box"] == list(near)
    answer(project, cy, Answer.GOOD, Task.QUALITY)
    [chain] = snapshot(project).state.chains
    assert chain.workflow is not None
    assert [(box.xyxy, box.worker) for box in chain.workflow.boxes] == [(near, bob)]
    with project.database.reading() as connection:
        found = dict(connection.execute(select(checks.c.event, checks.c.right)).all())  # type: ignore[arg-type]
    assert found == {drawn: True, adjusted: True}


def test_a_box_that_was_adjusted_to_another_place_counts_as_bad(new_project: MakeProject) -> None:
    project, _ = new_project(first_items=0)
    ann, bob = people(project, "ann", "bob")
    link_and_verify(project, ann)
    answer(project, bob, Answer.BOX, Task.REQUIREMENT)
    drawn = answer(project, ann, Answer.DRAWN, Task.DRAWING)
    record(project, bob, ask(project, bob).token, "adjusted", box=(70.0, 50.0, 99.0, 79.0))
    with project.database.reading() as connection:
        assert connection.scalar(select(checks.c.right).where(checks.c.event == drawn)) is False


def test_wrong_names_a_box_that_is_shown_and_neither_drawer_nor_doubter_judges_it(new_project: MakeProject) -> None:
    project, _ = new_project(first_items=0)
    ann, bob, cy = people(project, "ann", "bob", "cy")
    link_and_verify(project, ann)
    for worker, value in ((bob, Answer.BOX), (ann, Answer.DRAWN), (bob, Answer.GOOD)):
        answer(project, worker, value)
    question = ask(project, bob, tasks=[Task.COVERAGE])
    with pytest.raises(RefusedError, match="boxes that are shown"):
        record(project, bob, question.token, "wrong box", box=(1.0, 1.0, 9.0, 9.0))
    record(project, bob, question.token, "wrong box", box=answer_box(question, Answer.WRONG_BOX))
    assert next_question(project, ann) is None
    assert next_question(project, bob) is None
    answer(project, cy, Answer.BAD, Task.QUALITY)
    assert snapshot(project).state.questions[0].task is Task.DRAWING


def test_votes_from_before_coverage_was_skipped_keep_counting(new_project: MakeProject) -> None:
    project, _ = new_project(first_items=0)
    ann, bob, cy = people(project, "ann", "bob", "cy")
    link_and_verify(project, ann)
    for worker, value in ((bob, Answer.BOX), (ann, Answer.DRAWN), (bob, Answer.GOOD), (cy, Answer.MORE)):
        answer(project, worker, value)
    second = ask(project, ann, tasks=[Task.DRAWING])
    record(project, ann, second.token, "drawn", box=(50.0, 40.0, 90.0, 70.0))
    before = snapshot(project)
    rules = replace(project.settings, skip_singular_coverage=True)
    after = derive_state(before.material, before.events, rules)
    assert after.questions[0].new_box == before.state.questions[0].new_box is not None
    without = [event for event in before.events if event.number <= before.events[-3].number]
    assert derive_state(before.material, without, rules).finished


@on_both_databases
def test_a_cached_snapshot_equals_a_fresh_one(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    for worker, value in ((ann, Answer.YES), (bob, Answer.YES), (ann, Answer.BOX), (bob, Answer.DRAWN)):
        answer(project, worker, value)
        with project.database.reading() as connection:
            fresh = SnapshotCache(project.settings).read(connection, "dog0")
        assert snapshot(project) == fresh


def test_a_failed_transaction_is_not_cached(new_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    project, _ = new_project(1)
    [ann] = people(project, "Ann")

    def fail(*arguments: object) -> None:
        raise DeixisError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("deixis.annotate.judgements.update_box_checks", fail)
        with pytest.raises(DeixisError, match="the disk is full"):
            answer(project, ann, Answer.YES, Task.LINK)
    assert snapshot(project, "dog0").events == ()
    link_and_verify(project, ann)


def test_an_unknown_photo_is_an_error_that_names_it(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    with pytest.raises(DeixisError, match="cat"):
        snapshot(project, "cat")


def test_a_state_that_was_read_is_not_derived_again(new_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    project, _ = new_project(1)
    [ann] = people(project, "Ann")
    record(project, ann, ask(project, ann).token, "yes")
    project.snapshots = SnapshotCache(project.settings)  # as after a start of the server
    built, build = [], SnapshotCache.build
    monkeypatch.setattr(SnapshotCache, "build", lambda self, *args: built.append(args) or build(self, *args))
    for _ in range(3):
        with project.database.reading() as connection:
            project.snapshots.read(connection, "dog0")
    assert len(built) == 1
