"""`deixis describe` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from deixis.cli.main import _run
from deixis.data.samples import SAMPLES

DOGS = str(SAMPLES / "images" / "dogs.jpg")


def test_regions_are_printed_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "dogs.png"
    assert _run(["describe", DOGS, "--regions", "4", "--top", "3", "--picture", str(picture)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 1 <= len(lines) - 1 <= 4
    assert lines[0].startswith("[")
    assert lines[0].count("%") == 3
    with Image.open(picture) as drawn:
        assert max(drawn.size) >= 960


def test_json_has_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["describe", DOGS, "--region", "187,268,309,445", "--top", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"photo", "regions"}
    assert document["photo"] == DOGS
    (region,) = document["regions"]
    assert region["box"] == [187, 268, 309, 445]
    assert [set(phrase) for phrase in region["phrases"]] == [{"text", "score"}] * 2
    assert "dog" in region["phrases"][0]["text"]
    assert all(0 <= phrase["score"] <= 1 for phrase in region["phrases"])


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["nowhere.jpg"], "nowhere.jpg"),
        ([DOGS, "--region", "1,2,3"], "1,2,3"),
        ([DOGS, "--region", "300,10,20,40"], "300,10,20,40"),
        ([DOGS, "--region", "5000,10,6000,40"], "5000,10,6000,40"),
        ([DOGS, "--bank", "nowhere.txt"], "nowhere.txt"),
        ([DOGS, "--model", "nowhere"], "nowhere"),
        ([DOGS, "--picture", "dogs.txt"], "dogs.txt"),
        ([DOGS, "--top", "0"], "--top"),
    ],
)
def test_mistakes_exit_with_2_and_name_the_argument(
    arguments: list[str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(["describe", *arguments]) == 2
    printed = capsys.readouterr()
    assert name in printed.err.splitlines()[-1]
    assert printed.out == ""


def test_an_empty_phrase_bank_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.txt").write_text("\n \n")
    assert _run(["describe", DOGS, "--bank", str(tmp_path / "empty.txt")]) == 2
    assert "empty.txt" in capsys.readouterr().err
