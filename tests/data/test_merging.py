"""Merging of data sets."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.merging import MergeReport, merge_datasets
from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.errors import DatasetError

DOG = Photo(
    "dog",
    (Caption.from_text("A dog runs.", (Mention(0, 5, "7", ("animals",)),)),),
    chains=(Chain("7"),),
    boxes=(Box((0, 0, 5, 5), ("7",)),),
    splits=("train",),
)
CAT = Photo("cat", (Caption.from_text("A cat."),), splits=("dev",))
COW = Photo("cow", (Caption.from_text("A cow."),))
BEAR = Photo("bear", (Caption.from_text("A bear."),), splits=("train",))
OTHER_CAT = Photo("cat", (Caption.from_text("Another cat."),), splits=("val",))


def write(folder: Path, name: str, *photos: Photo, content: dict[str, bytes] | None = None) -> Path:
    """Write a data set; with `content`, photo files that are hashed but no images."""
    images = None
    if content is not None:
        images = folder / name / "photos"
        images.mkdir(parents=True)
        found = []
        for photo in photos:
            data = content.get(photo.id, f"{name} {photo.id}".encode())
            (images / f"{photo.id}.jpg").write_bytes(data)
            found.append(replace(photo, file=f"{photo.id}.jpg", sha256=hashlib.sha256(data).hexdigest()))
        photos = tuple(found)
    make_dataset(folder / f"{name}.data", photos, images=images, licence=f"licence of {name}")
    return folder / f"{name}.data"


def run(folder: Path, *paths: Path, **options: object) -> tuple[Dataset, MergeReport]:
    report = merge_datasets(folder / "all.data", paths, **options)  # type: ignore[arg-type]
    return Dataset(folder / "all.data"), report


def test_all_photos_are_kept_and_splits_of_the_same_name_are_joined(tmp_path: Path) -> None:
    merged, report = run(tmp_path, write(tmp_path, "a", DOG, CAT, COW), write(tmp_path, "b", BEAR))
    assert list(merged.photos) == [DOG, CAT, COW, BEAR]
    assert merged.split("train").ids == ["dog", "bear"]
    assert report.splits == {"train": 2, "dev": 1}
    assert merged.manifest.licence == "licence of a; licence of b"
    assert [source["name"] for source in merged.manifest.sources] == ["a.data", "b.data"]


def test_splits_are_put_together_by_name(tmp_path: Path) -> None:
    sources = write(tmp_path, "a", DOG, CAT, COW), write(tmp_path, "b", BEAR)
    parts = {"fit": [("a", "train"), ("b", "train")], "a_dev": [("a", "dev")], "bears": [("b", "train")]}
    merged, _ = run(tmp_path, *sources, splits=parts)
    assert {photo.id: photo.splits for photo in merged.photos} == {
        "dog": ("fit",),
        "cat": ("a_dev",),
        "bear": ("fit", "bears"),
    }


def test_an_id_that_is_taken_gets_the_name_of_its_data_set(tmp_path: Path) -> None:
    merged, report = run(tmp_path, write(tmp_path, "a", CAT), write(tmp_path, "b", OTHER_CAT))
    assert merged.photos.ids == ["cat", "b-cat"]
    assert merged.photo("b-cat").captions == OTHER_CAT.captions
    assert report.renamed == ["b-cat"]


def test_photo_files_are_found_where_they_are(tmp_path: Path) -> None:
    sources = write(tmp_path, "a", DOG, content={}), write(tmp_path, "b", CAT, content={})
    merged, _ = run(tmp_path, *sources)
    assert [merged.path_of(photo).read_bytes() for photo in merged.photos] == [b"a dog", b"b cat"]
    assert merged.path_of(merged.photo("cat")) == tmp_path.resolve() / "b" / "photos" / "cat.jpg"


def test_a_photo_in_two_data_sets_is_kept_once(tmp_path: Path) -> None:
    first = write(tmp_path, "a", DOG, CAT, content={"dog": b"same", "cat": b"same"})
    second = write(tmp_path, "b", BEAR, COW, content={"bear": b"same"})
    merged, report = run(tmp_path, first, second)
    assert merged.photos.ids == ["dog", "cat", "cow"]  # doubles within one data set are its own affair
    assert report.same_photo == 1


def test_a_left_out_photo_does_not_hide_its_copy(tmp_path: Path) -> None:
    first = write(tmp_path, "a", DOG, CAT, content={"cat": b"same"})
    second = write(tmp_path, "b", BEAR, content={"bear": b"same"})
    merged, _ = run(tmp_path, first, second, splits={"train": [("a", "train"), ("b", "train")]})
    assert merged.photos.ids == ["dog", "bear"]


def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    a, b = write(tmp_path, "a", DOG), write(tmp_path, "b", BEAR)
    (tmp_path / "other").mkdir()
    same_name = write(tmp_path / "other", "a", BEAR)
    with_photos = write(tmp_path, "c", CAT, content={})
    with pytest.raises(DatasetError, match="at least two"):
        run(tmp_path, a)
    with pytest.raises(DatasetError, match="'a'"):
        run(tmp_path, a, same_name)
    with pytest.raises(DatasetError, match="--images"):
        run(tmp_path, a, with_photos)
    with pytest.raises(DatasetError, match="no data set 'x'"):
        run(tmp_path, a, b, splits={"train": [("x", "train")]})
    with pytest.raises(DatasetError, match="no split 'test'"):
        run(tmp_path, a, b, splits={"train": [("a", "test")]})
    assert not (tmp_path / "all.data").exists()
