"""Curves for TensorBoard: the numbers of a training log as an event file, which TensorBoard reads as it is.

The file is a sequence of records: length, checksum, an ``Event`` as protocol buffer, checksum.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deixis.storage.atomic import new_file

FILE = "events.out.tfevents.deixis"

_LARGEST = (2 - 2**-23) * 2.0**127
"""The largest number in single precision."""


def write_curves(log: Path, file: Path) -> None:
    """Write the losses, learning rates and validation scores of a log; an older file is replaced."""
    records = [_record(_field(3, b"brain.Event:2"))]
    for line in log.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        when = _key(1, 1) + struct.pack("<d", entry["seconds"]) + _key(2, 0) + _varint(entry["step"])
        for tag, value in _scalars(entry):
            number = _field(1, tag.encode()) + _key(2, 5) + struct.pack("<f", _single(value))
            records.append(_record(when + _field(5, _field(1, number))))
    with new_file(file) as unfinished:
        unfinished.write_bytes(b"".join(records))


def _scalars(entry: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a line of the log with their names."""
    for name in ("loss", "learning_rate", "examples_per_s"):
        if name in entry:
            yield f"train/{name}", entry[name]
    yield from ((f"train/{name}", value) for name, value in entry.get("terms", {}).items())
    split = entry.get("validation", "dev")
    yield from ((f"{split}/{name}", value) for name, value in entry.get("dev", {}).items() if value is not None)


def _single(value: float) -> float:
    """Clamp a number to those of single precision, which struct would refuse."""
    return min(max(value, -_LARGEST), _LARGEST) if math.isfinite(value) else value


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _field(number: int, content: bytes) -> bytes:
    return _key(number, 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _record(event: bytes) -> bytes:
    length = struct.pack("<Q", len(event))
    return length + _checksum(length) + event + _checksum(event)


def _crc_table() -> list[int]:
    table = list(range(256))
    for _ in range(8):
        table = [value >> 1 ^ 0x82F63B78 * (value & 1) for value in table]
    return table


_CRC = _crc_table()


def _checksum(content: bytes) -> bytes:
    """CRC-32C, masked as TensorFlow's records are."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
