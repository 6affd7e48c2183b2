"""Photos as they enter annotation."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from deixis.annotate.material import LONGEST_CAPTION, Material, material_of, place_of
from deixis.data.records import Caption, Mention, Photo
from deixis.errors import DeixisError
from tests.annotate.fakes import gold, photo
from tests.data.strategies import texts

HOSTILE = [
    "<script>alert('A dog')</script> <img src=x onerror=alert(1)> A dog & a cat",
    "\u202eA dog\u202c and \u2067a cat\u2069 اثنان",
    "👩‍👩‍👧 A dog 🐶🏽 and a cat \U0001f468\u200d\U0001f33e",
    "A dog'); DROP TABLE events;-- and a {{cat}} ${cat} %s \x00\x07",
    "Ａ ｄｏｇ\u00a0\u2028a\u0301 cat",
]


def test_given_mentions_are_taken_and_those_that_are_not_visual_left_out() -> None:
    caption = Caption.from_text("A dog in the air.", (Mention(0, 5, "1", ("animals",)), Mention(9, 16, None)))
    material = material_of(Photo("1", (caption,), width=4, height=3))
    assert [(each.text, each.head, each.types) for each in material.mentions] == [("A dog", "dog", ("animals",))]


def test_captions_without_mentions_are_searched_for_them_and_all_are_when_asked() -> None:
    assert [each.text for each in material_of(photo("A dog runs.")).mentions] == ["A dog"]
    marked = Caption.from_text("A dog and a cat.", (Mention(0, 5, "1"),))
    found = material_of(Photo("1", (marked,), width=4, height=3), given=False)
    assert [each.text for each in found.mentions] == ["A dog", "a cat"]


def test_material_comes_back_from_json() -> None:
    material = material_of(gold())
    assert Material.from_json(json.loads(json.dumps(material.as_json()))) == material


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_captions_keep_every_character_and_every_mention_its_words(text: str) -> None:
    material = material_of(photo(text))
    again = Material.from_json(json.loads(json.dumps(material.as_json())))
    assert again.captions == (text,)
    for mention in again.mentions:
        assert mention.text == text[mention.start : mention.end]


@given(texts)
def test_any_text_can_be_a_caption(text: str) -> None:
    material = material_of(photo(text))
    assert Material.from_json(material.as_json()) == material


def test_a_caption_too_long_and_a_photo_of_unknown_size_are_one_clear_line() -> None:
    with pytest.raises(DeixisError, match="caption 0 has 2,001 characters"):
        material_of(photo("a" * (LONGEST_CAPTION + 1)))
    with pytest.raises(DeixisError, match="its size is not known"):
        material_of(Photo("1", (Caption.from_text("A dog."),)))


@pytest.mark.parametrize("name", ["", "1", "1:2", "1:2-x", "-1:2-3", "1:-2-3", "a:b-c", "١:0-2", "0:0-5 1:0-7"])
def test_what_is_no_name_of_a_mention_is_refused(name: str) -> None:
    with pytest.raises(DeixisError, match="is no mention"):
        place_of(name)


@pytest.mark.parametrize("name", ["5:0-2", "0:0-99", "0:3-3", "0:4-2"])
def test_a_mention_that_no_caption_has_is_refused(name: str) -> None:
    with pytest.raises(DeixisError, match="no caption has a mention"):
        material_of(photo("A dog.")).marked(name)
