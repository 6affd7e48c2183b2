"""`deixis search`."""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from deixis.cli.output import show_name
from deixis.data.samples import SAMPLES
from tests.cli.conftest import Command
from tests.conftest import Run

CAT = SAMPLES / "images" / "cat.jpg"


def test_json_has_the_documented_keys(sample_index: Path, command: Command) -> None:
    document = command.json("search", "a cat", "--index", sample_index, "--explain", "--top", 2, "--all")
    assert document["query"] == "a cat"
    assert len(document["hits"]) == 2
    best = document["hits"][0]
    assert best["path"] == str(CAT)
    assert 0 <= best["probability"] <= 1
    [phrase] = best["phrases"]
    assert (phrase["text"], phrase["span"], len(phrase["box"])) == ("a cat", [0, 5], 4)


def test_results_are_listed_with_phrases_and_absent_phrases_are_marked(sample_index: Path, command: Command) -> None:
    out, _ = command("search", "a cat", "--index", sample_index, "--explain", "--top", 1)
    first, second = out.splitlines()
    assert first.endswith(f"%  {CAT}")
    assert second.strip().startswith("a cat: [")
    out, _ = command("search", "two dogs +snow", "--index", sample_index, "--all", "--explain", "--top", 14)
    assert "snow: probably not in this photo" in out
    assert "presence" not in out


def test_an_empty_result_and_unknown_words_are_explained(sample_index: Path, command: Command) -> None:
    out, err = command("search", "a qwertyuiop by an asdfgh", "--index", sample_index)
    assert out == ""
    assert "qwertyuiop, asdfgh" in err
    assert "14 photos; --all" in err
    document = command.json("search", "a qwertyuiop", "--index", sample_index)
    assert (document["unknown_words"], document["searched"]) == (["qwertyuiop"], 14)
    out, err = command("search", "qwertyuiop", "--index", sample_index, "--all")
    assert len(out.splitlines()) == 10
    out, err = command("search", "a cat", "--index", sample_index, "--after", "2100")
    assert (out, "none of 14 photos passes the filters: no photo is from that time" in err) == ("", True)
    assert "no folder is named nowhere" in command("search", "a cat in:nowhere", "--index", sample_index)[1]


def test_photos_without_something_and_of_a_folder_are_listed(sample_index: Path, command: Command) -> None:
    out, _ = command("search", "no cats", "--index", sample_index, "--paths", "--top", 20)
    assert str(CAT) not in out.splitlines()
    assert 7 <= len(out.splitlines()) < 14
    out, _ = command("search", "in:images", "--index", sample_index, "--null", "--top", 20)
    assert len(out.split("\0")) == 15
    assert "\n" not in out
    assert command("search", "a cat -in:images", "--index", sample_index)[0] == ""


def test_the_probability_of_a_phrase_is_at_least_that_of_its_photo(sample_index: Path, command: Command) -> None:
    for query in ("a cat", "a woman with a camera", "two dogs +snow"):
        for hit in command.json("search", query, "--index", sample_index, "--explain", "--all")["hits"]:
            assert all(phrase["score"] >= hit["probability"] for phrase in hit["phrases"])
            if len(hit["phrases"]) == 1:
                assert hit["phrases"][0]["score"] == hit["probability"]


def test_a_sentence_and_a_photo_are_combined_by_weight(tmp_path: Path, sample_index: Path, command: Command) -> None:
    cat = shutil.copy(CAT, tmp_path / "mine.jpg")

    def best(weight: float) -> str:
        found = command.json("search", "two dogs", "--like", cat, "--weight", weight, "--index", sample_index, "--all")
        return Path(found["hits"][0]["path"]).name

    assert (best(0), best(1)) == ("dogs.jpg", "cat.jpg")


def test_quotes_that_the_shell_removes_come_back(tmp_path: Path, command: Command) -> None:
    folder = tmp_path / 'Ann\'s "best" shots'
    folder.mkdir()
    shutil.copy(CAT, folder)
    command("index", tmp_path, "--into", tmp_path / "index")
    named = f"in:{folder.name}"
    for words in ((named,), ("cat", named), ("cat", named, "-red bus"), ("in:Ann's cat",)):
        hits = command.json("search", *words, "--index", tmp_path / "index", "--all")["hits"]
        assert [Path(hit["path"]).name for hit in hits] == ["cat.jpg"], words
    assert command.json("search", "cat", f"-{named}", "--index", tmp_path / "index", "--all")["hits"] == []
    assert command.json("search", f"-{named}", "--index", tmp_path / "index")["hits"] == []
    [found] = command.json("search", "-in:Bob cat", "--index", tmp_path / "index")["hits"]
    assert found["probability"], "no folder is named Bob cat, so cats are searched for"


def test_further_results_are_counted(sample_index: Path, command: Command) -> None:
    _, err = command("search", "in:images", "--index", sample_index, "--top", 4)
    assert "10 more photos; --top N" in err
    assert "more photo" not in command("search", "in:images", "--index", sample_index, "--top", 14)[1]
    found = command.json("search", "an animal", "--index", sample_index, "--top", 1)
    assert found["found"] == len(all_paths(command.json("search", "an animal", "--index", sample_index, "--top", 14)))


def all_paths(document: dict[str, Any]) -> list[str]:
    return [path for hit in document["hits"] for path in (hit["path"], *hit["duplicates"])]


def test_photos_of_a_folder_are_listed_with_their_dates(sample_index: Path, command: Command) -> None:
    hits = command.json("search", "in:images", "--index", sample_index, "--top", 3)["hits"]
    lines = command("search", "in:images", "--index", sample_index, "--top", 3)[0].splitlines()
    assert [line.split(maxsplit=2) for line in lines] == [
        [hit["taken"][:10], hit["date_source"], hit["path"]] for hit in hits
    ]


def test_a_date_in_words_is_a_filter_that_can_be_undone(sample_index: Path, command: Command) -> None:
    found = command.json("search", "a cat in 2021", "--index", sample_index)
    filtered = command.json("search", "a cat after:2021 before:2022", "--index", sample_index)
    reading = {"kind": "date", "text": "in 2021", "read_as": "after:2021 before:2022"}
    assert (found["readings"], found["searched"], found["hits"]) == ([reading], filtered["searched"], filtered["hits"])
    assert found["searched"] < found["photos"]
    assert "after:2021 before:2022" in command("search", "a cat in 2021", "--index", sample_index)[1]
    for undone in (("a cat in 2021", "--exact"), ('a cat "in 2021"',), ("a cat in 2021 after:0001",)):
        readings = command.json("search", *undone, "--index", sample_index)["readings"]
        assert "date" not in [reading["kind"] for reading in readings]


def test_misspelled_words_are_corrected_and_named(sample_index: Path, command: Command) -> None:
    found = command.json("search", "a brwn cat and a catt", "--index", sample_index)
    assert found["hits"] == command.json("search", "a brown cat and a cat", "--index", sample_index)["hits"]
    assert [(each["text"], each["read_as"]) for each in found["readings"]] == [("brwn", "brown"), ("catt", "cat")]
    assert "showing cat" in command("search", "a catt", "--index", sample_index)[1]
    assert command.json("search", "a catt", "--exact", "--index", sample_index)["readings"] == []


def test_names_are_said_to_be_unknown(sample_index: Path, command: Command) -> None:
    (reading,) = command.json("search", "tahoe", "--index", sample_index)["readings"]
    assert (reading["kind"], reading["text"]) == ("name", "tahoe")
    assert "name of a person" in command("search", "Tahoe", "--index", sample_index)[1]


def test_a_part_stands_for_a_sentence_of_which_nothing_is_found(sample_index: Path, command: Command) -> None:
    sentence = "a cat repairing a submarine under the volcano"
    (reading,) = command.json("search", sentence, "--index", sample_index)["readings"]
    assert (reading["kind"], reading["text"]) == ("part", sentence)
    assert command.json("search", sentence, "--exact", "--index", sample_index)["hits"] == []


@pytest.mark.parametrize(
    ("typed", "same_as"),
    [
        (["an animal", "-cat"], "an animal -cat"),
        (["-cat", "an", "animal"], "an animal -cat"),
        (["-people"], "no people"),
        (["a cat", "-in:images"], "a cat -in:images"),
        (["an animal", "-grey cat"], 'an animal -"grey cat"'),
        (["-cat -dog", "an animal"], "an animal -cat -dog"),
    ],
)
def test_words_with_a_minus_need_no_quotes(
    typed: list[str], same_as: str, sample_index: Path, command: Command
) -> None:
    options = ("--index", sample_index, "--paths", "--top", 14)
    assert command("search", *typed, *options)[0] == command("search", same_as, *options)[0]
    assert command("search", *options, *typed)[0] == command("search", same_as, *options)[0]


def test_options_keep_values_with_a_minus(
    tmp_path: Path, sample_index: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(CAT, "-rf photo.jpg")
    out, _ = command("search", "--like", "-rf photo.jpg", "--index", sample_index, "--top", 1)
    assert out == f"100%  {CAT}\n"
    assert "--exlpain" in command.error("search", "a cat", "--exlpain")


def test_the_example_of_the_guide_is_what_is_printed(sample_index: Path, command: Command) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "search.md").read_text(encoding="utf-8")
    typed, expected = guide.partition("```text\n$ deixis ")[2].partition("```")[0].split("\n", 1)
    arguments = shlex.split(typed, comments=True)
    out, err = command(*arguments, "--index", sample_index)
    printed = out.replace(f"{SAMPLES / 'images'}/", "/home/ada/Pictures/") + err
    number = re.compile(r"\d+")
    assert number.sub("N", printed) == number.sub("N", expected)
    for ours, theirs in zip(number.findall(printed), number.findall(expected), strict=True):
        assert abs(int(ours) - int(theirs)) <= 4  # processors differ a little


def test_a_reader_of_output_and_notes_may_stop_early(sample_index: Path) -> None:
    command = f'"{sys.executable}" -m deixis search in:images --top 9 --index "{sample_index}" 2>&1 | head -n 1; '
    command += 'test "${PIPESTATUS[0]}" = 0'
    subprocess.run(["bash", "-c", command], check=True, capture_output=True)


def test_a_name_stays_on_one_line_of_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert show_name("two\nlines.jpg") == "two\nlines.jpg"
    with capsys.disabled(), mock.patch("sys.stdout") as terminal:
        terminal.isatty.return_value = True
        assert show_name(Path("two\nlines\tmore.jpg")) == "two\\nlines\\tmore.jpg"


def test_quotes_may_be_forgotten_and_swapped_letters_have_suggestions(sample_index: Path, command: Command) -> None:
    search = ("search", "--index", sample_index, "--all", "--paths")
    assert command(*search, "a", "bee", "on", "a", "flower") == command(*search, "a bee on a flower")
    assert command.json("search", "dgo", "--exact", "--index", sample_index)["suggestions"] == {"dgo": ["dog"]}


def test_similar_photos_are_found_without_the_photo_itself(
    tmp_path: Path, sample_index: Path, command: Command
) -> None:
    like = ("search", "--like", CAT, "--index", sample_index, "--paths", "--all", "--top", 14)
    found = command(*like)[0].splitlines()
    assert len(found) == 13
    assert str(CAT) not in found
    assert str(CAT) not in command(*like, "a cat")[0].splitlines()
    copy = shutil.copy(CAT, tmp_path / "copy.jpg")  # another file: what is like it is there
    assert command("search", "--like", copy, "--index", sample_index, "--top", 1)[0] == f"100%  {CAT}\n"


def test_missing_files_are_marked_in_every_output(tmp_path: Path, sample_index: Path, command: Command) -> None:
    index = shutil.copytree(sample_index, tmp_path / "index")
    (tmp_path / "mine").mkdir()
    mine = Path(shutil.copy(CAT, tmp_path / "mine" / "mine.jpg"))
    command("index", tmp_path / "mine", "--into", index)
    mine.unlink()
    search = ("search", "a cat in:mine", "--index", index, "--all")
    out, err = command(*search)
    assert "mine.jpg  (file missing)" in out
    assert "1 file no longer there" in err
    assert command(*search, "--paths")[0] == ""
    out, err = command(*search, "--json")
    assert (json.loads(out)["gone"], "1 file no longer there" in err) == ([str(mine)], True)


def test_results_are_exported(sample_index: Path, tmp_path: Path, command: Command) -> None:
    table, links = tmp_path / "hits.csv", tmp_path / "hits"
    command("search", "a cat", "--index", sample_index, "--all", "--top", 3, "--csv", table, "--links", links)
    with table.open(newline="", encoding="utf-8") as file:
        assert next(row["path"] for row in csv.DictReader(file)) == str(CAT)
    assert sorted(path.name for path in links.iterdir())[0] == "1 cat.jpg"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--like PHOTO"),
        (["?!"], "nothing to search for"),
        (["a cat date:2024"], "date: is not a filter"),
        (["a cat", "--after", "tomorrow"], "not a date"),
        (["a cat", "--index", "nowhere"], "nowhere: no photo index yet; run: deixis index FOLDER --into nowhere"),
        (["--like", "nowhere.jpg"], "nowhere.jpg"),
        (["a cat", "--top", "0"], "top"),
        (["a cat -cats"], "'cats'"),
        (["a cat", "--csv", "nowhere/hits.csv"], "nowhere/hits.csv"),
    ],
)
def test_user_errors_are_one_line(sample_index: Path, arguments: list[str], message: str, command: Command) -> None:
    assert message in command.error("search", "--index", sample_index, *arguments)


def test_index_and_search_commands_work_together(deixis: Run) -> None:
    made = deixis("index", SAMPLES / "images", "--into", "mine")
    assert made.returncode == 0, made.stderr
    found = deixis("search", "two dogs", "--index", "mine", "--paths", "--all", "--top", 2)
    assert found.returncode == 0, found.stderr
    assert any(line.endswith("dogs.jpg") for line in found.stdout.splitlines())
