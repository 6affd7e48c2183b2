"""Memory that is returned to the system."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from deixis.runtime.memory import return_freed_memory, return_large_blocks

USE = """
import numpy as np
from deixis.runtime.memory import return_freed_memory, return_large_blocks
def resident():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon"))
"""


def resident(code: str) -> int:
    """Megabytes that a process has after some code, beyond those before it."""
    command = [sys.executable, "-c", f"{USE}\nbefore = resident()\n{code}\nprint(resident() - before)"]
    # Dask sets variables of the C library for its workers, and leaves them to later tests.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return int(run.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_is_returned() -> None:
    # Small blocks, of which the last one stays in use: the C library keeps all before it.
    blocks = "blocks = [bytes([n % 256]) * 100_000 for n in range(1000)]; last = blocks.pop(); del blocks"
    assert resident(blocks) > 50
    assert resident(f"{blocks}; return_freed_memory()") < 20


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_large_blocks_are_returned_when_they_are_freed() -> None:
    # Once a large block was freed, the C library keeps later blocks of this size.
    blocks = """
first = np.ones(3 * 2**20); del first
blocks = [np.ones(2**20) for _ in range(12)]; last = np.ones(2**15); del blocks
"""
    assert resident(blocks) > 50
    assert resident(f"return_large_blocks()\n{blocks}") < 20


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_a_server_does_not_return_the_memory_of_every_search() -> None:
    searches = """
import resource
from deixis.runtime.memory import return_large_blocks
return_large_blocks()
def search():
    return sum(np.ones(100_000) + np.ones(100_000) + np.ones(100_000))
search()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    search()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 50)
"""
    done = subprocess.run([sys.executable, "-c", USE + searches], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100  # pages; with a megabyte of spare memory, 400


def test_other_systems_keep_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    return_freed_memory()
    return_large_blocks()
