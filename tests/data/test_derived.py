"""New data sets from existing ones: merging, and splits by numbers, by the papers' rules and by a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.derived import RULES, Draw, MergeReport, SplitRule, merge_datasets, split_dataset
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


def make_data(path: Path, numbers: Sequence[int] = range(30)) -> Path:
    photos = [
        Photo(f"{number:02d}", (Caption.from_text("A dog."),), splits=("val" if number % 3 == 0 else "train",))
        for number in numbers
    ]
    make_dataset(path, photos, sources=[("coco-captions", Path("captions.json"))])
    return path


def splits_of(path: Path) -> dict[str, tuple[str, ...]]:
    return {photo.id: photo.splits for photo in Dataset(path).photos}


def test_photos_are_drawn_once_and_leave_their_splits(tmp_path: Path) -> None:
    data = make_data(tmp_path / "old")
    rule = SplitRule((Draw("dev", 4, "val"), Draw("test", 3, "val"), Draw("more", 5)))
    manifest = split_dataset(tmp_path / "new", data, rule)
    assert {name: manifest.splits[name] for name in ("dev", "test", "more")} == {"dev": 4, "test": 3, "more": 5}
    before, after = splits_of(data), splits_of(tmp_path / "new")
    for photo, splits in after.items():
        assert len(splits) == 1
        if splits in (("dev",), ("test",)):
            assert before[photo] == ("val",)
        elif splits != ("more",):
            assert splits == before[photo]
    assert Dataset(tmp_path / "new").manifest.sources == Dataset(data).manifest.sources


def test_the_seed_and_the_ids_decide_and_not_the_order_of_photos(tmp_path: Path) -> None:
    rule = SplitRule((Draw("dev", 10),), rest="train")
    one, other = make_data(tmp_path / "one"), make_data(tmp_path / "other", range(29, -1, -1))
    found = []
    for name, data, seed in (("a", one, 3), ("b", other, 3), ("c", one, 4)):
        split_dataset(tmp_path / name, data, rule, seed=seed)
        found.append(splits_of(tmp_path / name))
    assert found[0] == found[1] != found[2]
    assert set(found[0].values()) == {("dev",), ("train",)}


def test_the_papers_rules(tmp_path: Path) -> None:
    assert {name: [(draw.split, draw.count, draw.source) for draw in rule.draws] for name, rule in RULES.items()} == {
        "coco": [("dev", 4000, "val"), ("test", 1000, "val")],
        "flickr30k": [("dev", 1000, ""), ("test", 1000, "")],
        "iapr": [("dev", 1000, "train")],
    }
    small = SplitRule((Draw("dev", 4, "val"),), RULES["coco"].rest, RULES["coco"].drop)
    manifest = split_dataset(tmp_path / "new", make_data(tmp_path / "old"), small)
    assert manifest.splits == {"dev": 4, "train": 20}, "the other photos of val are in no split"


@pytest.mark.parametrize(("draw", "words"), [(Draw("dev", 11, "val"), "dev=11"), (Draw("dev", 1, "x"), "'x'")])
def test_too_many_photos_and_unknown_splits_are_named(tmp_path: Path, draw: Draw, words: str) -> None:
    with pytest.raises(DatasetError, match=words):
        split_dataset(tmp_path / "new", make_data(tmp_path / "old"), SplitRule((draw,)))
    assert not (tmp_path / "new").exists()
