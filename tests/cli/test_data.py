"""``deixis data`` end to end."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from deixis.cli.data import print_statistics
from deixis.cli.main import _run
from deixis.data.dataset import Dataset, make_dataset
from deixis.data.records import Caption, Photo
from deixis.data.samples import SAMPLES
from deixis.data.statistics import Statistics, TypeRow
from deixis.data.writers import convert_dataset
from tests.conftest import Run


@pytest.fixture
def data(deixis: Run, tmp_path: Path) -> Path:
    """The sample photos as a data set directory."""
    done = deixis("data", "import", "--images", SAMPLES / "images", "--entities", SAMPLES / "entities", "--out", "data")
    assert done.returncode == 0, done.stderr
    return tmp_path / "data"


def test_import_prints_the_result_and_the_next_command(deixis: Run) -> None:
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


def test_check_as_json_has_kind_examples_and_remedy(deixis: Run, data: Path) -> None:
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
def test_converted_data_is_imported_unchanged(deixis: Run, data: Path, tmp_path: Path, form: str) -> None:
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("data", "stats", "nowhere"), "nowhere: not a data set directory"),
        (("data", "stats"), "Missing argument 'DATA'"),
        (("data", "import", "--out", "x"), "--captions FILE or --entities DIR"),
        (("data", "import", "--captions", "nowhere.json", "--out", "x"), "nowhere.json"),
        (("data", "import", "--captions", "a", "--split", "dev", "--out", "x"), "expected NAME=FILE"),
        (("data", "convert", "x", "--to", "coco", "--out", "y"), "x: not a data set directory"),
        (("data", "guess"), "No such command 'guess'"),
        (("--tpo", "5"), "No such option"),
    ],
)
def test_a_user_error_is_one_line_and_exit_status_2(
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


def start_and_pause_import(tmp_path: Path) -> subprocess.Popen[str]:
    """Start an import and stop it halfway; it continues on SIGCONT."""
    command = [sys.executable, "-m", "deixis.cli.main", "data", "import", "--entities", "many", "--out", "data"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # A background process ignores SIGINT, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until = time.monotonic() + 60
    while not list(tmp_path.glob(".data.partial-*/photos.arrow")):
        assert time.monotonic() < until
        assert process.poll() is None, "it finished before it could be interrupted"
        time.sleep(0.005)
    process.send_signal(signal.SIGSTOP)
    return process


def test_ctrl_c_leaves_no_partial_data_set(tmp_path: Path) -> None:
    many_sentences(tmp_path / "many", 4000)
    process = start_and_pause_import(tmp_path)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip().splitlines() == ["deixis: interrupted; completed work was saved"]
    assert os.listdir(tmp_path) == ["many"]


def test_a_second_import_into_the_same_directory_is_refused(deixis: Run, tmp_path: Path) -> None:
    many_sentences(tmp_path / "many", 4000)
    process = start_and_pause_import(tmp_path)
    second = deixis("data", "import", "--entities", "many", "--out", "data")
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert second.returncode == 2
    assert "data: another process" in second.stderr
    assert len(Dataset(tmp_path / "data").photos) == 4000


def test_an_import_succeeds_after_a_killed_one(deixis: Run, tmp_path: Path) -> None:
    many_sentences(tmp_path / "many", 4000)
    process = start_and_pause_import(tmp_path)
    process.kill()
    process.communicate(timeout=60)
    assert not (tmp_path / "data").exists()
    assert deixis("data", "import", "--entities", "many", "--out", "data").returncode == 0
    assert not list(tmp_path.glob(".data.*"))
    assert len(Dataset(tmp_path / "data").photos) == 4000


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in an empty directory and in this process, which is faster."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        code = _run([str(argument) for argument in arguments])
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


def assert_one_line(done: subprocess.CompletedProcess[str], words: str) -> None:
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


@pytest.fixture
def two_files(tmp_path: Path) -> Path:
    """Captions of photo 1 and of photo 2."""
    for number in (1, 2):
        (tmp_path / f"{number}.csv").write_text(f"image,caption\n{number}.jpg,A dog runs .\n")
    return tmp_path


def test_each_file_of_captions_can_be_a_split(here: Run, two_files: Path) -> None:
    done = here("data", "import", "--captions", "train=1.csv", "--captions", "dev=2.csv", "--out", "data")
    assert done.returncode == 0, done.stderr
    assert "splits: dev 1, train 1" in done.stdout
    assert {photo.id: photo.splits for photo in Dataset(two_files / "data").photos} == {"1": ("train",), "2": ("dev",)}


def test_a_file_whose_own_name_holds_an_equals_sign_is_read_as_it_is(here: Run, two_files: Path) -> None:
    (two_files / "1.csv").rename(two_files / "a=1.csv")
    done = here("data", "import", "--captions", "a=1.csv", "--captions", "2.csv", "--out", "data")
    assert done.returncode == 0, done.stderr
    assert [photo.splits for photo in Dataset(two_files / "data").photos] == [(), ()]


def test_instances_must_be_as_many_as_captions(here: Run, two_files: Path) -> None:
    captions = ("--captions", "1.csv", "--captions", "2.csv")
    done = here("data", "import", *captions, "--instances", "1.json", "--out", "data")
    assert_one_line(done, "--instances")


def test_a_repeated_split_is_refused(here: Run, two_files: Path) -> None:
    lists = ("--split", "dev=a.txt", "--split", "dev=b.txt")
    done = here("data", "import", "--captions", "1.csv", *lists, "--out", "data")
    assert_one_line(done, "--split dev")


def test_an_import_reports_skipped_files_and_keeps_the_licence(here: Run, two_files: Path) -> None:
    for name in ("1.png", "more/1.png", "nobody.png"):
        (two_files / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 9)).save(two_files / "images" / name)
    arguments = ("data", "import", "--images", "images", "--captions", "1.csv", "--licence", "for research")
    done = here(*arguments, "--out", "data")
    assert done.stderr.splitlines() == [
        "skipped: 1 photo without an annotation",
        "skipped: more/1.png; another photo has the same name",
    ]
    assert Dataset(two_files / "data").manifest.licence == "for research"
    left_out = json.loads(here(*arguments, "--out", "again", "--json").stdout)["left_out"]
    assert left_out["photos_without_annotation"] == 1
    assert left_out["photos_of_same_name"] == ["more/1.png"]


def test_a_data_set_is_not_converted_onto_itself(here: Run, tmp_path: Path) -> None:
    data = photos_of_two_splits(tmp_path).path
    before = {path: path.read_bytes() for path in data.iterdir()}
    assert_one_line(here("data", "convert", data, "--to", "jsonl", "--out", data, "--force"), "is read from it")
    assert {path: path.read_bytes() for path in data.iterdir()} == before


def test_scenes_are_not_replaced_by_a_data_set_imported_from_them(here: Run, tmp_path: Path) -> None:
    here("data", "scenes", "--out", "scenes", "--photos", "2")
    done = here("data", "import", "--images", "scenes/images", "--captions", "scenes/photos.jsonl", "--out", "other")
    assert done.returncode == 0, done.stderr
    done = here("data", "convert", "other", "--to", "jsonl", "--out", "scenes", "--force")  # where its photos are
    assert_one_line(done, "scenes/images is read from it")
    assert len(list((tmp_path / "scenes" / "images").iterdir())) == 2


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_the_root_folder_is_refused_as_output(here: Run, two_files: Path, force: tuple[str, ...]) -> None:
    assert_one_line(here("data", "import", "--captions", "1.csv", "--out", "/", *force), "choose a directory below it")


def photos_of_two_splits(folder: Path) -> Dataset:
    caption = Caption.from_text("A dog runs .")
    splits = {"1": ("train",), "2": ("train", "dev"), "3": ("dev",), "4": ()}
    make_dataset(folder / "data", [Photo(name, (caption,), splits=of) for name, of in splits.items()])
    return Dataset(folder / "data")


def test_one_split_is_converted_without_the_others(here: Run, tmp_path: Path) -> None:
    photos_of_two_splits(tmp_path)
    done = here("data", "convert", "data", "--to", "entities", "--split", "dev", "--out", "out", "--json")
    assert json.loads(done.stdout)["photos"] == 2
    out = tmp_path / "out"
    assert sorted(path.name for path in (out / "Sentences").iterdir()) == ["2.txt", "3.txt"]
    assert sorted(path.name for path in out.glob("*.txt")) == ["dev.txt"]
    assert (out / "dev.txt").read_text().split() == ["2", "3"]


def test_all_is_converted_with_every_split(tmp_path: Path) -> None:
    assert convert_dataset(photos_of_two_splits(tmp_path), "entities", tmp_path / "out") == 4
    lists = {path.name: path.read_text().split() for path in (tmp_path / "out").glob("*.txt")}
    assert lists == {"train.txt": ["1", "2"], "dev.txt": ["2", "3"]}


def test_the_last_row_of_the_table_has_the_means_over_the_types(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (TypeRow("people", 2, 4, 4, 100.0), TypeRow("other", 1, 3, 1, 100.0))
    print_statistics(Statistics(1, 4, 0, 4, 4, 0, 2, 4, 50.0, 50.0, 50.0, 0.0, rows))
    (total,) = (line for line in capsys.readouterr().out.splitlines() if "total" in line)
    assert [cell.strip() for cell in total.strip("│").split("│")] == ["total", "2", "4", "4", "2.33", "1.67", ""]


def failing(monkeypatch: pytest.MonkeyPatch, folder: Path, error: Exception) -> list[str]:
    """Arguments of a command that will fail in this way."""

    def fail(*_: object) -> None:
        raise error

    photos_of_two_splits(folder)
    monkeypatch.setattr("deixis.data.statistics.compute_statistics", fail)
    return ["data", "stats", str(folder / "data")]


def test_an_internal_error_is_one_line_and_exit_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DEIXIS_DEBUG", raising=False)
    assert _run(failing(monkeypatch, tmp_path, RuntimeError("two\nlines"))) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("deixis: ")
    assert "RuntimeError: two lines" in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_deixis_debug_shows_the_traceback_of_an_internal_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEIXIS_DEBUG", "1")
    with pytest.raises(RuntimeError, match="broken") as raised:
        _run(failing(monkeypatch, tmp_path, RuntimeError("broken")))
    assert raised.traceback[-1].name == "fail"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "a.txt"), "deixis: a.txt: Permission denied"),
        (OSError(errno.EIO, "Input/output error"), "deixis: the system: Input/output error"),
        (OSError("no number"), "deixis: the system: no number"),
    ],
)
def test_an_operating_system_error_is_one_line_and_exit_status_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: OSError,
    line: str,
) -> None:
    assert _run(failing(monkeypatch, tmp_path, error)) == 2
    assert capsys.readouterr().err == line + "\n"


def test_a_closed_pipe_prints_no_error(tmp_path: Path) -> None:
    photos_of_two_splits(tmp_path)
    command = f'"{sys.executable}" -m deixis.cli.main data stats data | head -c 1'
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("4", "")


def test_a_pipe_closed_before_the_output_prints_no_error(tmp_path: Path) -> None:
    photos_of_two_splits(tmp_path)
    reading, writing = os.pipe()
    os.close(reading)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "deixis.cli.main", "data", "stats", "data", "--json"],
            cwd=tmp_path,
            env=environment,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
