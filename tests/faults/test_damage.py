"""Damaged files that can be computed again are repaired by the next run; `test_every_file` damages all others."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.conftest import SEED, FaultRunner, Scenario


def damage(content: bytes, how: str, rng: random.Random) -> bytes:
    offset = rng.randrange(len(content))
    if how == "bit":
        return content[:offset] + bytes([content[offset] ^ (1 << rng.randrange(8))]) + content[offset + 1 :]
    if how == "cut":
        return content[:offset]
    if how == "zeros":
        return content[:offset] + bytes(min(512, len(content) - offset)) + content[offset + 512 :]
    return content + rng.randbytes(64)


@pytest.mark.parametrize("how", ["bit", "cut", "zeros", "more"])
@pytest.mark.parametrize("scenario", ["extracting", "indexing"])
def test_the_next_run_repairs_files_that_can_be_computed_again(
    scenario: str, how: str, run: Scenario, runner: FaultRunner, rng: random.Random, tmp_path: Path
) -> None:
    runner.run(scenario, run.copy(tmp_path / "scenario"))  # here: an index has the paths of its photos
    inside = tmp_path / "scenario" / "out" / {"extracting": "store", "indexing": "index/cache"}[scenario]
    files = [path for path in inside.iterdir() if path.suffix in (".safetensors", ".bin") and path.stat().st_size]
    path = rng.choice(sorted(files, key=lambda each: each.stat().st_size))
    path.write_bytes(damage(path.read_bytes(), how, rng))
    assert runner.run(scenario, tmp_path / "scenario").error is None
    assert runner.inspect(scenario, tmp_path / "scenario").state == run.expected, f"seed {SEED}, {how} in {path.name}"
