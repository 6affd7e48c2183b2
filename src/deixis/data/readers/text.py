"""Text from strangers: decoded strictly, and what cannot be decoded is named by its place."""

from __future__ import annotations

from pathlib import Path

from deixis.errors import DatasetError


def decode(data: bytes, name: str | Path) -> str:
    r"""UTF-8, with or without a byte order mark, or an error that says where it stops being that.

    Examples
    --------
    >>> decode(b"caf\xc3\xa9", "a.txt")
    'café'
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DatasetError(
            f"{name}: line {line}: not UTF-8 (byte 0x{data[error.start]:02x}); save the file as UTF-8"
        ) from error


def read_text(path: Path) -> str:
    """The whole of a UTF-8 file."""
    try:
        return decode(path.read_bytes(), path)
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror})") from error
