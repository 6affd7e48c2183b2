"""The models behind the API."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError
from deixis.models.captioner import ranking
from deixis.models.grounding import load_embedding_model, load_grounding_model
from deixis.web.inference import InferenceService, PhotoInput, ResultCache

DOGS = SAMPLES / "images" / "dogs.jpg"


def test_the_least_recently_used_result_is_dropped_and_none_is_never_cached() -> None:
    cache, computed = ResultCache[None](size=2), []
    for name in ("a", "b", "a", "c", "a", "b", None, None):
        cache.get(name, lambda name=name: computed.append(name))  # type: ignore[misc]
    assert computed == ["a", "b", "c", "b", None, None]  # b had been dropped


def test_concurrent_requests_compute_a_result_once() -> None:
    cache, computed, gate = ResultCache[int](size=2), [], threading.Barrier(4)

    def ask(_: int) -> int:
        gate.wait()
        return cache.get("photo", lambda: computed.append(1) or len(computed))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, range(4))) == [1, 1, 1, 1]


def test_results_of_other_keys_are_computed_at_the_same_time() -> None:
    cache, gate = ResultCache[str](size=2), threading.Barrier(2)

    def ask(key: str) -> str:
        return cache.get(key, lambda: f"{key}{gate.wait(30) * 0}")

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(ask, ("a", "b"))) == ["a0", "b0"]


def test_errors_are_not_cached() -> None:
    cache, answers = ResultCache[int](size=2), iter([DeixisError("busy"), 7])

    def compute() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(DeixisError, match="busy"):
        cache.get("a", compute)
    assert cache.get("a", compute) == 7


def test_a_second_sentence_uses_the_cached_features(monkeypatch: pytest.MonkeyPatch) -> None:
    service = InferenceService()
    first = service.ground(PhotoInput(DOGS, "id"), "Two dogs.")
    monkeypatch.setattr(type(service._grounder()), "propose", lambda *_: pytest.fail("encoded again"))
    second = service.ground(PhotoInput(DOGS, "id"), "Two brown dogs at a window.")
    assert [phrase.text for phrase in second.phrases] == ["Two brown dogs", "a window"]
    assert first.photo == "id"
    assert first.size == Image.open(DOGS).size


def test_absent_phrases_and_unknown_words_are_reported() -> None:
    found = InferenceService().ground(PhotoInput(DOGS), "Two dogs, a xyzzy and a snowboarder.")
    absent = {phrase.text: phrase.absent for phrase in found.phrases}
    assert (absent["Two dogs"], absent["a snowboarder"]) == (False, True)
    assert found.unknown_words == ["xyzzy"]


def test_captions_are_ranked_by_the_matching_model_that_the_grounder_has_open(monkeypatch: pytest.MonkeyPatch) -> None:
    grounder, matcher = load_grounding_model(), load_embedding_model("two-branch")
    grounder.photo_model = matcher
    monkeypatch.setattr(ranking, "load_embedding_model", lambda _: pytest.fail("opened again"))
    assert InferenceService(grounder=grounder).caption(PhotoInput(DOGS)).captions


def test_descriptions_are_checked_by_the_matching_model_that_the_grounder_has_open() -> None:
    """A second copy of it took 20 MB."""
    grounder = load_grounding_model()
    grounder.photo_model = load_embedding_model("two-branch")
    service = InferenceService(grounder=grounder)
    assert service.describe(PhotoInput(DOGS), None, 2).regions
    presence = service._describer()._presence
    assert presence is not None
    assert presence.photo_model is grounder.photo_model


def test_photos_are_captioned_and_regions_described() -> None:
    service = InferenceService()
    assert "dog" in service.caption(PhotoInput(DOGS)).captions[0].text
    description = service.describe(PhotoInput(DOGS, "id"), (0, 0, 200, 200), 2)
    assert description.size == Image.open(DOGS).size
    assert [len(region.phrases) for region in description.regions] == [2]
