"""COCO captions and instances."""

import pytest

from deixis.data.readers import read_captions
from deixis.data.records import Box
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


def test_captions_go_to_their_images_in_order(write):
    source = read_captions(write("captions_val2014.json", CAPTIONS))
    first, second = source.photos
    assert (source.kind, source.total) == ("coco-captions", 2)
    assert (first.id, first.width, first.height) == ("000000391895", 640, 360)
    assert (first.annotated.file, first.annotated.width, first.annotated.height) == ("000000391895.jpg", 640, 360)
    assert [caption.text for caption in first.captions] == ["A man on a moped."]
    assert [caption.text for caption in second.captions] == ["A woman cutting a cake.", "A large white cake."]


def test_instances_add_boxes_with_labels_including_crowds(write):
    captions, instances = write("c.json", CAPTIONS), write("i.json", INSTANCES)
    first, second = read_captions(captions, instances=instances).photos
    assert first.boxes == (
        Box((359.17, 146.17, 359.17 + 112, 146.17 + 213.5), label="motorcycle"),
        Box((1, 2, 4, 2), label="person"),
    )
    assert second.boxes == ()


@pytest.mark.parametrize(
    ("annotation", "where"),
    [
        ({"image_id": 1, "caption": "x"}, "annotations[0].image_id: "),
        ({"image_id": True, "caption": "x"}, "annotations[0].image_id: "),
        ({"image_id": 391895}, "annotations[0]: "),
        ({"caption": "x"}, "annotations[0]: "),
    ],
)
def test_a_bad_annotation_is_named(write, refused, annotation, where):
    refused(write("c.json", CAPTIONS | {"annotations": [annotation]}), where)


@pytest.mark.parametrize(
    ("image", "where"),
    [
        ({"id": 391895, "file_name": "b.jpg"}, "images[1].id: "),
        ({"id": 2, "file_name": "a.jpg"}, "images[1]: "),
        ({"id": 2, "file_name": "b.jpg", "width": 0}, "images[1].width: "),
        ({"id": 2, "file_name": "b.jpg", "height": 4.5}, "images[1].height: "),
    ],
)
def test_a_bad_image_is_named(write, refused, image, where):
    images = [{"id": 391895, "file_name": "a.jpg"}, image]
    refused(write("c.json", {"images": images, "annotations": []}), where)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"bbox": [1, 2, -3, 4]}, "annotations[0].bbox: "),
        ({"bbox": [1, 2, 3]}, "annotations[0].bbox: "),
        ({"bbox": [1, 2, 3, "4"]}, "annotations[0].bbox[3]: "),
        ({"bbox": [1, 2, 3, float("nan")]}, "annotations[0].bbox[3]: "),
        ({"bbox": [1, 2, 3, 10**400]}, "annotations[0].bbox[3]: "),
        ({"bbox": [1e308, 2, 1e308, 4]}, "annotations[0].bbox: "),
        ({"category_id": 7}, "annotations[0].category_id: "),
    ],
)
def test_a_bad_box_is_named(write, refused, changes, where):
    annotation = INSTANCES["annotations"][0] | changes
    captions, instances = write("c.json", CAPTIONS), write("i.json", INSTANCES | {"annotations": [annotation]})
    refused(captions, where, instances, instances=instances)


OF_OTHER_IMAGES = INSTANCES | {"annotations": INSTANCES["annotations"][2:]}


@pytest.mark.parametrize(
    "content", [OF_OTHER_IMAGES, b"PK\x05\x06" + bytes(18), "image,caption\n1.jpg,x\n", "[1]", "", "{"]
)
def test_other_files_as_instances_are_refused(write, content):
    captions, instances = write("c.json", CAPTIONS), write("i.json", content)
    with pytest.raises(DatasetError, match=r"i\.json: "):
        read_captions(captions, instances=instances)


def test_an_instances_file_as_captions_is_refused(write, refused):
    path = write("instances_val2014.json", INSTANCES | {"annotations": INSTANCES["annotations"][:2]})
    refused(path, 'annotations[0]: "caption"')
