"""`deixis describe` on the command line."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from deixis.data.samples import SAMPLES
from tests.cli.conftest import Command

DOGS = str(SAMPLES / "images" / "dogs.jpg")


def test_regions_are_printed_and_drawn(tmp_path: Path, command: Command) -> None:
    picture = tmp_path / "dogs.png"
    lines = command("describe", DOGS, "--regions", 4, "--top", 3, "--picture", picture)[0].splitlines()
    assert 1 <= len(lines) - 1 <= 4
    assert lines[0].startswith("[")
    assert lines[0].count("%") == 3
    with Image.open(picture) as drawn:
        assert max(drawn.size) >= 960


def test_json_has_the_documented_keys(command: Command) -> None:
    document = command.json("describe", DOGS, "--region", "187,268,309,445", "--top", 2)
    assert set(document) == {"photo", "regions"}
    assert document["photo"] == DOGS
    (region,) = document["regions"]
    assert region["box"] == [187, 268, 309, 445]
    assert [set(phrase) for phrase in region["phrases"]] == [{"text", "score"}] * 2
    assert "dog" in region["phrases"][0]["text"]
    assert all(0 <= phrase["score"] <= 1 for phrase in region["phrases"])


def test_long_phrases_say_more_about_a_region(command: Command) -> None:
    dog = ("describe", DOGS, "--region", "187,268,309,445", "--top", 3)
    (region,) = command.json(*dog, "--long")["regions"]
    assert region["phrases"]
    assert all(len(phrase["text"].split()) >= 4 for phrase in region["phrases"])
    assert any("dog" in phrase["text"] for phrase in region["phrases"])
    assert all(0 < phrase["score"] < 1 for phrase in region["phrases"])
    (short,) = command.json(*dog)["regions"]
    assert {phrase["text"] for phrase in short["phrases"]}.isdisjoint(phrase["text"] for phrase in region["phrases"])
