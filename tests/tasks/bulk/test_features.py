"""Features by workers are those of one process, byte for byte, also when a worker is killed on the way."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
import torch

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.tasks.bulk.features import FeaturesPlan, features_by
from deixis.tasks.bulk.workers import Workers, open_workers
from deixis.vision.encoders import open_encoder
from deixis.vision.encoders.opened import IMAGENET
from deixis.vision.encoders.own import save_network
from deixis.vision.encoders.vit import VisionTransformer, ViTShape
from deixis.vision.proposals import open_proposer
from deixis.vision.store import Extras, FeatureStore, ShardLimits, fill_store
from tests.tasks.bulk.conftest import processes_of, scheduler_process, worker_process
from tests.vision.store.small import everything, make_data

LIMITS = ShardLimits(photos=24)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("encoder") / "tiny.safetensors"
    torch.manual_seed(0)
    save_network(path, VisionTransformer(ViTShape(width=32, heads=2, blocks=2, grid=4)), 56, IMAGENET)
    return f"deixis:{path}"


def zipped(dataset: Dataset) -> Dataset:
    """The same data with its photos in an archive."""
    assert dataset.images
    archive = shutil.make_archive(str(dataset.images), "zip", dataset.images.parent, "images")
    shutil.rmtree(dataset.images)
    return Dataset(dataset.path, images=f"zip://images::{archive}")


def files_of(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.iterdir() if not path.name.startswith(".")}


def test_a_killed_worker_leaves_the_bytes_of_one_process(workers: Workers, encoder: str, tmp_path: Path) -> None:
    dataset = make_data(tmp_path, 120)
    (tmp_path / "images" / "0030.png").write_bytes(b"no photo")
    (tmp_path / "images" / "0031.png").unlink()
    dataset = zipped(dataset)
    opened = open_encoder(encoder)
    alone = fill_store(tmp_path / "alone", dataset, opened, limits=LIMITS)
    killed: list[int] = []

    def kill_one(doing: str, done: int, total: int | None) -> None:
        if doing == "encoding" and done == 20 and not killed:
            killed.append(processes_of(workers)[0])
            os.kill(killed[0], signal.SIGKILL)

    compute = features_by(workers, FeaturesPlan(encoder, opened.fingerprint, "cpu"))
    report = fill_store(tmp_path / "many", dataset, opened, limits=LIMITS, compute=compute, on_progress=kill_one)
    assert killed
    assert files_of(tmp_path / "many") == files_of(tmp_path / "alone")
    assert [str(error) for error in report.skipped] == [str(error) for error in alone.skipped]
    assert [error.reason for error in report.skipped] == ["not a photo in a known format", "no such file"]


def test_a_killed_scheduler_keeps_what_was_written_and_the_rest_is_done_by_the_next_run(
    workers: Workers, encoder: str, tmp_path: Path
) -> None:
    dataset, opened = make_data(tmp_path, 120), open_encoder(encoder)
    plan, many = FeaturesPlan(encoder, opened.fingerprint, "cpu"), tmp_path / "many"
    acknowledged: list[bytes] = []
    with scheduler_process() as (address, process), worker_process(address):

        def kill_it(doing: str, done: int, total: int | None) -> None:
            if doing == "encoding" and done == 60:
                acknowledged.extend(path.read_bytes() for path in sorted(many.glob("0*.safetensors")))
                process.kill()

        line = "^the scheduler is gone; what was done is kept, run the same again"
        with pytest.raises(DeixisError, match=line), open_workers(address, print) as doomed:
            compute = features_by(doomed, plan)
            fill_store(many, dataset, opened, limits=LIMITS, compute=compute, on_progress=kill_it)
    assert acknowledged
    assert [path.read_bytes() for path in sorted(many.glob("0*.safetensors"))][: len(acknowledged)] == acknowledged
    report = fill_store(many, dataset, opened, limits=LIMITS, compute=features_by(workers, plan))
    assert report.kept >= LIMITS.photos * len(acknowledged)
    fill_store(tmp_path / "alone", dataset, opened, limits=LIMITS)
    assert everything(FeatureStore(many)) == everything(FeatureStore(tmp_path / "alone"))


def test_crops_and_proposals_are_computed_by_workers_too(workers: Workers, encoder: str, tmp_path: Path) -> None:
    dataset, opened = make_data(tmp_path, 40), open_encoder(encoder)
    extras = Extras(10, open_proposer("fixed", opened.name), 8)
    plan = FeaturesPlan(encoder, opened.fingerprint, "cpu", 10, "fixed", 8)
    fill_store(tmp_path / "alone", dataset, opened, extras=extras)
    fill_store(tmp_path / "many", dataset, opened, extras=extras, compute=features_by(workers, plan))
    assert files_of(tmp_path / "many") == files_of(tmp_path / "alone")


def test_what_was_there_is_not_computed_again(workers: Workers, encoder: str, tmp_path: Path) -> None:
    dataset, opened = make_data(tmp_path, 20), open_encoder(encoder)
    fill_store(tmp_path / "store", dataset, opened, photos=dataset.split("train"))
    compute = features_by(workers, FeaturesPlan(encoder, opened.fingerprint, "cpu"))
    report = fill_store(tmp_path / "store", dataset, opened, compute=compute)
    assert (report.new, report.kept, report.photos) == (5, 15, 20)


def test_a_worker_with_other_weights_is_refused(workers: Workers, encoder: str, tmp_path: Path) -> None:
    compute = features_by(workers, FeaturesPlan(encoder, "another", "cpu"))
    with pytest.raises(DeixisError, match=r"a worker has another version of the encoder deixis:.* \(.*here is another"):
        fill_store(tmp_path / "store", make_data(tmp_path, 4), open_encoder(encoder), compute=compute)
