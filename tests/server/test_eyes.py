"""The models behind the server."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from deixis.data.samples import SAMPLES
from deixis.server.eyes import Eyes, Kept, Subject

DOGS = SAMPLES / "images" / "dogs.jpg"


def test_the_last_few_answers_are_kept_and_the_oldest_goes() -> None:
    kept, made = Kept[str](most=2), []

    def make(name: str) -> str:
        made.append(name)
        return name

    for name in ("a", "b", "a", "c", "a", "b"):
        kept.get(name, lambda name=name: make(name))  # type: ignore[misc]
    assert made == ["a", "b", "c", "b"]  # b had gone when it was asked for again


def test_without_a_name_nothing_is_kept() -> None:
    kept = Kept[int](most=2)
    assert [kept.get(None, lambda number=number: number) for number in (1, 2)] == [1, 2]  # type: ignore[misc]


def test_those_who_ask_for_the_same_at_once_share_one_answer() -> None:
    kept, made, gate = Kept[int](most=2), [], threading.Barrier(4)

    def ask(_: int) -> int:
        gate.wait()
        return kept.get("photo", lambda: made.append(1) or len(made))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, range(4))) == [1, 1, 1, 1]


def test_a_second_sentence_about_a_photo_needs_no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    eyes = Eyes()
    first = eyes.ground(Subject(DOGS, "id"), "Two dogs.")
    monkeypatch.setattr(type(eyes._pointer), "look_at", lambda *_: pytest.fail("looked again"))
    second = eyes.ground(Subject(DOGS, "id"), "Two brown dogs at a window.")
    assert [phrase.text for phrase in second.phrases] == ["Two brown dogs", "a window"]
    assert first.photo == "id"
    assert first.size == Image.open(DOGS).size


def test_a_phrase_that_the_photo_does_not_show_is_called_absent_and_a_strange_word_is_named() -> None:
    found = Eyes().ground(Subject(DOGS), "Two dogs, a xyzzy and a red car.")
    assert {phrase.text: phrase.absent for phrase in found.phrases} | {"a xyzzy": None} == {
        "Two dogs": False,
        "a xyzzy": None,
        "a red car": True,
    }
    assert found.unknown_words == ["xyzzy"]


def test_a_caption_is_written() -> None:
    assert "dog" in Eyes().caption(Subject(DOGS)).captions[0].text


def test_regions_are_described() -> None:
    said = Eyes().describe(Subject(DOGS, "id"), (0, 0, 200, 200), 2)
    assert said.size == Image.open(DOGS).size
    assert [len(region.phrases) for region in said.regions] == [2]
