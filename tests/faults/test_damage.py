"""Damaged files are reported in one line, repaired, or have no effect; they never cause a crash."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.faults.conftest import SEED, FaultRunner

TRIALS = 16
CHECKED = ("importing", "extracting", "training", "indexing", "annotating", "backing up")


def damage(content: bytes, how: str, rng: random.Random) -> bytes:
    offset = rng.randrange(len(content))
    if how == "bit":
        return content[:offset] + bytes([content[offset] ^ (1 << rng.randrange(8))]) + content[offset + 1 :]
    if how == "cut":
        return content[:offset]
    if how == "zeros":
        return content[:offset] + bytes(min(512, len(content) - offset)) + content[offset + 512 :]
    return content + rng.randbytes(64)


@pytest.mark.parametrize("scenario", CHECKED)
def test_damage_is_reported_in_one_line_or_has_no_effect(
    scenario: str, runner: FaultRunner, rng: random.Random, tmp_path: Path
) -> None:
    folder = tmp_path / "sound"
    runner.prepare(scenario, folder)
    runner.run(scenario, folder)
    expected = runner.inspect(scenario, folder).state
    files = sorted(path for path in (folder / "out").rglob("*") if path.is_file() and path.stat().st_size)
    for _ in range(TRIALS):
        path, how = rng.choice(files), rng.choice(["bit", "bit", "bit", "cut", "zeros", "more"])
        sound = path.read_bytes()
        before = shutil.copytree(folder, tmp_path / "before")
        path.write_bytes(damage(sound, how, rng))
        outcome = runner.inspect(scenario, folder)
        where = f"seed {SEED}, {how} in {path.relative_to(folder)}"
        reported = outcome.error is not None or (isinstance(outcome.state, dict) and outcome.state.get("problems"))
        assert reported or outcome.state == expected, where
        if outcome.error:
            assert str(folder) in outcome.error, f"{where}: {outcome.error}"
        shutil.rmtree(folder)
        before.rename(folder)


@pytest.mark.parametrize("how", ["bit", "cut", "zeros", "more"])
@pytest.mark.parametrize("scenario", ["extracting", "indexing"])
def test_the_next_run_repairs_files_that_can_be_computed_again(
    scenario: str, how: str, runner: FaultRunner, rng: random.Random, tmp_path: Path
) -> None:
    runner.prepare(scenario, tmp_path / "scenario")
    runner.run(scenario, tmp_path / "scenario")
    expected = runner.inspect(scenario, tmp_path / "scenario").state
    inside = tmp_path / "scenario" / "out" / {"extracting": "store", "indexing": "index/cache"}[scenario]
    files = [path for path in inside.iterdir() if path.suffix in (".safetensors", ".bin") and path.stat().st_size]
    path = rng.choice(sorted(files, key=lambda each: each.stat().st_size))
    path.write_bytes(damage(path.read_bytes(), how, rng))
    assert runner.run(scenario, tmp_path / "scenario").error is None
    assert runner.inspect(scenario, tmp_path / "scenario").state == expected, f"seed {SEED}, {how} in {path.name}"
