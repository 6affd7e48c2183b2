"""Updating an index: encodes new photos, updates changed ones and removes those whose files are gone."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from deixis.data.images import photo_size
from deixis.errors import DeixisError, PhotoError
from deixis.search.albums import Albums
from deixis.search.index import records
from deixis.search.index.base import (
    EXCLUDE,
    ROOTS,
    IndexPath,
    IndexWriter,
    PhotoEncoder,
    PhotoVectors,
    read_entry,
    write_entry,
)
from deixis.search.index.photo_files import (
    ExifInfo,
    FileSelection,
    FileState,
    MetadataReader,
    absolute_path,
    find_photos,
    find_roots,
    read_metadata_ahead,
)
from deixis.search.index.photo_index import open_info, open_writer, read_about
from deixis.storage.files import size_and_time
from deixis.storage.progress import OnProgress, no_progress
from deixis.storage.remote import is_remote
from deixis.storage.sql import is_postgres

T = TypeVar("T")

BATCH = 64
BATCH_S = 1.0
"""A commit follows this many photos or seconds, whichever comes first: a killed process loses at most that."""

_PAUSE_S = 0.2
"""An encoder that asks for more photos may compute for long; what it has returned is committed after this time."""

_POLL_S = 0.2
_PATIENCE_S = 60.0
"""How long to wait, without progress, for photos that other processes are encoding."""

_CHANGED = "changed while it was read; run again"

OnCommitted = Callable[[Path], None]
"""Called with the path of each file once its record is on disk."""


@dataclass
class IndexReport:
    """The result of `update_index`.

    Attributes
    ----------
    added, updated, removed
        Number of photos that are new, have new content, or are gone.
    moved, unchanged
        Number of photos found under another name, which keep their vectors, and of unchanged ones.
    skipped
        Files that could not be used and folders that could not be read, each with its reason.
    ignored
        Number of files and folders that were not looked at, by kind, such as ``hidden``; what is in an ignored folder
        is not counted.
    photos
        Number of photos in the index now.
    """

    added: int = 0
    updated: int = 0
    removed: int = 0
    moved: int = 0
    unchanged: int = 0
    skipped: list[PhotoError] = field(default_factory=list)
    ignored: dict[str, int] = field(default_factory=dict)
    photos: int = 0

    @property
    def files(self) -> int:
        """Number of files that were found."""
        return self.added + self.updated + self.moved + self.unchanged + len(self.skipped)


@dataclass(frozen=True)
class _Candidate:
    """A file that is new or has changed, with the photo that was at its path."""

    file: FileState
    known: records.IndexedPhoto | None
    sha256: bytes = b""
    exif: ExifInfo = field(default_factory=ExifInfo)


def update_index(
    path: IndexPath,
    photos: Iterable[str | os.PathLike[str]],
    encoder: PhotoEncoder,
    *,
    rebuild: bool = False,
    retry: bool = False,
    exclude: Sequence[str] | None = None,
    read_metadata: MetadataReader = read_metadata_ahead,
    on_committed: OnCommitted | None = None,
    on_progress: OnProgress = no_progress,
) -> IndexReport:
    """Update an index from photo files, creating it if there is none.

    A file with known path, size and time is not opened. A file with known content is not encoded again. Photos below
    `photos` whose files are gone are removed; all others stay. Several processes may fill a database at once; those
    that index the same folders share the work. After an error, completed work stays in the index.

    An index that is damaged or of another model is an error; `rebuild` empties it first. `retry` tries files again that
    could not be used. `exclude` has patterns of files and folders to leave out (`FileSelection`), which the index
    remembers for later runs; photos that they match are removed. `on_committed` is called with the path of each file
    that was added, updated, moved or skipped, once that is on disk.
    """
    roots = find_roots(photos)
    _check_any_photo(roots)
    if not is_postgres(path):
        folder = Path(path).resolve()
        for root in roots:
            if root.resolve().is_relative_to(folder):
                raise DeixisError(f"{root}: is inside the index {path}; give the index a folder of its own")
    with open_writer(path, encoder, rebuild) as writer:
        selection = FileSelection(_remember_exclude(writer, exclude))
        update = _Update(writer, encoder, roots, selection, retry, read_metadata, on_committed, on_progress)
        report = update.run()
    Albums(path).move(update.moved)
    return report


def remove_photos(path: IndexPath, photos: Sequence[str | os.PathLike[str]]) -> int:
    """Remove photos, and those in folders, from an index; return their number. The files stay as they are."""
    removed, roots = 0, [absolute_path(photo) for photo in photos]
    with open_writer(path, open_info(path)) as writer:
        writer.begin()
        for root in roots:
            for photo in records.photos_below(writer.connection, root):
                records.remove_photo(writer.connection, photo.id)
                removed += 1
            for skipped in records.skipped_below(writer.connection, root):
                records.forget_skipped(writer.connection, skipped)
        known = json.loads(read_entry(writer.connection, ROOTS) or "{}")
        kept = {root: real for root, real in known.items() if not any(map(Path(root).is_relative_to, roots))}
        if kept != known:
            write_entry(writer.connection, ROOTS, json.dumps(kept))
        writer.commit()
        writer.finish()
    return removed


def remembered_roots(path: IndexPath) -> list[Path]:
    """Return the folders and photos that an index was filled with; none if there is no index yet."""
    if not is_postgres(path) and not Path(path).exists():
        return []
    return [Path(root) for root in json.loads(read_about(path).get(ROOTS, "{}"))]


def remembered_exclude(path: IndexPath) -> tuple[str, ...]:
    """Return the patterns that an index remembers."""
    return tuple(json.loads(read_about(path).get(EXCLUDE, "[]")))


def _remember_exclude(writer: IndexWriter[Any], exclude: Sequence[str] | None) -> list[str]:
    """Return the patterns of an index, after replacing them by new ones, if any are given."""
    if exclude is None:
        return list(json.loads(read_entry(writer.connection, EXCLUDE) or "[]"))
    writer.begin()
    write_entry(writer.connection, EXCLUDE, json.dumps(list(exclude)))
    writer.commit()
    return list(exclude)


def _check_any_photo(roots: Sequence[Path]) -> None:
    """Refuse files of which none is a photo, before an index is created for them."""
    problem = None
    for root in roots:
        try:
            if is_remote(root) or root.is_dir() or photo_size(root):
                return
        except PhotoError as error:
            problem = problem or error
    if problem:
        raise problem


class _Update:
    """One run over the files: a chain of generators, with commits in between."""

    def __init__(
        self,
        writer: IndexWriter[Any],
        encoder: PhotoEncoder,
        roots: Sequence[Path],
        selection: FileSelection,
        retry: bool,
        read_metadata: MetadataReader,
        on_committed: OnCommitted | None,
        on_progress: OnProgress,
    ) -> None:
        self.writer, self.connection, self.encoder, self.retry = writer, writer.connection, encoder, retry
        self.read_metadata, self.on_committed, self.on_progress = read_metadata, on_committed, on_progress
        self.roots, self.selection, self.report = roots, selection, IndexReport()
        self._total: int | None = None
        self._current_folder: Path | None = None
        self._photos_in_folder: dict[str, records.IndexedPhoto] = {}
        self._pending: dict[Path, _Candidate] = {}
        self._pending_contents: set[bytes] = set()
        self._copies: list[_Candidate] = []
        self._not_read: dict[bytes, str] = {}  # reasons of content that the next run tries again
        self._claimed_by_others: list[_Candidate] = []
        self._uncommitted: list[Path] = []
        self._last_commit = time.monotonic()
        self._is_waiting_for_last = False
        self.moved: dict[Path, Path] = {}

    def run(self) -> IndexReport:
        self.writer.begin()
        self._record_roots()
        try:
            with _closed(self._with_metadata(self._find_changed())) as candidates:
                self._encode(self._select(candidates))
            self._encode_unfinished_by_others()
            self._write_copies()
            self._remove_missing()
            self._record_roots()
        except BaseException as error:
            if self.writer.can_commit(error):
                self._commit(begin=False)  # after Ctrl-C, completed work is kept
            else:
                self.writer.rollback()
            raise
        self._commit(begin=False)
        self.report.ignored = dict(self.selection.ignored)
        self.report.photos = records.count(self.connection)
        self.writer.finish()
        return self.report

    def _record_roots(self) -> None:
        """Record where the folders and indexed files are, so that a link put in their place later is noticed."""
        known = json.loads(read_entry(self.connection, ROOTS) or "{}")
        self._current_folder = None  # photos may have been added to it
        local = [root for root in self.roots if not is_remote(root)]
        roots = known | {str(root): str(root.resolve()) for root in local if root.is_dir() or self._photo_at(root)}
        if roots != known:
            write_entry(self.connection, ROOTS, json.dumps(roots))

    def _find_changed(self) -> Iterator[_Candidate]:
        """Yield the files whose size or time differs from the index."""
        for found in self._find_all():
            if isinstance(found, PhotoError):
                self.report.skipped.append(found)
                continue
            known = self._photo_at(found.path)
            if known is not None and (known.size, known.mtime_ns) == (found.size, found.mtime_ns):
                self.report.unchanged += 1
                self._report_progress()
                continue
            bad = self._known_problem(found)
            if bad and bad.file == found:
                self.report.skipped.append(PhotoError(found.path, bad.reason))
                continue
            yield _Candidate(found, known)

    def _find_all(self) -> list[FileState | PhotoError]:
        """Find all files before the first is read, so that their number is known."""
        files = []
        for found in find_photos(self.roots, self.selection):
            files.append(found)
            self.on_progress("finding photos", len(files), None)
        self._total = len(files)
        return files

    def _photo_at(self, path: Path) -> records.IndexedPhoto | None:
        """Return the photo at a path, reading those of a folder together, because files come folder by folder."""
        if self._current_folder != path.parent:
            self._current_folder = path.parent
            self._photos_in_folder = records.photos_in(self.connection, path.parent)
        return self._photos_in_folder.get(path.name)

    def _with_metadata(self, candidates: Iterator[_Candidate]) -> Iterator[_Candidate]:
        """Add hashes and EXIF data, read ahead while the model computes."""
        waiting: deque[_Candidate] = deque()

        def paths() -> Iterator[Path]:
            for candidate in candidates:
                waiting.append(candidate)
                yield candidate.file.path

        with _closed(self.read_metadata(paths())) as results:
            for _, metadata in results:
                candidate = waiting.popleft()
                if isinstance(metadata, PhotoError):  # not recorded: permissions can change without size and time
                    self.report.skipped.append(metadata)
                else:
                    yield replace(candidate, sha256=metadata.sha256, exif=metadata.exif)

    def _select(self, candidates: Iterable[_Candidate]) -> Iterator[Path]:
        """Yield the paths whose content is new and not claimed by another process."""
        self._is_waiting_for_last = False
        for candidate in candidates:
            if self._uncommitted and time.monotonic() - self._last_commit > _PAUSE_S:
                self._commit()
            if self._record_known_content(candidate):
                continue
            if not self.writer.claim(candidate.sha256):
                self._claimed_by_others.append(candidate)
                continue
            if self.writer.is_shared:  # another process may have just finished it
                candidate = replace(candidate, known=records.photo_at(self.connection, candidate.file.path))
                if self._record_known_content(candidate):
                    self.writer.settle(candidate.sha256)
                    continue
            self._pending[candidate.file.path] = candidate
            self._pending_contents.add(candidate.sha256)
            yield candidate.file.path
        self._is_waiting_for_last = True  # encoders read ahead; they will not ask for photos again

    def _encode_unfinished_by_others(self) -> None:
        """Wait for photos that other processes are encoding, and encode those that a killed process had claimed."""
        deadline = time.monotonic() + _PATIENCE_S
        while self._claimed_by_others and time.monotonic() < deadline:
            waiting, self._claimed_by_others = self._claimed_by_others, []
            self._commit()  # releases our claims, so that two processes never wait for each other
            self._encode(self._select(waiting))
            if len(self._claimed_by_others) < len(waiting):
                deadline = time.monotonic() + _PATIENCE_S
            else:
                time.sleep(_POLL_S)
        self.report.skipped += [
            PhotoError(candidate.file.path, "another process is still encoding it; run again")
            for candidate in self._claimed_by_others
        ]

    def _record_known_content(self, candidate: _Candidate) -> bool:
        """Record a file whose content is known: touched, moved, copied, or skipped before. Return whether it was."""
        file, known = candidate.file, candidate.known
        if known is not None and known.sha256 == candidate.sha256:
            records.move_photo(self.connection, known, file)
            self.report.unchanged += 1
        elif candidate.sha256 in self._pending_contents:
            self._copies.append(candidate)  # whether it can be read is not known yet
            return True
        elif same := records.photos_with_content(self.connection, candidate.sha256):
            self._move_or_copy(candidate, same)
        elif (bad := self._known_problem(file)) is not None and bad.sha256 == candidate.sha256:
            self._skip(candidate, bad.reason)
        else:
            return False
        self._done(file.path)
        return True

    def _move_or_copy(self, candidate: _Candidate, same: Sequence[records.IndexedPhoto]) -> None:
        missing = [photo for photo in same if self._is_local(photo.path) and _is_missing(photo.path)]
        if missing and candidate.known is None:
            records.move_photo(self.connection, missing[0], candidate.file)
            self.moved[missing[0].path] = candidate.file.path
            records.forget_skipped(self.connection, candidate.file.path)
            self.report.moved += 1
        else:
            self._add_copy(candidate, same[0])

    def _is_local(self, path: Path) -> bool:
        """Return whether a path can be checked here: another machine may have indexed its own disk."""
        return not self.writer.is_shared or any(path.is_relative_to(root) for root in self.roots)

    def _add_copy(self, candidate: _Candidate, original: records.IndexedPhoto) -> None:
        encoded = records.read_encoded(self.connection, [original], self.encoder.region_dimension)
        self._add(candidate, encoded[original.id])

    def _known_problem(self, file: FileState) -> records.SkippedFile | None:
        """Return why the file at a path could not be used before; None if it is to be tried again."""
        return None if self.retry else records.skipped_at(self.connection, file.path)

    def _encode(self, paths: Iterator[Path]) -> None:
        dimension, region_dimension = self.encoder.dimension, self.encoder.region_dimension
        with _closed(self.encoder.encode_photos(paths)) as results:
            for path, encoded in results:
                candidate = self._pending.pop(path)
                self.writer.settle(candidate.sha256)
                if not _is_unchanged(candidate.file):
                    self.report.skipped.append(PhotoError(path, _CHANGED))
                    continue
                if isinstance(encoded, PhotoError) and encoded.is_temporary:  # not recorded: the next run tries again
                    self.report.skipped.append(encoded)
                    self._not_read[candidate.sha256] = encoded.reason
                    continue
                if isinstance(encoded, PhotoError):
                    self._skip(candidate, encoded.reason)
                elif problem := encoded.problem(dimension, region_dimension):
                    self._skip(candidate, problem)
                else:
                    self._add(candidate, encoded)
                self._done(path)
        self.report.skipped += [PhotoError(path, "the model returned no result") for path in self._pending]
        self._pending.clear()

    def _add(self, candidate: _Candidate, encoded: PhotoVectors) -> None:
        self._remove_previous(candidate)
        number = records.add_photo(self.connection, candidate.file, candidate.sha256, candidate.exif, encoded)
        if number is None:
            self.report.unchanged += 1  # another process has inserted it
        elif candidate.known is None:
            self.report.added += 1
        else:
            self.report.updated += 1

    def _write_copies(self) -> None:
        """Record files with the same content as a file encoded in this run."""
        for candidate in self._copies:
            same = records.photos_with_content(self.connection, candidate.sha256)
            reason = records.skip_reason(self.connection, candidate.sha256)
            if same:
                self._add_copy(candidate, same[0])
            elif reason is not None:
                self._skip(candidate, reason)
            else:
                reason = self._not_read.get(candidate.sha256, _CHANGED)
                self.report.skipped.append(PhotoError(candidate.file.path, reason))
                continue
            self._done(candidate.file.path)

    def _remove_previous(self, candidate: _Candidate) -> None:
        if candidate.known is not None:
            records.remove_photo(self.connection, candidate.known.id)

    def _skip(self, candidate: _Candidate, reason: str) -> None:
        self._remove_previous(candidate)
        self.report.removed += candidate.known is not None
        records.skip_file(self.connection, candidate.file, candidate.sha256, reason)
        self.report.skipped.append(PhotoError(candidate.file.path, reason))

    def _remove_missing(self) -> None:
        for root in self.roots:
            for photo in records.photos_below(self.connection, root):
                if _is_missing(photo.path) or self.selection.is_left_out(photo.path, root):
                    records.remove_photo(self.connection, photo.id)
                    self.report.removed += 1
            for path in records.skipped_below(self.connection, root):
                if _is_missing(path):
                    records.forget_skipped(self.connection, path)

    def _done(self, path: Path) -> None:
        self._uncommitted.append(path)
        wait_s = 0.0 if self._is_waiting_for_last else BATCH_S
        if len(self._uncommitted) >= BATCH or time.monotonic() - self._last_commit > wait_s:
            self._commit()

    def _commit(self, begin: bool = True) -> None:
        self.writer.commit()
        committed, self._uncommitted = self._uncommitted, []
        self._last_commit = time.monotonic()
        for path in committed:
            if self.on_committed is not None:
                self.on_committed(path)
        self._report_progress()
        self.writer.photos_committed(len(committed))
        if begin:
            self.writer.begin()

    def _report_progress(self) -> None:
        self.on_progress("indexing photos", self.report.files, self._total)


@contextmanager
def _closed(items: Iterator[T]) -> Iterator[Iterator[T]]:
    """Close a generator when the block ends.

    Generators own threads here. After an error, the garbage collector might close them in any thread, even in one that
    is just starting, where waiting for another thread never ends.
    """
    try:
        yield items
    finally:
        if isinstance(items, Generator):
            items.close()


def _is_unchanged(file: FileState) -> bool:
    try:
        status = file.path.stat()
    except OSError:
        return False
    return size_and_time(status) == (file.size, file.mtime_ns)


def _is_missing(path: Path) -> bool:
    """Return whether a file is gone; one that cannot be accessed may exist."""
    try:
        path.lstat()
    except OSError as error:
        return isinstance(error, FileNotFoundError | NotADirectoryError)
    return False


MIN_PAUSE_S = 5.0
_PAUSE_PER_LOOK = 20.0
"""The pause is this many times as long as a look, so that looking takes a twentieth of one core at most."""


def wait_for_changes(
    roots: Sequence[Path], exclude: Sequence[str] = (), *, sleep: Callable[[float], None] = time.sleep
) -> Iterator[None]:
    """Yield whenever the photo files below folders have changed, once they have stopped changing."""
    known = _look(roots, exclude)
    while True:
        began = time.monotonic()
        seen = _look(roots, exclude)
        pause = max(MIN_PAUSE_S, _PAUSE_PER_LOOK * (time.monotonic() - began))
        if seen != known:
            sleep(pause)
            while (later := _look(roots, exclude)) != seen:  # a copy or a download is still going on
                seen = later
                sleep(pause)
            known = seen
            yield
        sleep(pause)


def _look(roots: Sequence[Path], exclude: Sequence[str]) -> set[tuple[Path, int, int]]:
    files = find_photos(roots, FileSelection(exclude))
    return {(file.path, file.size, file.mtime_ns) for file in files if not isinstance(file, PhotoError)}
