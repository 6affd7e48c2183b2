"""`deixis ground` on the command line."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from deixis.data.samples import SAMPLES
from tests.cli.conftest import Command

CAT = str(SAMPLES / "images" / "cat.jpg")


def test_boxes_are_printed_and_drawn(tmp_path: Path, command: Command) -> None:
    picture = tmp_path / "cat.png"
    lines = command("ground", CAT, "A cat with green eyes.", "--picture", picture)[0].splitlines()
    assert lines[0].startswith("A cat: [")
    assert lines[1].startswith("green eyes: [")
    with Image.open(picture) as drawn:
        assert drawn.width >= 900


def test_json_has_the_documented_keys(command: Command) -> None:
    document = command.json("ground", CAT, "A cat and a qwertyuiop.")
    assert document["photo"] == CAT
    assert len(document["size"]) == 2
    assert document["unknown_words"] == ["qwertyuiop"]
    phrase = document["phrases"][0]
    assert (phrase["text"], phrase["span"], phrase["type"]) == ("A cat", [0, 5], "animals")
    assert len(phrase["boxes"][0]["box"]) == 4
    assert 0 < phrase["boxes"][0]["score"] <= 1


def test_absent_phrases_are_marked(command: Command) -> None:
    out, _ = command("ground", SAMPLES / "images" / "dogs.jpg", "Two dogs and a snowboarder.")
    dogs, snowboarder = out.splitlines()[:2]
    assert dogs.startswith("Two dogs: [")
    assert snowboarder.startswith("a snowboarder: ")
    assert "[" not in snowboarder


def test_a_sentence_without_noun_phrase_is_an_error_and_unknown_words_give_a_note(command: Command) -> None:
    assert "noun phrase" in command.error("ground", CAT, "runs quickly")
    assert "katze" in command("ground", CAT, "Eine Katze sitzt auf dem Sofa.")[1]


def test_nested_phrases_are_indented_and_have_the_box_around_those_inside(tmp_path: Path, command: Command) -> None:
    sentence = "A cat with green eyes and long whiskers looks up."
    lines = command("ground", CAT, sentence, "--nested", "--picture", tmp_path / "cat.png")[0].splitlines()
    assert lines[0].startswith("A cat with green eyes and long whiskers: [")
    assert lines[1].startswith("  A cat: [")
    assert any(line.strip().startswith("green eyes: ") for line in lines)
    with Image.open(tmp_path / "cat.png") as drawn:
        assert drawn.width >= 900
    phrases = command.json("ground", CAT, sentence, "--nested")["phrases"]
    assert phrases[0]["parent"] is None
    for row, phrase in enumerate(phrases):
        inside = [each["box"] for each in phrases if each["parent"] == row and not each.get("absent")]
        if inside:
            x1, y1, x2, y2 = zip(*inside, strict=True)
            assert phrase["box"] == [min(x1), min(y1), max(x2), max(y2)]
            assert [each["box"] for each in phrase["boxes"]] == [phrase["box"]]
    plain = command.json("ground", CAT, sentence)["phrases"]
    assert all("parent" not in phrase for phrase in plain)
    assert [phrase["text"] for phrase in plain] == [
        phrase["text"] for row, phrase in enumerate(phrases) if all(each["parent"] != row for each in phrases)
    ]
