"""Two workers on this machine, shared by all tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import tests
from deixis import cluster as workers_module
from deixis.cluster import ClusterWorkers, open_workers
from deixis.vision.encoders.base import IMAGENET
from deixis.vision.encoders.deixis_vit import VisionTransformer, ViTShape
from deixis.vision.encoders.saved import save_network

ROOT = Path(tests.__file__).parents[1]


@pytest.fixture(scope="session")
def scheduler() -> Iterator[str]:
    """The address of a scheduler with two workers."""
    distributed = pytest.importorskip("distributed")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(ROOT)  # for the jobs of these tests: new processes look where this one does
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            yield cluster.scheduler_address


@pytest.fixture
def workers(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterWorkers]:
    """These workers, who get a few photos at a time. This process computes on one thread, as they do."""
    monkeypatch.setattr(workers_module, "PART", 16)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with open_workers(scheduler, print) as found:
        yield found
    torch.set_num_threads(threads)


def tiny_encoder(folder: Path) -> str:
    """Write a small encoder with random weights, and return its name."""
    torch.manual_seed(0)
    save_network(folder, VisionTransformer(ViTShape(width=32, heads=2, blocks=2, grid=4)), 56, IMAGENET)
    return f"deixis:{folder}"


def processes_of(workers: ClusterWorkers) -> list[int]:
    return list(workers._client.run(os.getpid).values())


_SCHEDULER = """
import asyncio, distributed
async def serve():
    async with distributed.Scheduler(host="127.0.0.1", port=0, dashboard_address=None) as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()
asyncio.run(serve())
"""
_WORKER = """
import asyncio, distributed, sys
async def serve():
    async with distributed.Worker(sys.argv[1], nthreads=1) as worker:
        print(worker.address, flush=True)
        await worker.finished()
asyncio.run(serve())
"""


@contextmanager
def scheduler_process(packages: Path | None = None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A scheduler of its own process, with all that this one can import, or with these packages only."""
    with _process(packages, _SCHEDULER) as found:
        yield found


@contextmanager
def worker_process(scheduler: str, packages: Path | None = None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A worker that has joined, without the nanny that would start it again."""
    with _process(packages, _WORKER, scheduler) as found:
        yield found


@contextmanager
def _process(packages: Path | None, code: str, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    only_named = [] if packages is None else ["-S"]
    path = os.pathsep.join(map(str, [ROOT, ROOT / "src"] if packages is None else [packages]))
    process = subprocess.Popen(
        [sys.executable, *only_named, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": path},
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, "it did not start"
        yield address, process
    finally:
        process.kill()
        process.wait(30)


def packages_without(name: str, folder: Path) -> Path:
    """A folder with everything that is installed here, and these tests, except what has a name."""
    import distributed

    installed = Path(distributed.__file__).parents[1]
    found = {path.name: path for path in installed.iterdir()}
    found |= {"deixis": ROOT / "src" / "deixis", "tests": ROOT / "tests"}
    folder.mkdir()
    for each, path in found.items():
        if not each.startswith(name):
            (folder / each).symlink_to(path)
    return folder
