"""Preparing photos for annotation."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from deixis.annotate.material import MAX_CAPTION_LENGTH, Material, parse_mention_id, prepare_photo
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


def test_existing_visual_mentions_are_kept() -> None:
    caption = Caption.from_text("A dog in the air.", (Mention(0, 5, "1", ("animals",)), Mention(9, 16, None)))
    material = prepare_photo(Photo("1", (caption,), width=4, height=3))
    assert [(each.text, each.head, each.types) for each in material.mentions] == [("A dog", "dog", ("animals",))]


def test_phrases_are_found_in_captions_without_mentions_or_in_all() -> None:
    assert [each.text for each in prepare_photo(photo("A dog runs.")).mentions] == ["A dog"]
    marked = Caption.from_text("A dog and a cat.", (Mention(0, 5, "1"),))
    found = prepare_photo(Photo("1", (marked,), width=4, height=3), keep_mentions=False)
    assert [each.text for each in found.mentions] == ["A dog", "a cat"]


def test_material_survives_json() -> None:
    material = prepare_photo(gold())
    assert Material.from_json(json.loads(json.dumps(material.as_json()))) == material


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_captions_and_their_mentions_are_unchanged(text: str) -> None:
    material = prepare_photo(photo(text))
    again = Material.from_json(json.loads(json.dumps(material.as_json())))
    assert again.captions == (text,)
    for mention in again.mentions:
        assert mention.text == text[mention.start : mention.end]


@given(texts)
def test_any_text_is_a_valid_caption(text: str) -> None:
    material = prepare_photo(photo(text))
    assert Material.from_json(material.as_json()) == material


def test_long_captions_and_photos_of_unknown_size_are_errors() -> None:
    with pytest.raises(DeixisError, match="caption 0"):
        prepare_photo(photo("a" * (MAX_CAPTION_LENGTH + 1)))
    with pytest.raises(DeixisError, match="photo 1"):
        prepare_photo(Photo("1", (Caption.from_text("A dog."),)))


@pytest.mark.parametrize("name", ["", "1", "1:2", "1:2-x", "-1:2-3", "1:-2-3", "a:b-c", "١:0-2", "0:0-5 1:0-7"])
def test_invalid_mention_ids_are_refused(name: str) -> None:
    with pytest.raises(DeixisError):
        parse_mention_id(name)


@pytest.mark.parametrize("name", ["5:0-2", "0:0-99", "0:3-3", "0:4-2"])
def test_mentions_outside_the_captions_are_refused(name: str) -> None:
    with pytest.raises(DeixisError, match="photo 7"):
        prepare_photo(photo("A dog.")).mention_at(name)
