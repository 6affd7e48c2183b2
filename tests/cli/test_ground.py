"""`deixis ground` on the command line."""

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


def test_json_has_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["ground", CAT, "A cat.", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["photo"] == CAT
    assert len(document["size"]) == 2
    phrase = document["phrases"][0]
    assert (phrase["text"], phrase["span"], phrase["type"]) == ("A cat", [0, 5], "animals")
    assert len(phrase["boxes"][0]["box"]) == 4
    assert 0 < phrase["boxes"][0]["score"] <= 1


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["nowhere.jpg", "A cat."], "nowhere.jpg"),
        ([CAT, "A cat.", "--model", "nowhere"], "nowhere"),
        ([CAT, "A cat.", "--picture", "cat.txt"], "cat.txt"),
    ],
)
def test_mistakes_exit_with_2_and_name_the_argument(
    arguments: list[str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(["ground", *arguments]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert name in error


def test_a_sentence_without_noun_phrases_gives_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["ground", CAT, "runs quickly"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "noun phrase" in printed.err


def test_absent_phrases_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["ground", str(SAMPLES / "images" / "dogs.jpg"), "Two dogs and a snowboarder."]) == 0
    dogs, snowboarder = capsys.readouterr().out.splitlines()[:2]
    assert dogs.startswith("Two dogs: [")
    assert snowboarder.startswith("a snowboarder: ")
    assert "[" not in snowboarder


def test_unknown_words_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["ground", CAT, "Eine Katze sitzt auf dem Sofa."]) == 0
    assert "katze" in capsys.readouterr().err
    assert _run(["ground", CAT, "A cat and a submarine.", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unknown_words"] == ["submarine"]
