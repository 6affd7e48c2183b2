"""Whole or not at all: files and directories that appear only when they are finished."""

from __future__ import annotations

import errno
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from deixis.errors import DeixisError

MARK = ".made-by-deixis"
"""An empty file in every directory made here: the only kind that is ever replaced."""


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the operating system says about `path` into one line for people."""
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
def only_one(path: Path) -> Iterator[None]:
    """Hold `path` for this process; another one that asks meanwhile is refused at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
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
def new_directory(path: str | os.PathLike[str], *, replace: bool = False) -> Iterator[Path]:
    """Give an empty directory to fill; it becomes `path` when the block ends well, else it vanishes.

    Parameters
    ----------
    path
        Must not exist, or be an empty directory, unless `replace` is given.
    replace
        Put the new directory in the place of an old one, which stays until the new one is whole. Only a directory
        that was made here is ever replaced.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     with new_directory(Path(parent) / "made") as folder:
    ...         _ = (folder / "a.txt").write_text("a")
    ...     sorted(p.name for p in Path(parent).iterdir())
    ['made']
    """
    # `absolute`, not `resolve`: a symbolic link to a directory is itself what gets replaced.
    target = Path(path).absolute()
    with explained(target), only_one(target):
        _clear_up_after_a_kill(target)
        _refuse_to_lose(target, replace)
        partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.parent))
        try:
            yield partial
            (partial / MARK).touch()
            partial.chmod(0o777 & ~_umask())
            _sync_tree(partial)
            _put_in_place(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path to write; it becomes `path` when the block ends well, else it vanishes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     with new_file(Path(parent) / "a.txt") as unfinished:
    ...         _ = unfinished.write_text("whole")
    ...     (Path(parent) / "a.txt").read_text()
    'whole'
    """
    target = Path(path).absolute()
    with explained(target):
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}.partial-", suffix=target.suffix, dir=target.parent)
        os.close(handle)
        partial = Path(name)
        try:
            yield partial
            partial.chmod(0o666 & ~_umask())
            _sync(partial)
            partial.replace(target)
            _sync(target.parent)
        finally:
            partial.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _refuse_to_lose(target: Path, replace: bool) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not replace:
        raise DeixisError(f"{target}: exists already; give another name, or --force to replace it")
    if not (target / MARK).is_file():
        raise DeixisError(f"{target}: not replaced, it was not made by deixis; remove it yourself or give another name")


def _put_in_place(partial: Path, target: Path) -> None:
    old = target.with_name(f".{target.name}.old")
    if target.exists():
        target.rename(old)
    partial.rename(target)
    _sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def _clear_up_after_a_kill(target: Path) -> None:
    """Remove what an unfinished process left; bring back the old directory if it was already set aside."""
    old = target.with_name(f".{target.name}.old")
    if old.exists() and not target.exists():
        old.rename(target)
    for stale in [old, *target.parent.glob(f".{glob.escape(target.name)}.partial-*")]:
        shutil.rmtree(stale, ignore_errors=True)


def _sync_tree(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    """Ask the disk to keep what was written; a power cut later loses nothing."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a directory
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
