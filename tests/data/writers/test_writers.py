"""What holds for all writers."""

from __future__ import annotations

import tempfile
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.data.writers import FORMATS, write_as
from deixis.errors import DeixisError
from tests.data.strategies import photo_lists

OURS = sorted(FORMATS.keys() - {"entities"})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_unknown_format_is_refused_with_the_names_of_the_known_ones(folder: Path) -> None:
    with pytest.raises(DeixisError, match="'yolo'.*" + ", ".join(FORMATS)):
        write_as([], "yolo", folder)


@pytest.mark.parametrize("name", OURS)
@settings(max_examples=40, deadline=None)
@given(photos=photo_lists)
def test_no_writer_fails_on_odd_photos(name: str, photos: list[Photo]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # odvg refuses data without a single region.
        write_as([*photos, *long_photos(1)], name, Path(folder))
        assert contents(Path(folder))


@pytest.mark.parametrize("name", OURS)
def test_an_empty_list_of_photos_can_be_written(name: str, folder: Path) -> None:
    write_as([], name, folder)


@pytest.mark.parametrize("name", OURS)
def test_the_same_photos_give_the_same_bytes(name: str, dogs: list[Photo], images: Path, tmp_path: Path) -> None:
    written = []
    for number, photos in enumerate((dogs, iter(dogs))):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_as(photos, name, folder, images=images)
        written.append(contents(folder))
    assert written[0]
    assert written[0] == written[1]


@pytest.mark.parametrize("name", sorted(set(OURS) - {"parquet"}))
def test_photos_are_copied_only_with_images(name: str, dogs: list[Photo], images: Path, folder: Path) -> None:
    write_as(dogs, name, folder)
    assert not (folder / "images").exists()
    write_as(dogs, name, folder, images=images)
    copies = {path: data for path, data in contents(folder).items() if path.startswith("images")}
    assert copies == {str(Path("images/zoo/101.jpg")): b"the bytes of 101"}


@pytest.mark.parametrize("name", OURS)
def test_a_missing_photo_is_named(name: str, images: Path, folder: Path) -> None:
    with pytest.raises(DeixisError, match=r"gone\.jpg"):
        write_as([Photo("1", file="gone.jpg")], name, folder, images=images)


@pytest.mark.parametrize("name", OURS)
def test_a_file_outside_the_photo_folder_is_refused(name: str, images: Path, folder: Path) -> None:
    (images.parent / "secret").write_text("secret")
    with pytest.raises(DeixisError, match=r"photo '1': file '\.\./secret'"):
        write_as([Photo("1", file="../secret")], name, folder, images=images)


@pytest.mark.parametrize("name", ["coco", "karpathy", "odvg", "parquet"])
def test_a_split_name_cannot_leave_the_folder(name: str, dogs: list[Photo], folder: Path) -> None:
    with pytest.raises(DeixisError, match=r"split '\.\./train'"):
        write_as([replace(dogs[0], splits=("../train",))], name, folder)


def long_photos(count: int) -> Iterator[Photo]:
    for number in range(count):
        caption = Caption(f"{number}" * 1000, (), (Mention(0, 1, "1"),))
        yield Photo(str(number), (caption,), (Chain("1"),), (Box((0, 0, 9, 9), ("1",)),), 10, 10)


@pytest.mark.parametrize("name", sorted(set(OURS) - {"parquet"}))
def test_photos_are_not_held_in_memory(name: str, folder: Path) -> None:
    write_as(long_photos(1), name, folder)  # what is imported at the first call does not count
    tracemalloc.start()
    try:
        write_as(long_photos(1000), name, folder)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(path.stat().st_size for path in folder.iterdir()) > 2_500_000
    assert peak < 1_000_000


def test_unrelated_captions_of_entities_are_numbered_from_one(dogs: list[Photo], folder: Path) -> None:
    write_as(dogs, "entities", folder)
    heading, *listed = (folder / "UNRELATED_CAPTIONS").read_text().splitlines()
    assert heading.startswith("#")
    assert listed == ["101 2"]
