"""The log of a run: JSON Lines, one object a line, cut back to its checkpoint when a killed run goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deixis.errors import DeixisError
from deixis.files.atomic import explained


class Log:
    """Appends to a log.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Log(Path(folder) / "log.jsonl")
    ...     log.append({"step": 1, "loss": 0.5})
    ...     read_log(log.path)
    [{'step': 1, 'loss': 0.5}]
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a line, and wait until the disk has it: a checkpoint must never be ahead of the log."""
        line = json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
        with explained(self.path), self.path.open("ab", buffering=0) as file:
            file.write(line.encode())
            os.fsync(file.fileno())

    def cut(self, size: int) -> None:
        """Forget what was written after the log had so many bytes."""
        with explained(self.path):
            if self.size > size:
                os.truncate(self.path, size)


def read_log(path: str | Path) -> list[dict[str, Any]]:
    """The lines of a log; a last line that a kill left unfinished is passed over."""
    lines = Path(path).read_bytes().split(b"\n")
    records = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            records.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise DeixisError(f"{path}: line {number} is not JSON ({error})") from error
    return records
