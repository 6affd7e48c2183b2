from pathlib import Path

import pytest

from deixis.data.readers.values import Value, first_json, parse_line
from deixis.errors import DatasetError


def test_the_path_to_a_value_reads_as_in_a_program():
    document = Value({"images": [{}, {"sentences": [{"raw": 1}]}]}, "a.json")
    raw = document["images"].items()[1]["sentences"].items()[0]["raw"]
    assert str(raw.wrong("no")) == "a.json: images[1].sentences[0].raw: no"
    assert str(document.wrong("no")) == "a.json: no"


@pytest.mark.parametrize(
    ("ask", "value"),
    [
        (lambda value: value.text(), 1),
        (lambda value: value.text(), None),
        (lambda value: value.text(), "a\udfff"),
        (lambda value: value.sentence(), "\u2003"),
        (lambda value: value.flag(), 0),
        (lambda value: value.whole(), True),
        (lambda value: value.whole(), 1.0),
        (lambda value: value.whole(), 2**31),
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
        (lambda value: value.only({"a"}), {"b": 1}),
        (lambda value: value.only({"a"}), 1),
    ],
)
def test_a_value_of_another_kind_is_refused(ask, value):
    with pytest.raises(DatasetError, match=r"^a\.json: "):
        ask(Value(value, "a.json"))


def test_numbers_are_floats_whatever_the_file_has():
    assert Value([1, 2.5], "a").numbers(2) == [1.0, 2.5]
    assert all(type(number) is float for number in Value([1, 2.5], "a").numbers(2))


def test_null_is_as_good_as_nothing():
    value = Value({"a": None, "b": 0}, "a")
    assert value.get("a") is None
    assert value.items_of("a") == []
    assert value.first_of(("a", "b")).value == 0


def test_text_after_the_first_value_is_noticed():
    assert first_json(' {"a": 1}\n ', Path("a")) == ({"a": 1}, True)
    assert first_json("[] []", Path("a")) == ([], False)


def test_a_line_is_counted_in_its_file():
    with pytest.raises(DatasetError, match=r"^a: line 7 column 3: not JSON"):
        parse_line(" [x]", 7, Path("a"))
    assert str(parse_line("[]", 7, Path("a")).wrong("no")) == "a: line 7: no"
