"""Atomic writes: files and directories appear under their final name only when they are complete."""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from deixis.errors import DeixisError
from deixis.storage.files import escape_formula

_MANY_FILES = 100
_NUMBER = re.compile(r"-?[0-9.]+")

MARK = ".made-by-deixis"
"""Empty marker file in every directory written by `new_directory`. Only such directories are ever replaced."""


@contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
    """Turn an `OSError` about `path` into a one-line `DeixisError`."""
    try:
        yield
    except OSError as error:
        reasons = {
            errno.ENOSPC: "the disk is full",
            errno.EDQUOT: "the disk quota is used up",
            errno.EACCES: "permission denied",
            errno.EPERM: "permission denied",
            errno.EROFS: "the file system is read-only",
        }
        reason = reasons.get(error.errno or 0, error.strerror or str(error))
        raise DeixisError(f"{error.filename or path}: {reason}") from error


@contextmanager
def make_parents(path: Path) -> Iterator[None]:
    """Create missing parent folders of `path`; remove them again if the block fails."""
    missing = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):  # another process may have put something there
                folder.rmdir()
        raise


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Lock `path` for this process. Raise `DeixisError` at once if another process holds the lock."""
    from filelock import FileLock, Timeout  # slow import, for writers only

    lock = FileLock(path.parent / f".{path.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise DeixisError(f"{path}: another process is writing it; wait until it is done") from None
    try:
        yield
    finally:
        with suppress(OSError):  # Windows cannot remove a file that is open
            Path(lock.lock_file).unlink()
        lock.release()


@contextmanager
def new_directory(
    path: str | os.PathLike[str],
    *,
    replace: bool | None = False,
    inputs: Iterable[Path | None] = (),
    private: bool = False,
) -> Iterator[Path]:
    """Yield an empty directory that becomes `path` if the block succeeds and is removed if it fails.

    With `replace`, a directory that this function wrote earlier is replaced once the new one is complete, unless it
    contains one of the `inputs` of the block. None: the command has no option to replace it. Only its owner may read a
    `private` directory.
    """
    # `absolute`, not `resolve`: a symbolic link is itself replaced, not its target.
    target = Path(path).absolute()
    if target.parent == target:
        raise DeixisError(f"{path}: cannot be written; choose a directory below it")
    if target.is_symlink() and not target.exists():
        raise DeixisError(f"{path}: broken symbolic link; remove it or choose another name")
    with explain_os_errors(target), make_parents(target), exclusive_lock(target):
        _recover(target)
        _check_replaceable(target, replace, inputs)
        partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.parent))
        try:
            yield partial
            (partial / MARK).touch()
            if private:
                make_private(partial)
            else:
                partial.chmod(0o777 & ~_umask())
            _sync_tree(partial)
            _move_into_place(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def new_file(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[Path]:
    """Yield a temporary path that becomes `path` if the block succeeds; only its owner may read a `private` file."""
    target = Path(path).absolute()
    _check_file_name(target, path)
    with explain_os_errors(target), _final_name_in_errors(target):
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}.partial-", suffix=target.suffix, dir=target.parent)
        os.close(handle)
        partial = Path(name)
        try:
            yield partial
            partial.chmod(0o600 if private else 0o666 & ~_umask())
            _sync(partial)
            partial.replace(target)
            _sync(target.parent)
        finally:
            partial.unlink(missing_ok=True)


def write_csv(path: str | os.PathLike[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a table as CSV. Spreadsheets take no text in it for a formula."""
    import csv

    def cell(value: object) -> object:
        if isinstance(value, str):
            return value if _NUMBER.fullmatch(value) else escape_formula(value)
        return str(value).lower() if isinstance(value, bool) else value

    with new_file(path) as partial, partial.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        csv.writer(file).writerows(map(cell, row) for row in rows)


def check_new_file(path: str | os.PathLike[str]) -> None:
    """Raise the error of `new_file` for a path where no file can be written, before the work for it begins."""
    target = Path(path).absolute()
    _check_file_name(target, path)
    with explain_os_errors(target), _final_name_in_errors(target):
        tempfile.TemporaryFile(prefix=".partial-", dir=target.parent).close()


def _check_file_name(target: Path, path: str | os.PathLike[str]) -> None:
    if not target.parent.is_dir():
        raise DeixisError(f"{path}: the folder {target.parent} does not exist")
    if target.is_dir():
        raise DeixisError(f"{path}: is a folder; choose another name")


def make_private(path: Path) -> None:
    """Let only the owner read a file, or a directory and all in it; what belongs to others stays as it is."""
    for each in [path, *(path.rglob("*") if path.is_dir() else [])]:
        with suppress(OSError):  # of another user, or on a file system without permissions
            if not each.is_symlink() and each.stat().st_mode & 0o077:
                each.chmod(0o700 if each.is_dir() else 0o600)


def remove_partial_files(*paths: Path) -> None:
    """Remove temporary files that a killed process left behind. Call this only while holding the lock."""
    for path in paths:
        for stale in path.parent.glob(f".{glob.escape(path.stem)}.partial-*"):
            if stale.is_file():
                with suppress(OSError):  # harmless if it stays
                    stale.unlink()


@contextmanager
def _final_name_in_errors(target: Path) -> Iterator[None]:
    """Let errors name the requested file, not its temporary name."""
    try:
        yield
    except OSError as error:
        if isinstance(error.filename, str) and ".partial-" in error.filename:
            error.filename = str(target)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _check_replaceable(target: Path, replace: bool | None, inputs: Iterable[Path | None]) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not replace:
        hint = "remove it" if replace is None else "use --force to replace it"
        raise DeixisError(f"{target}: exists already; choose another name, or {hint}")
    if not (target / MARK).is_file():
        raise DeixisError(f"{target}: not replaced, it was not made by deixis; remove it or choose another name")
    for source in inputs:
        if source is not None and source.resolve().is_relative_to(target.resolve()):
            raise DeixisError(f"{target}: not replaced, {source} is read from it; choose another name")


def _move_into_place(partial: Path, target: Path) -> None:
    old = target.with_name(f".{target.name}.old")
    if target.exists():
        target.rename(old)
    partial.rename(target)
    _sync(target.parent)
    _remove(old)


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def _recover(target: Path) -> None:
    """Clean up after a killed process: restore the old directory if it was moved away, remove temporary ones."""
    old = target.with_name(f".{target.name}.old")
    if os.path.lexists(old) and not os.path.lexists(target):
        old.rename(target)
    for stale in [old, *target.parent.glob(f".{glob.escape(target.name)}.partial-*")]:
        _remove(stale)


def _sync_tree(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    if len(files) > _MANY_FILES and hasattr(os, "sync"):
        os.sync()  # much faster than one fsync per file
        return
    for path in files:
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    """Flush a file or directory to disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a directory
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
