"""Several processes train what one process trains."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from deixis.errors import DeixisError
from deixis.models.training.checkpoints import read_checkpoint
from deixis.models.training.distributed import (
    SharedBatchNorm,
    chosen_device,
    epoch_generator,
    leave,
    reproducible,
    seed_step,
    share_batch_norm,
)
from tests.models.training import every_model, tiny, together
from tests.models.training.tiny import read_log

CPU = torch.device("cpu")


def drawn(seed: int, step: int) -> float:
    seed_step(seed, step, CPU)
    return torch.rand(1, dtype=torch.float64).item()


def test_random_numbers_depend_on_step_and_seed_only() -> None:
    with reproducible(CPU, 0):
        found = {(seed, step): drawn(seed, step) for seed in range(5) for step in range(50)}
        assert len(set(found.values())) == 250
        assert drawn(3, 20) == found[3, 20]


def test_each_epoch_has_its_own_random_numbers() -> None:
    found = {epoch_generator(seed, epoch).random() for seed in range(5) for epoch in range(5)}
    assert len(found) == 25


def test_the_state_of_torch_is_restored_even_after_an_error() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    threads = torch.get_num_threads()
    try:
        with reproducible(CPU, threads + 1):
            assert torch.are_deterministic_algorithms_enabled()
            seed_step(0, 0, CPU)
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert torch.equal(torch.rand(1), expected)
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


def test_in_one_process_it_equals_torchs_batch_norm() -> None:
    rows = torch.randn(6, 3)
    theirs, ours = nn.BatchNorm1d(3), share_batch_norm(nn.BatchNorm1d(3))
    for mode in (True, False):
        assert torch.equal(ours.train(mode)(rows), theirs.train(mode)(rows))
    assert torch.equal(ours.running_var, theirs.running_var)


def test_weights_keep_their_names_and_their_memory() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3)))
    names, weights = list(network.state_dict()), list(network.parameters())
    network.eval()
    share_batch_norm(network)
    assert isinstance(network[1][0], SharedBatchNorm)
    assert list(network.state_dict()) == names
    assert all(ours is theirs for ours, theirs in zip(network.parameters(), weights, strict=True))
    assert not network[1][0].training
    norm = network[1][0]
    assert share_batch_norm(network)[1][0] is norm, "sharing twice changes nothing"


def test_a_batch_norm_with_two_names_is_shared_under_both() -> None:
    network = nn.Module()
    network.one = network.two = nn.BatchNorm1d(3)
    share_batch_norm(network)
    assert isinstance(network.one, SharedBatchNorm)
    assert isinstance(network.two, SharedBatchNorm)
    assert network.one.weight is network.two.weight


def python(*arguments: str, status: int | None = 0, **environment: str) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode != 0 if status is None else done.returncode == status, done.stderr


def torchrun(count: int, *arguments: str, status: int | None = 0, **environment: str) -> None:
    launch = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}")
    python(*launch, *arguments, status=status, **environment)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_several_processes_compute_the_result_of_one(count: int) -> None:
    torchrun(count, together.__file__)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [(), ("gradient_accumulation=2", "max_grad_norm=0.5", "ema_decay=0.9")], ids=["plain", "all"]
)
def test_two_processes_give_the_loss_curve_of_one(tmp_path: Path, more: tuple[str, ...]) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    words = ("log_every=1", *more)
    python(tiny.__file__, str(one), *words, DROPOUT="0")
    torchrun(2, tiny.__file__, str(two), *words, DROPOUT="0")
    assert len(losses(one)) >= 12
    assert losses(two) == pytest.approx(losses(one), rel=1e-5)
    ours, theirs = (read_checkpoint(out / "best.safetensors")[0] for out in (two, one))
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, rtol=1e-3, atol=1e-4, msg=name)


def losses(out: Path) -> list[float]:
    return [line["loss"] for line in read_log(out / "log.jsonl") if "loss" in line]


@pytest.mark.slow
def test_two_processes_give_the_loss_curves_of_one_for_every_model(tmp_path: Path) -> None:
    here = str(Path(__file__).parents[3])
    python(every_model.__file__, str(tmp_path / "one"), PYTHONPATH=here)
    torchrun(2, every_model.__file__, str(tmp_path / "two"), PYTHONPATH=here)
    # Distances of equal vectors are what rounding leaves, and half precision leaves more.
    for way, near in (("plain", 1e-4), ("mixed", 0.03)):
        for name in every_model.MODELS:
            expected, found = (all_losses(tmp_path / count / way / name) for count in ("one", "two"))
            assert len(expected) >= 2
            assert found == pytest.approx(expected, rel=near, abs=near / 10), (way, name)


def all_losses(out: Path) -> list[float]:
    return [loss for log in sorted(out.rglob("log.jsonl")) for loss in losses(log.parent)]


@pytest.mark.slow
def test_killed_processes_resume_bit_for_bit(tmp_path: Path) -> None:
    words = ("save_every=4", "ema_decay=0.9", "patience=2")
    torchrun(2, tiny.__file__, str(tmp_path / "unbroken"), *words)
    torchrun(2, tiny.__file__, str(tmp_path / "run"), *words, status=None, STOP="10")
    assert read_checkpoint(tmp_path / "run" / "last.safetensors")[1].step == 8
    torchrun(2, tiny.__file__, str(tmp_path / "run"), "--resume", *words)
    ours, theirs = (read_checkpoint(tmp_path / name / "last.safetensors")[0] for name in ("run", "unbroken"))
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())


@pytest.mark.parametrize("device", ["abacus", *([] if torch.cuda.is_available() else ["cuda"])])
def test_a_missing_device_is_refused(device: str) -> None:
    with pytest.raises(DeixisError, match=f"device={device}") as refusal:
        chosen_device(device)
    assert "\n" not in str(refusal.value)


def test_one_of_several_processes_exits_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[int] = []
    monkeypatch.setattr(os, "_exit", ends.append)
    for rank in (None, "0"):
        if rank:
            monkeypatch.setenv("LOCAL_RANK", rank)
        else:
            monkeypatch.delenv("LOCAL_RANK", raising=False)
        with pytest.raises(SystemExit) as ended:
            leave(3)
        assert ended.value.code == 3
        assert ends == ([3] if rank else [])
