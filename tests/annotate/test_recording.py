"""Recording: one click, one event; what is forged or impossible is refused, and a kill loses nothing acknowledged."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deixis.annotate.assigning import next_question
from deixis.annotate.changing import RefusedError
from deixis.annotate.material import material_of
from deixis.annotate.people import Role
from deixis.annotate.project import Project, add_photos, open_project
from deixis.annotate.recording import record, skip, undo
from deixis.annotate.reviewing import review_queue
from deixis.annotate.walks import XYXY, Answer, Task
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import BOX, answer, ask, people, photo


def events_of(project: Project, photo: str = "dog0") -> list[str]:
    with project.database.reading() as connection:
        return [event.kind for event in project.folds.at(connection, photo).events]


def drawing(project: Project, ann: str, bob: str) -> None:
    answer(project, ann, Answer.YES, Task.LINK)
    answer(project, ann, Answer.YES, Task.VERIFY)
    answer(project, bob, Answer.BOX, Task.REQUIREMENT)


def test_a_double_click_is_one_judgement_and_the_first_answer_stands(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    [ann] = people(project, "Ann")
    given = ask(project, ann)
    first = record(project, ann, given.token, "yes")
    again = record(project, ann, given.token, "no")
    assert (first.again, again.again, again.event) == (False, True, first.event)
    assert skip(project, ann, given.token).event == first.event
    assert events_of(project) == ["judged"]
    assert ask(project, ann).task is Task.VERIFY


def test_a_forged_token_and_another_workers_token_look_the_same(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    given = ask(project, ann)
    for worker, token in (
        (bob, given.token),
        (bob, "forged"),
        (ann, ""),
        (ann, "' OR 1=1 --"),
        ("nobody", given.token),
    ):
        with pytest.raises(RefusedError, match="never given to you"):
            record(project, worker, token, "yes")
    assert events_of(project) == []


def test_a_question_of_another_project_is_not_known_here(new_project: MakeProject) -> None:
    one, _ = new_project(1)
    other, _ = new_project(1)
    [ann], [bob] = people(one, "Ann"), people(other, "Bob")
    given = ask(one, ann)
    with pytest.raises(RefusedError, match="never given to you"):
        record(other, bob, given.token, "yes")


@pytest.mark.parametrize("said", ["", "maybe", "drawn", "YES", "yes ", "<script>"])
def test_what_is_no_answer_is_refused_and_the_question_stays(said: str, new_project: MakeProject) -> None:
    project, _ = new_project(1)
    [ann] = people(project, "Ann")
    given = ask(project, ann)
    with pytest.raises(RefusedError, match="is no answer in link; choose one of: yes, no"):
        record(project, ann, given.token, said)
    assert ask(project, ann) == given


BAD_BOXES: list[tuple[XYXY | None, str]] = [
    (None, "four finite numbers"),
    ((0, 0, math.nan, 5), "four finite numbers"),
    ((0, 0, math.inf, 5), "four finite numbers"),
    ((0, 0, 5), "four finite numbers"),  # type: ignore[list-item]
    (("0", 0, 5, 5), "four finite numbers"),  # type: ignore[list-item]
    ((-1, 0, 5, 5), "leaves the photo, which is 100 × 80"),
    ((0, 0, 101, 5), "leaves the photo"),
    ((0, 0, 5, 81), "leaves the photo"),
    ((50, 0, 20, 5), "less than a pixel"),
    ((5, 5, 5.5, 30), "less than a pixel"),
]


def test_boxes_that_are_none_of_the_photo_are_refused(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob, cy = people(project, "Ann", "Bob", "Cy")
    drawing(project, ann, bob)
    given = ask(project, cy)
    for box, said in BAD_BOXES:
        with pytest.raises(RefusedError, match=said):
            record(project, cy, given.token, "drawn", box=box)
    with pytest.raises(RefusedError, match="a box came with the answer 'no more'"):
        record(project, cy, given.token, "no more", box=BOX)
    record(project, cy, given.token, "drawn", box=(0, 0, 100, 80))
    assert len(events_of(project)) == 4


def test_a_worker_takes_back_their_own_and_a_reviewer_anything_once(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    [rob] = people(project, "Rob", role=Role.REVIEWER)
    number = answer(project, ann, Answer.NO, Task.LINK)
    with pytest.raises(RefusedError, match="cannot be taken back by Bob"):
        undo(project, bob, number)
    with pytest.raises(RefusedError, match="there is no event 999"):
        undo(project, ann, 999)
    first = undo(project, ann, number)
    assert undo(project, ann, number).again
    assert ask(project, ann).task is Task.LINK
    undo(project, rob, first.event)
    assert next_question(project, ann) is not None
    assert events_of(project) == ["judged", "undone", "undone"]


def test_seconds_that_cannot_be_true_do_no_harm(new_project: MakeProject) -> None:
    project, _ = new_project(5)
    [ann] = people(project, "Ann")
    for seconds in (math.nan, math.inf, -5.0, 1e12):
        given = next_question(project, ann, only=[Task.LINK])
        assert given is not None
        record(project, ann, given.token, "no", seconds=seconds)
    with project.database.reading() as connection:
        for number in range(4):
            for event in project.folds.at(connection, f"dog{number}").events:
                assert 0 <= getattr(event, "seconds", 0) <= 86400


def test_a_bad_phrase_must_be_one_of_the_question(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    given = ask(project, ann)
    with pytest.raises(RefusedError, match="is no mention of this question"):
        skip(project, ann, given.token, bad_phrase="9:9-9")
    skip(project, ann, given.token, bad_phrase=given.asked["mentions"][0])
    skip(project, bob, ask(project, bob).token, bad_phrase=given.asked["mentions"][0])
    assert ask(project, ann).task is Task.REQUIREMENT


WRITER = """
import sys
from pathlib import Path
from deixis.annotate.assigning import next_question
from deixis.annotate.project import open_project
from deixis.annotate.recording import record
project = open_project(Path(sys.argv[1]))
said = {"link": "no", "requirement": "box", "drawing": "drawn", "quality": "good", "coverage": "all"}
while True:
    for worker in sys.argv[2:]:
        given = next_question(project, worker)
        if given is None:
            continue
        answer = said[given.task]
        box = (10.0, 10.0, 60.0, 50.0) if answer == "drawn" else None
        print(record(project, worker, given.token, answer, box=box).event, flush=True)
"""


@pytest.mark.parametrize("after_s", [0.05, 0.21, 0.4])
def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged(after_s: float, new_project: MakeProject) -> None:
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
    with again.database.reading() as connection:
        for number in range(40):
            folded = again.folds.at(connection, f"dog{number}")
            kept |= {event.number for event in folded.events}
            assert folded.state.counted == {event.number for event in folded.events}
    assert acknowledged
    assert acknowledged <= kept
    assert len(kept - acknowledged) <= 1  # committed, but killed before it could be said
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
    with project.database.reading() as connection:
        assert project.folds.at(connection, "dog0").state.finished
    other.close()


@pytest.mark.parametrize("token", ["a\0b", "\ud800", "🐶", "a" * 100_000, "\n"])
def test_a_token_that_no_database_could_hold_is_refused_like_any_other(token: str, new_project: MakeProject) -> None:
    project, _ = new_project(1)
    [ann] = people(project, "Ann")
    with pytest.raises(RefusedError, match="never given to you"):
        record(project, ann, token, "yes")


def test_hostile_captions_and_remarks_go_through_and_come_out_as_they_are(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    texts = (
        "<script>alert(1)</script> A dog \u202eruns\u202c 👩‍👩‍👧",
        "The dog'); DROP TABLE events;-- \0 {{7*7}} \ud800",
    )
    add_photos(project, [material_of(photo(*texts, name="odd"))])
    [ann] = people(project, "Ann")
    given = next_question(project, ann, only=[Task.LINK])
    assert given is not None
    record(project, ann, given.token, "yes", remark="<img onerror=x> \0\ud800 🐶" + "a" * 10_000)
    with project.database.reading() as connection:
        folded = project.folds.at(connection, "odd")
    assert folded.material.captions == texts
    remark = next(item.reason for item in review_queue(project) if item.reason.startswith("remark"))
    assert remark.startswith("remark: <img onerror=x> ? 🐶aaa")
    assert len(remark) < 2100
