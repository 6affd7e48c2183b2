"""A small crowd with known errors: the workflow brings out the truth, and the bad are caught."""

from __future__ import annotations

from pathlib import Path

import pytest

from deixis.annotate.exporting import exported
from deixis.annotate.known import add_known
from deixis.annotate.material import material_of
from deixis.annotate.progress import progress
from deixis.annotate.project import Project, add_photos
from deixis.annotate.rehearsal import ADVERSARY, HONEST, SPAMMER, Rehearsal, Truth, rehearse
from deixis.annotate.settings import Settings
from deixis.annotate.standing import Level
from deixis.annotate.store.engine import Database
from deixis.annotate.walks import Task
from deixis.data.dataset import Dataset
from deixis.data.importing import import_dataset
from deixis.data.samples import SAMPLES
from deixis.evaluation.agreement import chain_agreement, chains_of


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Rehearsal, Dataset]:
    """Six honest workers, a spammer and an adversary on the sample photos."""
    folder: Path = tmp_path_factory.mktemp("data") / "data"
    import_dataset(folder, images=SAMPLES / "images", entities=SAMPLES / "entities")
    data = Dataset(folder)
    photos = list(data.photos)
    database = Database("sqlite://")
    database.make()
    settings = Settings(test_questions=5, test_accuracy=0.7, first_items=8, first_accuracy=0.7, rolling_items=8)
    project = Project(Path(), database, settings)
    add_known(project, photos[8:])
    add_photos(project, [material_of(photo) for photo in photos[:8]])
    truths = {photo.id: Truth(photo) for photo in photos}
    known = frozenset(photo.id for photo in photos[8:])
    crowd = {HONEST: 6, SPAMMER: 1, ADVERSARY: 1}
    return project, rehearse(project, truths, crowd, seed=3, known_photos=known), data


def test_all_photos_are_finished_and_chains_and_boxes_are_nearly_right(
    done: tuple[Project, Rehearsal, Dataset],
) -> None:
    project, _, data = done
    found = progress(project)
    assert found.finished == found.photos == 8
    key, response = {}, {}
    with project.database.reading() as connection:
        for photo in list(data.photos)[:8]:
            made = exported(project.folds.at(connection, photo.id), project.settings).photo
            key[photo.id], response[photo.id] = chains_of(photo), chains_of(made)
    score = chain_agreement(key, response, rounds=10)
    assert score.key_only == score.response_only == 0
    assert score.b3.f1 > 85


def test_the_spammer_is_kept_out_and_no_honest_worker_is(done: tuple[Project, Rehearsal, Dataset]) -> None:
    project, rehearsal, _ = done
    out = {Level.FAILED.value, Level.SUSPENDED.value}
    levels = {rehearsal.workers[each.worker].kind: [] for each in progress(project).workers if each.levels}
    for each in progress(project).workers:
        if each.worker in rehearsal.workers:
            levels[rehearsal.workers[each.worker].kind].append(set(each.levels.values()))
    assert all(found & out for found in levels[SPAMMER])
    assert sum(bool(found & out) for found in levels[HONEST]) <= 1


def test_links_stay_below_mentions_times_chains(done: tuple[Project, Rehearsal, Dataset]) -> None:
    project, rehearsal, data = done
    bound = 0
    with project.database.reading() as connection:
        for photo in list(data.photos)[:8]:
            chains = project.folds.at(connection, photo.id).state.chains
            bound += len(chains) * sum(len(chain.mentions) for chain in chains)
    assert 0 < rehearsal.asked[Task.LINK] < bound / 2
