"""Records round-trip through the tables; directories are written atomically and keep computed features."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from deixis.data import tables as store
from deixis.data.dataset import Dataset, make_dataset
from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.data.tables import read_manifest, write_tables
from deixis.errors import DatasetError, DeixisError
from deixis.storage import atomic
from tests.data.strategies import photo_lists


def made(folder: Path, photos: list[Photo]) -> Dataset:
    make_dataset(folder / "data", photos)
    return Dataset(folder / "data")


@settings(max_examples=60)
@given(photo_lists.filter(bool))
def test_every_field_of_every_photo_round_trips(photos: list[Photo]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        dataset = made(Path(folder), photos)
        assert list(dataset.photos) == photos
        assert [dataset.photos[i] for i in range(len(photos))] == photos
        assert [dataset.photo(photo.id) for photo in photos] == photos
        for split in dataset.manifest.splits:
            assert list(dataset.split(split)) == [photo for photo in photos if split in photo.splits]


@settings(max_examples=60)
@given(photo_lists.filter(bool))
def test_ids_and_rows_of_sentences_are_those_of_a_plain_loop(photos: list[Photo]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        dataset = made(Path(folder), photos)
        texts = dataset.tables["captions"]["text"].to_pylist()
        every_other = dataset.photos[::2]
        for some in (dataset.photos, every_other, dataset.photos[:0], *map(dataset.split, dataset.manifest.splits)):
            assert some.ids == [photo.id for photo in some]
            rows, places = some.sentence_rows()
            plain = [(caption.text, place) for place, photo in enumerate(some) for caption in photo.sentences]
            assert [(texts[row], place) for row, place in zip(rows, places, strict=True)] == plain


def test_rows_that_cross_batches_keep_their_mentions_and_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_PHOTOS_PER_BATCH", 3)
    photos = [
        Photo(
            str(n),
            (Caption.from_text(f"dog {n} runs", (Mention(0, 5, "a", ("animals",)),)),) * (n % 3),
            (Chain("a"), Chain("b", scene=True)),
            tuple(Box((n, n, n + k, n + k), ("a", "b")[:k]) for k in range(n % 4)),
            splits=("even",) if n % 2 == 0 else ("odd",),
        )
        for n in range(11)
    ]
    dataset = made(tmp_path, photos)
    assert list(dataset.photos) == photos
    assert list(dataset.split("odd")) == photos[1::2]
    assert list(dataset.photos[2:7]) == photos[2:7]
    assert dataset.photos[-1] == photos[-1]


def test_an_unknown_split_or_photo_is_named(tmp_path: Path) -> None:
    dataset = made(tmp_path, [Photo("1", splits=("train",))])
    with pytest.raises(DatasetError, match="'dev'.*train"):
        dataset.split("dev")
    with pytest.raises(DatasetError, match="no photo '2'"):
        dataset.photo("2")
    with pytest.raises(IndexError):
        dataset.photos[1]


def mentioning(*spans: tuple[int, int]) -> Photo:
    mentions = tuple(Mention(*span, "7") for span in spans)
    return Photo("1", (Caption.from_text("A dog", mentions),), (Chain("7"),))


dog = mentioning((0, 5))


@pytest.mark.parametrize(
    ("photos", "message"),
    [
        ([dog, dog], "photo 1: duplicate"),
        ([replace(dog, id="../evil")], "file name"),
        ([replace(dog, splits=("../train",))], "file name"),
        ([replace(dog, chains=())], "chain '7'"),
        ([replace(dog, chains=(Chain("7"), Chain("7")))], "chains"),
        ([replace(dog, boxes=(Box((0, 0, 1, float("nan"))),))], "box 1"),
        ([mentioning((3, 9))], "caption 1: the mention at 3–9"),
        ([mentioning((2, 2))], "mention at 2–2"),
        ([mentioning((0, 3), (2, 5))], "caption 1: the mention at 2–5"),
        ([mentioning((2, 5), (0, 1))], "caption 1: the mention at 0–1"),
    ],
)
def test_records_that_the_tables_cannot_hold_are_refused(tmp_path: Path, photos: list[Photo], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        write_tables(photos, tmp_path)


def test_a_damaged_or_missing_table_is_named(tmp_path: Path) -> None:
    data = made(tmp_path, [dog]).path
    captions = data / "captions.arrow"
    whole = captions.read_bytes()
    assert b"A dog" in whole
    for damaged in (whole[: len(whole) // 2], whole.replace(b"A dog", b"A hog")):
        captions.write_bytes(damaged)
        with pytest.raises(DatasetError, match="captions.arrow"):
            list(Dataset(data).photos)
    captions.unlink()
    with pytest.raises(DatasetError, match="captions.arrow"):
        list(Dataset(data).photos)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "damaged"),
        ("[]", "manifest.json"),
        ('{"format": "deixis-dataset", "version": 99}', "version 99"),
        ('{"format": "deixis-dataset", "version": 1}', "version 1"),
    ],
)
def test_an_unusable_manifest_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DatasetError, match=message):
        read_manifest(tmp_path)


def test_a_folder_that_is_no_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="deixis data import"):
        Dataset(tmp_path)
    with pytest.raises(DatasetError, match="nowhere"):
        Dataset(tmp_path / "nowhere")


def make(folder: Path, *names: str) -> Dataset:
    make_dataset(folder, [Photo(name, (Caption.from_text("A dog."),)) for name in names], replace_old=True)
    return Dataset(folder)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data set of one photo, with features that somebody is still adding to."""
    store = make(tmp_path / "data", "1").path / "features" / "store"
    (store / "fitted-1").mkdir(parents=True)
    (store / "manifest.json").write_text("{}")
    (store / "000000.safetensors").write_bytes(b"numbers")
    (store / "fitted-1" / ".made-by-deixis").touch()
    (store.parent / ".store.lock").touch()
    (store / ".000001.partial-x.safetensors").touch()
    return tmp_path / "data"


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


KEPT = {"store/manifest.json", "store/000000.safetensors", "store/fitted-1/.made-by-deixis"}


def test_a_new_import_keeps_the_features_of_the_old_one_as_hard_links(data: Path) -> None:
    shard = data / "features" / "store" / "000000.safetensors"
    before = shard.stat().st_ino
    assert [photo.id for photo in make(data, "2", "3").photos] == ["2", "3"]
    assert files_of(data / "features") == KEPT
    assert (shard.read_bytes(), shard.stat().st_ino) == (b"numbers", before)


def test_a_file_system_without_links_gets_copies(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(old: str, new: str) -> None:
        raise PermissionError(old)

    monkeypatch.setattr(os, "link", refuse)
    make(data, "2")
    assert files_of(data / "features") == KEPT


def test_a_linked_features_folder_stays_a_link(data: Path, tmp_path: Path) -> None:
    shutil.move(data / "features", tmp_path / "large-disk")
    (data / "features").symlink_to(Path("..") / "large-disk")
    make(data, "2")
    assert (data / "features").readlink() == Path("..") / "large-disk"
    assert files_of(tmp_path / "large-disk") >= KEPT


def test_a_failed_import_does_not_change_the_old_features(data: Path) -> None:
    before = files_of(data)
    with pytest.raises(DatasetError, match="no photos"):
        make(data)
    assert files_of(data) == before


def test_an_import_that_fails_at_the_end_does_not_change_the_old_features(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(partial: Path, target: Path) -> None:
        assert files_of(partial / "features") == KEPT
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before = files_of(data)
    monkeypatch.setattr(atomic, "_move_into_place", fail)
    with pytest.raises(DeixisError, match="Input/output error"):
        make(data, "2")
    assert files_of(data) == before
    assert [photo.id for photo in Dataset(data).photos] == ["1"]
