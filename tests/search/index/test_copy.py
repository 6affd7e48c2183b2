"""Copying an index into another: complete, resumed and verified."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.search.index import copy, copy_index, update_index
from deixis.search.index.base import IndexPath
from deixis.search.index.photo_index import open_writer
from deixis.search.index.sqlite import crc_of
from deixis.storage.sql import is_postgres
from tests.search.index.conftest import new_schema
from tests.search.index.fakes import DIMENSION, ColourEncoder, ReadIndex, photo, photos, rows_of


@pytest.fixture(
    params=[
        "from folder to folder",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("into a database", "into a folder")),
    ]
)
def places(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[IndexPath, IndexPath]:
    """An index of 20 photos, and where it is to go."""
    folder = tmp_path / "index"
    if request.param == "from folder to folder":
        source, into = folder, tmp_path / "other"
    else:
        database = new_schema(request.getfixturevalue("postgres"))
        source, into = (folder, database) if request.param == "into a database" else (database, folder)
    photos(tmp_path / "photos", 20)
    photo(tmp_path / "photos" / "dated.jpg", 99, taken="2023:07:01 10:00:00", camera="Canon EOS 5D")
    (tmp_path / "photos" / "bad.jpg").write_bytes(b"no photo")
    update_index(source, [tmp_path / "photos"], ColourEncoder())
    return source, into


def everything(index_path: IndexPath) -> Iterator[tuple[object, ...]]:
    with ReadIndex(index_path) as index:
        for photo in sorted(index.newest(1000), key=lambda each: each.path):
            boxes, regions = index.regions_of(photo.id)
            seen = index.vector_of(photo.id).tobytes(), boxes.tobytes(), regions.tobytes(), index.thumbnail(photo.id)
            known = photo.path, photo.size, photo.mtime_ns, photo.sha256, photo.width, photo.height, photo.exif
            yield (*known, *seen)


@pytest.mark.parametrize("places", ["into a database", "into a folder", "from folder to folder"], indirect=True)
def test_a_copy_is_identical_and_finds_the_same(places: tuple[IndexPath, IndexPath], tmp_path: Path) -> None:
    source, into = places
    report = copy_index(source, into)
    assert (report.copied, report.unchanged, report.skipped, report.photos) == (21, 0, 1, 21)
    assert list(everything(into)) == list(everything(source))
    query = np.random.default_rng(0).standard_normal(DIMENSION)
    with ReadIndex(source) as one, ReadIndex(into) as other:
        assert one.info.fingerprint == other.info.fingerprint
        for ask in ("search", "search_regions"):
            found, expected = getattr(other, ask)(query, 21), getattr(one, ask)(query, 21)
            assert [match.photo.path for match in found] == [match.photo.path for match in expected]
            assert [match.score for match in found] == pytest.approx([match.score for match in expected], abs=1e-5)
    encoder = ColourEncoder()
    assert update_index(into, [tmp_path / "photos"], encoder).unchanged == 21
    assert encoder.looked_at == []


def test_copying_again_writes_only_new_photos(places: tuple[IndexPath, IndexPath], tmp_path: Path) -> None:
    source, into = places
    copy_index(source, into)
    photo(tmp_path / "photos" / "new.png", 200)
    photo(tmp_path / "photos" / "003.png", 201)
    os.utime(tmp_path / "photos" / "003.png", (9, 9))
    update_index(source, [tmp_path / "photos"], ColourEncoder())
    report = copy_index(source, into)
    assert (report.copied, report.unchanged, report.photos) == (2, 20, 22)
    assert list(everything(into)) == list(everything(source))


@pytest.mark.parametrize("harm", ["thumbnails SET jpeg = ?", "photos SET camera = 'Kodak', sha256 = ?"])
def test_photos_that_differ_are_copied_again(places: tuple[IndexPath, IndexPath], harm: str) -> None:
    source, into = places
    copy_index(source, into)
    with open_writer(into, ColourEncoder()) as writer:
        writer.begin()
        key = "photo" if harm.startswith("thumbnails") else "id"
        if not is_postgres(into):
            harm = harm.replace("jpeg = ?", f"jpeg = ?, crc = {crc_of(3, bytes(32))}")
        writer.connection.execute(f"UPDATE {harm} WHERE {key} = 3", (bytes(32),))
        writer.commit()
    report = copy_index(source, into)
    assert (report.copied, report.unchanged) == (1, 20)
    assert list(everything(into)) == list(everything(source))


def test_an_interrupted_copy_continues(places: tuple[IndexPath, IndexPath], monkeypatch: pytest.MonkeyPatch) -> None:
    source, into = places
    monkeypatch.setattr(copy, "_BATCH", 3)
    child = os.fork()
    if child == 0:
        try:

            def kill(what: str, done: int, total: int | None) -> None:
                if done >= 9:
                    os.kill(os.getpid(), signal.SIGKILL)

            copy_index(source, into, on_progress=kill)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert rows_of(into, "photos") == 9
    report = copy_index(source, into)
    assert (report.copied, report.unchanged) == (12, 9)
    assert list(everything(into)) == list(everything(source))


def test_other_photos_of_the_target_stay(places: tuple[IndexPath, IndexPath], tmp_path: Path) -> None:
    source, into = places
    photo(tmp_path / "elsewhere" / "far.png", 300)
    update_index(into, [tmp_path / "elsewhere"], ColourEncoder())
    assert copy_index(source, into).photos == 22


def test_copying_into_an_index_of_another_model_or_itself_is_an_error(
    places: tuple[IndexPath, IndexPath], tmp_path: Path
) -> None:
    source, into = places
    update_index(into, [tmp_path / "photos"], ColourEncoder(fingerprint="colours-2"))
    for target, message in ((into, "another model"), (source, "is the index to be copied")):
        with pytest.raises(DeixisError, match=message):
            copy_index(source, target)


def test_a_photo_that_differs_when_read_back_is_an_error(
    places: tuple[IndexPath, IndexPath], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_photo = copy.records.add_photo

    def add_changed_photo(*arguments: Any) -> int | None:
        *rest, encoded = arguments
        return add_photo(*rest, replace(encoded, region_vectors=encoded.region_vectors + 0.25))

    monkeypatch.setattr(copy.records, "add_photo", add_changed_photo)
    with pytest.raises(DeixisError, match=r"000\.png"):
        copy_index(*places)


def test_copying_a_missing_index_creates_nothing(tmp_path: Path, address: str) -> None:
    for source in (tmp_path / "nothing", address):
        with pytest.raises(DeixisError, match="photo index"):
            copy_index(source, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_damage_is_reported_for_the_damaged_index(tmp_path: Path, address: str) -> None:
    photos(tmp_path / "photos", 2)
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder())
    with closing(sqlite3.connect(tmp_path / "index" / "index.sqlite")) as connection, connection:
        connection.execute("DROP TABLE regions")
    with pytest.raises(DeixisError, match=r"index\.sqlite: damaged"):
        copy_index(tmp_path / "index", address)
