"""Hostile files for each reader: a saved corpus, and thousands of others in the slow tier.

The files are the same in each run; DEIXIS_FUZZ_SEED and DEIXIS_FUZZ_RUNS change those of the slow tier. Inputs that
failed before are in tests/fuzz/found and are tried first. `make fuzz` gives each reader a minute, `make soak` more.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.names import NAMES

ROOT = Path(__file__).parents[2]
FOUND = Path(__file__).parent / "found"
SECONDS = float(os.environ.get("DEIXIS_FUZZ_SECONDS", "20"))  # at most
DEFAULTS = {"DEIXIS_FUZZ_SEED": "1", "DEIXIS_FUZZ_RUNS": "3000", "PYTHONHASHSEED": "0"}
GROUPS = 4  # each imports everything once


@pytest.mark.parametrize("name", NAMES)
def test_the_saved_corpus_is_read_or_refused_in_one_line(name: str) -> None:
    from tests.fuzz.corpus import replay
    from tests.fuzz.harnesses import HARNESSES

    assert replay(HARNESSES[name], FOUND) > 10


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_hostile_files_are_read_or_refused_in_one_line(group: int) -> None:
    pytest.importorskip("atheris", reason="atheris is not installed")
    names = NAMES[group::GROUPS]
    command = [sys.executable, "-m", "tests.fuzz.fuzzer", str(SECONDS), str(FOUND), *names]
    environment = {**DEFAULTS, **os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    runs = {
        name: int(count.replace(",", "")) for name, count in re.findall(r"^(\S+) +([\d,]+) runs", done.stdout, re.M)
    }
    assert runs.keys() == set(names)
    assert min(runs.values()) > 10, f"too slow to find anything: {runs}"
