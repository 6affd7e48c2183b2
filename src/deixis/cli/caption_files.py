"""Files of ``deixis caption``: XMP sidecars, and the journal of an interrupted run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from xml.sax.saxutils import escape

from deixis import __version__
from deixis.errors import DeixisError, PhotoError
from deixis.models.m_rnn.captioning import CaptionResult
from deixis.models.m_rnn.decoding import GeneratedSentence
from deixis.storage.atomic import exclusive_lock, explain_os_errors, new_file
from deixis.storage.progress import OnProgress, no_progress

_TOOLKIT = 'x:xmptk="deixis '
"""Marks a sidecar as ours: a program that changes an XMP file writes its own name here."""

_HEADER_BYTES = 4096

_PACKET = """<x:xmpmeta xmlns:x="adobe:ns:meta/" {toolkit}{version}">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/">
   <dc:description>
    <rdf:Alt>
     <rdf:li xml:lang="x-default">{caption}</rdf:li>
    </rdf:Alt>
   </dc:description>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
"""

CaptionAll = Callable[..., Iterator[tuple[Path, CaptionResult | PhotoError]]]
"""Takes photos and `on_progress`; yields the captions of each photo, in order."""


def write_sidecar(photo: Path, caption: str) -> Path:
    """Write a caption into a photo's XMP sidecar, dog.jpg.xmp, as its description (dc:description).

    A sidecar that deixis wrote is replaced. One that another program wrote or changed, as dog.jpg.xmp or dog.xmp, is an
    error and stays as it is.
    """
    sidecar = photo.with_name(photo.name + ".xmp")
    for path in (sidecar, photo.with_suffix(".xmp")):
        if path.exists() and not _is_ours(path):
            raise DeixisError(f"{path}: not replaced, because another program wrote it")
    with new_file(sidecar) as unfinished:
        packet = _PACKET.format(toolkit=_TOOLKIT, version=__version__, caption=escape(caption))
        unfinished.write_text(packet, encoding="utf-8")
    return sidecar


def _is_ours(path: Path) -> bool:
    with explain_os_errors(path), path.open("rb") as file:
        return _TOOLKIT.encode() in file.read(_HEADER_BYTES)


class CaptionJournal:
    """Captions that a run has generated so far; opened by `caption_journal`."""

    def __init__(self, path: Path, file: BinaryIO, lines: dict[str, dict[str, Any]]) -> None:
        self._path, self._file, self._lines = path, file, lines

    def known(self, paths: Sequence[Path]) -> dict[Path, CaptionResult]:
        """Return the stored captions of photos that have not changed since."""
        lines = {path: self._lines.get(_name(path)) for path in paths}
        return {path: _result(line) for path, line in lines.items() if line and line["file"] == _file_stamp(path)}

    def resume(
        self, caption_all: CaptionAll, paths: Sequence[Path], on_progress: OnProgress = no_progress
    ) -> Iterator[tuple[Path, CaptionResult | PhotoError]]:
        """Yield captions of all photos; `caption_all` computes those that are not stored yet."""
        known = self.known(paths)
        new = caption_all([path for path in paths if path not in known], on_progress=on_progress)
        for path in paths:
            if path in known:
                yield path, known[path]
                continue
            _, result = next(new)
            if isinstance(result, CaptionResult):
                self._append(path, result)
            yield path, result

    def _append(self, path: Path, result: CaptionResult) -> None:
        captions = [(each.words, each.log_probability, each.finished) for each in result.captions]
        line = {"photo": _name(path), "file": _file_stamp(path), "captions": captions, "consensus": result.consensus}
        self._lines[_name(path)] = line
        with explain_os_errors(self._path):
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()


@contextmanager
def caption_journal(table: Path, plan: str) -> Iterator[CaptionJournal]:
    """Store captions in a hidden file beside a table until the table is written.

    A file of another `plan` (how captions are generated) or another version of deixis is ignored.
    """
    path = table.absolute().with_name(f".{table.name}.unfinished")
    with exclusive_lock(table):
        with explain_os_errors(path):
            header = {"plan": plan, "version": __version__}
            lines, end = _read(path, header)
            file = path.open("ab")
        try:
            with explain_os_errors(path):
                file.truncate(end)
                if not end:
                    file.write(json.dumps(header).encode() + b"\n")
            yield CaptionJournal(path, file, lines)
            lines.clear()
        finally:
            file.close()
            if not lines:
                path.unlink(missing_ok=True)


def _read(path: Path, header: dict[str, str]) -> tuple[dict[str, dict[str, Any]], int]:
    """Return the lines of an interrupted run with this header, and the end of its last complete line."""
    data = path.read_bytes() if path.exists() else b""
    end = data.rfind(b"\n") + 1
    with suppress(ValueError, TypeError, KeyError):  # not our file
        first, *lines = [json.loads(line) for line in data[:end].splitlines()]
        if first == header:
            return {line["photo"]: line for line in lines}, end
    return {}, 0


def _name(path: Path) -> str:
    return str(path.absolute())


def _file_stamp(path: Path) -> list[int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return [stat.st_size, stat.st_mtime_ns]


def _result(line: dict[str, Any]) -> CaptionResult:
    captions = (GeneratedSentence(tuple(words), score, finished) for words, score, finished in line["captions"])
    return CaptionResult(tuple(captions), tuple(line["consensus"]))
