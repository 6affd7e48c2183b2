"""What holds for all formats: their detection, and what every writer does."""

import os
import tempfile
import tracemalloc
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from deixis.data.formats import READERS, WRITERS, read_captions, write_as
from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.errors import DatasetError, DeixisError
from tests.data.strategies import photo_lists


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ("", ""),
        (" \n\t\n", ""),
        ("\ufeff", ""),
        (b"a.jpg#0\tcaf\xe9\n", "line 1: "),
        ('{"images": [{"sentences"', "line 1 column 25: "),
        ('{"images": [\n{"file', "line 2 column 2: "),
        ("[" * 100_000, "line 1: "),
        ('{"a":' * 100_000, "line 1: "),
        ("[" + "1" * 5000 + "]", "line 1: "),
        ("PK\x03\x04 and no more", ""),
        ({"images": [], "annotations": []}, ""),
        ("image,caption\n", ""),
    ],
)
def test_an_error_names_the_file_on_one_line(store, refused, content, where):
    refused(store("captions", content), where)


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        ("a dog runs\n", "it starts with 'a dog runs'"),
        ("<DOC>", "it starts with '<DOC>'"),
        ("name,caption\n", "it starts with 'name,caption'"),
        ({"images": [], "x\n": 1}, "a JSON object with the keys 'images, x\\n'"),
        ({"id": "a", "caption": "b"}, "a JSON object with the keys 'id, caption'"),
        ("[1, 2]", "it starts with '[1, 2]'"),
        ("x" * 10_000, "it starts with 'xxx"),
    ],
)
def test_the_error_about_an_unknown_format_shows_the_content_and_the_known_formats(store, content, seen):
    path = store("captions", content)
    with pytest.raises(DatasetError) as error:
        read_captions(path)
    message = str(error.value)
    assert message.startswith(f"{path}: unknown format ({seen}")
    assert all(known.FORM in message for known in READERS)
    assert "\n" not in message
    assert len(message) < 1200


def test_the_error_about_a_missing_file_names_it(tmp_path):
    with pytest.raises(DatasetError, match="none"):
        read_captions(tmp_path / "none")


def test_the_error_about_an_unknown_folder_shows_its_files(store, tmp_path):
    with pytest.raises(DatasetError, match="unknown format .*0 files"):
        read_captions(tmp_path)
    store("a/b.txt", "x")
    with pytest.raises(DatasetError, match=r"unknown format .*1 files.*a/b\.txt"):
        read_captions(tmp_path)


def test_a_zip_that_leaves_its_folder_is_refused(tmp_path):
    path = tmp_path / "z"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../25.eng", "<DOC/>")
    with pytest.raises(DatasetError, match="25.eng"):
        read_captions(path)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_without_read_permission_is_named(store):
    path = store("captions", "image,caption\n1.jpg,x\n")
    path.chmod(0)
    with pytest.raises(DatasetError, match="captions"):
        read_captions(path)


def test_instances_require_coco_captions(store):
    path, instances = store("captions.csv", "image,caption\n1.jpg,x\n"), store("i.json", {})
    with pytest.raises(DatasetError, match=r"i\.json"):
        read_captions(path, instances=instances)


OURS = sorted(WRITERS.keys() - {"entities"})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_unknown_format_is_refused_with_the_names_of_the_known_ones(folder: Path) -> None:
    with pytest.raises(DeixisError, match="'papyrus'.*" + ", ".join(WRITERS)):
        write_as([], "papyrus", folder)


@pytest.mark.parametrize("name", OURS)
@settings(max_examples=40, deadline=None)
@given(photos=photo_lists)
def test_no_writer_fails_on_odd_photos(name: str, photos: list[Photo]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # odvg refuses data without a single region.
        write_as([*photos, *long_photos(1)], name, Path(folder))
        assert contents(Path(folder))


@pytest.mark.parametrize("name", sorted(WRITERS.keys() - {"parquet"}))
def test_the_example_is_written_as_in_the_folder_written(name: str, dogs: list[Photo], folder: Path) -> None:
    write_as(dogs, name, folder)
    assert contents(folder) == contents(Path(__file__).with_name("written") / name)


@pytest.mark.parametrize(
    ("name", "file", "texts"),
    [
        ("jsonl", "photos.jsonl", 5),
        ("karpathy", "dataset.json", 3),
        ("coco", "captions_train.json", 2),
        ("label-studio", "tasks.json", 5),
        ("odvg", "train.jsonl", 2),
    ],
)
def test_what_is_written_is_read_back(name: str, file: str, texts: int, dogs: list[Photo], folder: Path) -> None:
    write_as(dogs, name, folder)
    photos = list(read_captions(folder / file).photos)
    assert sum(len(photo.captions) for photo in photos) == texts
    if name == "jsonl":
        assert photos == dogs


@pytest.mark.parametrize("name", OURS)
def test_an_empty_list_of_photos_can_be_written(name: str, folder: Path) -> None:
    write_as([], name, folder)


@pytest.mark.parametrize("name", sorted(set(OURS) - {"parquet"}))
def test_photos_are_copied_only_with_images(name: str, dogs: list[Photo], images: Path, folder: Path) -> None:
    write_as(dogs, name, folder)
    assert not (folder / "images").exists()
    write_as(dogs, name, folder, images=images)
    copies = {path: data for path, data in contents(folder).items() if path.startswith("images")}
    assert copies == {str(Path("images/zoo/101.jpg")): b"the bytes of 101"}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(
    ("file", "problem"), [("gone.jpg", r"gone\.jpg"), ("../secret", r"photo '1': file '\.\./secret'")]
)
def test_a_photo_that_is_missing_or_outside_the_folder_is_named(
    file: str, problem: str, name: str, images: Path, folder: Path
) -> None:
    (images.parent / "secret").write_text("secret")
    with pytest.raises(DeixisError, match=problem):
        write_as([Photo("1", file=file)], name, folder, images=images)


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
