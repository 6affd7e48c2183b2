"""Untrusted JSON values."""

from pathlib import Path

import pytest

from deixis.data.formats.values import Value, first_json, parse_line, xywh_to_corners
from deixis.errors import DatasetError

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
