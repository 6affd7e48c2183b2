"""Content of captions files, and untrusted JSON values."""

import os
import threading
import zipfile
from pathlib import Path

import pytest

from deixis.data.formats import read_captions
from deixis.data.formats.content import Content, Value, first_json, parse_line, xywh_to_corners
from deixis.errors import DatasetError


def test_zips_and_folders_are_recognized(store, tmp_path):
    archive = tmp_path / "archive"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("a/b.txt", "x")
    assert Content(tmp_path).is_tree
    assert Content(archive).names == ["a/b.txt"]
    assert not Content(store("text", "PK is no zip")).is_tree


def test_lines_keep_their_numbers(store):
    content = Content(store("text", "\n  \none\r\n\ntwo"))
    assert content.first_line == "one"
    assert content.lines() == [(3, "one"), (5, "two")]


def test_a_document_fills_its_file_and_lines_do_not(store):
    assert Content(store("a", ' {"a":\n1}\n')).document == {"a": 1}
    lines = Content(store("b", '{"a": 1}\n{"a": 2}\n'))
    assert (lines.document, lines.first_json) == (None, {"a": 1})
    assert Content(store("c", "no JSON")).first_json is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_captions_may_come_through_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("image,caption\n1.jpg,A dog .\n",))
    writer.start()
    photos = list(read_captions(pipe).photos)
    writer.join()
    assert [photo.id for photo in photos] == ["1"]


VALUE = Value(None, "a.json")


def test_errors_name_the_path_of_a_value():
    document = Value({"images": [{}, {"sentences": [{"raw": 1}]}]}, "a.json")
    raw = document["images"].items()[1]["sentences"].items()[0]["raw"]
    assert str(raw.error("no")) == "a.json: images[1].sentences[0].raw: no"
    assert str(document.error("no")) == "a.json: no"


@pytest.mark.parametrize(
    ("ask", "value"),
    [
        (lambda value: value.text(), 1),
        (lambda value: value.text(), None),
        (lambda value: value.text(), "a\udfff"),
        (lambda value: value.nonblank_text(), "\u2003"),
        (lambda value: value.flag_at("a", default=True), {"a": 0}),
        (lambda value: value.text_at("a"), {"a": 0}),
        (lambda value: value.integer(), True),
        (lambda value: value.integer(), 1.0),
        (lambda value: value.integer(), 2**31),
        (lambda value: value.key(), False),
        (lambda value: value.key(), 2**63),
        (lambda value: value.key(), "\ud800"),
        (lambda value: value.number(), True),
        (lambda value: value.number(), "1"),
        (lambda value: value.number(), 10**400),
        (lambda value: value.number(), float("nan")),
        (lambda value: value.numbers(2), [1.0, float("inf")]),
        (lambda value: value.numbers(2), [1.0]),
        (lambda value: value.numbers(2), [1.0, 2.0, 3.0]),
        (lambda value: value.numbers(2), "ab"),
        (lambda value: value.items(), {}),
        (lambda value: value.get("a"), []),
        (lambda value: value["a"], {"a": None}),
        (lambda value: value.allow_keys({"a"}), {"b": 1}),
        (lambda value: value.allow_keys({"a"}), 1),
    ],
)
def test_a_value_of_another_type_is_refused(ask, value):
    with pytest.raises(DatasetError, match=r"^a\.json: "):
        ask(Value(value, "a.json"))


def test_numbers_are_floats_whatever_the_file_has():
    assert Value([1, 2.5], "a").numbers(2) == [1.0, 2.5]
    assert all(type(number) is float for number in Value([1, 2.5], "a").numbers(2))


def test_null_counts_as_missing():
    value = Value({"a": None, "b": 0}, "a")
    assert value.get("a") is None
    assert (value.items_at("a"), value.text_at("a"), value.flag_at("a", default=True)) == ([], None, True)
    assert value.first_of(("a", "b")).value == 0


def test_text_after_the_first_value_is_noticed():
    assert first_json(' {"a": 1}\n ', Path("a")) == ({"a": 1}, True)
    assert first_json("[] []", Path("a")) == ([], False)


def test_errors_name_the_line_of_the_file():
    with pytest.raises(DatasetError, match=r"^a: line 7 column 3: not JSON"):
        parse_line(" [x]", 7, Path("a"))
    assert str(parse_line("[]", 7, Path("a")).error("no")) == "a: line 7: no"


def test_a_corner_and_a_size_become_two_corners():
    assert xywh_to_corners([1, 2, 3, 4], VALUE) == (1, 2, 4, 6)
    assert xywh_to_corners([-1, 0, 0, 0], VALUE) == (-1, 0, -1, 0)


@pytest.mark.parametrize("box", [[0, 0, -1, 1], [0, 0, 1, -1], [1e308, 0, 1e308, 1], [0, 1e308, 1, 1e308]])
def test_an_impossible_box_is_refused(box):
    with pytest.raises(DatasetError, match=r"^a\.json: "):
        xywh_to_corners(box, VALUE)
