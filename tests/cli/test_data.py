"""``deixis data`` end to end."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from deixis.cli.main import _run
from deixis.data.dataset import Dataset, make_dataset
from deixis.data.formats import WRITERS
from deixis.data.records import Caption, Photo
from deixis.data.samples import SAMPLES
from tests.cli.conftest import Command

IMPORT = ("data", "import")


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def data(command: Command) -> Path:
    """The sample photos as a data set directory."""
    command(*IMPORT, "--images", SAMPLES / "images", "--entities", SAMPLES / "entities", "--out", "data")
    return Path("data")


def test_import_prints_the_result_and_the_next_command(command: Command) -> None:
    out, _ = command(*IMPORT, "--entities", SAMPLES / "entities", "--out", "data")
    assert "photos" in out
    assert "next: deixis data stats data" in out
    document = command.json(*IMPORT, "--entities", SAMPLES / "entities", "--out", "data", "--force")
    assert document["photos"] == len(list((SAMPLES / "images").iterdir()))
    assert document["captions"] == 5 * document["photos"]
    assert document["skipped"] == []


def test_stats_print_the_table_and_draw_the_figure(command: Command, data: Path) -> None:
    out, _ = command("data", "stats", data, "--plot", "types.png")
    assert "people" in out
    assert "mentions/chain" in out
    assert Image.open("types.png").width > 600
    document = command.json("data", "stats", data)
    assert document["photos"] == len(Dataset(data).photos)
    assert {row["type"] for row in document["types"]} >= {"people", "animals", "other"}


def test_problems_are_reported_with_kind_examples_and_remedy(command: Command, data: Path) -> None:
    assert "no problems found" in command("data", "check", data, "--decode", "--strict")[0]
    shutil.copytree(SAMPLES / "images", "photos")
    command("data", "check", data, "--images", "photos")
    moved = Path("photos").absolute().rename("moved").absolute()
    (problem,) = command.json("data", "check", data)["problems"]
    assert problem["kind"] == "missing photo"
    assert "--images" in problem["fix"]
    assert command("data", "check", data, "--strict", code=2)[1].count("\n") == 1
    assert command.json("data", "check", data, "--images", moved)["problems"] == []
    assert Dataset(data).images == moved
    assert "nowhere" in command.error("data", "check", data, "--images", "nowhere")
    (moved / "cat.jpg").write_bytes(b"no photo")
    assert "1 problem" in command("data", "check", data, code=2)[1]  # damage, also without --strict


def test_every_format_is_written_and_named_in_the_help(command: Command, data: Path) -> None:
    helps = [" ".join(command(*words, "--help")[0].split()) for words in (["data", "convert"], ["annotate", "export"])]
    for form in WRITERS:
        command("data", "convert", data, "--to", form, "--out", form, "--with-photos")
        assert any(path.is_file() for path in Path(form).rglob("*"))
        assert all(form in shown for shown in helps)


@pytest.mark.parametrize("form", ["entities", "jsonl"])
def test_converted_data_is_imported_unchanged(command: Command, data: Path, form: str) -> None:
    command("data", "convert", data, "--to", form, "--out", "out")
    source = ("--entities", "out") if form == "entities" else ("--captions", "out/photos.jsonl")
    command(*IMPORT, "--images", SAMPLES / "images", *source, "--out", "again")
    assert list(Dataset("again").photos) == list(Dataset(data).photos)


@pytest.fixture
def two_files(tmp_path: Path) -> Path:
    """Captions of photo 1 and of photo 2."""
    for number in (1, 2):
        (tmp_path / f"{number}.csv").write_text(f"image,caption\n{number}.jpg,A dog runs .\n")
    return tmp_path


def test_each_file_of_captions_can_be_a_split(command: Command, two_files: Path) -> None:
    out, _ = command(*IMPORT, "--captions", "train=1.csv", "--captions", "dev=2.csv", "--out", "data")
    assert "splits: dev 1, train 1" in out
    assert {photo.id: photo.splits for photo in Dataset("data").photos} == {"1": ("train",), "2": ("dev",)}


def test_a_file_whose_own_name_holds_an_equals_sign_is_read_as_it_is(command: Command, two_files: Path) -> None:
    (two_files / "1.csv").rename(two_files / "a=1.csv")
    command(*IMPORT, "--captions", "a=1.csv", "--captions", "2.csv", "--out", "data")
    assert [photo.splits for photo in Dataset("data").photos] == [(), ()]


def test_an_import_reports_skipped_files_and_keeps_the_licence(command: Command, two_files: Path) -> None:
    for name in ("1.png", "more/1.png", "nobody.png"):
        (two_files / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 9)).save(two_files / "images" / name)
    arguments = (*IMPORT, "--images", "images", "--captions", "1.csv", "--licence", "for research")
    _, err = command(*arguments, "--out", "data")
    without_annotation, same_name = err.splitlines()
    assert "1 photo" in without_annotation
    assert "more/1.png" in same_name
    assert Dataset("data").manifest.licence == "for research"
    left_out = command.json(*arguments, "--out", "again")["left_out"]
    assert left_out["photos_without_annotation"] == 1
    assert left_out["photos_of_same_name"] == ["more/1.png"]


@pytest.fixture
def two_splits(tmp_path: Path) -> Dataset:
    caption = Caption.from_text("A dog runs .")
    splits = {"1": ("train",), "2": ("train", "dev"), "3": ("dev",), "4": ()}
    make_dataset(tmp_path / "data", [Photo(name, (caption,), splits=of) for name, of in splits.items()])
    return Dataset(tmp_path / "data")


def test_a_data_set_is_not_converted_onto_itself(command: Command, two_splits: Dataset) -> None:
    data = two_splits.path
    before = {path: path.read_bytes() for path in data.iterdir()}
    assert str(data) in command.error("data", "convert", data, "--to", "jsonl", "--out", data, "--force")
    assert {path: path.read_bytes() for path in data.iterdir()} == before


def test_one_split_or_all_are_converted(command: Command, two_splits: Dataset) -> None:
    convert = ("data", "convert", "data", "--to", "entities", "--out")
    assert command.json(*convert, "dev", "--split", "dev")["photos"] == 2
    assert sorted(path.name for path in Path("dev/Sentences").iterdir()) == ["2.txt", "3.txt"]
    assert {path.name: path.read_text().split() for path in Path("dev").glob("*.txt")} == {"dev.txt": ["2", "3"]}
    assert command.json(*convert, "all")["photos"] == 4
    lists = {path.name: path.read_text().split() for path in Path("all").glob("*.txt")}
    assert lists == {"train.txt": ["1", "2"], "dev.txt": ["2", "3"]}


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "a.txt"), 2, "a.txt: Permission denied"),
        (OSError(errno.EIO, "Input/output error"), 2, "Input/output error"),
        (OSError("no number"), 2, "no number"),
        (RuntimeError("two\nlines"), 1, "RuntimeError: two lines"),
    ],
)
def test_unexpected_errors_are_one_line_unless_deixis_debug_is_set(
    command: Command, two_splits: Dataset, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, words: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("deixis.data.statistics.compute_statistics", fail)
    monkeypatch.delenv("DEIXIS_DEBUG", raising=False)
    out, err = command("data", "stats", "data", code=code)
    (line,) = err.splitlines()
    assert (out, line.startswith("deixis: "), words in line) == ("", True, True)
    if code == 1:
        assert "DEIXIS_DEBUG=1" in line
        monkeypatch.setenv("DEIXIS_DEBUG", "1")
        with pytest.raises(RuntimeError):
            _run(["data", "stats", "data"])


def test_a_pipe_closed_before_the_output_prints_no_error(tmp_path: Path, two_splits: Dataset) -> None:
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


def test_data_sets_are_merged(command: Command, data: Path) -> None:
    make_dataset(Path("more.data"), [Photo("1", (Caption.from_text("A dog."),), splits=("val",))])
    command(*IMPORT, "--entities", SAMPLES / "entities", "--out", "texts.data")
    count = len(Dataset(data).photos)
    document = command.json("data", "merge", "texts.data", "more.data", "--out", "both")
    assert document["photos"] == len(Dataset("both").photos) == count + 1
    assert (
        "1 photo" in command("data", "merge", "texts.data", "more.data", "--split", "dev=more:val", "--out", "dev")[0]
    )
    assert Dataset("dev").manifest.splits == {"dev": 1}


def test_a_data_set_is_split_by_rule_and_seed(command: Command, data: Path) -> None:
    photos = len(Dataset(data).photos)
    document = command.json("data", "split", data, "--draw", "dev=1", "--rest", "train", "--seed", 3, "--out", "new")
    assert document == {"out": "new", "photos": photos, "splits": {"dev": 1, "train": photos - 1}, "seed": 3}
    draws = ("--draw", "dev=1:dev", "--draw", "dev=2:train")
    assert command.json("data", "split", "new", *draws, "--out", "more")["splits"]["dev"] == 3


def test_show_draws_a_photo_with_its_gold_phrases_and_boxes(command: Command, data: Path) -> None:
    out, _ = command("data", "show", data, "dogs")
    assert "dogs.png" in out
    with Image.open("dogs.png") as picture, Image.open(SAMPLES / "images" / "dogs.jpg") as photo:
        assert picture.width / picture.height < photo.width / photo.height  # captions below
    document = command.json("data", "show", data, "images/dogs.webp", "--out", "other.jpg")  # by its file name
    assert (document["photo"], document["picture"]) == ("dogs", "other.jpg")
    assert Path("other.jpg").is_file()
    photo = Dataset(data).photo("dogs")
    assert [caption["text"] for caption in document["captions"]] == [caption.text for caption in photo.sentences]
    first = document["captions"][0]["phrases"][0]
    mention = photo.captions[0].mentions[0]
    assert first["text"] == photo.captions[0].phrase(mention)
    assert first["boxes"] == [list(box.xyxy) for box in photo.boxes_of(mention.chain or "")]


def test_show_of_a_photo_without_boxes_gives_a_note(command: Command) -> None:
    Path("captions.csv").write_text("image,caption\ncat.jpg,A cat looks up .")
    command(*IMPORT, "--images", SAMPLES / "images", "--captions", "captions.csv", "--out", "plain")
    _, err = command("data", "show", "plain", "cat")
    assert "no boxes" in err
    assert Path("cat.png").is_file()
