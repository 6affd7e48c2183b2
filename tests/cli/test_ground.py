"""`deixis ground` and `deixis models`, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from deixis.cli.main import _run
from deixis.data.samples import SAMPLES

CAT = str(SAMPLES / "images" / "cat.jpg")


def test_boxes_are_printed_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "cat.png"
    assert _run(["ground", CAT, "A cat with green eyes.", "--picture", str(picture)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("A cat: [")
    assert lines[1].startswith("green eyes: [")
    with Image.open(picture) as drawn:
        assert drawn.width >= 900


def test_json_is_as_the_interface_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["ground", CAT, "A cat.", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["photo"] == CAT
    assert len(document["size"]) == 2
    phrase = document["phrases"][0]
    assert (phrase["text"], phrase["span"], phrase["type"]) == ("A cat", [0, 5], "animals")
    assert len(phrase["boxes"][0]["box"]) == 4
    assert 0 < phrase["boxes"][0]["score"] <= 1


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["nowhere.jpg", "A cat."], "nowhere.jpg"),
        ([CAT, "A cat.", "--model", "nowhere"], "nowhere: no such directory, and no model comes with deixis by this"),
        ([CAT, "A cat.", "--picture", "cat.txt"], "cat.txt: pictures are written as .png, .jpg or .webp"),
    ],
)
def test_mistakes_are_one_clear_line(typed: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["ground", *typed]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert told in error


def test_a_sentence_without_noun_phrases_is_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["ground", CAT, "runs quickly"]) == 0
    assert "no noun phrase was found" in capsys.readouterr().err


def test_models_lists_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["models", "--json"]) == 0
    found = {model["name"]: model for model in json.loads(capsys.readouterr().out)}
    assert {"describer", "grounder", "m-rnn", "two-branch"} <= set(found)
    assert all(model["scores"] and "education" in model["licence"] for model in found.values())
    assert found["two-branch"]["bytes"] > 1_000_000
    assert "Flickr8k" in found["two-branch"]["trained_on"]
    assert _run(["models"]) == 0
    assert "two-branch" in capsys.readouterr().out


def test_what_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["ground", str(SAMPLES / "images" / "dogs.jpg"), "Two dogs and a snowboarder."]) == 0
    said = capsys.readouterr().out
    assert "Two dogs: [" in said
    assert "a snowboarder: not in this photo, it seems  (there " in said


def test_words_that_the_model_does_not_know_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["ground", CAT, "Eine Katze sitzt auf dem Sofa."]) == 0
    assert "the model does not know" in capsys.readouterr().err
    assert _run(["ground", CAT, "A cat and a submarine.", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unknown_words"] == ["submarine"]
