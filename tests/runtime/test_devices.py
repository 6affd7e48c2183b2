"""Which device computes, what a missing one says, and memory that is returned to the system."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from deixis.errors import DeixisError
from deixis.runtime import devices
from deixis.runtime.devices import choose_device, cpu_threads, require_torch


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a GPU, as far as torch says."""
    monkeypatch.setattr(devices, "_has_driver", lambda: True)
    monkeypatch.setattr(torch, "zeros", lambda count, device: torch.ones(count))


@pytest.mark.parametrize("device", [None, "auto"])
@pytest.mark.usefixtures("gpu")
def test_the_gpu_is_the_default_if_there_is_one(device: str | None) -> None:
    assert choose_device(device) == "cuda"
    assert choose_device("cpu") == "cpu"


@pytest.mark.usefixtures("gpu")
def test_a_gpu_that_torch_cannot_use_is_no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    def zeros(count: int, device: str) -> Tensor:
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(torch, "zeros", zeros)
    assert choose_device(None) == "cpu"


@pytest.mark.usefixtures("gpu")
def test_the_provider_of_onnx_runtime_needs_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has_cuda_provider", lambda: True)
    monkeypatch.setattr(devices, "has_torch", lambda: False)
    assert choose_device(None) == "cuda"
    assert choose_device("cuda:1") == "cuda:1"


def test_without_a_gpu_torch_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_has_driver", lambda: False)
    monkeypatch.setattr(devices, "_torch_has", lambda device: pytest.fail("torch was asked"))
    assert choose_device(None) == "cpu"
    assert choose_device("cpu") == "cpu"


NO_MPS = pytest.param("mps", marks=pytest.mark.skipif(torch.backends.mps.is_available(), reason="has the device"))


@pytest.mark.parametrize("device", ["meta", "cuda:99", "vulkan", "privateuseone", "abacus", NO_MPS])
def test_a_missing_device_is_named(device: str) -> None:
    with pytest.raises(DeixisError, match=device):
        choose_device(device)


def test_without_torch_a_gpu_and_training_name_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has_torch", lambda: False)
    monkeypatch.setattr(devices, "has_cuda_provider", lambda: False)
    for refused in (lambda: choose_device("cuda"), lambda: require_torch("training")):
        with pytest.raises(DeixisError, match=r"pip install 'deixis\[train\]'$"):
            refused()


def test_the_environment_sets_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert cpu_threads() == 3
    for ignored in ("0", "many", ""):
        monkeypatch.setenv("OMP_NUM_THREADS", ignored)
        assert cpu_threads() >= 1


needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")

USE = """
import numpy as np
from deixis.runtime.devices import return_freed_memory, return_large_blocks
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


@needs_glibc
def test_freed_memory_is_returned() -> None:
    # Small blocks, of which the last one stays in use: the C library keeps all before it.
    blocks = "blocks = [bytes([n % 256]) * 100_000 for n in range(1000)]; last = blocks.pop(); del blocks"
    assert resident(blocks) > 50
    assert resident(f"{blocks}; return_freed_memory()") < 20


@needs_glibc
def test_large_blocks_are_returned_when_they_are_freed() -> None:
    # Once a large block was freed, the C library keeps later blocks of this size.
    blocks = """
first = np.ones(3 * 2**20); del first
blocks = [np.ones(2**20) for _ in range(12)]; last = np.ones(2**15); del blocks
"""
    assert resident(blocks) > 50
    assert resident(f"return_large_blocks()\n{blocks}") < 20


@needs_glibc
def test_a_server_does_not_return_the_memory_of_every_search() -> None:
    searches = """
import resource
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
