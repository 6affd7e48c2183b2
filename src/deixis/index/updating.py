"""Photos into an index: only what is new is seen, what is gone is forgotten, and what was told is on the disk."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from deixis.errors import DeixisError, PhotoError
from deixis.files.progress import OnProgress, silent
from deixis.index import records
from deixis.index.exif import Taken
from deixis.index.file_facts import ReadFacts, read_facts
from deixis.index.places import Place, is_address
from deixis.index.seeing import PhotoSeer, Seen, refusal
from deixis.index.walking import FoundFile, starting_points, walk
from deixis.index.writing import Writer, opened_to_write

BATCH = 64
BATCH_S = 2.0
"""What a kill costs at most: so many photos, or those of so many seconds, whichever is less."""

_ASK_AGAIN_S = 0.2
_PATIENCE_S = 60.0
"""How long nothing may happen while photos are left that other processes are looking at."""

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
    place: Place,
    places: Iterable[str | os.PathLike[str]],
    seer: PhotoSeer,
    *,
    rebuild: bool = False,
    retry: bool = False,
    read: ReadFacts = read_facts,
    on_done: OnDone | None = None,
    on_progress: OnProgress = silent,
) -> UpdateReport:
    """Bring an index up to date with the photos at some places; it is begun if it is not there.

    A file whose path, size and time are known is not opened. One of known content is not seen again, wherever it lies.
    Photos below the places that are no longer there are forgotten; those of other places stay.

    Parameters
    ----------
    place
        The directory of the index, or the address of a database. Several processes may fill a database at once: those
        that look through the same folders share the work.
    places
        Folders, which are searched to their depths, and files; addresses such as ``s3://…`` will do.
    seer
        Whoever makes the vectors. An index that another one has filled is refused.
    rebuild
        Forget everything first, damaged or not, whoever has filled it.
    retry
        Look again at files that could not be used, though they have not changed.
    read
        Whoever reads the files that may be new.
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
    if not is_address(place):
        _refuse_photos_inside(Path(place), points)
    with opened_to_write(place, seer, rebuild) as writer:
        return _Update(writer, seer, retry, read, on_done, on_progress).run(points)


def _refuse_photos_inside(index: Path, points: list[Path]) -> None:
    """An index lies beside photos or below them; photos in it would never be found."""
    inside = index.resolve()
    for point in points:
        if point.resolve().is_relative_to(inside):
            raise DeixisError(f"{point}: lies in the index {index}; give the index a folder of its own")


class _Update:
    """One run over the photos, as a chain of steps that hand files on; commits happen between them."""

    def __init__(
        self,
        writer: Writer,
        seer: PhotoSeer,
        retry: bool,
        read: ReadFacts,
        on_done: OnDone | None,
        on_progress: OnProgress,
    ) -> None:
        self.writer, self.connection, self.seer, self.retry = writer, writer.connection, seer, retry
        self.read, self.on_done, self.on_progress = read, on_done, on_progress
        self.report = UpdateReport()
        self._dimensions = seer.dimension, seer.region_dimension
        self._points: list[Path] = []
        self._folder_read: Path | None = None
        self._in_folder: dict[str, records.IndexedPhoto] = {}
        self._in_work: dict[Path, _Candidate] = {}
        self._contents_in_work: set[bytes] = set()
        self._copies: list[_Candidate] = []
        self._with_others: list[_Candidate] = []
        self._uncommitted: list[Path] = []
        self._last_commit = time.monotonic()

    def run(self, points: list[Path]) -> UpdateReport:
        self._points = points
        self.writer.begin()
        try:
            self._see(self._to_see(self._hashed(self._changed(points))))
            self._see_what_others_left()
            self._write_copies()
            self._forget_gone(points)
        except BaseException as error:
            if self.writer.can_keep(error):
                self._commit(begin=False)  # what was seen before a Ctrl-C is not seen again
            else:
                self.writer.rollback()
            raise
        self._commit(begin=False)
        self.report.photos = records.count(self.connection)
        self.writer.finish()
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
        """The same with hash and EXIF, read ahead while the model computes."""
        waiting: deque[_Candidate] = deque()

        def paths() -> Iterator[Path]:
            for candidate in candidates:
                waiting.append(candidate)
                yield candidate.file.path

        for _, facts in self.read(paths()):
            candidate = waiting.popleft()
            if isinstance(facts, PhotoError):  # not remembered: permissions change and leave size and time alone
                self.report.skipped.append(facts)
            else:
                yield replace(candidate, sha256=facts.sha256, taken=facts.taken)

    def _to_see(self, candidates: Iterable[_Candidate]) -> Iterator[Path]:
        """What is left when content is compared, and nobody else is looking at it: paths for the model."""
        for candidate in candidates:
            if self._known_by_content(candidate):
                continue
            if not self.writer.claim(candidate.sha256):
                self._with_others.append(candidate)
                continue
            if self.writer.is_shared:  # somebody may have been done with it just before
                candidate = replace(candidate, known=records.photo_at(self.connection, candidate.file.path))
                if self._known_by_content(candidate):
                    self.writer.settle(candidate.sha256)
                    continue
            self._in_work[candidate.file.path] = candidate
            self._contents_in_work.add(candidate.sha256)
            yield candidate.file.path

    def _see_what_others_left(self) -> None:
        """Most of what other processes were looking at is done by now; what a killed one held falls to us."""
        patient_until = time.monotonic() + _PATIENCE_S
        while self._with_others and time.monotonic() < patient_until:
            waiting, self._with_others = self._with_others, []
            self._commit()  # two that hold something never wait for each other
            self._see(self._to_see(waiting))
            if len(self._with_others) < len(waiting):
                patient_until = time.monotonic() + _PATIENCE_S
            else:
                time.sleep(_ASK_AGAIN_S)
        self.report.skipped += [
            PhotoError(candidate.file.path, "another process has been looking at it for long; run again")
            for candidate in self._with_others
        ]

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
        gone = [photo for photo in same if self._is_ours(photo.path) and _is_gone(photo.path)]
        if gone and candidate.known is None:
            records.move_photo(self.connection, gone[0], candidate.file)
            records.forget_skipped(self.connection, candidate.file.path)
            self.report.moved += 1
        else:
            self._add_copy(candidate, same[0])
        return True

    def _is_ours(self, path: Path) -> bool:
        """Whether a path means the same here: what another machine has indexed may lie on its own disk."""
        return not self.writer.is_shared or any(path.is_relative_to(point) for point in self._points)

    def _add_copy(self, candidate: _Candidate, of: records.IndexedPhoto) -> None:
        self._make_room(candidate)
        self._count(candidate, records.add_copy(self.connection, candidate.file, candidate.taken, of))

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
            self.writer.settle(candidate.sha256)
            reason = seen.reason if isinstance(seen, PhotoError) else refusal(seen, *self._dimensions)
            if not _is_as_it_was(candidate.file):
                self.report.skipped.append(PhotoError(path, "changed while it was read; run again"))
                continue
            if reason is None and isinstance(seen, Seen):
                self._make_room(candidate)
                file, sha256, taken = candidate.file, candidate.sha256, candidate.taken
                self._count(candidate, records.add_photo(self.connection, file, sha256, taken, seen))
            else:
                self._skip(candidate, reason or "the model saw nothing")
            self._done(path)
        self.report.skipped += [PhotoError(path, "the model gave no answer") for path in self._in_work]
        self._in_work.clear()

    def _write_copies(self) -> None:
        """Files of the same content as one of this run: seen as that one was, or as bad."""
        for candidate in self._copies:
            same = records.photos_of_content(self.connection, candidate.sha256)
            reason = records.reason_of_content(self.connection, candidate.sha256)
            if same:
                self._add_copy(candidate, same[0])
            elif reason is not None:
                self._skip(candidate, reason)
            else:
                self.report.skipped.append(PhotoError(candidate.file.path, "changed while it was read; run again"))
                continue
            self._done(candidate.file.path)

    def _make_room(self, candidate: _Candidate) -> None:
        """Forget what the path held before."""
        if candidate.known is not None:
            records.remove_photo(self.connection, candidate.known.id)

    def _count(self, candidate: _Candidate, number: int | None) -> None:
        if number is None:
            self.report.unchanged += 1  # another process has put it there
        elif candidate.known is None:
            self.report.added += 1
        else:
            self.report.updated += 1

    def _skip(self, candidate: _Candidate, reason: str) -> None:
        self._make_room(candidate)
        self.report.removed += candidate.known is not None
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
        self.writer.commit()
        told, self._uncommitted = self._uncommitted, []
        self._last_commit = time.monotonic()
        for path in told:
            if self.on_done is not None:
                self.on_done(path)
        self._tell()
        self.writer.grown(len(told))
        if begin:
            self.writer.begin()

    def _tell(self) -> None:
        report = self.report
        done = report.added + report.updated + report.moved + report.unchanged + len(report.skipped)
        self.on_progress("indexing photos", done, None)


def _is_as_it_was(file: FoundFile) -> bool:
    try:
        about = file.path.stat()
    except OSError:
        return False
    return (about.st_size, about.st_mtime_ns) == (file.size, file.mtime_ns)


def _is_gone(path: Path) -> bool:
    """Whether there is no such file; one that cannot be looked at may well be there."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
