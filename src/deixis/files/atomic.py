"""Whole or not at all: files and directories that appear only when they are finished."""

from __future__ import annotations

import errno
import glob
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from deixis.errors import DeixisError

_MANY_FILES = 100

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
def parents_of(path: Path) -> Iterator[None]:
    """Make the folders that `path` lies in, if they are missing; take them away again when the block fails."""
    missing = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):  # somebody else has put something there
                folder.rmdir()
        raise


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold `path` for this process; another one that asks meanwhile is refused at once."""
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
    path: str | os.PathLike[str], *, replace: bool = False, inputs: Iterable[Path | None] = ()
) -> Iterator[Path]:
    """Give an empty directory to fill; it becomes `path` when the block ends well, else it vanishes.

    Parameters
    ----------
    path
        Must not exist, or be an empty directory, unless `replace` is given.
    replace
        Put the new directory in the place of an old one, which stays until the new one is whole. Only a directory
        that was made here is ever replaced.
    inputs
        What the new directory is made from: an old one that is, or holds, one of them is not replaced.

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
    if target.parent == target:
        raise DeixisError(f"{path}: choose a directory below it")
    if target.is_symlink() and not target.exists():
        raise DeixisError(f"{path}: a link that leads nowhere; remove it or give another name")
    with explained(target), parents_of(target), only_one(target):
        _clear_up_after_a_kill(target)
        _refuse_to_lose(target, replace, inputs)
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
    if not target.parent.is_dir():
        raise DeixisError(f"{path}: there is no folder {target.parent}")
    if target.is_dir():
        raise DeixisError(f"{path}: a folder has this name; give another name")
    with explained(target), _named(target):
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


def clear_unfinished(*paths: Path) -> None:
    """Remove what a killed process left of `new_file` for these paths; only for whoever alone may write them.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     _ = (Path(parent) / ".a.partial-x7.txt").write_text("ha")
    ...     clear_unfinished(Path(parent) / "a.txt")
    ...     list(Path(parent).iterdir())
    []
    """
    for path in paths:
        for stale in path.parent.glob(f".{glob.escape(path.stem)}.partial-*"):
            if stale.is_file():
                with suppress(OSError):  # it is in nobody's way
                    stale.unlink()


@contextmanager
def _named(target: Path) -> Iterator[None]:
    """Errors name the file that somebody asked for, not the one that stands for it until it is whole."""
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


def _refuse_to_lose(target: Path, replace: bool, inputs: Iterable[Path | None]) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not replace:
        raise DeixisError(f"{target}: exists already; give another name, or --force to replace it")
    if not (target / MARK).is_file():
        raise DeixisError(f"{target}: not replaced, it was not made by deixis; remove it yourself or give another name")
    for source in inputs:
        if source is not None and source.resolve().is_relative_to(target.resolve()):
            raise DeixisError(f"{target}: not replaced, {source} is being read from it; give another name")


def _put_in_place(partial: Path, target: Path) -> None:
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


def _clear_up_after_a_kill(target: Path) -> None:
    """Remove what an unfinished process left; bring back the old directory if it was already set aside."""
    old = target.with_name(f".{target.name}.old")
    if os.path.lexists(old) and not os.path.lexists(target):
        old.rename(target)
    for stale in [old, *target.parent.glob(f".{glob.escape(target.name)}.partial-*")]:
        _remove(stale)


def _sync_tree(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    if len(files) > _MANY_FILES and hasattr(os, "sync"):
        os.sync()  # one call for everything beats tens of thousands
        return
    for path in files:
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
