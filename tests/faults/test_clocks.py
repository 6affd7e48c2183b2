"""Clocks that jump: acknowledged work is kept, nothing is done twice, and no duration is negative."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from deixis.annotate.project import add_photos, make_project
from deixis.annotate.settings import Settings
from deixis.search.index import update_index
from tests.annotate.fakes import Clock, dogs, next_question, people, record
from tests.faults.conftest import FaultRunner, Scenario
from tests.faults.test_kills import SCENARIOS
from tests.search.index.fakes import ColourEncoder, ReadIndex, photo, photos

A_DAY_S = 86400.0


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_clock_that_jumps_by_days_does_not_change_results(
    scenario: str, run: Scenario, runner: FaultRunner, tmp_path: Path
) -> None:
    folder = run.copy(tmp_path / "jumping")
    assert runner.run(scenario, folder, clock=3 * A_DAY_S).error is None
    state = runner.inspect(scenario, folder).state
    if scenario != "annotating":  # the order of questions depends on leases that expire
        assert state == run.expected
    else:
        assert state.keys() == run.expected.keys()


@pytest.mark.parametrize("shift_s", [-400 * A_DAY_S, 400 * A_DAY_S])
def test_a_changed_photo_is_encoded_again_even_if_its_time_jumps_back_or_far_ahead(
    shift_s: float, tmp_path: Path
) -> None:
    first, *_ = photos(tmp_path / "photos", 3)
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder())
    photo(first, seed=99)
    time_s = first.stat().st_mtime + shift_s
    os.utime(first, (time_s, time_s))
    report = update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder())
    assert (report.updated, report.unchanged, report.removed) == (1, 2, 0)
    again = ColourEncoder()
    assert update_index(tmp_path / "index", [tmp_path / "photos"], again).unchanged == 3
    assert again.looked_at == []
    with ReadIndex(tmp_path / "index") as opened:
        assert len(opened) == 3


def test_photos_of_which_only_the_time_changed_are_not_encoded_again(tmp_path: Path) -> None:
    paths = photos(tmp_path / "photos", 4)
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder())
    for path, time_s in zip(paths, (0.0, 1.0, 4e9, 2.0**33), strict=True):
        os.utime(path, (time_s, time_s))
    again = ColourEncoder()
    assert update_index(tmp_path / "index", [tmp_path / "photos"], again).unchanged == 4
    assert again.looked_at == []


def test_a_clock_that_goes_back_does_not_give_one_question_to_two_workers(tmp_path: Path, rng: random.Random) -> None:
    settings = Settings(history_items=0, history_accuracy=0.0, lease_s=600.0, held_at_once=1)
    project = make_project(tmp_path / "project", settings=settings)
    clock = Clock()
    project.clock = clock
    add_photos(project, dogs(2))
    ann, bob = people(project, "Ann", "Bob")
    clock.now = 1e9
    hers = next_question(project, ann)
    clock.now -= rng.uniform(1, 10) * A_DAY_S
    his = next_question(project, bob)
    assert hers is not None
    assert his is not None
    assert (hers.photo, hers.content) != (his.photo, his.content)
    assert next_question(project, ann) == hers
    kept = record(project, ann, hers.token, "yes", seconds=-5.0)
    assert not kept.again
    assert record(project, ann, hers.token, "yes").event == kept.event
    project.close()


def test_a_clock_that_jumps_ahead_frees_questions_and_keeps_answers(tmp_path: Path) -> None:
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
        assert kept in {event.number for event in project.snapshots.read(connection, "dog0").events}
    project.close()
