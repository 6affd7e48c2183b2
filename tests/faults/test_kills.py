"""kill -9 at any moment: what was acknowledged stays, nothing half-written is read, the next run ends the work."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import SEED, Ended, Workshop

KILLS, TIMED_KILLS = 6, 3
WORKS = ("importing", "replacing", "featuring", "training", "indexing", "annotating", "exporting", "backing up")


def acknowledged_is_there(work: str, said: set[str], before: Any, now: Any) -> None:
    """Whatever was said, or could be seen before the kill, can be seen after it."""
    if work == "annotating":
        kept = {event for events in now.values() for event in events}
        assert said <= kept
        assert {event for events in before.values() for event in events} <= kept
    elif work == "indexing":
        assert said - {"broken.png"} <= set(now)
        assert set(before) <= set(now)
    elif work == "featuring":
        assert before.items() <= now.items()
    elif work == "training":
        assert all(before[name][0] <= now[name][0] for name in ("last", "best") if name in before)
        assert "model" in now or not said
    else:
        assert now is not None or not said
    if work in ("importing", "replacing") and now is not None:
        assert now["problems"] == []


@pytest.mark.parametrize("work", WORKS)
def test_a_kill_at_any_moment_loses_nothing_and_the_next_run_ends_the_work(
    work: str, workshop: Workshop, chance: random.Random, tmp_path: Path
) -> None:
    prepared, whole = tmp_path / "prepared", tmp_path / "whole"
    workshop.prepare(work, prepared)
    shutil.copytree(prepared, whole)
    begin = time.monotonic()
    done = workshop.run(work, whole)
    assert done.refused is None, done.refused
    moments = done.moments
    taken_s = time.monotonic() - begin
    wanted = workshop.see(work, whole).seen
    faults: list[dict[str, Any]] = [{"at": chance.randint(1, moments)} for _ in range(KILLS)]
    faults += [{"after_s": chance.uniform(0, taken_s)} for _ in range(TIMED_KILLS)]
    for number, fault in enumerate(faults):
        folder = tmp_path / f"broken{number}"
        shutil.copytree(prepared, folder)
        ended = workshop.run(work, folder, **fault)
        # How often the disk is touched differs by a few times from run to run: the last moments may never come.
        assert ended.killed or "after_s" in fault or ended.moments < fault["at"], f"seed {SEED}, {fault}"
        check_and_end(workshop, work, folder, ended, wanted, fault)


def check_and_end(
    workshop: Workshop, work: str, folder: Path, ended: Ended, wanted: Any, fault: dict[str, Any]
) -> None:
    where = f"seed {SEED}, {fault}"
    seen = workshop.see(work, folder)
    # The old directory may stand aside for a moment; the next run puts it back or replaces it.
    set_aside = (folder / "out" / ".data.old").exists()
    if work == "replacing":
        assert seen.seen is not None or set_aside, where
    acknowledged_is_there(work, set(ended.said), seen.seen, seen.seen)
    again = workshop.run(work, folder)
    assert again.refused is None, where
    assert not again.killed
    final = workshop.see(work, folder).seen
    acknowledged_is_there(work, set(ended.said), seen.seen, final)
    if work != "annotating":  # who is asked when depends on leases that run out
        assert final == wanted, where
    leftovers = [name for name in workshop.files(folder / "out") if ".partial-" in name or name.endswith(".old")]
    assert leftovers == [], where


@pytest.mark.parametrize("work", ["indexing", "featuring", "training", "annotating"])
def test_kills_one_after_the_other_on_the_same_folder_lose_nothing(
    work: str, workshop: Workshop, chance: random.Random, tmp_path: Path
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "broken"
    for each in (whole, folder):
        workshop.prepare(work, each)
    moments = workshop.run(work, whole).moments
    said, before = set[str](), workshop.see(work, folder).seen
    for _ in range(KILLS):
        at = chance.randint(1, max(2, moments // 2))
        said |= set(workshop.run(work, folder, at=at).said)
        now = workshop.see(work, folder).seen
        acknowledged_is_there(work, said, before, now)
        before = now
    assert workshop.run(work, folder).refused is None
    final = workshop.see(work, folder).seen
    acknowledged_is_there(work, said, before, final)
    if work != "annotating":
        assert final == workshop.see(work, whole).seen
