"""`deixis search`."""

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


def run_search(sample_index: Path, capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[str, str]:
    assert _run(["search", *map(str, arguments), "--index", str(sample_index)]) == 0
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_json_has_the_documented_keys(sample_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run_search(sample_index, capsys, "a cat", "--json", "--explain", "--top", 2, "--all")
    document = json.loads(out)
    assert document["query"] == "a cat"
    assert len(document["hits"]) == 2
    best = document["hits"][0]
    assert best["path"] == str(CAT)
    assert 0 <= best["probability"] <= 1
    [phrase] = best["phrases"]
    assert (phrase["text"], phrase["span"], len(phrase["box"])) == ("a cat", [0, 5], 4)


def test_results_are_listed_with_phrases(sample_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run_search(sample_index, capsys, "a cat", "--explain", "--top", 1)
    first, second = out.splitlines()
    assert first.endswith(f"%  {CAT}")
    assert second.strip().startswith("a cat: [")


def test_an_empty_result_is_explained(sample_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run_search(sample_index, capsys, "qwertyuiop")
    assert out == ""
    assert "14 photos; --all" in err
    out, err = run_search(sample_index, capsys, "qwertyuiop", "--all")
    assert len(out.splitlines()) == 10
    out, err = run_search(sample_index, capsys, "a cat", "--after", "2100")
    assert (out, "none of 14 photos" in err) == ("", True)


def test_unknown_words_are_reported(sample_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, err = run_search(sample_index, capsys, "a qwertyuiop by an asdfgh")
    assert "qwertyuiop, asdfgh" in err


def test_the_photo_itself_is_marked(sample_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run_search(sample_index, capsys, "--like", CAT, "--top", 2, "--all")
    first, second = out.splitlines()
    assert first == f"100%  {CAT}  (the photo itself)"
    assert "itself" not in second


def test_absent_phrases_are_marked(sample_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run_search(sample_index, capsys, "two dogs +snow", "--all", "--explain", "--top", 14)
    assert "snow: probably not in this photo" in out


def test_missing_files_are_marked_in_every_output(
    tmp_path: Path, sample_index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(sample_index, tmp_path / "index")
    (tmp_path / "mine").mkdir()
    mine = Path(shutil.copy(CAT, tmp_path / "mine" / "mine.jpg"))
    assert _run(["index", str(tmp_path / "mine"), "--into", str(tmp_path / "index")]) == 0
    capsys.readouterr()
    mine.unlink()
    out, err = run_search(tmp_path / "index", capsys, "a cat in:mine", "--all")
    assert "mine.jpg  (file missing)" in out
    assert "1 file no longer there" in err
    assert run_search(tmp_path / "index", capsys, "a cat in:mine", "--all", "--paths")[0] == ""
    out, err = run_search(tmp_path / "index", capsys, "a cat in:mine", "--all", "--json")
    assert (json.loads(out)["gone"], "1 file no longer there" in err) == ([str(mine)], True)


def test_photos_similar_to_a_photo_are_found(sample_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run_search(sample_index, capsys, "--like", CAT, "--paths", "--top", 1)
    assert out == f"{CAT}\n"


def test_results_are_exported(sample_index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, links = tmp_path / "hits.csv", tmp_path / "hits"
    run_search(sample_index, capsys, "a cat", "--all", "--top", 3, "--csv", table, "--links", links)
    with table.open(newline="", encoding="utf-8") as file:
        assert next(row["path"] for row in csv.DictReader(file)) == str(CAT)
    assert sorted(path.name for path in links.iterdir())[0] == "1 cat.jpg"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--like PHOTO"),
        (["a cat", "--like", str(CAT)], "--like PHOTO"),
        (["--", "-cat"], "nothing to search for"),
        (["a cat", "--after", "tomorrow"], "not a date"),
        (["a cat", "--index", "nowhere"], "nowhere: not a photo index"),
        (["--like", "nowhere.jpg"], "nowhere.jpg"),
        (["a cat", "--top", "0"], "top"),
        (["a cat -cats"], "'cats'"),
        (["a cat", "--csv", "nowhere/hits.csv"], "nowhere/hits.csv"),
    ],
)
def test_user_errors_are_one_line(
    sample_index: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = [] if "--index" in arguments else ["--index", str(sample_index)]
    assert _run(["search", *where, *arguments]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_index_and_search_commands_work_together(deixis: Run) -> None:
    made = deixis("index", SAMPLES / "images", "--into", "mine")
    assert made.returncode == 0, made.stderr
    found = deixis("search", "two dogs", "--index", "mine", "--paths", "--all", "--top", 2)
    assert found.returncode == 0, found.stderr
    assert any(line.endswith("dogs.jpg") for line in found.stdout.splitlines())
