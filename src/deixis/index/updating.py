"""Photos into an index: only what is new is seen, what is gone is forgotten, and what was told is on the disk."""

from __future__ import annotations

import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from deixis.errors import DeixisError, PhotoError
from deixis.files.atomic import explained, only_one
from deixis.files.hashes import hash_of_file
from deixis.files.progress import OnProgress, silent
from deixis.index import records
from deixis.index.cache import bring_up_to_date
from deixis.index.database import DATABASE, plainly
from deixis.index.exif import Taken, taken_of
from deixis.index.opening import open_to_fill
from deixis.index.seeing import PhotoSeer, Seen, refusal
from deixis.index.walking import MARK, FoundFile, starting_points, walk

BATCH = 64
BATCH_S = 2.0
"""What a kill costs at most: so many photos, or those of so many seconds, whichever is less."""

_HASHED_AHEAD = 32
_CACHED_EVERY = 4096

OnDone = Callable[[Path], None]
"""Told of a photo once the disk has it."""


@dataclass
class UpdateReport:
    """What became of the files that were found.

    Attributes
    ----------
    added, updated, removed
        Photos that are new, whose content has changed, and that are gone.
    moved, unchanged
        Photos that were found under another name and keep what was seen in them, and those that are as they were.
    skipped
        Files that could not be used, and folders that could not be read, each with its reason.
    photos
        How many the index holds now.
    """

    added: int = 0
    updated: int = 0
    removed: int = 0
    moved: int = 0
    unchanged: int = 0
    skipped: list[PhotoError] = field(default_factory=list)
    photos: int = 0


@dataclass(frozen=True)
class _Candidate:
    """A file that must be looked at: it is new, or not as it was."""

    file: FoundFile
    known: records.IndexedPhoto | None
    sha256: bytes = b""
    taken: Taken = field(default_factory=Taken)


def update_index(
    folder: str | os.PathLike[str],
    places: Iterable[str | os.PathLike[str]],
    seer: PhotoSeer,
    *,
    rebuild: bool = False,
    retry: bool = False,
    on_done: OnDone | None = None,
    on_progress: OnProgress = silent,
) -> UpdateReport:
    """Bring an index up to date with the photos at some places; it is begun if it is not there.

    A file whose path, size and time are known is not opened. One of known content is not seen again, wherever it lies.
    Photos below the places that are no longer there are forgotten; those of other places stay.

    Parameters
    ----------
    folder
        The directory of the index.
    places
        Folders, which are searched to their depths, and files.
    seer
        Whoever makes the vectors. An index that another one has filled is refused.
    rebuild
        Forget everything first, damaged or not, whoever has filled it.
    retry
        Look again at files that could not be used, though they have not changed.
    on_done
        Called with the path of each file that was dealt with, once the disk has it: added, updated, moved, touched, or
        found to be bad.
    on_progress
        Called as the work goes on.

    Raises
    ------
    DeixisError
        A place does not exist, another process is writing the index, it is another model's, it is damaged, or the disk
        is full. What was done before that is kept.
    """
    points = starting_points(places)
    index = Path(folder)
    _refuse_photos_inside(index, points)
    _refuse_other_things(index)
    with ExitStack() as held:
        with explained(index):
            index.mkdir(parents=True, exist_ok=True)
            held.enter_context(only_one(index / DATABASE))
        held.enter_context(plainly(index / DATABASE))
        connection = held.enter_context(closing(open_to_fill(index, seer, rebuild)))
        return _Update(index, connection, seer, retry, on_done, on_progress).run(points)


def _refuse_photos_inside(index: Path, points: list[Path]) -> None:
    """An index lies beside photos or below them; photos in it would never be found."""
    inside = index.resolve()
    for point in points:
        if point.resolve().is_relative_to(inside):
            raise DeixisError(f"{point}: lies in the index {index}; give the index a folder of its own")


def _refuse_other_things(index: Path) -> None:
    """An index wants a folder of its own: photos that lie in it would never be found."""
    with explained(index):
        if index.exists() and not index.is_dir():
            raise DeixisError(f"{index}: is a file; an index wants a folder of its own")
        begun = (index / DATABASE).exists() or (index / MARK).exists()
        others = [] if begun or not index.exists() else [name for name in index.iterdir() if name.name[0] != "."]
    if others:
        raise DeixisError(f"{index}: holds {others[0].name}; an index wants a folder of its own, which may be new")


class _Update:
    """One run over the photos, as a chain of steps that hand files on; commits happen between them."""

    def __init__(
        self,
        folder: Path,
        connection: sqlite3.Connection,
        seer: PhotoSeer,
        retry: bool,
        on_done: OnDone | None,
        on_progress: OnProgress,
    ) -> None:
        self.folder, self.connection, self.seer, self.retry = folder, connection, seer, retry
        self.on_done, self.on_progress = on_done, on_progress
        self.report = UpdateReport()
        self._dimensions = seer.dimension, seer.region_dimension
        self._folder_read: Path | None = None
        self._in_folder: dict[str, records.IndexedPhoto] = {}
        self._in_work: dict[Path, _Candidate] = {}
        self._contents_in_work: set[bytes] = set()
        self._copies: list[_Candidate] = []
        self._uncommitted: list[Path] = []
        self._last_commit = time.monotonic()
        self._not_cached = 0

    def run(self, points: list[Path]) -> UpdateReport:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            self._see(self._to_see(self._hashed(self._changed(points))))
            self._write_copies()
            self._forget_gone(points)
        except sqlite3.Error:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise
        except BaseException:
            if self.connection.in_transaction:  # else it came between two
                self._commit(begin=False)  # what was seen before a Ctrl-C is not seen again
            raise
        self._commit(begin=False)
        self.report.photos = self.connection.execute("SELECT count(*) FROM photos").fetchone()[0]
        bring_up_to_date(self.folder, self.connection)
        return self.report

    def _changed(self, points: list[Path]) -> Iterator[_Candidate]:
        """Files that are not as they were by size and time."""
        for found in walk(points):
            if isinstance(found, PhotoError):
                self.report.skipped.append(found)
                continue
            known = self._known(found.path)
            if known is not None and (known.size, known.mtime_ns) == (found.size, found.mtime_ns):
                self.report.unchanged += 1
                self._tell()
                continue
            bad = records.skipped_at(self.connection, found.path)
            if bad and not self.retry and (bad.size, bad.mtime_ns) == (found.size, found.mtime_ns):
                self.report.skipped.append(PhotoError(found.path, bad.reason))
                continue
            yield _Candidate(found, known)

    def _known(self, path: Path) -> records.IndexedPhoto | None:
        """The photo at a path; a folder's are read together, because files come folder by folder."""
        if self._folder_read != path.parent:
            self._folder_read, self._in_folder = path.parent, records.photos_in(self.connection, path.parent)
        return self._in_folder.get(path.name)

    def _hashed(self, candidates: Iterator[_Candidate]) -> Iterator[_Candidate]:
        """The same with hash and EXIF, read ahead by a thread while the model computes."""
        waiting: deque[tuple[_Candidate, Future[tuple[str, Taken]]]] = deque()
        pool = ThreadPoolExecutor(1, thread_name_prefix="hashes")
        try:
            for candidate in candidates:
                waiting.append((candidate, pool.submit(_read, candidate.file.path)))
                if len(waiting) == _HASHED_AHEAD:
                    yield from self._if_readable(*waiting.popleft())
            while waiting:
                yield from self._if_readable(*waiting.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def _if_readable(self, candidate: _Candidate, read: Future[tuple[str, Taken]]) -> Iterator[_Candidate]:
        try:
            sha256, taken = read.result()
        except OSError as error:  # not remembered: permissions change without leaving a trace in size and time
            path = candidate.file.path
            self.report.skipped.append(PhotoError(path, f"cannot be read ({error.strerror or error})"))
            return
        yield _Candidate(candidate.file, candidate.known, bytes.fromhex(sha256), taken)

    def _to_see(self, candidates: Iterator[_Candidate]) -> Iterator[Path]:
        """What is left when content is compared: paths for the model."""
        for candidate in candidates:
            if not self._known_by_content(candidate):
                self._in_work[candidate.file.path] = candidate
                self._contents_in_work.add(candidate.sha256)
                yield candidate.file.path

    def _known_by_content(self, candidate: _Candidate) -> bool:
        """Whether the file was only touched, moved or copied, which is then written; a bad file stays bad."""
        file, known = candidate.file, candidate.known
        if known is not None and known.sha256 == candidate.sha256:
            records.move_photo(self.connection, known, file)
            self.report.unchanged += 1
        elif candidate.sha256 in self._contents_in_work:
            self._copies.append(candidate)  # nobody knows yet whether it can be read
            return True
        elif not (self._moved_or_copied(candidate) or self._still_bad(candidate)):
            return False
        self._done(file.path)
        return True

    def _moved_or_copied(self, candidate: _Candidate) -> bool:
        same = records.photos_of_content(self.connection, candidate.sha256)
        if not same:
            return False
        gone = [photo for photo in same if _is_gone(photo.path)]
        if gone and candidate.known is None:
            records.move_photo(self.connection, gone[0], candidate.file)
            records.forget_skipped(self.connection, candidate.file.path)
            self.report.moved += 1
        else:
            self._replace(candidate)
            records.add_copy(self.connection, candidate.file, candidate.taken, same[0])
        return True

    def _still_bad(self, candidate: _Candidate) -> bool:
        """A file that was touched, and cannot be used as before."""
        bad = records.skipped_at(self.connection, candidate.file.path)
        if bad is None or self.retry or bad.sha256 != candidate.sha256:
            return False
        self._skip(candidate, bad.reason)
        return True

    def _see(self, paths: Iterator[Path]) -> None:
        for path, seen in self.seer.see(paths):
            candidate = self._in_work.pop(path)
            reason = seen.reason if isinstance(seen, PhotoError) else refusal(seen, *self._dimensions)
            if not _is_as_it_was(candidate.file):
                self.report.skipped.append(PhotoError(path, "changed while it was read; run again"))
                continue
            if reason is None and isinstance(seen, Seen):
                self._replace(candidate)
                records.add_photo(self.connection, candidate.file, candidate.sha256, candidate.taken, seen)
            else:
                self._skip(candidate, reason or "the model saw nothing")
            self._done(path)
        self.report.skipped += [PhotoError(path, "the model gave no answer") for path in self._in_work]

    def _write_copies(self) -> None:
        """Files of the same content as one of this run: seen as that one was, or as bad."""
        for candidate in self._copies:
            same = records.photos_of_content(self.connection, candidate.sha256)
            reason = self._reason_of_content(candidate.sha256)
            if same:
                self._replace(candidate)
                records.add_copy(self.connection, candidate.file, candidate.taken, same[0])
            elif reason is not None:
                self._skip(candidate, reason)
            else:
                self.report.skipped.append(PhotoError(candidate.file.path, "changed while it was read; run again"))
                continue
            self._done(candidate.file.path)

    def _reason_of_content(self, sha256: bytes) -> str | None:
        found = self.connection.execute("SELECT reason FROM skipped WHERE sha256 = ?", (sha256,)).fetchone()
        return found[0] if found else None

    def _replace(self, candidate: _Candidate) -> None:
        """Count a photo, and make room for it where its path had another content."""
        if candidate.known is None:
            self.report.added += 1
        else:
            records.remove_photo(self.connection, candidate.known.id)
            self.report.updated += 1

    def _skip(self, candidate: _Candidate, reason: str) -> None:
        if candidate.known is not None:
            records.remove_photo(self.connection, candidate.known.id)
            self.report.removed += 1
        records.skip_file(self.connection, candidate.file, candidate.sha256, reason)
        self.report.skipped.append(PhotoError(candidate.file.path, reason))

    def _forget_gone(self, points: list[Path]) -> None:
        for point in points:
            for photo in records.photos_below(self.connection, point):
                if _is_gone(photo.path):
                    records.remove_photo(self.connection, photo.id)
                    self.report.removed += 1
            for path in records.skipped_below(self.connection, point):
                if _is_gone(path):
                    records.forget_skipped(self.connection, path)

    def _done(self, path: Path) -> None:
        self._uncommitted.append(path)
        if len(self._uncommitted) >= BATCH or time.monotonic() - self._last_commit > BATCH_S:
            self._commit()

    def _commit(self, begin: bool = True) -> None:
        self.connection.execute("COMMIT")
        told, self._uncommitted = self._uncommitted, []
        self._not_cached += len(told)
        self._last_commit = time.monotonic()
        for path in told:
            if self.on_done is not None:
                self.on_done(path)
        self._tell()
        if self._not_cached >= _CACHED_EVERY:
            self._not_cached = 0
            bring_up_to_date(self.folder, self.connection)
        if begin:
            self.connection.execute("BEGIN IMMEDIATE")

    def _tell(self) -> None:
        report = self.report
        done = report.added + report.updated + report.moved + report.unchanged + len(report.skipped)
        self.on_progress("indexing photos", done, None)


def _read(path: Path) -> tuple[str, Taken]:
    return hash_of_file(path), taken_of(path)


def _is_as_it_was(file: FoundFile) -> bool:
    try:
        about = file.path.stat()
    except OSError:
        return False
    return (about.st_size, about.st_mtime_ns) == (file.size, file.mtime_ns)


def _is_gone(path: Path) -> bool:
    """Whether there is no such file; one that cannot be looked at may well be there."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
