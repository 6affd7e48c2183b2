"""A disk that is full: one line that says so, what was there stays, and with room the work is ended."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.faults.conftest import SEED, Workshop
from tests.faults.test_kills import WORKS, acknowledged_is_there

SIZES = 4
PLENTY = 64 * 2**20
PAGE = 4096


def room_taken(workshop: Workshop, work: str, prepared: Path, folder: Path) -> int:
    """Bytes of the results, and a little more for what stands beside them meanwhile."""
    shutil.copytree(prepared, folder)
    workshop.run(work, folder)
    return sum(path.stat().st_size + PAGE for path in (folder / "out").rglob("*") if path.is_file())


@pytest.mark.parametrize("work", WORKS)
def test_a_full_disk_is_said_in_one_line_and_loses_nothing(
    work: str, workshop: Workshop, chance: random.Random, tmp_path: Path
) -> None:
    prepared = tmp_path / "prepared"
    workshop.prepare(work, prepared)
    needed = room_taken(workshop, work, prepared, tmp_path / "whole")
    wanted = workshop.see(work, tmp_path / "whole").seen
    begun = sum(path.stat().st_size + PAGE for path in (prepared / "out").rglob("*") if path.is_file())
    refusals = 0
    for number in range(SIZES):
        room = begun + int((needed - begun) * chance.uniform(0, 0.8))
        folder = tmp_path / f"small{number}"
        shutil.copytree(prepared / "in", folder / "in")
        workshop.small_disk(folder / "out", PLENTY)
        workshop.copy(prepared / "out", folder / "out")
        before = workshop.see(work, folder).seen
        workshop.small_disk(folder / "out", max(room, PAGE), again=True)
        ended = workshop.run(work, folder)
        where = f"seed {SEED}, {room:,} bytes: {ended.refused}"
        if ended.refused is not None:
            refusals += 1
            assert "full" in ended.refused or "No space left" in ended.refused, where
            assert str(folder / "out") in ended.refused, where
        after = workshop.see(work, folder)
        if work == "annotating" and after.refused:  # SQLite wants a little room even to read what others write
            assert "full" in after.refused, where
            workshop.small_disk(folder / "out", PLENTY, again=True)
            after = workshop.see(work, folder)
        assert after.refused is None, where
        acknowledged_is_there(work, set(ended.said), before, after.seen)
        workshop.small_disk(folder / "out", PLENTY, again=True)
        assert workshop.run(work, folder).refused is None, where
        final = workshop.see(work, folder).seen
        acknowledged_is_there(work, set(ended.said), after.seen, final)
        if work != "annotating":
            assert final == wanted, where
        workshop.unmount(folder / "out")
    assert refusals, "the disks were too large to show anything"
