"""ODVG."""

import json

import pytest

from deixis.data.readers import read_captions
from deixis.errors import DatasetError

REGIONS = [
    {"bbox": [1, 2, 30, 40], "phrase": "A man", "tokens_positive": [[0, 5]]},
    {"bbox": [5, 5, 9, 9], "phrase": "dogs", "tokens_positive": [[12, 16]]},
    {"bbox": [10, 5, 19, 9], "phrase": "dogs", "tokens_positive": [[12, 16]]},
]
LINES = [
    {
        "filename": "a/1.jpg",
        "height": 50,
        "width": 60,
        "grounding": {"caption": "A man walks dogs.", "regions": REGIONS},
    },
    {
        "filename": "a/1.jpg",
        "height": 50,
        "width": 60,
        "grounding": {
            "caption": "The guy is there.",
            "regions": [{"bbox": [[1, 2, 30, 40]], "phrase": "The guy"}],
        },
    },
    {
        "filename": "2.jpg",
        "height": 50,
        "width": 60,
        "detection": {"instances": [{"bbox": [0, 0, 5, 5], "label": 3, "category": "cat"}]},
    },
]


def lines(records):
    return "".join(json.dumps(record) + "\n" for record in records)


def test_phrases_with_the_same_boxes_in_other_captions_are_one_chain(write):
    source = read_captions(write("train.jsonl", lines(LINES)))
    first, second = source.photos
    assert (source.kind, source.total) == ("odvg", 2)
    assert (first.id, first.annotated.file, first.width, first.height) == ("1", "a/1.jpg", 60, 50)
    man, dogs = first.captions[0].mentions
    [guy] = first.captions[1].mentions
    assert first.captions[0].phrase(dogs) == "dogs"
    assert man.chain == guy.chain != dogs.chain
    assert [box.xyxy for box in first.boxes_of(man.chain)] == [(1, 2, 30, 40)]
    assert len(first.boxes_of(dogs.chain)) == 2
    assert [(box.label, box.chains) for box in second.boxes] == [("cat", ())]


@pytest.mark.parametrize(
    "region",
    [
        {"bbox": [3, 2, 1, 4], "phrase": "A man", "tokens_positive": [[0, 5]]},
        {"bbox": [1, 2, 3, 4], "phrase": "A man", "tokens_positive": [[0, 99]]},
        {"bbox": [1, 2, 3, 4], "phrase": "A zebra"},
    ],
)
def test_wrong_regions_name_the_line(write, region):
    record = {"filename": "1.jpg", "grounding": {"caption": "A man walks.", "regions": [region]}}
    with pytest.raises(DatasetError, match="line 1"):
        list(read_captions(write("x.jsonl", lines([record]))).photos)
