"""Several processes that write one index in PostgreSQL."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deixis.errors import DeixisError, PhotoError
from deixis.search.index import PhotoVectors, update, update_index
from deixis.search.index.base import IndexInfo
from deixis.search.index.postgres import PostgresConnection, connected, open_postgres_writer, parse_address
from tests.search.index.fakes import DIMENSION, ColourEncoder, ReadIndex, photo, photos, rows_of

MODEL = IndexInfo("", "colours-1", DIMENSION, DIMENSION)


@dataclass
class ReportingEncoder(ColourEncoder):
    """Writes the name of each photo to a pipe."""

    pipe: int = -1

    def encode_photos(self, paths: Iterable[Path]) -> Iterator[tuple[Path, PhotoVectors | PhotoError]]:
        for path, seen in super().encode_photos(paths):
            os.write(self.pipe, path.name.encode() + b"\n")
            yield path, seen


def child(address: str, folder: Path, pipe: int, delay_s: float = 0.02) -> int:
    """A process that indexes a folder, in small steps."""
    number = os.fork()
    if number == 0:
        try:
            update.BATCH = 3
            report = update_index(address, [folder], ReportingEncoder(pipe=pipe, delay_s=delay_s))
            os._exit(1 if report.skipped else 0)
        finally:
            os._exit(2)
    return number


def test_processes_share_a_folder_and_encode_every_photo_once(address: str, tmp_path: Path) -> None:
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
    assert sorted(originals) == sorted({*originals}), "a photo was encoded twice"
    assert len(originals) == 60
    assert [rows_of(address, table) for table in ("photos", "vectors", "regions")] == [65, 65, 130]
    assert update_index(address, [tmp_path / "photos"], ColourEncoder()).unchanged == 65


@pytest.mark.slow
def test_photos_claimed_by_a_killed_process_are_encoded_by_another(address: str, tmp_path: Path) -> None:
    photos(tmp_path / "photos", 30)
    reading, writing = os.pipe()
    doomed = child(address, tmp_path / "photos", writing, delay_s=0.2)
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


def test_a_claim_is_exclusive_until_it_is_settled(address: str) -> None:
    sha256 = b"s" * 32
    with open_postgres_writer(address, MODEL) as one, open_postgres_writer(address, MODEL) as other:
        assert one.claim(sha256)
        assert not other.claim(sha256)
        one.begin()
        one.settle(sha256)
        assert not other.claim(sha256)
        one.commit()
        assert other.claim(sha256)
    with open_postgres_writer(address, MODEL) as again:
        assert again.claim(sha256), "closed writers release their claims"


@pytest.mark.slow
def test_a_claim_is_released_after_the_commit(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    execute = PostgresConnection.execute

    def recorded(self: PostgresConnection, statement: str, values: Sequence[Any] = ()) -> Any:
        statements.append(statement)
        return execute(self, statement, values)

    with open_postgres_writer(address, MODEL) as writer:
        writer.begin()
        writer.claim(bytes(32))
        writer.settle(bytes(32))
        monkeypatch.setattr(PostgresConnection, "execute", recorded)
        writer.commit()
    assert [statement.split()[0] for statement in statements] == ["COMMIT", "SELECT"]


@pytest.mark.slow
def test_a_photo_of_another_machine_does_not_count_as_moved(address: str, tmp_path: Path) -> None:
    photo(tmp_path / "there" / "a.png", 1)
    update_index(address, [tmp_path / "there"], ColourEncoder())
    (tmp_path / "there").rename(tmp_path / "not mounted here")
    photo(tmp_path / "here" / "b.png", 1)
    report = update_index(address, [tmp_path / "here"], ColourEncoder())
    assert (report.added, report.moved, report.photos) == (1, 0, 2)


def test_an_index_rebuilt_by_another_process_is_not_written(address: str, tmp_path: Path) -> None:
    photos(tmp_path / "photos", 6)
    with open_postgres_writer(address, MODEL) as writer:
        update_index(address, [tmp_path / "photos"], ColourEncoder(fingerprint="colours-2"), rebuild=True)
        with pytest.raises(DeixisError, match="another process"):
            writer.begin()


@pytest.mark.slow
def test_two_processes_can_create_an_index_at_once(address: str, tmp_path: Path) -> None:
    photos(tmp_path / "a", 3)
    photos(tmp_path / "b", 3)
    reading, writing = os.pipe()
    children = [child(address, tmp_path / name, writing, delay_s=0) for name in "ab"]
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert len(pipe.read().split()) == 3, "both folders have the same photos"
    assert [os.waitpid(number, 0)[1] for number in children] == [0, 0]
    assert rows_of(address, "photos") == 6


@pytest.mark.slow
def test_vectors_are_stored_inline(address: str, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()

    class Long(ColourEncoder):
        dimension = 512
        region_dimension = 1500

    update_index(address, [tmp_path / "photos"], Long())
    with connected(parse_address(address)) as connection:
        kept = connection.execute(
            "SELECT attname, attstorage::text FROM pg_attribute WHERE attname IN ('whole', 'vector') "
            "AND attrelid IN ('vectors'::regclass, 'regions'::regclass) ORDER BY 1"
        ).fetchall()
    assert kept == [("vector", "p"), ("whole", "p")]


@pytest.mark.slow
def test_an_open_index_is_searched_after_a_rebuild(address: str, tmp_path: Path) -> None:
    photos(tmp_path / "photos", 4)
    update_index(address, [tmp_path / "photos"], ColourEncoder())
    with ReadIndex(address) as index:
        before = index.info.uid
        update_index(address, [tmp_path / "photos"], ColourEncoder(), rebuild=True)
        assert len(index.search(index.vector_of(1))) == 4
        assert index.info.uid != before
