"""Several processes that write one index in PostgreSQL."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deixis.errors import DeixisError, PhotoError
from deixis.index import PhotoIndex, Seen, update_index, updating
from deixis.index.about import About
from deixis.index.postgres.address import read_address
from deixis.index.postgres.connection import PostgresConnection, connect
from deixis.index.postgres.writer import opened_database
from tests.index.fakes import DIMENSION, ColourSeer, photo, photos, rows_of

MODEL = About("", "colours-1", DIMENSION, DIMENSION)


@dataclass
class Telling(ColourSeer):
    """Writes into a pipe the name of each photo that it looks at."""

    pipe: int = -1

    def see(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Seen | PhotoError]]:
        for path, seen in super().see(paths):
            os.write(self.pipe, path.name.encode() + b"\n")
            yield path, seen


def child(address: str, folder: Path, pipe: int, slowly_s: float = 0.02) -> int:
    """A process that indexes a folder, in small steps."""
    number = os.fork()
    if number == 0:
        try:
            updating.BATCH = 3
            report = update_index(address, [folder], Telling(pipe=pipe, slowly_s=slowly_s))
            os._exit(1 if report.skipped else 0)
        finally:
            os._exit(2)
    return number


def test_processes_on_one_folder_share_the_work_and_see_every_photo_once(address: str, tmp_path: Path) -> None:
    photos(tmp_path / "photos", 60)
    for number in range(5):
        shutil.copy(tmp_path / "photos" / "001.png", tmp_path / "photos" / f"copy{number}.png")
    reading, writing = os.pipe()
    children = [child(address, tmp_path / "photos", writing) for _ in range(3)]
    os.close(writing)
    with os.fdopen(reading) as pipe:
        seen = pipe.read().split()
    assert [os.waitpid(number, 0)[1] for number in children] == [0, 0, 0]
    originals = ["copy" if name.startswith("copy") or name == "001.png" else name for name in seen]
    assert sorted(originals) == sorted({*originals}), "a photo was seen twice"
    assert len(originals) == 60
    assert [rows_of(address, table) for table in ("photos", "vectors", "regions")] == [65, 65, 130]
    assert update_index(address, [tmp_path / "photos"], ColourSeer()).unchanged == 65


def test_what_a_killed_process_held_falls_to_another(address: str, tmp_path: Path) -> None:
    photos(tmp_path / "photos", 30)
    reading, writing = os.pipe()
    doomed = child(address, tmp_path / "photos", writing, slowly_s=0.2)
    with os.fdopen(os.dup(reading)) as pipe:
        pipe.readline()
        other = child(address, tmp_path / "photos", writing)
        os.close(writing)
        time.sleep(0.3)
        os.kill(doomed, signal.SIGKILL)
        os.waitpid(doomed, 0)
        pipe.read()
    os.close(reading)
    assert os.waitpid(other, 0)[1] == 0
    assert rows_of(address, "photos") == 30


def test_a_content_is_one_processs_until_it_is_settled(address: str) -> None:
    sha256 = b"s" * 32
    with opened_database(address, MODEL) as one, opened_database(address, MODEL) as other:
        assert one.claim(sha256)
        assert not other.claim(sha256)
        one.begin()
        one.settle(sha256)
        assert not other.claim(sha256)
        one.commit()
        assert other.claim(sha256)
    with opened_database(address, MODEL) as again:
        assert again.claim(sha256), "whoever is gone holds nothing"


def test_a_content_is_let_go_after_the_commit_that_holds_it(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    true = PostgresConnection.execute

    def listened(self: PostgresConnection, statement: str, values: Sequence[Any] = ()) -> Any:
        said.append(statement)
        return true(self, statement, values)

    with opened_database(address, MODEL) as writer:
        writer.begin()
        writer.claim(bytes(32))
        writer.settle(bytes(32))
        monkeypatch.setattr(PostgresConnection, "execute", listened)
        writer.commit()
    assert [statement.split()[0] for statement in said] == ["COMMIT", "SELECT"]


def test_a_photo_of_another_machine_is_not_taken_for_one_that_was_moved(address: str, tmp_path: Path) -> None:
    photo(tmp_path / "there" / "a.png", 1)
    update_index(address, [tmp_path / "there"], ColourSeer())
    (tmp_path / "there").rename(tmp_path / "not mounted here")
    photo(tmp_path / "here" / "b.png", 1)
    report = update_index(address, [tmp_path / "here"], ColourSeer())
    assert (report.added, report.moved, report.photos) == (1, 0, 2)


def test_an_index_that_another_process_begins_anew_is_left_alone(address: str, tmp_path: Path) -> None:
    photos(tmp_path / "photos", 6)
    with opened_database(address, MODEL) as writer:
        update_index(address, [tmp_path / "photos"], ColourSeer(fingerprint="colours-2"), rebuild=True)
        with pytest.raises(DeixisError, match="another process has begun it anew; run again$"):
            writer.begin()


def test_two_that_begin_an_index_at_once_find_one(address: str, tmp_path: Path) -> None:
    photos(tmp_path / "a", 3)
    photos(tmp_path / "b", 3)
    reading, writing = os.pipe()
    children = [child(address, tmp_path / name, writing, slowly_s=0) for name in "ab"]
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert len(pipe.read().split()) == 3, "they hold the same photos"
    assert [os.waitpid(number, 0)[1] for number in children] == [0, 0]
    assert rows_of(address, "photos") == 6


def test_vectors_lie_beside_their_rows(address: str, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()

    class Long(ColourSeer):
        dimension = 512
        region_dimension = 1500

    update_index(address, [tmp_path / "photos"], Long())
    with closing(connect(read_address(address)).raw) as connection:
        kept = connection.execute(
            "SELECT attname, attstorage::text FROM pg_attribute WHERE attname IN ('whole', 'vector') "
            "AND attrelid IN ('vectors'::regclass, 'regions'::regclass) ORDER BY 1"
        ).fetchall()
    assert kept == [("vector", "p"), ("whole", "p")]


def test_an_index_is_searched_while_it_is_rebuilt(address: str, tmp_path: Path) -> None:
    photos(tmp_path / "photos", 4)
    update_index(address, [tmp_path / "photos"], ColourSeer())
    with PhotoIndex(address) as index:
        before = index.about.uid
        update_index(address, [tmp_path / "photos"], ColourSeer(), rebuild=True)
        assert len(index.search(index.vector_of(1))) == 4
        assert index.about.uid != before
