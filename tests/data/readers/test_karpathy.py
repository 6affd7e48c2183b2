"""Karpathy's JSON."""

import pytest

from deixis.data.readers import read_captions
from tests.data.test_hostile import with_change

FLICKR = {
    "images": [
        {
            "sentids": [0, 1],
            "imgid": 0,
            "sentences": [
                {"tokens": ["a", "black", "dog"], "raw": "A black dog .", "imgid": 0, "sentid": 0},
                {"tokens": ["it", "runs"], "raw": "It runs .", "imgid": 0, "sentid": 1},
            ],
            "split": "train",
            "filename": "2513260012_03d33305cf.jpg",
        },
        {"sentids": [], "imgid": 1, "sentences": [], "split": "test", "filename": "2903617548_d3e38d7f88.jpg"},
    ],
    "dataset": "flickr8k",
}


def test_sentences_and_splits_of_each_photo_are_kept(write):
    source = read_captions(write("dataset_flickr8k.json", FLICKR))
    photos = list(source.photos)
    assert (source.kind, source.total) == ("karpathy", 2)
    assert [photo.id for photo in photos] == ["2513260012_03d33305cf", "2903617548_d3e38d7f88"]
    assert [caption.text for caption in photos[0].captions] == ["A black dog .", "It runs ."]
    assert [photo.splits for photo in photos] == [("train",), ("test",)]


def test_a_folder_of_coco_is_part_of_the_name(write):
    image = {
        "filepath": "val2014",
        "filename": "COCO_val2014_000000391895.jpg",
        "cocoid": 391895,
        "split": "restval",
        "sentences": [{"raw": "A man with a red helmet. ", "tokens": [], "sentid": 1}],
    }
    photo = next(read_captions(write("dataset_coco.json", {"images": [image], "dataset": "coco"})).photos)
    assert photo.id == "COCO_val2014_000000391895"
    assert photo.annotated.file == "val2014/COCO_val2014_000000391895.jpg"
    assert photo.splits == ("restval",)
    assert photo.captions[0].text == "A man with a red helmet."


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (("images", 0, "sentences", 1, "raw"), 3, "images[0].sentences[1].raw: "),
        (("images", 0, "sentences", 1, "raw"), " ", "images[0].sentences[1].raw: "),
        (("images", 0, "sentences", 0, "raw"), "half \ud83d", "images[0].sentences[0].raw: "),
        (("images", 0, "sentences", 1), {}, "images[0].sentences[1]: "),
        (("images", 0, "sentences"), "x", "images[0].sentences: "),
        (("images", 1), [], "images[1]: "),
        (("images", 1, "filename"), None, "images[1]: "),
        (("images", 1, "split"), "../x", "images[1].split: "),
        (("images", 1, "filename"), "2513260012_03d33305cf.jpg", "images[1]: "),
        (("images", 1, "filename"), "2513260012_03d33305cf.png", "images[1]: "),
    ],
)
def test_a_bad_value_is_named_by_its_path(write, refused, path, value, where):
    refused(write("dataset.json", with_change(FLICKR, path, value)), where)
