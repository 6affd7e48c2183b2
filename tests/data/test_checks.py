"""Every kind of problem is found, and a valid data set has none."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.data.checks import REMEDIES, check_dataset
from deixis.data.dataset import Dataset
from deixis.data.imports import import_dataset

XML = """<annotation><filename>{id}.jpg</filename>
<size><width>100</width><height>50</height><depth>3</depth></size>
<object><name>7</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>50</xmax><ymax>50</ymax></bndbox></object>
{more}</annotation>"""


def photo(
    folder: Path,
    number: int,
    *,
    sentence: str = "[/EN#7/animals A dog] .",
    more: str = "",
    size: tuple[int, int] = (100, 50),
) -> None:
    for name in ("images", "entities/Sentences", "entities/Annotations"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(number).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "images" / f"{number}.png")
    (folder / "entities" / "Sentences" / f"{number}.txt").write_text(sentence + "\n")
    (folder / "entities" / "Annotations" / f"{number}.xml").write_text(XML.format(id=number, more=more))


def problems(folder: Path, **options: bool) -> dict[str, tuple[str, ...]]:
    import_dataset(folder / "data", images=folder / "images", entities=folder / "entities", replace_old=True)
    return checked(folder, **options)


def checked(folder: Path, **options: bool) -> dict[str, tuple[str, ...]]:
    found = check_dataset(Dataset(folder / "data"), **options)
    assert all(problem.remedy == REMEDIES[problem.kind] for problem in found)
    assert all(problem.count >= len(problem.examples) > 0 for problem in found)
    return {problem.kind: problem.examples for problem in found}


def test_a_valid_data_set_has_no_problems(tmp_path: Path) -> None:
    photo(tmp_path, 1)
    photo(tmp_path, 2, size=(67, 33))  # a smaller copy, its sides rounded
    assert problems(tmp_path, decode=True) == {}


@pytest.mark.parametrize(
    ("options", "kind", "example"),
    [
        ({"more": "<object><name>8</name><scene>1</scene></object>"}, "chain with no mention", "1: chain 8"),
        ({"sentence": "[/EN#7/animals A dog] , [/EN#9/other a ball]"}, "mention of an unknown chain", "1: chain 9"),
        ({"sentence": "[/EN#7/animals A dog]\n"}, "empty caption", "1: caption 2"),
        ({"size": (50, 100)}, "photo of another shape", "1: 50 × 100, annotated at 100 × 50"),
    ],
)
def test_each_fault_of_the_annotation_is_found(tmp_path: Path, options: dict, kind: str, example: str) -> None:
    photo(tmp_path, 1, **options)
    photo(tmp_path, 2)
    assert problems(tmp_path) == {kind: (example,)}


def test_unrelated_captions_are_listed(tmp_path: Path) -> None:
    photo(tmp_path, 1)
    (tmp_path / "entities" / "UNRELATED_CAPTIONS").write_text("1 1\n")
    assert problems(tmp_path) == {"unrelated caption": ("1: caption 1: A dog .",)}


def test_overlapping_splits_are_found(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        photo(tmp_path, number)
    (tmp_path / "entities" / "train.txt").write_text("1\n2\n")
    (tmp_path / "entities" / "test.txt").write_text("2\n3\n")
    assert problems(tmp_path) == {"splits overlap": ("test and train: 1 photos, 2 first",)}


def test_the_same_photo_twice_is_found(tmp_path: Path) -> None:
    photo(tmp_path, 1)
    photo(tmp_path, 2)
    shutil.copy(tmp_path / "images" / "1.png", tmp_path / "images" / "2.png")
    assert problems(tmp_path) == {"duplicate photos": ("1 = 2",)}


def test_missing_and_changed_photos_are_found(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        photo(tmp_path, number)
    problems(tmp_path)
    (tmp_path / "images" / "1.png").unlink()
    Image.new("RGB", (100, 50)).save(tmp_path / "images" / "2.png")
    (tmp_path / "images" / "3.png").write_bytes(b"nothing")
    found = checked(tmp_path)
    assert set(found) == {"missing photo", "changed photo", "unreadable photo"}
    assert found["missing photo"][0].startswith("1: ")


def test_a_truncated_photo_is_found_when_photos_are_decoded(tmp_path: Path) -> None:
    photo(tmp_path, 1)
    png, path = tmp_path / "images" / "1.png", tmp_path / "images" / "1.jpg"
    Image.open(png).save(path)
    png.unlink()
    path.write_bytes(path.read_bytes()[:2000])
    assert problems(tmp_path) == {}
    assert set(problems(tmp_path, decode=True)) == {"unreadable photo"}


def test_a_flipped_bit_in_the_columns_is_found(tmp_path: Path) -> None:
    photo(tmp_path, 1)
    problems(tmp_path)
    table = tmp_path / "data" / "boxes.arrow"
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)
    assert checked(tmp_path) == {"damaged table": ("boxes",)}


def box(x1: int, y1: int, x2: int, y2: int) -> str:
    corners = f"<xmin>{x1}</xmin><ymin>{y1}</ymin><xmax>{x2}</xmax><ymax>{y2}</ymax>"
    return f"<object><name>7</name><bndbox>{corners}</bndbox></object>"


@pytest.mark.parametrize(
    ("corners", "kind", "example"),
    [
        ((1, 21, 50, 20), "box ends before it begins", "[0, 20, 50, 20]"),
        ((51, 1, 50, 20), "box ends before it begins", "[50, 0, 50, 20]"),
        ((1, 1, 101, 50), "box outside the photo", "[0, 0, 101, 50] of 100 × 50"),
        ((1, 1, 100, 51), "box outside the photo", "[0, 0, 100, 51] of 100 × 50"),
        ((1, 0, 100, 50), "box outside the photo", "[0, -1, 100, 50] of 100 × 50"),
        ((0, 1, 100, 50), "box outside the photo", "[-1, 0, 100, 50] of 100 × 50"),
    ],
)
@pytest.mark.parametrize("size", [(100, 50), (67, 33)], ids=["as annotated", "a smaller copy"])
def test_a_box_that_is_wrong_by_a_pixel_is_found(
    tmp_path: Path, corners: tuple[int, int, int, int], kind: str, example: str, size: tuple[int, int]
) -> None:
    photo(tmp_path, 1, more=box(*corners), size=size)
    assert problems(tmp_path) == {kind: (f"1: box 2 {example}",)}


def test_boxes_of_one_pixel_and_of_the_whole_photo_have_no_problem(tmp_path: Path) -> None:
    photo(tmp_path, 1, more=box(1, 1, 1, 1) + box(1, 1, 100, 50) + box(100, 50, 100, 50))
    assert problems(tmp_path) == {}
