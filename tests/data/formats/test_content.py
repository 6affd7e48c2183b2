"""Content of captions files, and untrusted JSON values."""

import os
import threading

import pytest

from deixis.data.documents import Value
from deixis.data.formats import read_captions
from deixis.data.formats.content import xywh_to_corners
from deixis.errors import DatasetError


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


def test_null_counts_as_missing():
    value = Value({"a": None, "b": 0}, "a")
    assert value.get("a") is None
    assert (value.items_at("a"), value.text_at("a"), value.flag_at("a", default=True)) == ([], None, True)
    assert value.first_of(("a", "b")).value == 0


@pytest.mark.parametrize("box", [[0, 0, -1, 1], [0, 0, 1, -1], [1e308, 0, 1e308, 1], [0, 1e308, 1, 1e308]])
def test_an_impossible_box_is_refused(box):
    with pytest.raises(DatasetError, match=r"^a\.json: "):
        xywh_to_corners(box, VALUE)
