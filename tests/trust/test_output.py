"""Names that others have chosen: control characters in terminals, formulas in spreadsheets, addresses in data sets."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from deixis.cli.main import main
from deixis.cli.output import note, own_stream, print_json, print_table, progress, protect_terminals, working
from deixis.data.dataset import Dataset, make_dataset, move_images
from deixis.data.records import Caption, Photo
from deixis.data.tables import read_manifest, write_manifest
from deixis.errors import DatasetError
from deixis.storage.atomic import write_csv

EVIL = "dog\x1b]0;title\x07\x9b2J\u202egpj\u200f.jpg"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal to which both streams write; not a fixture, because pytest replaces the streams after these."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def assert_harmless(stream: Terminal) -> None:
    shown = stream.getvalue()
    assert "dog\\x1b]0;title\\x07" in shown
    # Colours and progress bars are escape sequences, too, but with another second character.
    assert not [each for each in ("\x1b]", "\x07", "\x9b", "\u202e", "\u200f") if each in shown]


COMMANDS = [
    ("index", EVIL),
    ("search", "dogs", "--index", EVIL),
    ("ground", EVIL, "a dog"),
    ("caption", EVIL),
    ("describe", EVIL),
    ("match", EVIL, "--sentences", EVIL),
    ("serve", "--index", EVIL),
    ("verify", EVIL),
    ("data", "check", EVIL),
    ("data", "stats", EVIL),
    ("annotate", "status", EVIL),
    ("train", "cca", "--data", EVIL),
    ("evaluate", "retrieval", "--model", EVIL, "--data", EVIL),
    ("features", EVIL, "--encoder", "deixis"),
    ("table", "two-branch-2", "--data", EVIL),
    ("calibrate", "data", "--index", EVIL),
    ("map", EVIL, "--model", "cca", "--out", "map.html"),
    (EVIL,),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: " ".join(arguments[:2]).replace(EVIL, "NAME"))
def test_no_command_passes_control_characters_of_a_name_to_a_terminal(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["deixis", *arguments])
    terminal = open_terminal(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert_harmless(terminal)


def test_names_of_skipped_photos_are_harmless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / EVIL).write_bytes(b"no photo")
    (tmp_path / "other.jpg").write_bytes(b"no photo either")
    monkeypatch.setattr(sys, "argv", ["deixis", "caption", str(tmp_path)])
    terminal = open_terminal(monkeypatch)
    with pytest.raises(SystemExit):
        main()
    assert_harmless(terminal)


@pytest.mark.parametrize("show", [progress, lambda: working("captioning")])
def test_names_that_are_printed_beside_a_progress_bar_are_harmless(
    show: Callable[[], AbstractContextManager[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = open_terminal(monkeypatch)
    protect_terminals()
    with show():
        print(EVIL)
    assert_harmless(terminal)


def test_tables_and_json_are_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.table import Table

    terminal = open_terminal(monkeypatch)
    protect_terminals()
    table = Table("name")
    table.add_row(EVIL)
    print_table(table)
    assert_harmless(terminal)
    print_json({"name": EVIL})
    note(EVIL)
    assert_harmless(terminal)


def test_sequences_of_our_own_reach_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    protect_terminals()
    own_stream(sys.stdout).write("\x1b[0m")
    assert terminal.getvalue() == "\x1b[0m"


def test_pipes_get_names_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    protect_terminals()
    print(EVIL)
    assert stream.getvalue() == f"{EVIL}\n"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff20"])
def test_no_cell_of_a_csv_file_is_a_formula(start: str, tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", [[f"{start}1+1", "-0.5", True, None]])
    with (tmp_path / "a.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [[f"'{start}1+1", "-0.5", "true", ""]]


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """A data set of a stranger whose photos are said to be at an address."""
    make_dataset(tmp_path / "data", [Photo("1", (Caption.from_text("A dog."),), file="dog.jpg", splits=("train",))])
    manifest = read_manifest(tmp_path / "data")
    object.__setattr__(manifest, "images", "memory://elsewhere/photos")
    write_manifest(manifest, tmp_path / "data")
    return tmp_path / "data"


def test_a_data_set_cannot_make_deixis_contact_an_address(stranger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec.core

    def connect(address: str) -> None:
        raise AssertionError(f"{address} was contacted")

    monkeypatch.setattr(fsspec.core, "url_to_fs", connect)
    dataset = Dataset(stranger)
    assert dataset.photos[0].captions[0].text == "A dog."
    with pytest.raises(DatasetError, match="memory://elsewhere/photos") as refused:
        _ = dataset.images
    assert "--images" in str(refused.value)
    assert str(Dataset(stranger, images="memory://elsewhere/photos").images) == "memory://elsewhere/photos"


def test_an_address_that_the_user_has_named_once_is_allowed(stranger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    monkeypatch.setenv("XDG_DATA_HOME", str(stranger.parent / "home"))
    fsspec.filesystem("memory").pipe("memory://elsewhere/photos/dog.jpg", b"x")
    move_images(stranger, "memory://elsewhere/photos")
    assert str(Dataset(stranger).images) == "memory://elsewhere/photos"
    assert "memory://elsewhere/photos" in (stranger.parent / "home" / "deixis" / "addresses.txt").read_text()
