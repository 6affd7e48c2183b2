"""JSON Lines, full and simple."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from deixis.data.formats import read_captions
from deixis.data.formats.jsonl import write
from deixis.data.records import Chain, Photo
from deixis.errors import DatasetError
from tests.data.strategies import photo_lists


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


FULL = {
    "id": "1",
    "file": "train/1.jpg",
    "width": 500,
    "height": 375,
    "splits": ["train", "tiny"],
    "sha256": "ab" * 32,
    "annotated": {"id": "1000", "file": "1000.jpg", "width": 1000, "height": 750, "depth": 3},
    "captions": [
        {
            "text": "Él sees a dog 🐕 in front .",
            "mentions": [
                {"span": [0, 2], "chain": "7", "types": ["people"]},
                {"span": [8, 15], "chain": "8", "types": ["animals", "other"]},
                {"span": [19, 24], "chain": None, "types": ["notvisual"]},
            ],
            "related": False,
            "tree": "(S (NP Él))",
            "region_phrase": False,
        },
        {"text": ""},
        {"text": " it ", "mentions": [{"span": [1, 3], "chain": "9"}], "region_phrase": True},
    ],
    "chains": [
        {"id": "8", "scene": False, "no_box": True, "annotated": True},
        {"id": "7", "scene": True, "no_box": False, "annotated": False},
    ],
    "boxes": [{"box": [1, 2, 3.5, 4], "chains": ["7", "9"], "label": "dog"}, {"box": [0.1, 0.2, 0.3, 0.4]}],
}


def with_caption(**changes):
    return FULL | {"captions": [{"text": "A dog runs .", "mentions": [{"span": [0, 5], "chain": "7"}]} | changes]}


def with_spans(*spans):
    return with_caption(mentions=[{"span": span} for span in spans])


@pytest.mark.parametrize(
    ("record", "where"),
    [
        (with_spans([5, 13]), "captions[0].mentions[0].span: "),
        (with_spans([5, 5]), "captions[0].mentions[0].span: "),
        (with_spans([5]), "captions[0].mentions[0].span: "),
        (with_spans([-1, 5]), "captions[0].mentions[0].span[0]: "),
        (with_spans([True, 5]), "captions[0].mentions[0].span[0]: "),
        (with_spans([0, 5], [4, 6]), "captions[0].mentions[1].span: "),
        (with_spans([6, 7], [0, 1]), "captions[0].mentions[1].span: "),
        (with_caption(text=7), "captions[0].text: "),
        (with_caption(text="\udc00"), "captions[0].text: "),
        (with_caption(related=1), "captions[0].related: "),
        (FULL | {"captions": [None]}, "captions[0]: "),
        (FULL | {"id": "../2"}, "id: "),
        (FULL | {"id": 2}, "id: "),
        (FULL | {"file": "/etc/passwd"}, "file: "),
        (FULL | {"file": "a/../../b.jpg"}, "file: "),
        (FULL | {"width": 0}, "width: "),
        (FULL | {"splits": ["a/b"]}, "splits[0]: "),
        (FULL | {"annotated": {"id": "x/y", "file": "y.jpg"}}, "annotated.id: "),
        (FULL | {"chains": [{"id": "7"}, {"id": "7"}]}, "chains[1]: "),
        (FULL | {"boxes": [{"box": [0, 0, 1, 1], "chains": ["77"]}]}, "boxes[0]: "),
        (FULL | {"boxes": [{"box": [2, 0, 1, 1]}]}, "boxes[0].box: "),
        (FULL | {"boxes": [{"box": [0, 0, 1, float("inf")]}]}, "boxes[0].box[3]: "),
        (FULL | {"caption": "A dog ."}, "unknown key 'caption'"),
        ({"id": "first"}, "duplicate photo 'first'"),
        ([], "expected an object, found a list of 0"),
    ],
)
def test_an_error_names_the_line_and_path_in_the_full_format(store, refused, record, where):
    refused(store("photos.jsonl", lines({"id": "first"}, record)), f"line 2: {where}")


def texts(photo):
    return [caption.text for caption in photo.captions]


@pytest.mark.parametrize("photo_key", ["image", "file", "file_name", "filename", "path"])
@pytest.mark.parametrize("sentence_key", ["caption", "text", "sentence", "captions"])
def test_simple_lines_of_one_photo_are_merged(store, photo_key, sentence_key):
    path = store(
        "captions.jsonl",
        lines(
            {photo_key: "x/1.jpg", sentence_key: "A dog .", "split": "val", "id": "a"},
            {photo_key: "x/2.jpg", sentence_key: ["A cat .", "It sleeps ."]},
            {photo_key: "x/1.jpg", sentence_key: "It runs .\n", "split": "val"},
        ),
    )
    source = read_captions(path)
    first, second = source.photos
    assert (source.kind, source.total) == ("jsonl", 2)
    assert (first.id, first.annotated.file, first.splits) == ("1", "x/1.jpg", ("val",))
    assert texts(first) == ["A dog .", "It runs ."]
    assert texts(second) == ["A cat .", "It sleeps ."]


def test_a_list_of_simple_objects_is_read_too(store):
    records = [{"image": "1.jpg", "caption": "A dog ."}, {"image": "1.jpg", "caption": "It runs ."}]
    assert texts(next(read_captions(store("train.json", records)).photos)) == ["A dog .", "It runs ."]


def test_one_object_over_several_lines_is_one_record(store):
    path = store("one.json", json.dumps({"image": "1.jpg", "caption": "A dog ."}, indent=2))
    assert texts(next(read_captions(path).photos)) == ["A dog ."]


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ('{"image": "2.jpg"}', ': "caption"'),
        ('{"caption": "A cat ."}', ': "image"'),
        ('{"image": "2.jpg", "caption": 3}', ": caption: "),
        ('{"image": "2.jpg", "caption": [""]}', ": caption[0]: "),
        ('{"image": "2.png", "caption": "A cat ."} x', " column 42: "),
        ('{"image": "2.png", "cap', " column 20: not JSON: unterminated string"),
        ('{"image": "2.png",', " column 19: not JSON: "),
        ("[" * 100_000, ": JSON nested"),
        ("1" * 5000, ": a number"),
        ("nonsense", " column 1: not JSON: "),
    ],
)
def test_an_error_names_the_line_of_the_simple_format(store, refused, line, where):
    refused(store("captions.jsonl", '{"image": "1.jpg", "caption": "A dog ."}\n\n' + line), f"line 3{where}")


def test_full_and_simple_lines_cannot_be_mixed(store):
    simple = {"image": "2.jpg", "caption": "A cat ."}
    with pytest.raises(DatasetError, match="line 2: .*'image'"):
        list(read_captions(store("own.jsonl", lines(FULL, simple))).photos)
    with pytest.raises(DatasetError, match=r"line 2: captions\[0\]: "):
        list(read_captions(store("simple.jsonl", lines(simple, FULL))).photos)


def test_a_mention_of_an_unlisted_chain_adds_a_chain_that_is_not_annotated(store):
    record = with_caption() | {"chains": [], "boxes": []}
    photo = next(read_captions(store("photos.jsonl", lines(record))).photos)
    assert photo == replace(photo, chains=(Chain("7", annotated=False),))


def read_again(photos: list[Photo]) -> list[Photo]:
    with tempfile.TemporaryDirectory() as folder:
        write(photos, Path(folder))
        return list(read_captions(Path(folder) / "photos.jsonl").photos)


@settings(deadline=None)
@given(photo_lists.filter(bool))
def test_any_photo_round_trips(photos: list[Photo]) -> None:
    assert read_again(photos) == photos
