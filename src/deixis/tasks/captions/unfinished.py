"""Captions of a run that may be stopped: they lie beside the table that is to be made of them, until it is there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from deixis import __version__
from deixis.errors import PhotoError
from deixis.files.atomic import explained, only_one
from deixis.files.progress import OnProgress, silent
from deixis.models.decoding import Generated
from deixis.tasks.captions.captioning import CaptionResult

CaptionAll = Callable[..., Iterator[tuple[Path, CaptionResult | PhotoError]]]
"""Takes photos and `on_progress`; gives what is written about each, in their order."""


class Unfinished:
    """What was written so far, and where more is kept; `unfinished` gives one."""

    def __init__(self, path: Path, file: BinaryIO, kept: dict[str, dict[str, Any]]) -> None:
        self._path, self._file, self._kept = path, file, kept

    def known(self, paths: Sequence[Path]) -> dict[Path, CaptionResult]:
        """What is kept of these photos, but for those that have changed since."""
        found = {path: self._kept.get(_name(path)) for path in paths}
        return {path: _result(line) for path, line in found.items() if line and line["file"] == _facts(path)}

    def going_on(
        self, caption_all: CaptionAll, paths: Sequence[Path], on_progress: OnProgress = silent
    ) -> Iterator[tuple[Path, CaptionResult | PhotoError]]:
        """What `caption_all` gives for these photos; only those that are not known are looked at."""
        known = self.known(paths)
        written = caption_all([path for path in paths if path not in known], on_progress=on_progress)
        for path in paths:
            if path in known:
                yield path, known[path]
                continue
            _, result = next(written)
            if isinstance(result, CaptionResult):
                self._keep(path, result)
            yield path, result

    def _keep(self, path: Path, result: CaptionResult) -> None:
        captions = [(made.words, made.log_probability, made.finished) for made in result.captions]
        line = {"photo": _name(path), "file": _facts(path), "captions": captions, "consensus": result.consensus}
        self._kept[_name(path)] = line
        with explained(self._path):
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()


@contextmanager
def unfinished(table: Path, plan: str) -> Iterator[Unfinished]:
    """Keep captions beside a table until it is made: until the block ends well.

    Parameters
    ----------
    table
        What is to be made.
    plan
        How sentences are written; what another plan or another version of deixis has left is not taken.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with unfinished(Path(folder) / "captions.csv", "a beam of 5") as before:
    ...         before.known([Path("dog.jpg")])
    {}
    """
    path = table.absolute().with_name(f".{table.name}.unfinished")
    with only_one(table):
        with explained(path):
            begin = {"plan": plan, "version": __version__}
            kept, end = _read(path, begin)
            file = path.open("ab")
        try:
            with explained(path):
                file.truncate(end)
                if not end:
                    file.write(json.dumps(begin).encode() + b"\n")
            yield Unfinished(path, file, kept)
            kept.clear()
        finally:
            file.close()
            if not kept:
                path.unlink(missing_ok=True)


def _read(path: Path, begin: dict[str, str]) -> tuple[dict[str, dict[str, Any]], int]:
    """What a stopped run that began so has kept, and where its last whole line ends; nothing of any other."""
    data = path.read_bytes() if path.exists() else b""
    end = data.rfind(b"\n") + 1
    with suppress(ValueError, TypeError, KeyError):  # nothing that we have written
        first, *lines = [json.loads(line) for line in data[:end].splitlines()]
        if first == begin:
            return {line["photo"]: line for line in lines}, end
    return {}, 0


def _name(path: Path) -> str:
    return str(path.absolute())


def _facts(path: Path) -> list[int] | None:
    """By which a photo is known to be the same."""
    try:
        about = path.stat()
    except OSError:
        return None
    return [about.st_size, about.st_mtime_ns]


def _result(line: dict[str, Any]) -> CaptionResult:
    captions = (Generated(tuple(words), score, finished) for words, score, finished in line["captions"])
    return CaptionResult(tuple(captions), tuple(line["consensus"]))
