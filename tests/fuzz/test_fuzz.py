"""Hostile files of every kind, some thousands each; `make fuzz` gives each a minute, `make soak` far more.

Here they are the same files each time, so that what fails is the change that is tested; DEIXIS_FUZZ_SEED and
DEIXIS_FUZZ_RUNS say otherwise. Inputs that once failed lie in tests/fuzz/found and are tried first.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.fuzzing import changed
from tests.fuzz.names import NAMES

ROOT = Path(__file__).parents[2]
FOUND = Path(__file__).parent / "found"
SECONDS = float(os.environ.get("DEIXIS_FUZZ_SECONDS", "20"))  # at most
ALWAYS = {"DEIXIS_FUZZ_SEED": "1", "DEIXIS_FUZZ_RUNS": "3000", "PYTHONHASHSEED": "0"}
GROUPS = 4  # each imports everything once


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_hostile_files_are_read_or_refused_in_one_line(group: int) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("forks are of Unix")
    names = NAMES[group::GROUPS]
    command = [sys.executable, "-m", "tests.fuzz.fuzzing", str(SECONDS), str(FOUND), *names]
    environment = {**ALWAYS, **os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    runs = {
        name: int(count.replace(",", "")) for name, count in re.findall(r"^(\S+) +([\d,]+) runs", done.stdout, re.M)
    }
    assert runs.keys() == set(names)
    assert min(runs.values()) > 10, f"too slow to find anything: {runs}"


def test_a_changed_file_is_another_file_most_of_the_time() -> None:
    chance, seeds = random.Random(1), [b"a sound file", b"and another"]
    made = {changed(seeds[0], seeds, chance) for _ in range(200)}
    assert len(made) > 150
    assert all(len(each) < 200 for each in made)
