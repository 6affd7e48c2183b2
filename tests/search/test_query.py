"""Parsing of queries."""

from __future__ import annotations

import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.language.sentence import Sentence
from deixis.search.index.records import PhotoFilter
from deixis.search.query import MAX_LENGTH, check_contradiction, correct_words, find_date, parse_query, parts_of


def test_parts_keep_their_offsets_in_the_query() -> None:
    typed = 'in:holiday a dog +"red ball" on a t-shirt -snow after:2024-06'
    query = parse_query(typed)
    assert [words.text for words in query.required] == ["a dog             on a t-shirt", "red ball"]
    assert [words.text for words in query.excluded] == ["snow"]
    for words in query.required[1:] + query.excluded:
        assert typed[words.start : words.start + len(words.text)] == words.text
    assert typed[query.required[0].start :].startswith("a dog")
    assert query.photo_filter == PhotoFilter(after="2024-06", folder="holiday")


def test_filters_can_be_quoted_and_override_arguments() -> None:
    query = parse_query('dog IN:"summer 2023" camera:canon', PhotoFilter(folder="work", before="2024"))
    assert query.photo_filter == PhotoFilter(before="2024", folder="summer 2023", camera="canon")


@pytest.mark.parametrize(
    ("typed", "folder", "rest"),
    [
        ("dog in:'Ski Trip Alps'", "Ski Trip Alps", "dog"),
        ("dog in:“Ski Trip”", "Ski Trip", "dog"),
        ("in:'90s dog", "'90s", "dog"),
        ("in:Ann's dog's bed", "Ann's", "dog's bed"),
        ("in:'' dog", None, "dog"),
    ],
)
def test_names_with_spaces_take_any_quotation_marks(typed: str, folder: str | None, rest: str) -> None:
    query = parse_query(typed)
    assert (query.photo_filter.folder, [part.text for part in query.required]) == (folder, [rest])


def test_a_quotation_mark_in_a_quoted_name_is_doubled() -> None:
    query = parse_query('dog in:"Ann\'s ""best"" shots" -in:"""x""" camera:""')
    assert query.photo_filter == PhotoFilter(folder='Ann\'s "best" shots', excluded_folders=('"x"',))
    assert [part.text for part in query.required] == ["dog"]


@pytest.mark.parametrize(
    ("typed", "rest", "filters"),
    [
        ("dog 2021", "dog", "after:2021 before:2022"),
        ("a dog in December 1999", "a dog", "after:1999-12 before:2000-01"),
        ("a dog in Jan 2020 on a beach", "a dog             on a beach", "after:2020-01 before:2020-02"),
        ("dogs, 5 July 2020", "dogs,", "after:2020-07-05 before:2020-07-06"),
        ("snow on December 31st, 2019", "snow", "after:2019-12-31 before:2020-01-01"),
        ("a bus 2021-06", "a bus", "after:2021-06 before:2021-07"),
        ("beach since 2019", "beach", "after:2019"),
        ("beach before may 2019", "beach", "before:2019-05"),
        ('dog "in 2021"', "dog  in 2021", None),
        ("dog 2021 before:2023", "dog 2021", None),
        ("a 1957 car", "a 1957 car", None),
        ("a dog on 31 June 2021", "a dog on 31", "after:2021-06 before:2021-07"),
        ("room 20210", "room 20210", None),
        ("dog may", "dog may", None),
    ],
)
def test_dates_in_words_are_filters(typed: str, rest: str, filters: str | None) -> None:
    query = parse_query(typed)
    assert query.required[0].text == rest
    assert [reading.read_as for reading in query.readings] == ([filters] if filters else [])
    if filters:
        assert query.photo_filter == parse_query(f"dog {filters}").photo_filter
    assert parse_query(typed, exact=True).readings == ()


def test_dates_may_be_relative_to_today() -> None:
    def read_as(typed: str) -> str:
        found = find_date(typed, today=date(2024, 3, 1))
        assert found is not None
        return found[1].read_as

    assert read_as("dogs last month") == "after:2024-02 before:2024-03"
    assert read_as("dogs from last year") == "after:2023 before:2024"
    assert read_as("yesterday") == "after:2024-02-29 before:2024-03-01"


def test_words_are_corrected_and_keep_their_offsets_in_the_query() -> None:
    typed = 'in:x a catt and a dgo in Dgoville near "dgo" -catt'
    query = correct_words(parse_query(typed), {"catt": "cat", "dgo": "dog", "dgoville": "dog"}.get)
    (part,), (excluded,) = query.required, query.excluded
    assert (part.text, excluded.text) == ("a cat and a dog in Dgoville near  dgo", "cat")
    for corrected, word in (("cat", "catt"), ("dog", "dgo"), ("Dgoville", "Dgoville")):
        start = part.text.index(corrected)
        begin, end = part.typed_span((start, start + len(corrected)))
        assert typed[begin:end] == word
    assert [(reading.text, reading.read_as) for reading in query.readings] == [
        ("catt", "cat"), ("dgo", "dog"), ("catt", "cat"),
    ]  # fmt: skip


@pytest.mark.parametrize("typed", ["a man in: the sea", "a - b", "1 + 2", "rock'n'roll", "3-4 dogs", "x+y"])
def test_signs_alone_or_inside_words_are_part_of_the_sentence(typed: str) -> None:
    query = parse_query(typed)
    assert (query.required[0].text, query.excluded, bool(query.photo_filter)) == (typed, (), False)


@pytest.mark.parametrize("typed", ["", "  ", '+""', "?!", "- +"])
def test_a_query_without_words_is_an_error(typed: str) -> None:
    with pytest.raises(DeixisError, match=re.escape(repr(typed))):
        parse_query(typed)


@pytest.mark.parametrize(
    ("typed", "required", "excluded"),
    [
        ("no dogs", [], ["dogs"]),
        ("-snow", [], ["snow"]),
        ("photos without people", [], ["people"]),
        ("not a dog", [], ["dog"]),
        ("a beach without any people", ["a beach"], ["people"]),
        ("a beach with no people", ["a beach"], ["people"]),
        ("a beach without people or dogs", ["a beach"], ["people", "dogs"]),
        ("a dog but not a red ball", ["a dog"], ["red ball"]),
        ("a street with nobody", ["a street"], ["people"]),
        ("a man without a hat on a beach", ["a man               on a beach"], ["hat"]),
        ("a no parking sign", ["a no parking sign"], []),
        ("a knot in a rope", ["a knot in a rope"], []),
        ("people without hats", ["people"], ["hats"]),
        ("people in:holiday -dog", ["people"], ["dog"]),
        ("a man without a shirt throwing snow", ["a man                 throwing snow"], ["shirt"]),
        ("a street without any parked cars", ["a street"], ["parked cars"]),
        ("a man who isn't wearing a hat", ["a man"], ["wearing a hat"]),
        ("a man who isn’t wearing a hat", ["a man"], ["wearing a hat"]),
        ("a girl who does not wear shoes", ["a girl"], ["shoes"]),
        ("a dog that is not black", ["a dog"], ["black dog"]),
        ("a car that isn't red on a street", ["a car                on a street"], ["red car"]),
        ("dogs but not in the snow", ["dogs"], ["snow"]),
        ("neither dogs nor cats", [], ["dogs", "cats"]),
        ("everything except people", [], ["people"]),
        ("anything but dogs", [], ["dogs"]),
        ("beach w/o people", ["beach"], ["people"]),
        ("no smoking sign", ["no smoking sign"], []),
    ],
)
def test_negated_words_are_excluded(typed: str, required: list[str], excluded: list[str]) -> None:
    query = parse_query(typed)
    assert [part.text for part in query.required] == required
    assert [part.text for part in query.excluded] == excluded
    for part in query.required:
        assert typed[part.start :].startswith(part.text.split("  ")[0])


def test_a_query_may_have_only_filters_and_folders_can_be_excluded() -> None:
    query = parse_query('in:holiday -in:trash -in:"old stuff"')
    assert (query.required, query.excluded) == ((), ())
    assert query.photo_filter == PhotoFilter(folder="holiday", excluded_folders=("trash", "old stuff"))


@pytest.mark.parametrize("typed", ["dog date:2024", "folder:holiday", "dog -camera:canon", 'size:"large"'])
def test_an_unknown_filter_is_named_with_the_known_ones(typed: str) -> None:
    with pytest.raises(DeixisError, match=r"is not a filter; the filters are in:, -in:, camera:, after:, before:"):
        parse_query(typed)


def test_addresses_and_times_are_no_filters() -> None:
    assert parse_query("a clock at 10:30 http://example").required[0].text == "a clock at 10:30 http://example"


def test_a_very_long_query_is_an_error() -> None:
    with pytest.raises(DeixisError, match="2,000"):
        parse_query("dog " * MAX_LENGTH)


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_a_deixis_error(typed: str) -> None:
    try:
        query = parse_query(typed)
    except DeixisError:
        return
    for words in query.required + query.excluded:
        assert typed[words.start : words.start + 1] == words.text[:1]


def check(text: str) -> None:
    query = parse_query(text)
    phrases = [phrase.text for part in query.required for phrase in Sentence(part.text).phrases]
    check_contradiction([part.text for part in query.required] + phrases, [part.text for part in query.excluded])


@pytest.mark.parametrize(
    ("text", "thing"),
    [
        ("dog -dog", "dog"),
        ("a dog in the snow -dog", "dog"),
        ("two dogs -dog", "dog"),
        ("a Dog -dogs", "dogs"),
        ("snow +ball -ball", "ball"),
        ('a man with a red hat -"the red hat"', "the red hat"),
    ],
)
def test_a_contradiction_is_an_error_that_names_the_phrase(text: str, thing: str) -> None:
    with pytest.raises(DeixisError, match=f"'{thing}'"):
        check(text)


@pytest.mark.parametrize("text", ["dog -snow", "hot dog -dog", "a red car -red", "dog -the", 'dog -"red dog"', "dog"])
def test_different_phrases_are_no_contradiction(text: str) -> None:
    check(text)


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("my cat", "a  cat"),
        ("a photo of our dog", "the dog"),
        ("pictures of cats", "cats"),
        ("a photo album", "a photo album"),
    ],
)
def test_owners_and_words_for_photos_say_nothing_of_what_is_shown(typed: str, sentence: str) -> None:
    (part,) = parse_query(typed).required
    assert part.text == sentence
    assert typed[part.start :].endswith(part.text.split()[-1])
    assert parse_query(typed, exact=True).required[0].text == typed


@pytest.mark.parametrize(
    ("text", "parts"),
    [("someone kissing", ["kissing"]), ("a close-up of a donut", ["a donut"]), ("a brass knuckle", [])],
)
def test_parts_name_something(text: str, parts: list[str]) -> None:
    assert parts_of(text) == parts


@pytest.mark.parametrize("words", ["my cat", "picture of my girl"])
def test_quoted_words_keep_owners_and_mentions_of_photos(words: str) -> None:
    assert parse_query(f'"{words}"').required[0].text == words
    assert parse_query(words).required[0].text != words
