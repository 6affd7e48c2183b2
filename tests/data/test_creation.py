"""Data set directories are written atomically and keep computed features."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from deixis.data.creation import make_dataset
from deixis.data.dataset import Dataset
from deixis.data.records import Caption, Photo
from deixis.errors import DatasetError, DeixisError
from deixis.storage import atomic


def make(folder: Path, *names: str) -> Dataset:
    make_dataset(folder, [Photo(name, (Caption.from_text("A dog."),)) for name in names], replace_old=True)
    return Dataset(folder)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data set of one photo, with features that somebody is still adding to."""
    store = make(tmp_path / "data", "1").path / "features" / "store"
    (store / "fitted-1").mkdir(parents=True)
    (store / "manifest.json").write_text("{}")
    (store / "000000.safetensors").write_bytes(b"numbers")
    (store / "fitted-1" / ".made-by-deixis").touch()
    (store.parent / ".store.lock").touch()
    (store / ".000001.partial-x.safetensors").touch()
    return tmp_path / "data"


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


KEPT = {"store/manifest.json", "store/000000.safetensors", "store/fitted-1/.made-by-deixis"}


def test_a_new_import_takes_the_features_of_the_old_one_over(data: Path) -> None:
    assert [photo.id for photo in make(data, "2", "3").photos] == ["2", "3"]
    assert files_of(data / "features") == KEPT
    assert (data / "features" / "store" / "000000.safetensors").read_bytes() == b"numbers"


def test_features_are_taken_over_without_a_copy_where_that_can_be(data: Path) -> None:
    before = (data / "features" / "store" / "000000.safetensors").stat().st_ino
    make(data, "2")
    assert (data / "features" / "store" / "000000.safetensors").stat().st_ino == before


def test_a_file_system_without_links_gets_copies(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(old: str, new: str) -> None:
        raise PermissionError(old)

    monkeypatch.setattr(os, "link", refuse)
    make(data, "2")
    assert files_of(data / "features") == KEPT


def test_a_linked_features_folder_stays_a_link(data: Path, tmp_path: Path) -> None:
    shutil.move(data / "features", tmp_path / "large-disk")
    (data / "features").symlink_to(Path("..") / "large-disk")
    make(data, "2")
    assert (data / "features").readlink() == Path("..") / "large-disk"
    assert files_of(tmp_path / "large-disk") >= KEPT


def test_an_import_that_fails_leaves_the_old_features_alone(data: Path) -> None:
    before = files_of(data)
    with pytest.raises(DatasetError, match="no photos"):
        make(data)
    assert files_of(data) == before


def test_an_import_that_fails_at_the_last_moment_leaves_the_old_features_alone(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(partial: Path, target: Path) -> None:
        assert files_of(partial / "features") == KEPT
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before = files_of(data)
    monkeypatch.setattr(atomic, "_move_into_place", fail)
    with pytest.raises(DeixisError, match="Input/output error"):
        make(data, "2")
    assert files_of(data) == before
    assert [photo.id for photo in Dataset(data).photos] == ["1"]


def test_a_data_set_without_features_has_no_folder_for_them(tmp_path: Path) -> None:
    make(tmp_path / "data", "1")
    make(tmp_path / "data", "2")
    assert not (tmp_path / "data" / "features").exists()
