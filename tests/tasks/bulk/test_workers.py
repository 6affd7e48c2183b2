"""Parts of a work, done by many: in order, in bounded memory, and by those who are left when one dies."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.tasks.bulk import workers as workers_module
from deixis.tasks.bulk.workers import PART, Workers, open_workers
from tests.tasks.bulk.conftest import packages_without, scheduler_process, worker_process
from tests.tasks.bulk.plans import KillingOnce, Refusing, Squares


def test_answers_come_in_order_from_several_processes_of_one_thread_each(workers: Workers) -> None:
    answers = list(workers.in_order(Squares(0.005), range(100)))
    assert [square for square, _, _ in answers] == [number**2 for number in range(100)]
    assert len({process for _, process, _ in answers}) == 2
    assert {threads for _, _, threads in answers} == {1}


def test_parts_hold_whole_batches_so_that_batches_are_those_of_one_process() -> None:
    from deixis.tasks.captions.captioning import _AT_ONCE
    from deixis.vision.reading import BATCH, BATCH_OF_WHOLE_PHOTOS

    assert [PART % batch for batch in (BATCH, BATCH_OF_WHOLE_PHOTOS, _AT_ONCE)] == [0, 0, 0]


def test_nothing_is_read_further_ahead_than_there_are_workers(workers: Workers) -> None:
    read: list[int] = []

    def endless() -> Iterator[int]:
        number = 0
        while True:
            read.append(number)
            yield number
            number += 1

    answers = workers.in_order(Squares(), endless())
    for number in range(200):
        assert next(answers)[0] == number**2
        assert len(read) <= number + 1 + 16 * 3 * 2
    answers.close()


def test_a_worker_killed_in_the_middle_costs_nothing_but_time(workers: Workers, tmp_path: Path) -> None:
    assert list(workers.in_order(KillingOnce(tmp_path / "killed"), range(100))) == list(range(100))
    assert (tmp_path / "killed").exists()


def test_what_a_worker_says_is_one_line_here(workers: Workers) -> None:
    with pytest.raises(DeixisError, match="^a worker has another version of the models$"):
        list(workers.in_order(Refusing(), range(3)))


def test_workers_of_this_machine_keep_memory_for_the_next_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)  # other clusters of this process leave it behind
    with open_workers("local:1", print) as own:
        assert set(own._client.run(os.environ.get, "MALLOC_TRIM_THRESHOLD_").values()) == {None}
        assert set(own._client.run(os.environ.get, "OMP_NUM_THREADS").values()) == {"1"}


@pytest.mark.parametrize("address", ["local:", "local:0", "local:many", "local:-1"])
def test_a_number_of_processes_that_is_none_is_one_line(address: str) -> None:
    with pytest.raises(DeixisError, match=f"^--scheduler {address}: write local:N"), open_workers(address, print):
        pass


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "somewhere", "carrier-pigeon://attic"])
def test_an_address_where_nobody_answers_is_one_line(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(workers_module, "_CONNECT_S", 0.3)
    with pytest.raises(DeixisError) as error, open_workers(address, print):
        pass
    assert str(error.value).startswith(f"--scheduler {address}: no scheduler answers there (")
    assert "\n" not in str(error.value)


def test_without_dask_the_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(DeixisError, match=r"pip install deixis\[cluster\]"), open_workers("local:2", print):
        pass


def test_a_worker_without_deixis_is_refused_in_one_line(scheduler: str, tmp_path: Path) -> None:
    with worker_process(scheduler, packages_without("deixis", tmp_path / "packages")) as (worker, _):
        with pytest.raises(DeixisError) as error, open_workers(scheduler, print):
            pass
        assert str(error.value) == f"the worker {worker} has no deixis; install it on all machines"


def test_a_worker_whose_deixis_lacks_a_package_is_refused_in_one_line(scheduler: str, tmp_path: Path) -> None:
    with worker_process(scheduler, packages_without("torch", tmp_path / "packages")) as (worker, _):
        with pytest.raises(DeixisError) as error, open_workers(scheduler, print) as workers:
            list(workers.in_order(Squares(), range(3)))
        line = (
            f"the worker {worker} cannot use its deixis (No module named 'torch'); install it anew, with all it needs"
        )
        assert str(error.value) == line


def test_a_scheduler_without_deixis_is_refused_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with (
        scheduler_process(packages_without("deixis", tmp_path / "packages")) as (scheduler, _),
        worker_process(scheduler),
    ):
        with pytest.raises(DeixisError) as error, open_workers(scheduler, print):
            pass
        assert str(error.value) == "the scheduler has no deixis; install it on all machines"


def test_a_scheduler_that_goes_while_answers_are_written_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(workers_module, "PART", 16)
    monkeypatch.setattr(workers_module, "_CONNECT_S", 1)
    with scheduler_process() as (address, process), worker_process(address):
        done = []
        line = "^the scheduler is gone; what was done is kept, run the same again"
        with pytest.raises(DeixisError, match=line), open_workers(address, print) as workers:
            for square, _, _ in workers.in_order(Squares(), range(1000)):
                done.append(square)
                if len(done) == 40:
                    process.kill()
                    time.sleep(2)  # so long that its client has given up when it is asked again
        assert done == [number**2 for number in range(len(done))]
