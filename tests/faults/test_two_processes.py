"""Two processes on one thing: one of them works, the other is told in one line or works beside it, nothing is mixed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.faults.conftest import SEED, Workshop

HALTS = 3
ONE_AT_A_TIME = ("importing", "replacing", "featuring", "training", "indexing", "exporting", "backing up")


@pytest.mark.parametrize("work", ONE_AT_A_TIME)
def test_a_second_process_is_refused_or_ends_well_and_the_result_is_whole(
    work: str, workshop: Workshop, chance: random.Random, tmp_path: Path
) -> None:
    prepared, whole = tmp_path / "prepared", tmp_path / "whole"
    workshop.prepare(work, prepared)
    shutil.copytree(prepared, whole)
    moments = workshop.run(work, whole).moments
    wanted = workshop.see(work, whole).seen
    refusals = 0
    for number in range(HALTS):
        folder = tmp_path / f"shared{number}"
        shutil.copytree(prepared, folder)
        at = chance.randint(6 * moments // 10, 19 * moments // 20)
        first = workshop.stop_at(work, folder, at)
        second = workshop.run(work, folder)
        seen = workshop.see(work, folder)  # whoever reads meanwhile meets nothing half-written
        assert seen.refused is None, f"seed {SEED}, halted at {at}"
        if second.refused is not None:
            assert "another process is writing it; wait until it is done" in second.refused
            refusals += 1
        ended = workshop.resume(first)
        assert ended.refused is None or second.refused is None, f"seed {SEED}, halted at {at}: {ended.refused}"
        assert workshop.see(work, folder).seen == wanted, f"seed {SEED}, halted at {at}"
    assert refusals, f"seed {SEED}: nobody was ever refused, so nothing was shared"


def test_two_processes_annotate_one_project(workshop: Workshop, chance: random.Random, tmp_path: Path) -> None:
    workshop.prepare("annotating", tmp_path)
    first = workshop.stop_said("annotating", tmp_path, chance.randint(2, 6))
    assert first is not None
    second = workshop.run("annotating", tmp_path)
    assert second.refused is None, f"seed {SEED}"
    ended = workshop.resume(first)
    assert not set(ended.said) & set(second.said), f"seed {SEED}: one event was acknowledged twice"
    kept = {event for events in workshop.see("annotating", tmp_path).seen.values() for event in events}
    assert set(ended.said) | set(second.said) <= kept, f"seed {SEED}"
