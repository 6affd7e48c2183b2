"""Updating a feature store: only missing features, kills, full disks, concurrent processes and bad photos."""

from __future__ import annotations

import errno
import os
import tracemalloc
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.data import images
from deixis.data.dataset import Dataset
from deixis.data.images import opened_photo
from deixis.errors import DeixisError
from deixis.storage.atomic import exclusive_lock
from deixis.vision import encoder as image_encoders
from deixis.vision.encoder import ImageEncoder, InputSize
from deixis.vision.feature_store import FeatureOptions, FeatureStore, is_up_to_date, update_store, updates
from deixis.vision.feature_store.files import FileStamp
from tests.vision.feature_store.small import (
    Corners,
    colour_encoder,
    colours,
    draw,
    everything,
    flip_last_byte,
    make_data,
)


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return make_data(tmp_path, 20)


@pytest.fixture
def unbroken(dataset: Dataset, tmp_path: Path) -> dict[str, tuple]:
    """The contents of the store after an undisturbed run."""
    update_store(tmp_path / "unbroken", dataset, colour_encoder(), shard_photos=4)
    return everything(FeatureStore(tmp_path / "unbroken"))


def test_a_second_run_computes_nothing_and_reads_no_photo(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = update_store(tmp_path / "store", dataset, colour_encoder())
    assert (first.photos, first.new, first.kept) == (20, 20, 0)

    def never(photo: object) -> None:
        raise AssertionError("a photo was read or encoded again")

    monkeypatch.setattr(updates, "read_stamp", never)
    again = update_store(tmp_path / "store", dataset, colour_encoder(network=never))
    assert (again.photos, again.new, again.kept) == (20, 0, 20)


def test_splits_may_be_computed_one_after_another(dataset: Dataset, tmp_path: Path, unbroken: dict[str, tuple]) -> None:
    report = update_store(tmp_path / "store", dataset, colour_encoder(), photos=dataset.split("dev"))
    assert (report.photos, report.dropped) == (5, 0)
    report = update_store(tmp_path / "store", dataset, colour_encoder())
    assert (report.photos, report.new, report.kept) == (20, 15, 5)
    assert everything(FeatureStore(tmp_path / "store")) == unbroken


def test_a_changed_photo_is_computed_again_and_a_touched_one_is_not(dataset: Dataset, tmp_path: Path) -> None:
    update_store(tmp_path / "store", dataset, colour_encoder(), shard_photos=4)
    before = everything(FeatureStore(tmp_path / "store"))
    draw(tmp_path / "images" / "0003.png", 999)
    os.utime(tmp_path / "images" / "0005.png", (10**10, 10**10))  # in 2286, which does not fit into 64 bits
    report = update_store(tmp_path / "store", dataset, colour_encoder())
    assert (report.photos, report.new, report.redone, report.kept) == (20, 0, 1, 19)
    after = everything(FeatureStore(tmp_path / "store"))
    assert [name for name in before if before[name] != after[name]] == ["0003"]


def test_a_changed_photo_of_the_same_length_is_noticed(dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "images" / "0003.png"
    Image.new("RGB", (20, 20), "red").save(path, format="BMP")
    update_store(tmp_path / "store", dataset, colour_encoder())
    before = path.stat()
    Image.new("RGB", (20, 20), "green").save(path, format="BMP")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert path.stat().st_size == before.st_size
    assert update_store(tmp_path / "store", dataset, colour_encoder()).redone == 1


def test_photos_removed_from_the_data_set_are_removed_from_the_store(dataset: Dataset, tmp_path: Path) -> None:
    update_store(tmp_path / "store", dataset, colour_encoder(), shard_photos=4)
    smaller = make_data(tmp_path, 10, begin=4, replace=True)
    report = update_store(tmp_path / "store", smaller, colour_encoder())
    assert (report.photos, report.dropped, report.kept) == (10, 10, 10)
    store = FeatureStore(tmp_path / "store")
    assert store.ids == [photo.id for photo in smaller.photos]
    assert len(store.manifest.shards) == 3  # those of which nothing is left are gone too
    update_store(tmp_path / "store", smaller, colour_encoder())
    assert len(list((tmp_path / "store").glob("*.safetensors"))) == 3


def test_a_bad_photo_is_reported_and_skipped_and_tried_again(dataset: Dataset, tmp_path: Path) -> None:
    bad, missing = tmp_path / "images" / "0004.png", tmp_path / "images" / "0007.png"
    good = bad.read_bytes()
    bad.write_bytes(b"no photo")
    missing.unlink()
    report = update_store(tmp_path / "store", dataset, colour_encoder(), shard_photos=4)
    assert [error.path for error in report.skipped] == [str(bad), str(missing)]
    assert report.new == 18
    bad.write_bytes(good)
    report = update_store(tmp_path / "store", dataset, colour_encoder())
    assert (report.new, len(report.skipped)) == (1, 1)


def test_a_damaged_photo_loses_its_features_and_a_missing_one_keeps_them(dataset: Dataset, tmp_path: Path) -> None:
    update_store(tmp_path / "store", dataset, colour_encoder(), shard_photos=4)
    (tmp_path / "images" / "0004.png").write_bytes(b"no photo")
    (tmp_path / "images" / "0007.png").unlink()
    report = update_store(tmp_path / "store", dataset, colour_encoder())
    assert (report.photos, report.dropped, len(report.skipped)) == (19, 1, 2)
    store = FeatureStore(tmp_path / "store")
    assert "0004" not in store
    assert "0007" in store


def test_a_store_that_cannot_be_written_is_no_unreadable_photo(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update_store(tmp_path / "store", dataset, colour_encoder(), shard_photos=4)
    (tmp_path / "images" / "0004.png").write_bytes(b"no photo")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("deixis.vision.feature_store.store.write_manifest", fail)
    with pytest.raises(DeixisError, match="disk is full"):
        update_store(tmp_path / "store", dataset, colour_encoder())


def test_a_temporarily_unreadable_photo_keeps_its_features(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update_store(tmp_path / "store", dataset, colour_encoder(), shard_photos=4)
    before = everything(FeatureStore(tmp_path / "store"))
    locked = tmp_path / "images" / "0004.png"
    os.utime(locked)
    read_stamp = updates.read_stamp

    def refuse(path: Path) -> FileStamp:
        if path == locked:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return read_stamp(path)

    monkeypatch.setattr(updates, "read_stamp", refuse)
    report = update_store(tmp_path / "store", dataset, colour_encoder())
    assert (report.photos, report.dropped, len(report.skipped)) == (20, 0, 1)
    assert everything(FeatureStore(tmp_path / "store")) == before


def test_a_temporarily_unreadable_shard_raises_and_nothing_is_computed(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbroken: dict[str, tuple]
) -> None:
    manifest, opens = tmp_path / "unbroken" / "manifest.json", os.open
    before = manifest.read_bytes()

    def refuse(path: Path, *args: int, **settings: int) -> int:
        if str(path).endswith(".safetensors"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opens(path, *args, **settings)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with pytest.raises(DeixisError, match=r"safetensors: cannot be read \(Permission denied\)"):
            update_store(tmp_path / "unbroken", dataset, colour_encoder())
    assert manifest.read_bytes() == before
    assert everything(FeatureStore(tmp_path / "unbroken")) == unbroken


def test_other_files_in_the_store_are_never_removed(dataset: Dataset, tmp_path: Path) -> None:
    update_store(tmp_path / "store", dataset, colour_encoder())
    ours = ["000077-0123abcd.safetensors", ".000077-0123abcd.partial-x.safetensors", ".manifest.partial-x.json"]
    others = ["mine.safetensors", ".mine.partial-x"]
    for name in ours + others:
        (tmp_path / "store" / name).write_bytes(b"years of work")
    update_store(tmp_path / "store", dataset, colour_encoder())
    assert [(tmp_path / "store" / name).exists() for name in ours + others] == [False] * 3 + [True] * 2


def test_is_up_to_date_works_while_another_process_writes(dataset: Dataset, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert not is_up_to_date(store, dataset, colour_encoder())
    update_store(store, dataset, colour_encoder(), photos=dataset.photos[:10])
    assert not is_up_to_date(store, dataset, colour_encoder())
    assert is_up_to_date(store, dataset, colour_encoder(), photos=dataset.photos[:10])
    update_store(store, dataset, colour_encoder())
    with exclusive_lock(store):
        assert is_up_to_date(store, dataset, colour_encoder())
    shard = next(store.glob("*.safetensors"))
    flip_last_byte(shard)
    assert not is_up_to_date(store, dataset, colour_encoder())
    flip_last_byte(shard)
    draw(tmp_path / "images" / "0003.png", 999)
    assert not is_up_to_date(store, dataset, colour_encoder())


@pytest.mark.parametrize("crops", [0, 10])
def test_features_that_are_not_finite_are_not_stored(dataset: Dataset, tmp_path: Path, crops: int) -> None:
    calls = iter(range(100))

    def overflowing(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cells, whole = colours(pixels)
        if crops:
            return cells, whole * np.nan if len(pixels) == crops and next(calls) == 2 else whole
        cells[pixels.reshape(len(pixels), -1)[:, 0] > 128] *= 1e6
        return cells, whole

    encoder = colour_encoder(network=overflowing)
    report = update_store(tmp_path / "store", dataset, encoder, options=FeatureOptions(crops=crops))
    assert report.new + len(report.skipped) == 20
    assert len(report.skipped) == 1 if crops else 0 < len(report.skipped) < 20


@pytest.mark.parametrize(
    "extras",
    [FeatureOptions(), FeatureOptions(crops=10), FeatureOptions(10, Corners(), 2)],
    ids=["map", "crops", "all"],
)
def test_a_photo_is_decoded_once_and_encoded_once(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extras: FeatureOptions
) -> None:
    decoded: list[Path] = []
    encoded: list[int] = []

    def counted(path: Path, *arguments: object, **options: object) -> AbstractContextManager[Image.Image]:
        decoded.append(path)
        return opened_photo(path, *arguments, **options)

    def watched(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        encoded.append(len(pixels))
        return colours(pixels)

    for module in (images, image_encoders):
        monkeypatch.setattr(module, "opened_photo", counted)
    update_store(tmp_path / "store", dataset, colour_encoder(network=watched), options=extras)
    assert sorted(decoded) == sorted(dataset.path_of(photo) for photo in dataset.photos)
    assert sum(encoded) == 20 * (11 if extras.crops else 1)


def test_a_folder_that_is_no_store_is_refused(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="exists already.*--out"):
        update_store(tmp_path / "images", dataset, colour_encoder())
    assert not (tmp_path / "images" / "manifest.json").exists()


def test_missing_photo_folders_are_named(tmp_path: Path) -> None:
    dataset = make_data(tmp_path, 2)
    with pytest.raises(DeixisError, match="elsewhere: .*--images DIR"):
        update_store(tmp_path / "store", Dataset(dataset.path, images=tmp_path / "elsewhere"), colour_encoder())
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("harm", ["flip", "truncate", "remove"])
def test_a_damaged_shard_is_named_and_computed_again(
    dataset: Dataset, tmp_path: Path, unbroken: dict[str, tuple], harm: str
) -> None:
    shard = tmp_path / "unbroken" / FeatureStore(tmp_path / "unbroken").manifest.shards[2].file
    if harm == "flip":
        flip_last_byte(shard)
    elif harm == "truncate":
        shard.write_bytes(shard.read_bytes()[:100])
    else:
        shard.unlink()
    report = update_store(tmp_path / "unbroken", dataset, colour_encoder(), shard_photos=4)
    assert report.damaged == [shard.name]
    assert (report.new, report.kept) == (4, 16)
    store = FeatureStore(tmp_path / "unbroken")
    assert store.damaged() == []
    assert everything(store) == unbroken


def test_ctrl_c_saves_computed_features(dataset: Dataset, tmp_path: Path) -> None:
    def stop(doing: str, done: int, total: int | None) -> None:
        if doing == "encoding" and done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        update_store(tmp_path / "store", dataset, colour_encoder(), on_progress=stop)
    assert len(FeatureStore(tmp_path / "store")) == 7


def test_memory_does_not_grow_with_the_photos(tmp_path: Path) -> None:
    def large(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.ones((len(pixels), 64, 16, 16), np.float32), np.ones((len(pixels), 64), np.float32)

    encoder = ImageEncoder("large", large, InputSize(8), channels=64, dimension=64, fingerprint="large")
    peaks = []
    for count in (64, 256):
        dataset = make_data(tmp_path / str(count), count)
        tracemalloc.start()
        update_store(tmp_path / str(count) / "store", dataset, encoder, shard_photos=16)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]  # with all maps it would be four times
