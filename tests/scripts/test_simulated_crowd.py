"""A small crowd with known errors: the workflow brings out the truth, and the bad are caught."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated_crowd import ADVERSARY, CARELESS, HONEST, SPAMMER, TEAMS, Kind, SimulationResult, Truth, simulate_crowd

from deixis.annotate.export import export_photo
from deixis.annotate.known_answers import add_known_photos
from deixis.annotate.material import prepare_photo
from deixis.annotate.progress import read_progress
from deixis.annotate.project import Project, add_photos
from deixis.annotate.quality import Level
from deixis.annotate.settings import Settings, read_presets
from deixis.annotate.store import Database
from deixis.annotate.workflow import Task
from deixis.data.dataset import Dataset
from deixis.evaluation.agreement import chain_agreement, chains_of

Done = tuple[Project, SimulationResult, Dataset]


def work(data: Dataset, settings: Settings, crowd: dict[Kind, int]) -> Done:
    """Let a crowd annotate eight of the sample photos."""
    photos = list(data.photos)
    database = Database("sqlite://")
    database.create_tables()
    project = Project(Path(), database, settings)
    add_known_photos(project, photos[8:])
    add_photos(project, [prepare_photo(photo) for photo in photos[:8]])
    truths = {photo.id: Truth(photo) for photo in photos}
    known = frozenset(photo.id for photo in photos[8:])
    return project, simulate_crowd(project, truths, crowd, seed=3, known_photos=known), data


@pytest.fixture(scope="module")
def done(sample_data: Dataset) -> Done:
    """Six honest workers, a spammer and an adversary on the sample photos."""
    settings = Settings(test_questions=5, test_accuracy=0.7, first_items=8, first_accuracy=0.7, rolling_items=8)
    return work(sample_data, settings, {HONEST: 6, SPAMMER: 1, ADVERSARY: 1})


@pytest.mark.parametrize(
    "size", [pytest.param(size, marks=pytest.mark.slow) if size == "50" else size for size in TEAMS]
)
def test_teams_with_people_who_leave_finish_and_wait_for_nobody(size: str, sample_data: Dataset) -> None:
    settings = Settings(**read_presets()[size])
    project, result, data = work(sample_data, settings, TEAMS[size])
    found = read_progress(project)
    assert found.finished == found.photos == 8
    assert result.left or size != "2"
    assert 0 < result.longest_wait <= settings.lease_s
    assert score_chains(project, data) > 85


def score_chains(project: Project, data: Dataset) -> float:
    key, response = {}, {}
    with project.database.reading() as connection:
        for photo in list(data.photos)[:8]:
            made, _ = export_photo(project.snapshots.read(connection, photo.id), project.settings)
            key[photo.id], response[photo.id] = chains_of(photo), chains_of(made)
    score = chain_agreement(key, response, rounds=10)
    assert score.key_only == score.response_only == 0
    return score.b3.f1


def test_the_settings_of_a_team_of_five_ask_for_more_than_a_careless_person_gets_right() -> None:
    preset = read_presets()["5"]
    assert preset["test_accuracy"] > 1 - CARELESS.error_rate
    assert preset["rolling_accuracy"] > 1 - CARELESS.error_rate


def test_all_photos_are_finished_and_chains_and_boxes_are_nearly_correct(done: Done) -> None:
    project, _, data = done
    found = read_progress(project)
    assert found.finished == found.photos == 8
    assert score_chains(project, data) > 85


def test_the_spammer_is_excluded_and_no_honest_worker_is(done: Done) -> None:
    project, result, _ = done
    out = {Level.FAILED.value, Level.SUSPENDED.value}
    levels = {result.workers[each.worker].kind: [] for each in read_progress(project).workers if each.levels}
    for each in read_progress(project).workers:
        if each.worker in result.workers:
            levels[result.workers[each.worker].kind].append(set(each.levels.values()))
    assert all(found & out for found in levels[SPAMMER])
    assert sum(bool(found & out) for found in levels[HONEST]) <= 1


def test_links_stay_below_mentions_times_chains(done: Done) -> None:
    project, result, data = done
    bound = 0
    with project.database.reading() as connection:
        for photo in list(data.photos)[:8]:
            chains = project.snapshots.read(connection, photo.id).state.chains
            bound += len(chains) * sum(len(chain.mentions) for chain in chains)
    assert 0 < result.judged[Task.LINK] < bound / 2
