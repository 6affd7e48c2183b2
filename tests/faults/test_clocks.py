"""Clocks that jump: what was said stays, nothing is done twice, and no time is negative."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from deixis.annotate.assigning import next_question
from deixis.annotate.project import add_photos, make_project
from deixis.annotate.recording import record
from deixis.annotate.settings import Settings
from deixis.index import PhotoIndex, update_index
from tests.annotate.fakes import Clock, dogs, people
from tests.faults.conftest import Workshop
from tests.faults.test_kills import WORKS
from tests.index.fakes import ColourSeer, photo, photos

A_DAY_S = 86400.0


@pytest.mark.parametrize("work", WORKS)
def test_a_clock_that_jumps_by_days_while_it_works_changes_nothing(
    work: str, workshop: Workshop, tmp_path: Path
) -> None:
    workshop.prepare(work, tmp_path / "prepared")
    for name, clock in (("steady", 0.0), ("jumping", 3 * A_DAY_S)):
        shutil.copytree(tmp_path / "prepared", tmp_path / name)
        assert workshop.run(work, tmp_path / name, clock=clock).refused is None
    steady, jumping = (workshop.see(work, tmp_path / name).seen for name in ("steady", "jumping"))
    if work != "annotating":  # who is asked when depends on leases that run out
        assert steady == jumping
    else:
        assert steady.keys() == jumping.keys()


@pytest.mark.parametrize("shift_s", [-400 * A_DAY_S, 400 * A_DAY_S])
def test_a_changed_photo_is_seen_anew_though_its_time_goes_backwards_or_far_ahead(
    shift_s: float, tmp_path: Path
) -> None:
    first, *_ = photos(tmp_path / "photos", 3)
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourSeer())
    photo(first, seed=99)
    moment = first.stat().st_mtime + shift_s
    os.utime(first, (moment, moment))
    report = update_index(tmp_path / "index", [tmp_path / "photos"], ColourSeer())
    assert (report.updated, report.unchanged, report.removed) == (1, 2, 0)
    again = ColourSeer()
    assert update_index(tmp_path / "index", [tmp_path / "photos"], again).unchanged == 3
    assert again.looked_at == []
    with PhotoIndex(tmp_path / "index") as opened:
        assert len(opened) == 3


def test_touched_photos_are_not_seen_again_whatever_their_time_says(tmp_path: Path) -> None:
    paths = photos(tmp_path / "photos", 4)
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourSeer())
    for path, moment in zip(paths, (0.0, 1.0, 4e9, 2.0**33), strict=True):
        os.utime(path, (moment, moment))
    again = ColourSeer()
    assert update_index(tmp_path / "index", [tmp_path / "photos"], again).unchanged == 4
    assert again.looked_at == []


def test_a_clock_that_goes_back_gives_no_question_to_two_workers(tmp_path: Path, chance: random.Random) -> None:
    settings = Settings(history_items=0, history_accuracy=0.0, lease_s=600.0, held_at_once=1)
    project = make_project(tmp_path / "project", settings=settings)
    clock = Clock()
    project.clock = clock
    add_photos(project, dogs(2))
    ann, bob = people(project, "Ann", "Bob")
    clock.now = 1e9
    hers = next_question(project, ann)
    clock.now -= chance.uniform(1, 10) * A_DAY_S
    his = next_question(project, bob)
    assert hers is not None
    assert his is not None
    assert (hers.photo, hers.asked) != (his.photo, his.asked)
    assert next_question(project, ann) == hers
    kept = record(project, ann, hers.token, "yes", seconds=-5.0)
    assert not kept.again
    assert record(project, ann, hers.token, "yes").event == kept.event
    project.close()


def test_a_clock_that_leaps_ahead_frees_questions_and_keeps_answers(tmp_path: Path) -> None:
    settings = Settings(history_items=0, history_accuracy=0.0, lease_s=600.0, held_at_once=1)
    project = make_project(tmp_path / "project", settings=settings)
    clock = Clock()
    project.clock = clock
    add_photos(project, dogs(1))
    ann, bob = people(project, "Ann", "Bob")
    hers = next_question(project, ann)
    assert hers is not None
    kept = record(project, ann, hers.token, "no").event
    next_question(project, ann)
    clock.now += 400 * A_DAY_S
    assert next_question(project, bob) is not None
    clock.now = 1000.0
    with project.database.reading() as connection:
        assert kept in {event.number for event in project.folds.at(connection, "dog0").events}
    project.close()
