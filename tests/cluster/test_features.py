"""Features that workers compute equal those of one process, also if a worker is killed."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from deixis.cluster import ClusterWorkers, FeaturesJob, cluster_features, open_workers
from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.vision.encoders import open_encoder
from deixis.vision.feature_store import FeatureOptions, FeatureStore, update_store
from deixis.vision.proposals import open_proposer
from tests.cluster.conftest import processes_of, scheduler_process, tiny_encoder, worker_process
from tests.vision.feature_store.small import make_data


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


def zipped(dataset: Dataset) -> Dataset:
    """The same data with its photos in an archive."""
    assert dataset.images
    archive = shutil.make_archive(str(dataset.images), "zip", dataset.images.parent, "images")
    shutil.rmtree(dataset.images)
    return Dataset(dataset.path, images=f"zip://images::{archive}")


def files_of(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.iterdir() if not path.name.startswith(".")}


def test_a_killed_worker_does_not_change_the_bytes(workers: ClusterWorkers, encoder: str, tmp_path: Path) -> None:
    dataset = make_data(tmp_path, 120)
    (tmp_path / "images" / "0030.png").write_bytes(b"no photo")
    (tmp_path / "images" / "0031.png").unlink()
    dataset = zipped(dataset)
    load = open_encoder(encoder)
    alone = update_store(tmp_path / "alone", dataset, load, shard_photos=24)
    killed: list[int] = []

    def kill_one(doing: str, done: int, total: int | None) -> None:
        if doing == "encoding" and done == 20 and not killed:
            killed.append(processes_of(workers)[0])
            os.kill(killed[0], signal.SIGKILL)

    compute = cluster_features(workers, FeaturesJob(encoder, load.fingerprint, "cpu"))
    report = update_store(tmp_path / "many", dataset, load, shard_photos=24, compute=compute, on_progress=kill_one)
    assert killed
    assert files_of(tmp_path / "many") == files_of(tmp_path / "alone")
    assert [str(error) for error in report.skipped] == [str(error) for error in alone.skipped]
    assert [error.reason for error in report.skipped] == ["not a photo in a known format", "no such file"]


def test_after_a_killed_scheduler_the_next_run_continues(workers: ClusterWorkers, encoder: str, tmp_path: Path) -> None:
    dataset, load = make_data(tmp_path, 120), open_encoder(encoder)
    job, many = FeaturesJob(encoder, load.fingerprint, "cpu"), tmp_path / "many"
    acknowledged: list[bytes] = []
    with scheduler_process() as (address, process), worker_process(address):

        def kill_it(doing: str, done: int, total: int | None) -> None:
            if doing == "encoding" and done == 60:
                acknowledged.extend(path.read_bytes() for path in sorted(many.glob("0*.safetensors")))
                process.kill()

        with pytest.raises(DeixisError, match="scheduler"), open_workers(address, print) as doomed:
            compute = cluster_features(doomed, job)
            update_store(many, dataset, load, shard_photos=24, compute=compute, on_progress=kill_it)
    assert acknowledged
    assert [path.read_bytes() for path in sorted(many.glob("0*.safetensors"))][: len(acknowledged)] == acknowledged
    report = update_store(many, dataset, load, shard_photos=24, compute=cluster_features(workers, job))
    assert report.kept >= 24 * len(acknowledged)
    update_store(tmp_path / "alone", dataset, load, shard_photos=24)
    found, expected = FeatureStore(many), FeatureStore(tmp_path / "alone")
    assert set(found.ids) == set(expected.ids)
    for name in expected.ids:  # the runs met photos in different batches
        ours, theirs = found.map(name), expected.map(name)
        assert ours.size == theirs.size
        np.testing.assert_allclose(ours.whole, theirs.whole, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ours.cells, theirs.cells, rtol=2e-3, atol=1e-3)  # kept in half precision


def test_crops_and_proposals_are_computed_by_workers_too(workers: ClusterWorkers, encoder: str, tmp_path: Path) -> None:
    dataset, load = make_data(tmp_path, 40), open_encoder(encoder)
    extras = FeatureOptions(10, open_proposer("fixed", load.name), 8)
    job = FeaturesJob(encoder, load.fingerprint, "cpu", 10, "fixed", 8)
    update_store(tmp_path / "alone", dataset, load, options=extras)
    update_store(tmp_path / "many", dataset, load, options=extras, compute=cluster_features(workers, job))
    assert files_of(tmp_path / "many") == files_of(tmp_path / "alone")


def test_a_worker_with_other_weights_is_an_error(workers: ClusterWorkers, encoder: str, tmp_path: Path) -> None:
    compute = cluster_features(workers, FeaturesJob(encoder, "another", "cpu"))
    with pytest.raises(DeixisError, match="encoder deixis:.*another"):
        update_store(tmp_path / "store", make_data(tmp_path, 4), open_encoder(encoder), compute=compute)
