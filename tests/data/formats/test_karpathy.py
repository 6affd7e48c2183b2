"""Karpathy's JSON."""

import pytest

from deixis.data.formats import read_captions
from deixis.data.formats.karpathy import tokens

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


def test_sentences_and_splits_of_each_photo_are_kept(store):
    source = read_captions(store("dataset_flickr8k.json", FLICKR))
    photos = list(source.photos)
    assert (source.kind, source.total) == ("karpathy", 2)
    assert [photo.id for photo in photos] == ["2513260012_03d33305cf", "2903617548_d3e38d7f88"]
    assert [caption.text for caption in photos[0].captions] == ["A black dog .", "It runs ."]
    assert [photo.splits for photo in photos] == [("train",), ("test",)]


def test_a_folder_of_coco_is_part_of_the_name(store):
    image = {
        "filepath": "val2014",
        "filename": "COCO_val2014_000000391895.jpg",
        "cocoid": 391895,
        "split": "restval",
        "sentences": [{"raw": "A man with a red helmet. ", "tokens": [], "sentid": 1}],
    }
    photo = next(read_captions(store("dataset_coco.json", {"images": [image], "dataset": "coco"})).photos)
    assert photo.id == "COCO_val2014_000000391895"
    assert photo.annotated.file == "val2014/COCO_val2014_000000391895.jpg"
    assert photo.splits == ("restval", "train"), "the papers train on 113,287 photos"
    assert photo.captions[0].text == "A man with a red helmet."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # From the published dataset_flickr30k.json and dataset_coco.json.
        ("Two young, White males are outside.", ["two", "young", "white", "males", "are", "outside"]),
        ("A background of cloud-wreathed mountains. ", ["a", "background", "of", "cloud", "wreathed", "mountains"]),
        ("The back of a chef's knife. ", ["the", "back", "of", "a", "chefs", "knife"]),
        # Our own.
        ("“Café”… costs 5$ — हिंदी!", ["café", "costs", "5", "हिंदी"]),
        (" . ", []),
    ],
)
def test_tokens_are_words_in_lower_case_without_punctuation(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected
