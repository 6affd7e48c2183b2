"""Answering, skipping and undoing."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deixis.annotate.judgements import UnknownQuestionError
from deixis.annotate.material import prepare_photo
from deixis.annotate.people import Role
from deixis.annotate.project import Project, add_photos, open_project
from deixis.annotate.review import review_queue
from deixis.annotate.transactions import RefusedError
from deixis.annotate.workflow import XYXY, Answer, Task
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import (
    BOX,
    answer,
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


WRITER = """
import sys
from pathlib import Path
from deixis.annotate.project import open_project
from tests.annotate.fakes import next_question, record
project = open_project(Path(sys.argv[1]))
answers = {"link": "no", "requirement": "box", "drawing": "drawn", "quality": "good", "coverage": "all"}
while True:
    for worker in sys.argv[2:]:
        question = next_question(project, worker)
        if question is None:
            continue
        answer = answers[question.task]
        box = (10.0, 10.0, 60.0, 50.0) if answer == "drawn" else None
        print(record(project, worker, question.token, answer, box=box).event, flush=True)
"""


@pytest.mark.parametrize("after_s", [0.05, 0.21, 0.4])
def test_a_kill_at_any_moment_loses_no_acknowledged_answer(after_s: float, new_project: MakeProject) -> None:
    project, _ = new_project(40, lease_s=0.001)
    workers = people(project, "Ann", "Bob", "Cy", "Di")
    command = [sys.executable, "-c", WRITER, str(project.folder), *workers]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
    assert writer.stdout is not None
    first = writer.stdout.readline()
    time.sleep(after_s)
    writer.send_signal(signal.SIGKILL)
    acknowledged = {int(line) for line in [first, *writer.stdout] if line.endswith("\n")}
    writer.wait()
    again = open_project(project.folder)
    kept: set[int] = set()
    for number in range(40):
        found = snapshot(again, f"dog{number}")
        numbers = {event.number for event in found.events}
        assert found.state.counted == numbers
        kept |= numbers
    assert acknowledged
    assert acknowledged <= kept
    assert len(kept - acknowledged) <= 1  # committed, but killed before the acknowledgement
    again.close()


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
