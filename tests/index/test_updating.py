"""Updating an index: only the new work, nothing lost that was told, and one line for every trouble."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.zip import ZipFileSystem

from deixis.errors import DeixisError, PhotoError
from deixis.index import PhotoIndex, Seen, update_index, updating
from deixis.index.places import Place
from tests.index.fakes import DIMENSION, ColourSeer, photo, photos, rows_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    photos(tmp_path / "photos", 5)
    return tmp_path / "photos"


def paths_in(place: Place) -> list[str]:
    with PhotoIndex(place) as index:
        return sorted(str(photo.path) for photo in index.newest(10_000))


def test_new_photos_are_seen_once(folder: Path, place: Place) -> None:
    first, second = ColourSeer(), ColourSeer()
    report = update_index(place, [folder], first)
    assert (report.added, report.photos, len(first.looked_at)) == (5, 5, 5)
    photo(folder / "new.png", 99)
    report = update_index(place, [folder], second)
    assert (report.added, report.unchanged, second.names) == (1, 5, ["new.png"])


def test_a_touched_file_is_not_seen_again(folder: Path, place: Place) -> None:
    update_index(place, [folder], ColourSeer())
    os.utime(folder / "001.png", (1, 1))
    seer = ColourSeer()
    report = update_index(place, [folder], seer)
    assert (report.unchanged, report.updated, seer.looked_at) == (5, 0, [])
    with PhotoIndex(place) as index:
        found = index.photo_at(folder / "001.png")
    assert found is not None
    assert found.mtime_ns == 10**9


def test_a_moved_file_keeps_its_number_and_is_not_seen_again(folder: Path, place: Place) -> None:
    update_index(place, [folder], ColourSeer())
    with PhotoIndex(place) as index:
        before = index.photo_at(folder / "001.png")
        (folder / "trip").mkdir()
        (folder / "001.png").rename(folder / "trip" / "first.png")
        seer = ColourSeer()
        report = update_index(place, [folder], seer)
        after = index.photo_at(folder / "trip" / "first.png")
        assert index.photo_at(folder / "001.png") is None
    assert (report.moved, report.added, report.removed, seer.looked_at) == (1, 0, 0, [])
    assert before is not None
    assert after is not None
    assert before.id == after.id


def test_a_copy_is_a_photo_of_its_own_that_is_not_seen_again(folder: Path, place: Place) -> None:
    update_index(place, [folder], ColourSeer())
    shutil.copy(folder / "001.png", folder / "copy.png")
    seer = ColourSeer()
    report = update_index(place, [folder], seer)
    assert (report.added, report.photos, seer.looked_at) == (1, 6, [])
    with PhotoIndex(place) as index:
        first, copy = index.photo_at(folder / "001.png"), index.photo_at(folder / "copy.png")
        assert first is not None
        assert copy is not None
        assert np.array_equal(index.vector_of(first.id), index.vector_of(copy.id))
        assert np.array_equal(index.regions_of(first.id)[1], index.regions_of(copy.id)[1])
        assert index.thumbnail(copy.id) == index.thumbnail(first.id)


def test_copies_that_come_together_are_seen_once(tmp_path: Path, place: Place) -> None:
    photo(tmp_path / "photos" / "a.png", 1)
    shutil.copy(tmp_path / "photos" / "a.png", tmp_path / "photos" / "b.png")
    for name in ("c.png", "d.png"):
        (tmp_path / "photos" / name).write_bytes(b"no photo")
    seer = ColourSeer()
    report = update_index(place, [tmp_path / "photos"], seer)
    assert (report.added, report.photos, seer.names) == (2, 2, ["a.png", "c.png"])
    assert [Path(error.path).name for error in report.skipped] == ["c.png", "d.png"]


def test_a_file_with_new_content_is_seen_again_under_a_new_number(folder: Path, place: Place) -> None:
    update_index(place, [folder], ColourSeer())
    with PhotoIndex(place) as index:
        before = index.photo_at(folder / "001.png")
        photo(folder / "001.png", 77)
        os.utime(folder / "001.png", (5, 5))
        seer = ColourSeer()
        report = update_index(place, [folder], seer)
        after = index.photo_at(folder / "001.png")
    assert (report.updated, report.photos, seer.names) == (1, 5, ["001.png"])
    assert before is not None
    assert after is not None
    assert after.id > before.id


def test_what_is_gone_is_forgotten_and_other_places_stay(folder: Path, tmp_path: Path, place: Place) -> None:
    photo(tmp_path / "elsewhere" / "far.png", 50)
    update_index(place, [folder, tmp_path / "elsewhere"], ColourSeer())
    (folder / "000.png").unlink()
    (tmp_path / "elsewhere" / "far.png").unlink()
    report = update_index(place, [folder], ColourSeer())
    assert (report.removed, report.photos) == (1, 5)
    with PhotoIndex(place) as index:
        assert index.photo_at(folder / "000.png") is None
        assert index.photo_at(tmp_path / "elsewhere" / "far.png") is not None


def test_a_folder_whose_name_begins_alike_is_another_place(tmp_path: Path, place: Place) -> None:
    photos(tmp_path / "photos", 1)
    photo(tmp_path / "photos2" / "a.png", 9)
    update_index(place, [tmp_path / "photos", tmp_path / "photos2"], ColourSeer())
    (tmp_path / "photos2" / "a.png").unlink()
    assert update_index(place, [tmp_path / "photos"], ColourSeer()).removed == 0


def test_photos_in_a_folder_that_cannot_be_read_now_are_not_forgotten(
    folder: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    update_index(place, [folder], ColourSeer())

    def refuse(path: Path) -> object:  # nothing is unreadable to root, who may well run this
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refuse)
        patched.setattr(os, "lstat", refuse)
        report = update_index(place, [folder], ColourSeer())
    assert (report.removed, report.photos) == (0, 5)
    assert [error.reason for error in report.skipped] == ["cannot be read (Permission denied)"]


def test_a_bad_file_is_skipped_with_its_reason_and_not_looked_at_again_unless_asked(folder: Path, place: Place) -> None:
    (folder / "bad.jpg").write_bytes(b"no photo at all")
    (folder / "empty.jpg").touch()
    for expected, retry in ((["bad.jpg"], False), ([], False), (["bad.jpg"], True)):
        seer = ColourSeer()
        report = update_index(place, [folder], seer, retry=retry)
        assert [name for name in seer.names if name == "bad.jpg"] == expected
        reasons = {Path(error.path).name: error.reason for error in report.skipped}
        assert reasons == {"bad.jpg": "not a photo in a known format", "empty.jpg": "an empty file"}
        assert report.photos == 5
    photo(folder / "bad.jpg", 60)
    report = update_index(place, [folder], ColourSeer())
    assert (report.added, len(report.skipped)) == (1, 1)


def test_a_photo_that_goes_bad_is_no_longer_found(folder: Path, place: Place) -> None:
    update_index(place, [folder], ColourSeer())
    (folder / "001.png").write_bytes(b"broken")
    report = update_index(place, [folder], ColourSeer())
    assert (report.removed, report.photos, len(report.skipped)) == (1, 4, 1)


def test_a_bad_file_that_is_gone_is_forgotten(folder: Path, place: Place) -> None:
    (folder / "bad.jpg").write_bytes(b"no photo at all")
    update_index(place, [folder], ColourSeer())
    (folder / "bad.jpg").unlink()
    assert update_index(place, [folder], ColourSeer()).skipped == []
    assert rows_of(place, "skipped") == 0


def test_names_that_are_not_text_are_kept(tmp_path: Path, place: Place) -> None:
    name = os.fsdecode(b"caf\xe9 \xff.png")
    try:
        photo(tmp_path / "photos" / name, 1)
    except OSError:
        pytest.skip("this file system takes only text as names")
    report = update_index(place, [tmp_path / "photos"], ColourSeer())
    assert (report.added, report.skipped) == (1, [])
    with PhotoIndex(place) as index:
        (match,) = index.search(index.vector_of(1))
        assert match.path.name == name
        assert match.path.exists()
    assert update_index(place, [tmp_path / "photos"], ColourSeer()).unchanged == 1


def test_an_index_among_the_photos_is_not_indexed(folder: Path) -> None:
    for _ in range(2):
        update_index(folder / "index", [folder], ColourSeer())
        photo(folder / "index" / "cache" / "thumbnail.png", 80)
    assert all("/index/" not in path for path in paths_in(folder / "index"))


def test_photos_in_the_index_are_refused_in_one_line(folder: Path) -> None:
    for place in (folder, folder / "000.png"):
        with pytest.raises(DeixisError, match="lies in the index .*photos; give the index a folder of its own$"):
            update_index(folder, [place], ColourSeer())
    assert len(list(folder.iterdir())) == 5


def test_a_folder_that_holds_other_things_is_not_made_an_index(folder: Path, tmp_path: Path) -> None:
    album = tmp_path / "album"
    album.mkdir()
    photo(album / "mine.png", 7)
    with pytest.raises(DeixisError, match=r"album: holds mine\.png; an index wants a folder of its own"):
        update_index(album, [folder], ColourSeer())
    assert [file.name for file in album.iterdir()] == ["mine.png"]
    (tmp_path / "empty").mkdir()
    assert update_index(tmp_path / "empty", [folder], ColourSeer()).added == 5
    assert update_index(tmp_path / "empty", [folder], ColourSeer()).unchanged == 5


@pytest.mark.parametrize("wrong", ["shape", "infinite", "regions", "too large"])
def test_what_a_model_must_not_give_is_a_reason_to_skip(wrong: str, folder: Path, place: Place) -> None:
    class Wrong(ColourSeer):
        def see(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Seen | PhotoError]]:
            for path in paths:
                whole = np.ones(DIMENSION, dtype=np.float32)
                boxes, regions = np.zeros((1, 4), dtype=np.float32), whole[None]
                if wrong == "shape":
                    whole = whole[1:]
                elif wrong == "infinite":
                    whole = whole * np.inf
                elif wrong == "regions":
                    regions = regions[:, 1:]
                else:
                    regions = regions * 1e6
                yield path, Seen(whole, 9, 9, boxes, regions)

    report = update_index(place, [folder], Wrong())
    assert (report.added, len(report.skipped)) == (0, 5)
    assert all(error.reason.startswith("the model gave") for error in report.skipped)


def test_a_file_that_changes_while_it_is_read_is_left_for_the_next_run(folder: Path, place: Place) -> None:
    class Meddler(ColourSeer):
        def see(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Seen | PhotoError]]:
            for path, seen in super().see(paths):
                if path.name == "002.png":
                    photo(path, 90)
                    os.utime(path, (7, 7))
                yield path, seen

    report = update_index(place, [folder], Meddler())
    assert [str(error) for error in report.skipped] == [f"{folder}/002.png: changed while it was read; run again"]
    assert update_index(place, [folder], ColourSeer()).added == 1


def test_a_place_that_is_not_there_is_one_line_and_forgets_nothing(folder: Path, place: Place) -> None:
    update_index(place, [folder], ColourSeer())
    shutil.rmtree(folder)
    with pytest.raises(DeixisError, match=r"photos: no such file or folder$"):
        update_index(place, [folder], ColourSeer())
    assert len(paths_in(place)) == 5


def test_an_index_where_a_file_lies_is_one_line(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "index").write_text("something else")
    with pytest.raises(DeixisError, match=r"index: is a file; an index wants a folder of its own$"):
        update_index(tmp_path / "index", [folder], ColourSeer())
    assert (tmp_path / "index").read_text() == "something else"


def test_another_model_is_refused_until_a_rebuild(folder: Path, place: Place) -> None:
    update_index(place, [folder], ColourSeer())
    other = ColourSeer(fingerprint="colours-2")
    with pytest.raises(
        DeixisError, match=r"another model \(colours-1, not colours-2\); make it anew with: .*--rebuild$"
    ):
        update_index(place, [folder], other)
    with PhotoIndex(place, fingerprint="colours-1") as index:
        report = update_index(place, [folder], other, rebuild=True)
        assert (report.added, len(other.looked_at)) == (5, 5)
        with pytest.raises(DeixisError, match="another model"):
            index.search(np.ones(DIMENSION))
    with PhotoIndex(place, fingerprint="colours-2") as index:
        assert len(index) == 5


def test_ctrl_c_keeps_what_was_seen(folder: Path, place: Place) -> None:
    class Stopped(ColourSeer):
        def see(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Seen | PhotoError]]:
            for number, answer in enumerate(super().see(paths)):
                if number == 3:
                    raise KeyboardInterrupt
                yield answer

    told: list[Path] = []
    with pytest.raises(KeyboardInterrupt):
        update_index(place, [folder], Stopped(), on_done=told.append)
    assert sorted(map(str, told)) == paths_in(place)
    assert len(told) == 3


def test_whoever_is_told_may_fail_and_nothing_is_lost(
    folder: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updating, "BATCH", 2)

    def fail(path: Path) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        update_index(place, [folder], ColourSeer(), on_done=fail)
    assert len(paths_in(place)) == 2
    assert update_index(place, [folder], ColourSeer()).photos == 5


def test_progress_is_told(folder: Path, place: Place) -> None:
    told: list[int] = []
    update_index(place, [folder], ColourSeer(), on_progress=lambda _, done, __: told.append(done))
    assert told[-1] == 5


def paths_in_what_there_is(place: Place) -> list[str]:
    """Nothing where an index has not even been begun."""
    try:
        return paths_in(place)
    except DeixisError as error:
        assert "not an index of photos" in str(error)
        return []


def update_in_a_child(place: Place, folder: Path, slowly_s: float) -> tuple[int, int]:
    """A process that updates and says through a pipe what is done; its number and the pipe's end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            updating.BATCH = 3
            said = lambda path: os.write(writing, path.name.encode() + b"\n")  # noqa: E731
            update_index(place, [folder], ColourSeer(slowly_s=slowly_s), on_done=said)
        finally:
            os._exit(0)
    os.close(writing)
    return child, reading


def test_kill_9_at_twenty_random_moments_loses_nothing_that_was_told_and_doubles_nothing(
    tmp_path: Path, place: Place
) -> None:
    photos(tmp_path / "photos", 200)
    moments, told = random.Random(8), set[str]()
    for _ in range(20):
        child, pipe = update_in_a_child(place, tmp_path / "photos", slowly_s=0.002)
        with os.fdopen(pipe) as reading:
            # Counted in photos and then in milliseconds, so that a busy machine meets the same moments.
            told |= {reading.readline().strip() for _ in range(moments.randrange(8))}
            time.sleep(moments.uniform(0.0, 0.02))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            told |= set(reading.read().split())
        there = [Path(path).name for path in paths_in_what_there_is(place)]
        assert told <= set(there)
        assert len(there) == len(set(there))
    assert 0 < len(told) < 200, "the kills came too early or too late to show anything"
    seer = ColourSeer()
    report = update_index(place, [tmp_path / "photos"], seer)
    assert report.photos == 200
    assert told.isdisjoint(seer.names)
    with PhotoIndex(place) as opened:
        assert len(opened) == 200
        assert len({match.path for match in opened.search(np.ones(DIMENSION), 300)}) == 200
    each = 1 if isinstance(place, Path) else 2  # a row for all regions of a photo, or for every one
    assert [rows_of(place, table) for table in ("vectors", "regions", "thumbnails")] == [200, 200 * each, 200]
    if isinstance(place, Path):
        with closing(sqlite3.connect(place / "index.sqlite")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@dataclass
class Patient(ColourSeer):
    """Looks at a photo for each byte that it is sent, and at all the rest once nobody sends any more."""

    allowed: int = -1

    def see(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Seen | PhotoError]]:
        for answer in super().see(paths):
            os.read(self.allowed, 1)
            yield answer


@contextmanager
def patient_child(place: Place, folder: Path) -> Iterator[int]:
    """A process that updates as far as it is allowed to; what allows it is written into the pipe that comes out."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(writing)
            updating.BATCH = 1
            update_index(place, [folder], Patient(allowed=reading))
        finally:
            os._exit(0)
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def wait_for(place: Place, count: int) -> None:
    """Until an index holds so many photos."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if len(paths_in_what_there_is(place)) >= count:
            return
        time.sleep(0.01)
    raise AssertionError(f"not even {count} photos were indexed in a minute")


def test_a_second_writer_is_refused_in_one_line_and_a_reader_is_not(tmp_path: Path) -> None:
    photos(tmp_path / "photos", 20)
    with patient_child(tmp_path / "index", tmp_path / "photos") as allow:
        os.write(allow, b"." * 10)
        wait_for(tmp_path / "index", 10)
        with pytest.raises(DeixisError, match="another process is writing it; wait until it is done"):
            update_index(tmp_path / "index", [tmp_path / "photos"], ColourSeer())
        with PhotoIndex(tmp_path / "index") as index:
            assert len(index) == 10
    assert update_index(tmp_path / "index", [tmp_path / "photos"], ColourSeer()).unchanged == 20


def test_an_open_index_is_searched_while_it_grows(tmp_path: Path, place: Place) -> None:
    photos(tmp_path / "photos", 40)
    update_index(place, [tmp_path / "photos" / "000.png"], ColourSeer())
    with (
        PhotoIndex(place) as index,
        patient_child(place, tmp_path / "photos") as allow,
    ):
        query = index.vector_of(1)
        for there in range(4, 40, 3):
            os.write(allow, b"...")
            wait_for(place, there)
            matches = index.search(query, 100)
            assert matches[0].path.name == "000.png"
            assert there <= len(matches) < 40
            assert len(index.search_regions(query, 100)) >= there


@dataclass
class Large(ColourSeer):
    """Sees thumbnails that soon fill a small disk."""

    def see(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Seen | PhotoError]]:
        for path in paths:
            noise = np.random.default_rng(0).bytes(100_000)
            yield path, Seen(np.ones(DIMENSION, dtype=np.float32), 9, 9, thumbnail=noise)


def test_a_full_disk_is_one_line_and_what_was_told_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos(tmp_path / "photos", 40)
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("a small file system can be mounted by root only")
    monkeypatch.setattr(updating, "BATCH", 2)
    told: list[Path] = []
    try:
        with pytest.raises(DeixisError, match=r"index\.sqlite: the disk is full$"):
            update_index(disk / "index", [tmp_path / "photos"], Large(), on_done=told.append)
        assert 0 < len(told) < 40
        assert set(map(str, told)) <= set(paths_in(disk / "index"))
        subprocess.run(["mount", "-o", "remount,size=30m", disk], check=True)
        assert update_index(disk / "index", [tmp_path / "photos"], Large()).photos == 40
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.fixture
def bucket(folder: Path) -> Iterator[Any]:
    """The five photos in a bucket, two of them in a folder below."""
    system = fsspec.filesystem("memory")
    for number, path in enumerate(sorted(folder.iterdir())):
        system.pipe_file(f"/bucket/{'below/' if number > 2 else ''}{path.name}", path.read_bytes())
    yield system
    system.rm("/bucket", recursive=True)


def test_photos_elsewhere_are_indexed_by_their_addresses(bucket: Any, folder: Path, place: Place) -> None:
    bucket.pipe_file("/bucket/bad.jpg", b"no photo")
    seer = ColourSeer()
    report = update_index(place, ["memory://bucket"], seer)
    assert (report.added, [str(error) for error in report.skipped]) == (
        5,
        ["memory://bucket/bad.jpg: not a photo in a known format"],
    )
    assert paths_in(place)[0] == "memory://bucket/000.png"
    assert paths_in(place)[-1] == "memory://bucket/below/004.png"
    with PhotoIndex(place) as index:
        found = index.photo_at("memory://bucket/below/004.png")
        assert found is not None
        assert found.path.read_bytes() == (folder / "004.png").read_bytes()
    assert update_index(place, ["memory://bucket"], seer).unchanged == 5
    bucket.rm("/bucket/below/004.png")
    bucket.pipe_file("/bucket/000.png", photo(folder / "other.png", 77).read_bytes())
    report = update_index(place, ["memory://bucket"], seer)
    assert (report.updated, report.removed, report.photos) == (1, 1, 4)
    assert update_index(place, [folder], seer).added == 6  # those of other places stay


def test_photos_in_an_archive_are_forgotten_with_it(folder: Path, tmp_path: Path, place: Place) -> None:
    (folder / "below").mkdir()
    (folder / "004.png").rename(folder / "below" / "004.png")
    archive = shutil.make_archive(str(tmp_path / "holiday"), "zip", folder.parent, folder.name)
    address = f"zip://photos::{archive}"
    assert update_index(place, [address], ColourSeer()).added == 5
    assert f"zip://photos/below/004.png::{archive}" in paths_in(place)
    with zipfile.ZipFile(archive, "w") as emptied:
        emptied.write(folder / "000.png", "photos/000.png")
    ZipFileSystem.clear_instance_cache()  # as in another process
    assert update_index(place, [address], ColourSeer()).removed == 4
