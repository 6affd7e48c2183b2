"""Updating an index: changed files, interruptions, kills and errors."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import sqlite3
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.zip import ZipFileSystem

from deixis.data import images
from deixis.errors import DeixisError, PhotoError
from deixis.search.index import PhotoVectors, update, update_index
from deixis.search.index.base import IndexPath
from deixis.search.index.records import IndexedPhoto
from deixis.search.index.sqlite import SqliteConnection
from deixis.search.index.update import remembered_exclude, remove_photos, wait_for_changes
from deixis.storage.remote import photo_path
from tests.search.index.fakes import DIMENSION, Altered, ColourEncoder, ReadIndex, on_both, photo, photos, rows_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    photos(tmp_path / "photos", 5)
    return tmp_path / "photos"


def paths_in(index_path: IndexPath) -> list[str]:
    with ReadIndex(index_path) as index:
        return sorted(str(photo.path) for photo in index.newest(10_000))


def photo_at(index: ReadIndex, path: Path) -> IndexedPhoto:
    found = index.photo_at(path)
    assert found is not None
    return found


def test_new_photos_are_encoded_once(folder: Path, index_path: IndexPath) -> None:
    first, second = ColourEncoder(), ColourEncoder()
    progress: list[tuple[str, int, int | None]] = []
    report = update_index(index_path, [folder], first, on_progress=lambda *call: progress.append(call))
    assert (report.added, report.photos, len(first.looked_at)) == (5, 5, 5)
    assert (progress[0], progress[-1]) == (("finding photos", 1, None), ("indexing photos", 5, 5))
    photo(folder / "new.png", 99)
    report = update_index(index_path, [folder], second)
    assert (report.added, report.unchanged, second.names) == (1, 5, ["new.png"])


def fail(path: Path, *_: object) -> PhotoVectors:
    raise RuntimeError(path)


def test_an_error_leaves_no_thread_that_reads_files(tmp_path: Path) -> None:
    photos(tmp_path / "photos", 40)
    with pytest.raises(RuntimeError) as raised:  # its traceback refers to the generators
        update_index(tmp_path / "index", [tmp_path / "photos"], Altered(alter=fail))
    assert raised.tb is not None
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("hashes")]


@pytest.mark.parametrize(("seconds", "stored_ns"), [(1, 10**9), (10**10, 2**63 - 1)], ids=["1970", "2286"])
def test_a_touched_file_is_not_encoded_again(seconds: int, stored_ns: int, folder: Path, index_path: IndexPath) -> None:
    update_index(index_path, [folder], ColourEncoder())
    os.utime(folder / "001.png", (seconds, seconds))
    encoder = ColourEncoder()
    report = update_index(index_path, [folder], encoder)
    assert (report.unchanged, report.updated, encoder.looked_at) == (5, 0, [])
    with ReadIndex(index_path) as index:
        assert photo_at(index, folder / "001.png").mtime_ns == stored_ns


def test_a_moved_file_keeps_its_number_and_vectors(folder: Path, index_path: IndexPath) -> None:
    update_index(index_path, [folder], ColourEncoder())
    with ReadIndex(index_path) as index:
        before = photo_at(index, folder / "001.png")
        (folder / "trip").mkdir()
        (folder / "001.png").rename(folder / "trip" / "first.png")
        encoder = ColourEncoder()
        report = update_index(index_path, [folder], encoder)
        assert photo_at(index, folder / "trip" / "first.png").id == before.id
        assert index.photo_at(folder / "001.png") is None
    assert (report.moved, report.added, report.removed, encoder.looked_at) == (1, 0, 0, [])


@on_both
def test_a_copied_file_is_a_new_photo_with_known_vectors(folder: Path, index_path: IndexPath) -> None:
    update_index(index_path, [folder], ColourEncoder())
    shutil.copy(folder / "001.png", folder / "copy.png")
    encoder = ColourEncoder()
    report = update_index(index_path, [folder], encoder)
    assert (report.added, report.photos, encoder.looked_at) == (1, 6, [])
    with ReadIndex(index_path) as index:
        first, copy = photo_at(index, folder / "001.png"), photo_at(index, folder / "copy.png")
        assert np.array_equal(index.vector_of(first.id), index.vector_of(copy.id))
        assert np.array_equal(index.regions_of(first.id)[1], index.regions_of(copy.id)[1])
        assert index.thumbnail(copy.id) == index.thumbnail(first.id)


def test_copies_in_one_run_are_encoded_once(tmp_path: Path, index_path: IndexPath) -> None:
    photo(tmp_path / "photos" / "a.png", 1)
    shutil.copy(tmp_path / "photos" / "a.png", tmp_path / "photos" / "b.png")
    for name in ("c.png", "d.png"):
        (tmp_path / "photos" / name).write_bytes(b"no photo")
    encoder = ColourEncoder()
    report = update_index(index_path, [tmp_path / "photos"], encoder)
    assert (report.added, report.photos, encoder.names) == (2, 2, ["a.png", "c.png"])
    assert [Path(error.path).name for error in report.skipped] == ["c.png", "d.png"]


def test_new_content_is_encoded_under_a_new_number(folder: Path, index_path: IndexPath) -> None:
    update_index(index_path, [folder], ColourEncoder())
    with ReadIndex(index_path) as index:
        before = photo_at(index, folder / "001.png")
        photo(folder / "001.png", 77)
        os.utime(folder / "001.png", (5, 5))
        encoder = ColourEncoder()
        report = update_index(index_path, [folder], encoder)
        assert photo_at(index, folder / "001.png").id > before.id
    assert (report.updated, report.photos, encoder.names) == (1, 5, ["001.png"])


@on_both
def test_missing_files_are_removed_and_other_folders_stay(folder: Path, tmp_path: Path, index_path: IndexPath) -> None:
    photo(tmp_path / "elsewhere" / "far.png", 50)
    update_index(index_path, [folder, tmp_path / "elsewhere"], ColourEncoder())
    (folder / "000.png").unlink()
    (tmp_path / "elsewhere" / "far.png").unlink()
    report = update_index(index_path, [folder], ColourEncoder())
    assert (report.removed, report.photos) == (1, 5)
    with ReadIndex(index_path) as index:
        assert index.photo_at(folder / "000.png") is None
        assert index.photo_at(tmp_path / "elsewhere" / "far.png") is not None


def test_photos_in_an_unreadable_folder_stay(
    folder: Path, index_path: IndexPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    update_index(index_path, [folder], ColourEncoder())

    def refuse(path: Path) -> object:  # nothing is unreadable to root, who may well run this
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refuse)
        patched.setattr(os, "lstat", refuse)
        report = update_index(index_path, [folder], ColourEncoder())
    assert (report.removed, report.photos) == (0, 5)
    assert [error.reason for error in report.skipped] == ["cannot be read (Permission denied)"]


def test_a_bad_file_is_skipped_with_its_reason_until_retried(folder: Path, index_path: IndexPath) -> None:
    (folder / "bad.jpg").write_bytes(b"no photo at all")
    (folder / "empty.jpg").touch()
    for expected, retry in ((["bad.jpg"], False), ([], False), (["bad.jpg"], True)):
        encoder = ColourEncoder()
        report = update_index(index_path, [folder], encoder, retry=retry)
        assert [name for name in encoder.names if name == "bad.jpg"] == expected
        reasons = {Path(error.path).name: error.reason for error in report.skipped}
        assert reasons == {"bad.jpg": "not a photo in a known format", "empty.jpg": "an empty file"}
        assert report.photos == 5
    photo(folder / "bad.jpg", 60)
    report = update_index(index_path, [folder], ColourEncoder())
    assert (report.added, len(report.skipped)) == (1, 1)


def test_a_photo_that_becomes_unreadable_is_removed(folder: Path, index_path: IndexPath) -> None:
    update_index(index_path, [folder], ColourEncoder())
    (folder / "001.png").write_bytes(b"broken")
    report = update_index(index_path, [folder], ColourEncoder())
    assert (report.removed, report.photos, len(report.skipped)) == (1, 4, 1)


def test_records_of_missing_bad_files_are_deleted(folder: Path, index_path: IndexPath) -> None:
    (folder / "bad.jpg").write_bytes(b"no photo at all")
    update_index(index_path, [folder], ColourEncoder())
    (folder / "bad.jpg").unlink()
    assert update_index(index_path, [folder], ColourEncoder()).skipped == []
    assert rows_of(index_path, "skipped") == 0


def test_file_names_that_are_not_text_are_stored(tmp_path: Path, index_path: IndexPath) -> None:
    name = os.fsdecode(b"caf\xe9 \xff.png")
    try:
        photo(tmp_path / "photos" / name, 1)
    except OSError:
        pytest.skip("this file system takes only text as names")
    report = update_index(index_path, [tmp_path / "photos"], ColourEncoder())
    assert (report.added, report.skipped) == (1, [])
    with ReadIndex(index_path) as index:
        (match,) = index.search(index.vector_of(1))
        assert match.photo.path.name == name
        assert match.photo.path.exists()
    assert update_index(index_path, [tmp_path / "photos"], ColourEncoder()).unchanged == 1


def test_an_index_among_the_photos_is_not_indexed(folder: Path) -> None:
    for _ in range(2):
        update_index(folder / "index", [folder], ColourEncoder())
        photo(folder / "index" / "cache" / "thumbnail.png", 80)
    assert all("/index/" not in path for path in paths_in(folder / "index"))


def test_photos_inside_the_index_folder_are_an_error(folder: Path) -> None:
    for place in (folder, folder / "000.png"):
        with pytest.raises(DeixisError, match="photos"):
            update_index(folder, [place], ColourEncoder())
    assert len(list(folder.iterdir())) == 5


def test_a_folder_with_other_files_cannot_become_an_index(folder: Path, tmp_path: Path) -> None:
    album = tmp_path / "album"
    album.mkdir()
    photo(album / "mine.png", 7)
    with pytest.raises(DeixisError, match=r"album.*mine\.png"):
        update_index(album, [folder], ColourEncoder())
    assert [file.name for file in album.iterdir()] == ["mine.png"]
    (tmp_path / "empty").mkdir()
    assert update_index(tmp_path / "empty", [folder], ColourEncoder()).added == 5
    assert update_index(tmp_path / "empty", [folder], ColourEncoder()).unchanged == 5


@pytest.mark.parametrize("wrong", ["shape", "infinite", "boxes", "regions", "too large"])
def test_invalid_vectors_are_skipped_with_a_reason(wrong: str, folder: Path, index_path: IndexPath) -> None:
    whole, boxes = np.ones(DIMENSION, dtype=np.float32), np.zeros((1, 4), dtype=np.float32)
    vectors = {
        "shape": (whole[1:], boxes, whole[None]),
        "infinite": (whole * np.inf, boxes, whole[None]),
        "boxes": (whole, boxes * np.nan, whole[None]),
        "regions": (whole, boxes, whole[None, 1:]),
        "too large": (whole, boxes, whole[None] * 1e6),
    }[wrong]
    encoder = Altered(alter=lambda *_: PhotoVectors(vectors[0], 9, 9, *vectors[1:]))
    report = update_index(index_path, [folder], encoder)
    assert (report.added, len(report.skipped)) == (0, 5)
    assert all(error.reason.startswith("the model returned") for error in report.skipped)


def test_a_file_that_changes_while_it_is_read_is_skipped(folder: Path, index_path: IndexPath) -> None:
    def meddle(path: Path, encoded: PhotoVectors) -> PhotoVectors:
        if path.name == "002.png":
            photo(path, 90)
            os.utime(path, (7, 7))
        return encoded

    report = update_index(index_path, [folder], Altered(alter=meddle))
    assert [str(error) for error in report.skipped] == [f"{folder}/002.png: changed while it was read; run again"]
    assert update_index(index_path, [folder], ColourEncoder()).added == 1


def test_a_missing_folder_is_an_error_and_removes_nothing(folder: Path, index_path: IndexPath) -> None:
    update_index(index_path, [folder], ColourEncoder())
    shutil.rmtree(folder)
    with pytest.raises(DeixisError, match="photos"):
        update_index(index_path, [folder], ColourEncoder())
    assert len(paths_in(index_path)) == 5


def test_an_index_path_that_is_a_file_is_an_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "index").write_text("something else")
    with pytest.raises(DeixisError, match="index: is a file"):
        update_index(tmp_path / "index", [folder], ColourEncoder())
    assert (tmp_path / "index").read_text() == "something else"


@on_both
def test_another_model_needs_a_rebuild(folder: Path, index_path: IndexPath) -> None:
    update_index(index_path, [folder], ColourEncoder())
    other = ColourEncoder(fingerprint="colours-2")
    with pytest.raises(DeixisError, match="colours-1.*colours-2.*--rebuild"):
        update_index(index_path, [folder], other)
    with ReadIndex(index_path, fingerprint="colours-1") as index:
        report = update_index(index_path, [folder], other, rebuild=True)
        assert (report.added, len(other.looked_at)) == (5, 5)
        with pytest.raises(DeixisError, match="colours-2.*colours-1"):
            index.search(np.ones(DIMENSION))
    with ReadIndex(index_path, fingerprint="colours-2") as index:
        assert len(index) == 5


@on_both
def test_ctrl_c_keeps_completed_work(folder: Path, index_path: IndexPath) -> None:
    def stop(path: Path, encoded: PhotoVectors) -> PhotoVectors:
        if path.name == "003.png":
            raise KeyboardInterrupt
        return encoded

    reported: list[Path] = []
    with pytest.raises(KeyboardInterrupt):
        update_index(index_path, [folder], Altered(alter=stop), on_committed=reported.append)
    assert sorted(map(str, reported)) == paths_in(index_path)
    assert len(reported) == 3


def test_a_failing_callback_loses_no_work(folder: Path, index_path: IndexPath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "BATCH", 2)

    committed: list[list[str]] = []

    def fail(path: Path) -> None:
        committed.append(paths_in(index_path))
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        update_index(index_path, [folder], ColourEncoder(), on_committed=fail)
    # Two photos, or fewer if they took longer than a commit waits for.
    assert 1 <= len(paths_in(index_path)) <= 2
    assert committed == [paths_in(index_path)]
    assert update_index(index_path, [folder], ColourEncoder()).photos == 5


def paths_in_what_there_is(index_path: IndexPath) -> list[str]:
    """Return the paths in an index; none if it has not been created yet."""
    try:
        return paths_in(index_path)
    except DeixisError as error:
        assert "photo index" in str(error)
        return []


def update_in_a_child(index_path: IndexPath, folder: Path, delay_s: float) -> tuple[int, int]:
    """Start a process that updates an index and writes committed names to a pipe; return its id and the pipe."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            update.BATCH = 3
            encoder = ColourEncoder(delay_s=delay_s)
            update_index(
                index_path, [folder], encoder, on_committed=lambda path: os.write(writing, path.name.encode() + b"\n")
            )
        finally:
            os._exit(0)
    os.close(writing)
    return child, reading


def test_killed_processes_neither_lose_committed_photos_nor_duplicate_any(
    tmp_path: Path, index_path: IndexPath
) -> None:
    photos(tmp_path / "photos", 200)
    moments, reported = random.Random(8), set[str]()
    for _ in range(20):
        child, pipe = update_in_a_child(index_path, tmp_path / "photos", delay_s=0.002)
        with os.fdopen(pipe) as reading:
            # Counted in photos and then in milliseconds, so that a busy machine meets the same moments.
            reported |= {reading.readline().strip() for _ in range(moments.randrange(8))}
            time.sleep(moments.uniform(0.0, 0.02))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            reported |= set(reading.read().split())
        there = [Path(path).name for path in paths_in_what_there_is(index_path)]
        assert reported <= set(there)
        assert len(there) == len(set(there))
    assert 0 < len(reported) < 200, "kills came too early or too late"
    encoder = ColourEncoder()
    report = update_index(index_path, [tmp_path / "photos"], encoder)
    assert report.photos == 200
    assert reported.isdisjoint(encoder.names)
    with ReadIndex(index_path) as opened:
        assert len(opened) == 200
        assert len({match.photo.path for match in opened.search(np.ones(DIMENSION), 300)}) == 200
    each = 1 if isinstance(index_path, Path) else 2  # a row for all regions of a photo, or for every one
    assert [rows_of(index_path, table) for table in ("vectors", "regions", "thumbnails")] == [200, 200 * each, 200]
    if isinstance(index_path, Path):
        with closing(sqlite3.connect(index_path / "index.sqlite")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@dataclass
class Batches(ColourEncoder):
    """Encodes four photos at a time and reads four ahead, as image encoders do; `compute` is called for each batch."""

    compute: Callable[[list[Path]], None] = lambda batch: None

    def encode_photos(self, paths: Iterable[Path]) -> Iterator[tuple[Path, PhotoVectors | PhotoError]]:
        remaining = iter(paths)
        ahead = list(islice(remaining, 4))
        while batch := ahead:
            ahead = list(islice(remaining, 4))
            self.compute(batch)
            yield from super().encode_photos(batch)


def test_photos_are_committed_before_the_encoder_computes_further_ones(
    tmp_path: Path, index_path: IndexPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "_PAUSE_S", 0.0)
    photos(tmp_path / "photos", 22)
    finished, committed = list[Path](), list[Path]()

    def compute(batch: list[Path]) -> None:
        assert committed == finished
        finished.extend(batch)

    update_index(index_path, [tmp_path / "photos"], Batches(compute=compute), on_committed=committed.append)
    assert len(committed) == 22


@dataclass
class Patient(ColourEncoder):
    """Encodes one photo for each byte that it receives, and all others when the pipe is closed."""

    allowed: int = -1

    def encode_photos(self, paths: Iterable[Path]) -> Iterator[tuple[Path, PhotoVectors | PhotoError]]:
        for answer in super().encode_photos(paths):
            os.read(self.allowed, 1)
            yield answer


@contextmanager
def patient_child(index_path: IndexPath, folder: Path) -> Iterator[int]:
    """Start a process that encodes one photo for each byte written to the pipe that is yielded."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(writing)
            update.BATCH = 1
            update_index(index_path, [folder], Patient(allowed=reading))
        finally:
            os._exit(0)
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def wait_for(index_path: IndexPath, count: int) -> None:
    """Wait until an index holds this many photos."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if len(paths_in_what_there_is(index_path)) >= count:
            return
        time.sleep(0.01)
    raise AssertionError(f"not even {count} photos were indexed in a minute")


def test_a_second_writer_is_an_error_and_a_reader_is_not(tmp_path: Path) -> None:
    photos(tmp_path / "photos", 20)
    with patient_child(tmp_path / "index", tmp_path / "photos") as allow:
        os.write(allow, b"." * 10)
        wait_for(tmp_path / "index", 10)
        with pytest.raises(DeixisError, match=str(tmp_path / "index")):
            update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder())
        with ReadIndex(tmp_path / "index") as index:
            assert len(index) == 10
    assert update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder()).unchanged == 20


def test_an_open_index_sees_photos_added_later(tmp_path: Path, index_path: IndexPath) -> None:
    photos(tmp_path / "photos", 40)
    update_index(index_path, [tmp_path / "photos" / "000.png"], ColourEncoder())
    with (
        ReadIndex(index_path) as index,
        patient_child(index_path, tmp_path / "photos") as allow,
    ):
        query = index.vector_of(1)
        for there in range(4, 40, 3):
            os.write(allow, b"...")
            wait_for(index_path, there)
            matches = index.search(query, 100)
            assert matches[0].photo.path.name == "000.png"
            assert there <= len(matches) < 40
            assert len(index.search_regions(query, 100)) >= there


@pytest.fixture
def bucket(folder: Path) -> Iterator[Any]:
    """The five photos in a bucket, two of them in a folder below."""
    system = fsspec.filesystem("memory")
    for number, path in enumerate(sorted(folder.iterdir())):
        system.pipe_file(f"/bucket/{'below/' if number > 2 else ''}{path.name}", path.read_bytes())
    yield system
    system.rm("/bucket", recursive=True)


def test_remote_photos_are_indexed_by_address(bucket: Any, folder: Path, index_path: IndexPath) -> None:
    bucket.pipe_file("/bucket/bad.jpg", b"no photo")
    encoder = ColourEncoder()
    report = update_index(index_path, ["memory://bucket"], encoder)
    assert (report.added, [str(error) for error in report.skipped]) == (
        5,
        ["memory://bucket/bad.jpg: not a photo in a known format"],
    )
    assert paths_in(index_path)[0] == "memory://bucket/000.png"
    assert paths_in(index_path)[-1] == "memory://bucket/below/004.png"
    with ReadIndex(index_path) as index:
        found = index.photo_at(photo_path("memory://bucket/below/004.png"))
        assert found is not None
        assert found.path.read_bytes() == (folder / "004.png").read_bytes()
    assert update_index(index_path, ["memory://bucket"], encoder).unchanged == 5
    bucket.rm("/bucket/below/004.png")
    bucket.pipe_file("/bucket/000.png", photo(folder / "other.png", 77).read_bytes())
    report = update_index(index_path, ["memory://bucket"], encoder)
    assert (report.updated, report.removed, report.photos) == (1, 1, 4)
    assert update_index(index_path, [folder], encoder).added == 6  # those of other places stay


def test_photos_of_a_removed_archive_are_removed(folder: Path, tmp_path: Path, index_path: IndexPath) -> None:
    (folder / "below").mkdir()
    (folder / "004.png").rename(folder / "below" / "004.png")
    archive = shutil.make_archive(str(tmp_path / "holiday"), "zip", folder.parent, folder.name)
    address = f"zip://photos::{archive}"
    assert update_index(index_path, [address], ColourEncoder()).added == 5
    assert f"zip://photos/below/004.png::{archive}" in paths_in(index_path)
    with zipfile.ZipFile(archive, "w") as emptied:
        emptied.write(folder / "000.png", "photos/000.png")
    ZipFileSystem.clear_instance_cache()  # as in another process
    assert update_index(index_path, [address], ColourEncoder()).removed == 4


def test_excluded_photos_are_removed_and_the_patterns_are_remembered(folder: Path, index_path: IndexPath) -> None:
    photo(folder / "Screenshots" / "a.png", 99)
    assert update_index(index_path, [folder], ColourEncoder()).photos == 6
    report = update_index(index_path, [folder], ColourEncoder(), exclude=["screenshots"])
    assert (report.photos, report.removed, report.ignored["excluded"]) == (5, 1, 1)
    assert update_index(index_path, [folder], ColourEncoder()).photos == 5
    assert remembered_exclude(index_path) == ("screenshots",)
    assert update_index(index_path, [folder], ColourEncoder(), exclude=[""]).photos == 6


def test_photos_are_removed_from_the_index_and_stay_on_disk(folder: Path, index_path: IndexPath) -> None:
    update_index(index_path, [folder], ColourEncoder())
    files = sorted(folder.rglob("*.png"))
    assert remove_photos(index_path, [files[0]]) == 1
    assert paths_in(index_path) == [str(path) for path in files[1:]]
    assert remove_photos(index_path, [folder]) == 4
    assert all(path.exists() for path in files)


class Pauses:
    """What happens during each pause, instead of waiting; after the last one the test ends."""

    def __init__(self, *happenings: Callable[[], object]) -> None:
        self.happenings = list(happenings)

    def __call__(self, seconds: float) -> None:
        assert seconds > 0
        if not self.happenings:
            raise KeyboardInterrupt
        self.happenings.pop(0)()


def test_a_change_is_reported_once_it_is_complete(tmp_path: Path) -> None:
    photo, calls = tmp_path / "a.jpg", []

    def nothing() -> None:
        calls.append("pause")

    pauses = Pauses(
        nothing,
        lambda: photo.write_bytes(b"1"),  # a copy begins
        lambda: photo.write_bytes(b"12"),  # and goes on
        lambda: photo.write_bytes(b"123"),
        nothing,  # and is complete
        lambda: (tmp_path / "notes.txt").write_text("no photo"),
        nothing,
        photo.unlink,
        nothing,
    )
    sizes = []
    with pytest.raises(KeyboardInterrupt):
        for _ in wait_for_changes([tmp_path], sleep=pauses):
            sizes.append(photo.stat().st_size if photo.exists() else None)
    assert sizes == [3, None]


def test_a_photo_whose_disk_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class FailingDisk(ColourEncoder):
        def encode_photos(self, paths: Iterable[Path]) -> Iterator[tuple[Path, PhotoVectors | PhotoError]]:
            for path in paths:
                with monkeypatch.context() as patch:
                    patch.setattr(images, "open_file", fail)
                    yield from super().encode_photos([path])

    def fail(*_: object) -> Any:
        raise OSError(errno.EIO, "Input/output error")

    photos(tmp_path / "photos", 2)
    failed = update_index(tmp_path / "index", [tmp_path / "photos"], FailingDisk())
    assert [error.reason for error in failed.skipped] == ["cannot be read ([Errno 5] Input/output error)"] * 2
    assert update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder()).added == 2


def test_without_memory_no_part_of_a_photo_is_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The savepoint around a photo cannot be undone if that needs memory, too."""

    def fail(connection: SqliteConnection, *_: object) -> Any:
        monkeypatch.setattr(SqliteConnection, "execute", fail_once)
        raise MemoryError

    def fail_once(connection: SqliteConnection, *_: object) -> Any:
        monkeypatch.undo()
        raise MemoryError

    photos(tmp_path / "photos", 2)
    monkeypatch.setattr(SqliteConnection, "insert_encoded", fail)
    with pytest.raises(MemoryError):
        update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder())
    assert update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder()).added == 2
