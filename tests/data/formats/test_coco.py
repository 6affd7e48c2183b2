"""COCO captions and instances."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from deixis.data.formats import read_captions
from deixis.data.formats.coco import write
from deixis.data.records import Box, Photo
from deixis.errors import DatasetError

CAPTIONS = {
    "info": {},
    "images": [
        {"id": 391895, "file_name": "000000391895.jpg", "width": 640, "height": 360, "license": 3},
        {"id": 522418, "file_name": "000000522418.jpg", "width": 640, "height": 480},
    ],
    "annotations": [
        {"image_id": 522418, "id": 1, "caption": "A woman cutting a cake."},
        {"image_id": 391895, "id": 2, "caption": "A man on a moped.\n"},
        {"image_id": 522418, "id": 3, "caption": "A large white cake."},
    ],
}
INSTANCES = {
    "images": CAPTIONS["images"],
    "annotations": [
        {"id": 9, "image_id": 391895, "bbox": [359.17, 146.17, 112, 213.5], "category_id": 4, "iscrowd": 0},
        {"id": 8, "image_id": 391895, "bbox": [1, 2, 3, 0], "category_id": 1, "iscrowd": 1},
        {"id": 7, "image_id": 5, "bbox": [0, 0, 1, 1], "category_id": 1, "iscrowd": 0},
    ],
    "categories": [{"id": 1, "name": "person"}, {"id": 4, "name": "motorcycle"}],
}


def test_captions_go_to_their_images_in_order(store):
    source = read_captions(store("captions_val2014.json", CAPTIONS))
    first, second = source.photos
    assert (source.kind, source.total) == ("coco-captions", 2)
    assert (first.id, first.width, first.height) == ("000000391895", 640, 360)
    assert (first.annotated.file, first.annotated.width, first.annotated.height) == ("000000391895.jpg", 640, 360)
    assert [caption.text for caption in first.captions] == ["A man on a moped."]
    assert [caption.text for caption in second.captions] == ["A woman cutting a cake.", "A large white cake."]


def test_instances_add_boxes_with_labels_including_crowds(store):
    captions, instances = store("c.json", CAPTIONS), store("i.json", INSTANCES)
    first, second = read_captions(captions, instances=instances).photos
    assert first.boxes == (
        Box((359.17, 146.17, 359.17 + 112, 146.17 + 213.5), label="motorcycle"),
        Box((1, 2, 4, 2), label="person"),
    )
    assert second.boxes == ()


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"bbox": [1, 2, -3, 4]}, "annotations[0].bbox: "),
        ({"bbox": [1, 2, 3]}, "annotations[0].bbox: "),
        ({"bbox": [1, 2, 3, "4"]}, "annotations[0].bbox[3]: "),
        ({"category_id": 7}, "annotations[0].category_id: "),
    ],
)
def test_a_bad_box_is_named(store, refused, changes, where):
    annotation = INSTANCES["annotations"][0] | changes
    captions, instances = store("c.json", CAPTIONS), store("i.json", INSTANCES | {"annotations": [annotation]})
    refused(captions, where, instances, instances=instances)


OF_OTHER_IMAGES = INSTANCES | {"annotations": INSTANCES["annotations"][2:]}


@pytest.mark.parametrize(
    "content", [OF_OTHER_IMAGES, b"PK\x05\x06" + bytes(18), "image,caption\n1.jpg,x\n", "[1]", "", "{"]
)
def test_other_files_as_instances_are_refused(store, content):
    captions, instances = store("c.json", CAPTIONS), store("i.json", content)
    with pytest.raises(DatasetError, match=r"i\.json: "):
        read_captions(captions, instances=instances)


def test_an_instances_file_as_captions_is_refused(store, refused):
    path = store("instances_val2014.json", INSTANCES | {"annotations": INSTANCES["annotations"][:2]})
    refused(path, 'annotations[0]: "caption"')


def load(path: Path) -> Any:
    return json.loads(path.read_text())


def test_a_photo_of_two_splits_is_the_same_in_both_and_is_read_back(dogs: list[Photo], folder: Path) -> None:
    write(dogs, folder)
    for kind in ("captions", "instances"):
        assert load(folder / f"{kind}_train.json") == load(folder / f"{kind}_dev.json")
    (photo,) = read_captions(folder / "captions_train.json", instances=folder / "instances_train.json").photos
    assert [caption.text for caption in photo.captions] == ["A man 🙂 and his dogs.", "A sunny day."]
    assert [box.xyxy for box in photo.boxes] == [box.xyxy for box in dogs[0].boxes]


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
