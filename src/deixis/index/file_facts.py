"""What a file says before anybody looks at the picture: which bytes it holds, and when and with what it was taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from deixis.errors import PhotoError
from deixis.files.hashes import hash_of_file
from deixis.index.exif import Taken, taken_of

_AHEAD = 32


@dataclass(frozen=True)
class FileFacts:
    """The SHA-256 of a file's bytes, and what EXIF says."""

    sha256: bytes
    taken: Taken


Read = tuple[Path, FileFacts | PhotoError]
ReadFacts = Callable[[Iterable[Path]], Iterator[Read]]
"""One answer for each path, in their order."""


def facts_of(path: Path) -> Read:
    """Read a file.

    Examples
    --------
    >>> facts_of(Path("nothing.jpg"))[1].reason
    'cannot be read (No such file or directory)'
    """
    try:
        return path, FileFacts(bytes.fromhex(hash_of_file(path)), taken_of(path))
    except OSError as error:
        return path, PhotoError(path, f"cannot be read ({error.strerror or error})")


def read_facts(paths: Iterable[Path]) -> Iterator[Read]:
    """Read files ahead by a thread, while whoever asks does something else."""
    waiting: deque[Future[Read]] = deque()
    pool = ThreadPoolExecutor(1, thread_name_prefix="hashes")
    try:
        for path in paths:
            waiting.append(pool.submit(facts_of, path))
            if len(waiting) == _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
