"""`deixis search`, as typed."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from deixis.cli.main import _run
from deixis.data.samples import SAMPLES
from tests.conftest import Run

CAT = SAMPLES / "images" / "cat.jpg"


def searched(sample_index: Path, capsys: pytest.CaptureFixture[str], *typed: object) -> tuple[str, str]:
    assert _run(["search", *map(str, typed), "--index", str(sample_index)]) == 0
    told = capsys.readouterr()
    return told.out, told.err


def test_json_is_as_the_interface_says(sample_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = searched(sample_index, capsys, "a cat", "--json", "--explain", "--top", 2, "--all")
    document = json.loads(out)
    assert document["query"] == "a cat"
    assert len(document["hits"]) == 2
    best = document["hits"][0]
    assert best["path"] == str(CAT)
    assert 0 <= best["probability"] <= 1
    [phrase] = best["phrases"]
    assert (phrase["text"], phrase["span"], len(phrase["box"])) == ("a cat", [0, 5], 4)


def test_people_see_a_short_list(sample_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = searched(sample_index, capsys, "a cat", "--explain", "--top", 1)
    first, second = out.splitlines()
    assert first.endswith(f"%  {CAT}")
    assert second.strip().startswith("a cat: [")


def test_nothing_found_is_said_with_a_hint(sample_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = searched(sample_index, capsys, "qwertyuiop")
    assert out == ""
    assert "nothing found in 14 photos; --all shows what comes nearest" in err
    out, err = searched(sample_index, capsys, "qwertyuiop", "--all")
    assert len(out.splitlines()) == 10
    out, err = searched(sample_index, capsys, "a cat", "--after", "2100")
    assert (out, "none of 14 photos passes the filters" in err) == ("", True)


def test_unknown_words_are_told(sample_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, err = searched(sample_index, capsys, "a qwertyuiop by an asdfgh")
    assert "the models do not know 'qwertyuiop' and 'asdfgh'" in err
    assert "they read English" in err


def test_the_photo_itself_is_told(sample_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = searched(sample_index, capsys, "--like", CAT, "--top", 2, "--all")
    first, second = out.splitlines()
    assert first == f"100%  {CAT}  (the photo itself)"
    assert "itself" not in second


def test_what_a_hit_does_not_show_is_told(sample_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = searched(sample_index, capsys, "two dogs +snow", "--all", "--explain", "--top", 14)
    assert "snow: not in this photo, it seems  (there " in out


def test_photos_that_are_gone_are_told_wherever_hits_are_listed(
    tmp_path: Path, sample_index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(sample_index, tmp_path / "index")
    (tmp_path / "mine").mkdir()
    mine = Path(shutil.copy(CAT, tmp_path / "mine" / "mine.jpg"))
    assert _run(["index", str(tmp_path / "mine"), "--into", str(tmp_path / "index")]) == 0
    capsys.readouterr()
    mine.unlink()
    out, err = searched(tmp_path / "index", capsys, "a cat in:mine", "--all")
    assert "mine.jpg  (the file is gone)" in out
    assert "1 file gone since; deixis index forgets what is gone" in err
    assert searched(tmp_path / "index", capsys, "a cat in:mine", "--all", "--paths")[0] == ""
    out, err = searched(tmp_path / "index", capsys, "a cat in:mine", "--all", "--json")
    assert (json.loads(out)["gone"], "1 file gone since" in err) == ([str(mine)], True)


def test_a_photo_may_be_asked_for(sample_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = searched(sample_index, capsys, "--like", CAT, "--paths", "--top", 1)
    assert out == f"{CAT}\n"


def test_hits_are_exported(sample_index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, links = tmp_path / "hits.csv", tmp_path / "hits"
    searched(sample_index, capsys, "a cat", "--all", "--top", 3, "--csv", table, "--links", links)
    with table.open(newline="", encoding="utf-8") as file:
        assert next(row["path"] for row in csv.DictReader(file)) == str(CAT)
    assert sorted(path.name for path in links.iterdir())[0] == "1 cat.jpg"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ([], "give a sentence in quotes, or --like PHOTO"),
        (["a cat", "--like", str(CAT)], "one of the two"),
        (["--", "-cat"], "say what to look for"),
        (["a cat", "--after", "tomorrow"], "not a date"),
        (["a cat", "--index", "nowhere"], "nowhere: not an index of photos"),
        (["--like", "nowhere.jpg"], "nowhere.jpg"),
        (["a cat", "--top", "0"], "top"),
        (["a cat -cats"], "'cats' is both wanted and avoided"),
        (["a cat", "--csv", "nowhere/hits.csv"], "nowhere/hits.csv: there is no folder"),
    ],
)
def test_mistakes_are_one_clear_line(
    sample_index: Path, typed: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = [] if "--index" in typed else ["--index", str(sample_index)]
    assert _run(["search", *where, *typed]) == 2
    assert told in capsys.readouterr().err.splitlines()[-1]


def test_indexing_and_searching_by_hand(deixis: Run) -> None:
    made = deixis("index", SAMPLES / "images", "--into", "mine")
    assert made.returncode == 0, made.stderr
    found = deixis("search", "two dogs", "--index", "mine", "--paths", "--all", "--top", 2)
    assert found.returncode == 0, found.stderr
    assert any(line.endswith("dogs.jpg") for line in found.stdout.splitlines())
