"""`deixis data` and `deixis demo` as a person types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from deixis.data.dataset import Dataset
from deixis.data.samples import SAMPLES
from tests.conftest import Run


@pytest.fixture
def data(deixis: Run, tmp_path: Path) -> Path:
    """The sample photos as a data set directory."""
    done = deixis("data", "import", "--images", SAMPLES / "images", "--entities", SAMPLES / "entities", "--out", "data")
    assert done.returncode == 0, done.stderr
    return tmp_path / "data"


def test_import_says_what_it_made_and_what_to_type_next(deixis: Run) -> None:
    done = deixis("data", "import", "--entities", SAMPLES / "entities", "--out", "data")
    assert done.returncode == 0
    assert "photos" in done.stdout
    assert "next: deixis data stats data" in done.stdout


def test_import_as_json_is_one_document(deixis: Run) -> None:
    done = deixis("data", "import", "--entities", SAMPLES / "entities", "--out", "data", "--json")
    answer = json.loads(done.stdout)
    assert answer["photos"] == len(list((SAMPLES / "images").iterdir()))
    assert answer["captions"] == 5 * answer["photos"]
    assert answer["skipped"] == []


def test_stats_print_the_table_and_draw_the_figure(deixis: Run, data: Path, tmp_path: Path) -> None:
    done = deixis("data", "stats", data, "--plot", "types.png")
    assert done.returncode == 0
    for words in ("people", "mentions/chain", "% of the chains have more than one mention"):
        assert words in done.stdout
    assert Image.open(tmp_path / "types.png").width > 600
    answer = json.loads(deixis("data", "stats", data, "--json").stdout)
    assert answer["photos"] == len(Dataset(data).photos)
    assert {row["type"] for row in answer["types"]} >= {"people", "animals", "other"}


def test_the_samples_have_no_problems(deixis: Run, data: Path) -> None:
    done = deixis("data", "check", data, "--decode", "--strict")
    assert done.returncode == 0, done.stdout
    assert "no problems found" in done.stdout


def test_check_as_json_names_kind_place_and_mending(deixis: Run, data: Path) -> None:
    manifest = json.loads((data / "manifest.json").read_text())
    (data / "manifest.json").write_text(json.dumps({**manifest, "images": "/nowhere"}))
    done = deixis("data", "check", data, "--json")
    assert done.returncode == 0
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem["kind"] == "missing photo"
    assert "manifest.json" in problem["mend"]
    strict = deixis("data", "check", data, "--strict")
    assert strict.returncode == 2
    assert len(strict.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("form", ["entities", "coco", "karpathy", "jsonl", "odvg", "label-studio", "parquet"])
def test_every_format_is_written(deixis: Run, data: Path, tmp_path: Path, form: str) -> None:
    done = deixis("data", "convert", data, "--to", form, "--out", "out", "--with-photos")
    assert done.returncode == 0, done.stderr
    assert any(path.is_file() for path in (tmp_path / "out").rglob("*"))


@pytest.mark.parametrize("form", ["entities", "jsonl"])
def test_what_was_written_imports_again_as_it_was(deixis: Run, data: Path, tmp_path: Path, form: str) -> None:
    deixis("data", "convert", data, "--to", form, "--out", "out")
    source = ("--entities", "out") if form == "entities" else ("--captions", "out/photos.jsonl")
    done = deixis("data", "import", "--images", SAMPLES / "images", *source, "--out", "again")
    assert done.returncode == 0, done.stderr
    assert list(Dataset(tmp_path / "again").photos) == list(Dataset(data).photos)


def test_entities_come_back_byte_for_byte(deixis: Run, data: Path, tmp_path: Path) -> None:
    deixis("data", "convert", data, "--to", "entities", "--out", "out")
    for path in (SAMPLES / "entities").rglob("*.[tx]*"):
        if path.parent.name in ("Sentences", "Annotations"):
            again = tmp_path / "out" / path.relative_to(SAMPLES / "entities")
            assert again.read_text().strip() == path.read_text().strip()


def test_scenes_import_with_their_trees(deixis: Run, tmp_path: Path) -> None:
    assert deixis("data", "scenes", "--out", "scenes", "--photos", "20").returncode == 0
    done = deixis("data", "import", "--images", "scenes/images", "--captions", "scenes/photos.jsonl", "--out", "data")
    assert done.returncode == 0, done.stderr
    dataset = Dataset(tmp_path / "data")
    assert len(dataset.photos) == 20
    assert all(caption.tree for photo in dataset.photos for caption in photo.captions)
    assert set(dataset.manifest.splits) == {"train", "dev", "test"}


def test_the_demo_counts_and_draws_the_samples(deixis: Run, tmp_path: Path) -> None:
    for _ in range(2):  # a second run replaces the first
        done = deixis("demo")
        assert done.returncode == 0, done.stderr
    pictures = list((tmp_path / "deixis-demo" / "pictures").glob("*.png"))
    assert len(pictures) == len(list((SAMPLES / "images").iterdir()))
    assert "people" in done.stdout
    assert (tmp_path / "deixis-demo" / "types.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("data", "stats", "nowhere"), "nowhere: not a data set directory"),
        (("data", "stats"), "Missing argument 'DATA'"),
        (("data", "import", "--out", "x"), "give --captions FILE or --entities DIR"),
        (("data", "import", "--captions", "nowhere.json", "--out", "x"), "nowhere.json"),
        (("data", "import", "--captions", "a", "--split", "dev", "--out", "x"), "expected NAME=FILE"),
        (("data", "convert", "x", "--to", "coco", "--out", "y"), "x: not a data set directory"),
        (("data", "guess"), "No such command 'guess'"),
        (("--tpo", "5"), "No such option"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_2(
    deixis: Run, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = deixis(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def many_sentences(folder: Path, count: int) -> Path:
    (folder / "Sentences").mkdir(parents=True)
    for number in range(count):
        (folder / "Sentences" / f"{number}.txt").write_text("[/EN#1/people A man] runs .\n" * 5)
    return folder


def begun(tmp_path: Path) -> subprocess.Popen[str]:
    """An import that is under way."""
    command = [sys.executable, "-m", "deixis.cli.main", "data", "import", "--entities", "many", "--out", "data"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # A test run in the background is deaf to Ctrl-C, and so would be all that it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until = time.monotonic() + 60
    while not list(tmp_path.glob(".data.partial-*/photos.arrow")):
        assert time.monotonic() < until
        assert process.poll() is None, "it was over before it could be interrupted"
        time.sleep(0.005)
    return process


def test_ctrl_c_leaves_nothing_half_made(tmp_path: Path) -> None:
    many_sentences(tmp_path / "many", 4000)
    process = begun(tmp_path)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip().splitlines() == ["deixis: stopped; nothing half-made was left behind"]
    assert os.listdir(tmp_path) == ["many"]


def test_a_second_import_into_the_same_directory_is_refused(deixis: Run, tmp_path: Path) -> None:
    many_sentences(tmp_path / "many", 4000)
    process = begun(tmp_path)
    second = deixis("data", "import", "--entities", "many", "--out", "data")
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert second.returncode == 2
    assert "another process is writing it" in second.stderr
    assert len(Dataset(tmp_path / "data").photos) == 4000


def test_a_killed_import_leaves_room_for_the_next(deixis: Run, tmp_path: Path) -> None:
    many_sentences(tmp_path / "many", 4000)
    process = begun(tmp_path)
    process.kill()
    process.communicate(timeout=60)
    assert not (tmp_path / "data").exists()
    assert deixis("data", "import", "--entities", "many", "--out", "data").returncode == 0
    assert not list(tmp_path.glob(".data.*"))
    assert len(Dataset(tmp_path / "data").photos) == 4000
