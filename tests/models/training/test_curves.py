"""Curves for TensorBoard, read back by a reader of its own."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.models.training.curves import FILE, _checksum, write_curves
from tests.models.training.tiny import SETTINGS, Tiny, read_log

MAX = float(np.finfo(np.float32).max)


def crc_of(content: bytes) -> int:
    """CRC-32C by long division, bit by bit."""
    value = 0xFFFFFFFF
    for bit in (byte >> at & 1 for byte in content for at in range(8)):
        value = value >> 1 ^ (0x82F63B78 if value & 1 ^ bit else 0)
    return value ^ 0xFFFFFFFF


def fields(message: bytes) -> list[tuple[int, bytes | int]]:
    found: list[tuple[int, bytes | int]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        found.append((key >> 3, message[at : at + size]))
        at += size
    return found


def read(path: Path) -> list[tuple[int, str, float]]:
    """Step, name and value of each scalar of an event file."""
    content, at, scalars = path.read_bytes(), 0, []
    while at < len(content):
        (length,) = struct.unpack_from("<Q", content, at)
        event = content[at + 12 : at + 12 + length]
        for part, stored in ((content[at : at + 8], at + 8), (event, at + 12 + length)):
            crc = crc_of(part)
            masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
            assert content[stored : stored + 4] == struct.pack("<I", masked)
        at += 16 + length
        values = dict(fields(event))
        if 5 in values:
            [(_, value)] = fields(values[5])  # type: ignore[arg-type]
            scalar = dict(fields(value))  # type: ignore[arg-type]
            scalars.append((values[2], scalar[1].decode(), struct.unpack("<f", scalar[2])[0]))  # type: ignore[union-attr, arg-type]
        else:
            assert values == {3: b"brain.Event:2"}
    return scalars


def test_the_checksum_of_the_standard_text_is_known() -> None:
    assert crc_of(b"123456789") == 0xE3069283
    crc = 0xE3069283
    assert _checksum(b"123456789") == struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def test_every_number_of_a_log_is_in_the_curves(tmp_path: Path) -> None:
    lines = [
        {"step": 50, "epoch": 1, "loss": 0.5, "terms": {"text": 0.25}, "learning_rate": 1e-3, "seconds": 1.5},
        {"step": 200, "epoch": 1, "dev": {"r1": 12.5, "medr": None}, "watched": "r1", "best": True, "seconds": 2.0},
        {"step": 300, "epoch": 2, "validation": "first-half", "dev": {"r1": 13.0}, "seconds": 3.0},
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_curves(log, tmp_path / FILE)
    assert [(step, name) for step, name, _ in read(tmp_path / FILE)] == [
        (50, "train/loss"), (50, "train/learning_rate"), (50, "train/text"), (200, "dev/r1"), (300, "first-half/r1"),
    ]  # fmt: skip
    assert [value for _, _, value in read(tmp_path / FILE)] == pytest.approx([0.5, 1e-3, 0.25, 12.5, 13.0])


def test_a_number_beyond_single_precision_is_written_as_the_largest(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    line = {"step": 1, "loss": 1e39, "terms": {"a": -1e300, "b": float("inf")}, "seconds": 1.0}
    log.write_text(json.dumps(line) + "\n")
    write_curves(log, tmp_path / FILE)
    assert [value for _, _, value in read(tmp_path / FILE)] == [MAX, -MAX, float("inf")]


def test_a_run_writes_its_curves_if_asked(tmp_path: Path) -> None:
    for name, asked in (("with", True), ("without", False)):
        Tiny(replace(SETTINGS, tensorboard=asked)).trainer(tmp_path / name).train()
        assert (tmp_path / name / FILE).exists() == asked
    losses = [(line["step"], line["loss"]) for line in read_log(tmp_path / "with" / "log.jsonl") if "loss" in line]
    shown = [(step, value) for step, name, value in read(tmp_path / "with" / FILE) if name == "train/loss"]
    assert shown == [(step, pytest.approx(loss)) for step, loss in losses]
