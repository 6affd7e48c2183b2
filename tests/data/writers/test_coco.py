"""COCO files."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deixis.data.readers import read_captions
from deixis.data.records import Box, Photo
from deixis.data.writers.coco import write


def load(path: Path) -> Any:
    return json.loads(path.read_text())


def test_each_split_has_its_own_files_and_instances_only_with_boxes(dogs: list[Photo], folder: Path) -> None:
    write([*dogs, Photo("104", splits=("test",))], folder)
    assert {path.name for path in folder.iterdir()} == {
        *(f"captions_{split}.json" for split in ("train", "dev", "rest", "test")),
        *(f"instances_{split}.json" for split in ("train", "dev", "rest")),
    }


def test_captions_have_the_format_of_coco(dogs: list[Photo], folder: Path) -> None:
    write(dogs, folder)
    document = load(folder / "captions_train.json")
    assert document.keys() == {"info", "licenses", "images", "annotations"}
    assert document["images"] == [{"id": 101, "file_name": "zoo/101.jpg", "width": 200, "height": 100}]
    assert document["annotations"] == [
        {"id": 1, "image_id": 101, "caption": "A man 🙂 and his dogs."},
        {"id": 2, "image_id": 101, "caption": "A sunny day."},
    ]


def test_boxes_have_the_format_of_coco(dogs: list[Photo], folder: Path) -> None:
    write(dogs, folder)
    document = load(folder / "instances_dev.json")
    assert document["images"] == load(folder / "captions_dev.json")["images"]
    assert document["annotations"][1] == {
        "id": 2,
        "image_id": 101,
        "category_id": 4,
        "bbox": [100, 50, 50.5, 40],
        "area": 2020,
        "iscrowd": 0,
        "segmentation": [[100, 50, 150.5, 50, 150.5, 90, 100, 90]],
    }
    names = {category["id"]: category["name"] for category in document["categories"]}
    assert [names[box["category_id"]] for box in document["annotations"]] == ["people", "animals", "animals", "hat"]


def test_a_photo_of_two_splits_is_the_same_in_both_and_is_read_back(dogs: list[Photo], folder: Path) -> None:
    write(dogs, folder)
    for kind in ("captions", "instances"):
        assert load(folder / f"{kind}_train.json") == load(folder / f"{kind}_dev.json")
    (photo,) = read_captions(folder / "captions_train.json", instances=folder / "instances_train.json").photos
    assert [caption.text for caption in photo.captions] == ["A man 🙂 and his dogs.", "A sunny day."]
    assert [box.xyxy for box in photo.boxes] == [box.xyxy for box in dogs[0].boxes]


def test_no_two_captions_and_no_two_boxes_have_the_same_id(dogs: list[Photo], folder: Path) -> None:
    write([replace(photo, splits=("all",)) for photo in dogs], folder)
    for kind, count in (("captions", 3), ("instances", 5)):
        ids = [annotation["id"] for annotation in load(folder / f"{kind}_all.json")["annotations"]]
        assert ids == list(range(1, count + 1))


def test_photos_of_unknown_size_have_no_width_or_height(dogs: list[Photo], folder: Path) -> None:
    write(dogs, folder)
    assert load(folder / "captions_rest.json")["images"] == [
        {"id": 102, "file_name": "a name.jpg"},
        {"id": 103, "file_name": "103.jpg"},
    ]


@pytest.mark.parametrize(
    ("photo_ids", "numbers"),
    [
        (["000000391895", "7"], [391895, 7]),
        (["7", "1000268201_693b08cb0e"], [1, 2]),
        (["7", "007"], [1, 2]),
        (["7", str(2**53)], [1, 2]),
        (["²", "7"], [1, 2]),
    ],
    ids=["numbers", "a name", "equal numbers", "a huge number", "a digit that is no number"],
)
def test_image_ids_are_the_photo_ids_or_consecutive_numbers(
    photo_ids: list[str], numbers: list[int], folder: Path
) -> None:
    write([Photo(photo_id) for photo_id in photo_ids], folder)
    assert [image["id"] for image in load(folder / "captions_rest.json")["images"]] == numbers


def test_categories_do_not_depend_on_the_order_of_photos(folder: Path) -> None:
    names = ["zebra", "dog", "bee", "people", "cat", "ape"]
    photos = [Photo(str(number), boxes=(Box((0, 0, 1, 1), label=name),)) for number, name in enumerate(names)]
    write(photos, folder)
    categories = load(folder / "instances_rest.json")["categories"]
    assert [category["name"] for category in categories] == ["people", "ape", "bee", "cat", "dog", "zebra"]
    assert [category["id"] for category in categories] == [1, 9, 10, 11, 12, 13]
    write(photos[::-1], folder)
    assert load(folder / "instances_rest.json")["categories"] == categories


def test_pycocotools_reads_captions_and_boxes(dogs: list[Photo], folder: Path) -> None:
    coco = pytest.importorskip("pycocotools.coco", reason="pycocotools is not installed")
    write(dogs, folder)
    with contextlib.redirect_stdout(io.StringIO()):
        captions = coco.COCO(str(folder / "captions_train.json"))
        boxes = coco.COCO(str(folder / "instances_train.json"))
        found = boxes.loadRes([{"image_id": 101, "category_id": 1, "bbox": [10, 20, 50, 60], "score": 1.0}])
    assert [a["caption"] for a in captions.imgToAnns[101]] == ["A man 🙂 and his dogs.", "A sunny day."]
    person = boxes.loadAnns(boxes.getAnnIds(catIds=boxes.getCatIds(catNms=["people"])))[0]
    assert boxes.annToMask(person).sum() == person["area"] == 50 * 60
    assert len(found.anns) == 1


def test_pycocotools_scores_perfect_boxes_as_perfect(dogs: list[Photo], folder: Path) -> None:
    coco = pytest.importorskip("pycocotools.coco", reason="pycocotools is not installed")
    cocoeval = pytest.importorskip("pycocotools.cocoeval")
    write([replace(photo, splits=("all",)) for photo in dogs], folder)
    with contextlib.redirect_stdout(io.StringIO()):
        truth = coco.COCO(str(folder / "instances_all.json"))
        keys = ("image_id", "category_id", "bbox")
        guesses = [{key: box[key] for key in keys} | {"score": 1.0} for box in truth.dataset["annotations"]]
        evaluation = cocoeval.COCOeval(truth, truth.loadRes(guesses), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    assert evaluation.stats[0] == pytest.approx(1)
