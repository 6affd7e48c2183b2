"""Several processes under torchrun train the model that one process trains."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from deixis.errors import DeixisError
from deixis.training.checkpoints import read_checkpoint
from deixis.training.distributed import by_shares, chosen_device, leave
from deixis.training.log import read_log
from tests.training import every_model, tiny, together


def torchrun(count: int, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}", *arguments]
    return subprocess.run(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def alone(*arguments: str, **environment: str) -> None:
    subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        timeout=300,
        check=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_processes_compute_together_what_one_computes_alone(count: int) -> None:
    done = torchrun(count, together.__file__)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("accumulate=2", "clip=0.5", "average=0.9")], ids=["plain", "all"])
def test_two_processes_give_the_loss_curve_of_one(tmp_path: Path, more: tuple[str, ...]) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    words = ("log_every=1", *more)
    alone(tiny.__file__, str(one), *words, DROPOUT="0")
    done = torchrun(2, tiny.__file__, str(two), *words, DROPOUT="0")
    assert done.returncode == 0, done.stderr
    assert len(losses(one)) >= 12
    assert losses(two) == pytest.approx(losses(one), rel=1e-5)
    ours, theirs = (read_checkpoint(out / "best.safetensors")[0] for out in (two, one))
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, rtol=1e-3, atol=1e-4, msg=name)


def losses(out: Path) -> list[float]:
    return [line["loss"] for line in read_log(out / "log.jsonl") if "loss" in line]


@pytest.mark.slow
def test_two_processes_give_the_loss_curves_of_one_for_every_model(tmp_path: Path) -> None:
    here = str(Path(__file__).parents[2])
    alone(every_model.__file__, str(tmp_path / "one"), PYTHONPATH=here)
    done = torchrun(2, every_model.__file__, str(tmp_path / "two"), PYTHONPATH=here)
    assert done.returncode == 0, done.stderr
    # Distances of equal vectors are what rounding leaves, and half precision leaves more.
    for way, near in (("plain", 1e-4), ("mixed", 0.03)):
        for name in every_model.MODELS:
            expected, found = (all_losses(tmp_path / count / way / name) for count in ("one", "two"))
            assert len(expected) >= 2
            assert found == pytest.approx(expected, rel=near, abs=near / 10), (way, name)


def all_losses(out: Path) -> list[float]:
    return [loss for log in sorted(out.rglob("log.jsonl")) for loss in losses(log.parent)]


@pytest.mark.slow
def test_processes_that_were_killed_go_on_bit_for_bit(tmp_path: Path) -> None:
    words = ("save_every=4", "average=0.9", "patience=2")
    done = torchrun(2, tiny.__file__, str(tmp_path / "unbroken"), *words)
    assert done.returncode == 0, done.stderr
    assert torchrun(2, tiny.__file__, str(tmp_path / "run"), *words, STOP="10").returncode != 0
    assert read_checkpoint(tmp_path / "run" / "last.safetensors")[1].step == 8
    done = torchrun(2, tiny.__file__, str(tmp_path / "run"), "--resume", *words)
    assert done.returncode == 0, done.stderr
    ours, theirs = (read_checkpoint(tmp_path / name / "last.safetensors")[0] for name in ("run", "unbroken"))
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())


def test_one_process_computes_everything_itself() -> None:
    rows = torch.randn(5, 2)
    assert torch.equal(by_shares(torch.sin, rows), rows.sin())


def test_a_device_that_is_not_there_is_one_clear_line() -> None:
    with pytest.raises(DeixisError, match="device=abacus: torch cannot use it here") as refusal:
        chosen_device("abacus")
    assert "\n" not in str(refusal.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_one_clear_line() -> None:
    with pytest.raises(DeixisError, match="device=cuda: torch cannot use it here"):
        chosen_device("cuda")


def test_a_program_alone_ends_in_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    with pytest.raises(SystemExit) as ended:
        leave(3)
    assert ended.value.code == 3


def test_one_of_several_processes_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "0")
    ends: list[int] = []
    monkeypatch.setattr(os, "_exit", ends.append)
    with pytest.raises(SystemExit):  # only because the true exit was taken away
        leave(3)
    assert ends == [3]
