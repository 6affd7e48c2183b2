"""Jobs on several workers: order of results, bounded memory, killed workers and errors."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deixis import cluster
from deixis.cluster import ClusterWorkers, open_workers
from deixis.errors import DeixisError
from tests.cluster.conftest import packages_without, scheduler_process, worker_process
from tests.cluster.jobs import Failing, KillingOnce, Squares, TelemetrySetting


def test_results_come_in_order_from_single_threaded_processes(workers: ClusterWorkers) -> None:
    answers = list(workers.map(Squares(0.005), range(100)))
    assert [square for square, _, _ in answers] == [number**2 for number in range(100)]
    assert len({process for _, process, _ in answers}) == 2
    assert {threads for _, _, threads in answers} == {1}


def test_workers_have_telemetry_turned_off(workers: ClusterWorkers) -> None:
    assert list(workers.map(TelemetrySetting(), range(2))) == ["1", "1"]


def test_items_are_read_only_as_far_ahead_as_there_are_workers(workers: ClusterWorkers) -> None:
    read: list[int] = []

    def endless() -> Iterator[int]:
        number = 0
        while True:
            read.append(number)
            yield number
            number += 1

    answers = workers.map(Squares(), endless())
    for number in range(200):
        assert next(answers)[0] == number**2
        assert len(read) <= number + 1 + 16 * 3 * 2
    answers.close()


def test_the_work_of_a_killed_worker_is_repeated(workers: ClusterWorkers, tmp_path: Path) -> None:
    assert list(workers.map(KillingOnce(tmp_path / "killed"), range(100))) == list(range(100))
    assert (tmp_path / "killed").exists()


def test_errors_of_workers_are_raised(workers: ClusterWorkers) -> None:
    with pytest.raises(DeixisError, match="models"):
        list(workers.map(Failing(), range(3)))


def test_local_workers_keep_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)  # other clusters of this process leave it behind
    with open_workers("local:1", print) as own:
        assert set(own._client.run(os.environ.get, "MALLOC_TRIM_THRESHOLD_").values()) == {None}
        assert set(own._client.run(os.environ.get, "OMP_NUM_THREADS").values()) == {"1"}


@pytest.mark.parametrize("address", ["local:", "local:0", "local:many", "local:-1", "local:1000", "local:٣"])
def test_an_invalid_number_of_processes_is_an_error(address: str) -> None:
    with pytest.raises(DeixisError, match=f"--scheduler {address}"), open_workers(address, print):
        pass


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "somewhere", "carrier-pigeon://attic"])
def test_a_missing_scheduler_is_an_error(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "_CONNECT_S", 0.3)
    with pytest.raises(DeixisError) as error, open_workers(address, print):
        pass
    assert str(error.value).startswith(f"--scheduler {address}: ")
    assert "\n" not in str(error.value)


def test_missing_dask_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(DeixisError, match=r"pip install deixis\[cluster\]"), open_workers("local:2", print):
        pass


def test_a_worker_without_deixis_is_an_error(scheduler: str, tmp_path: Path) -> None:
    with worker_process(scheduler, packages_without("deixis", tmp_path / "packages")) as (worker, _):
        with pytest.raises(DeixisError) as error, open_workers(scheduler, print):
            pass
        assert f"the worker {worker} has no deixis" in str(error.value)


def test_a_worker_without_a_dependency_is_an_error(scheduler: str, tmp_path: Path) -> None:
    with worker_process(scheduler, packages_without("torch", tmp_path / "packages")) as (worker, _):
        with pytest.raises(DeixisError) as error, open_workers(scheduler, print) as workers:
            list(workers.map(Squares(), range(3)))
        assert str(error.value).startswith(f"the worker {worker} ")
        assert "torch" in str(error.value)


def test_a_scheduler_without_deixis_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with (
        scheduler_process(packages_without("deixis", tmp_path / "packages")) as (scheduler, _),
        worker_process(scheduler),
    ):
        with pytest.raises(DeixisError) as error, open_workers(scheduler, print):
            pass
        assert "the scheduler has no deixis" in str(error.value)


def test_losing_the_scheduler_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "PART", 16)
    monkeypatch.setattr(cluster, "_CONNECT_S", 1)
    with scheduler_process() as (address, process), worker_process(address):
        done = []
        with pytest.raises(DeixisError, match="scheduler"), open_workers(address, print) as workers:
            for square, _, _ in workers.map(Squares(), range(1000)):
                done.append(square)
                if len(done) == 40:
                    process.kill()
                    time.sleep(2)  # long enough for the client to give up
        assert done == [number**2 for number in range(len(done))]
