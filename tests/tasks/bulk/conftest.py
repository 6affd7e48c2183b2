"""Two workers on this machine, for all tests of the room."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests
from deixis.tasks.bulk import workers as workers_module
from deixis.tasks.bulk.workers import Workers, open_workers

ROOT = Path(tests.__file__).parents[1]


@pytest.fixture(scope="session")
def scheduler() -> Iterator[str]:
    """The address of a scheduler with two workers."""
    distributed = pytest.importorskip("distributed")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(ROOT)  # for the plans of these tests: new processes look where this one does
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            yield cluster.scheduler_address


@pytest.fixture
def workers(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    """These workers, who get a few photos at a time."""
    monkeypatch.setattr(workers_module, "PART", 16)
    with open_workers(scheduler, print) as found:
        yield found


def processes_of(workers: Workers) -> list[int]:
    return list(workers._client.run(os.getpid).values())
