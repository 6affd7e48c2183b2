"""Memory of a server with 200 clients, uploads, clients that do not read, and an original of 5 GB."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CROWD = Path(__file__).parents[2] / "benchmarks" / "crowd.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")
def test_a_crowd_fills_no_memory_and_gets_no_wrong_answers() -> None:
    command = [sys.executable, CROWD, "--seconds", "30"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    print(done.stdout)  # how fast it answers depends on the machine
    found = re.search(r"highest: (\d+) MB", done.stdout)
    assert found, done.stderr
    assert 0 < int(found[1]) < 260
    assert not re.search("wrong answers|memory exceeds|memory grows", done.stdout)
    assert re.search(r"uploads: [1-9]\d* × 200", done.stdout)
