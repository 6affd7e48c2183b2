"""What tells a file from another: the hash of its bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path


def hash_of_file(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "a").write_bytes(b"dog")
    ...     hash_of_file(Path(folder) / "a")[:8]
    'cd6357ef'
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
