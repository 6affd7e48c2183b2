"""Waiting for changes below folders, by looking again: it works on every system and on network drives."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from deixis.errors import PhotoError
from deixis.search.index.photo_files import FileSelection, find_photos

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
