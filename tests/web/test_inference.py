"""The models behind the API."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from deixis.data.samples import SAMPLES
from deixis.web.inference import InferenceService, PhotoInput, ResultCache

DOGS = SAMPLES / "images" / "dogs.jpg"


def test_the_last_few_answers_are_cache_and_the_oldest_goes() -> None:
    cache, computed = ResultCache[str](size=2), []

    def make(name: str) -> str:
        computed.append(name)
        return name

    for name in ("a", "b", "a", "c", "a", "b"):
        cache.get(name, lambda name=name: make(name))  # type: ignore[misc]
    assert computed == ["a", "b", "c", "b"]  # b had been dropped


def test_without_a_name_nothing_is_cache() -> None:
    cache = ResultCache[int](size=2)
    assert [cache.get(None, lambda number=number: number) for number in (1, 2)] == [1, 2]  # type: ignore[misc]


def test_concurrent_requests_compute_a_result_once() -> None:
    cache, computed, gate = ResultCache[int](size=2), [], threading.Barrier(4)

    def ask(_: int) -> int:
        gate.wait()
        return cache.get("photo", lambda: computed.append(1) or len(computed))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, range(4))) == [1, 1, 1, 1]


def test_a_second_sentence_uses_the_cached_features(monkeypatch: pytest.MonkeyPatch) -> None:
    service = InferenceService()
    first = service.ground(PhotoInput(DOGS, "id"), "Two dogs.")
    monkeypatch.setattr(type(service._grounder), "propose", lambda *_: pytest.fail("encoded again"))
    second = service.ground(PhotoInput(DOGS, "id"), "Two brown dogs at a window.")
    assert [phrase.text for phrase in second.phrases] == ["Two brown dogs", "a window"]
    assert first.photo == "id"
    assert first.size == Image.open(DOGS).size


def test_absent_phrases_and_unknown_words_are_reported() -> None:
    found = InferenceService().ground(PhotoInput(DOGS), "Two dogs, a xyzzy and a red car.")
    assert {phrase.text: phrase.absent for phrase in found.phrases} | {"a xyzzy": None} == {
        "Two dogs": False,
        "a xyzzy": None,
        "a red car": True,
    }
    assert found.unknown_words == ["xyzzy"]


def test_photos_are_captioned() -> None:
    assert "dog" in InferenceService().caption(PhotoInput(DOGS)).captions[0].text


def test_regions_are_described() -> None:
    said = InferenceService().describe(PhotoInput(DOGS, "id"), (0, 0, 200, 200), 2)
    assert said.size == Image.open(DOGS).size
    assert [len(region.phrases) for region in said.regions] == [2]
