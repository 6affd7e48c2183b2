"""What a search gives."""

from __future__ import annotations

from pathlib import Path

from deixis.tasks.search.hits import Hit, HitPhrase, KnownPhoto, date_of


def test_json_is_as_the_interface_says() -> None:
    phrase = HitPhrase("a dog", (0, 5), (1.04, 2.0, 30.0, 40.0), 0.91234)
    other = Hit(KnownPhoto("2", Path("copy.jpg"), (64, 48)), 1.0, 0.7)
    hit = Hit(KnownPhoto("1", Path("dog.jpg"), (64, 48)), 1.23456, 0.77777, (phrase,), (other,))
    assert hit.as_json() == {
        "path": "dog.jpg",
        "score": 1.2346,
        "probability": 0.7778,
        "phrases": [{"text": "a dog", "span": [0, 5], "box": [1.0, 2.0, 30.0, 40.0], "score": 0.9123, "absent": False}],
        "duplicates": ["copy.jpg"],
    }
    assert Hit(hit.photo, 0.5).as_json()["probability"] is None


def test_dates_are_those_of_the_camera() -> None:
    assert date_of(0) == "1970-01-01T00:00:00"
    assert date_of(None) is None
