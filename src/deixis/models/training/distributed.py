"""Training one model in several processes, with the same result as in one process.

``torchrun`` starts the processes and sets their environment. Each process receives the whole batch, computes its share
of the rows, and gathers the rows of the others with gradients (`sharded_forward`): every process then has the loss of
the whole batch, with all negatives. The mean of their gradients (`average_gradients`) is the gradient of one process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from deixis.errors import DeixisError

T = TypeVar("T")


def chosen_device(name: str) -> torch.device:
    """Return the device of this name; ``auto`` is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise DeixisError(f"device={name}: torch cannot use it here ({reason})") from error
    return device


def process_count() -> int:
    """Return the number of processes; 1 outside `processes`."""
    return dist.get_world_size() if dist.is_initialized() else 1


def process_number() -> int:
    """Return the rank of this process; process 0 writes files and messages."""
    return dist.get_rank() if dist.is_initialized() else 0


def rank_zero_first(work: Callable[[], T]) -> T:
    """Run work in one process after the other: the first fills a folder, the others find it done."""
    done: list[T] = []
    for number in range(process_count()):
        if number == process_number():
            done.append(work())
        if process_count() > 1:
            dist.barrier()
    return done[0]


@contextmanager
def processes(device: torch.device) -> Iterator[torch.device]:
    """Join the processes that ``torchrun`` started, and yield the device of this one. Does nothing without torchrun."""
    if "LOCAL_RANK" not in os.environ or dist.is_initialized():
        yield device
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        if device.index >= torch.cuda.device_count():
            raise DeixisError(
                f"process {device.index} has no GPU of its own, there are {torch.cuda.device_count()}; "
                "start fewer processes with --nproc-per-node, or train with device=cpu"
            )
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield device
        dist.barrier()  # no process leaves while others still wait for it
    finally:
        dist.destroy_process_group()


def leave(code: int = 0) -> NoReturn:
    """Exit a program that ``torchrun`` started, without the usual shutdown.

    With several processes, threads of torch abort about one in fifteen that exit normally, and ``torchrun`` then
    reports a finished run as failed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if "LOCAL_RANK" in os.environ:
        os._exit(code)
    sys.exit(code)


def own_share(rows: int) -> slice:
    """Return the rows of a batch that this process computes: contiguous, in the order of the processes."""
    number, count = process_number(), process_count()
    return slice(rows * number // count, rows * (number + 1) // count)


def sharded_forward(compute: Callable[..., Tensor], *rows: Tensor) -> Tensor:
    """Compute all rows, each process its share of them.

    `compute` gives a row for each row of its arguments, which are the same in all processes.
    """
    share = own_share(len(rows[0]))
    return gather_with_gradient(compute(*(tensor[share] for tensor in rows)), len(rows[0]))


def gather_with_gradient(own: Tensor, total: int) -> Tensor:
    """Gather the rows of all processes, in their order; gradients flow back to the process of each row.

    `own` is the share of this process, as `own_share(total)` says.
    """
    if process_count() == 1:
        return own
    gathered: Tensor = _Gather.apply(own, own_share(total), total)  # type: ignore[no-untyped-call]
    return gathered


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, share: slice, total: int) -> Tensor:
        ctx.share = share
        # Adding zeros changes no number, and shares need not be equally long.
        everything = own.new_zeros(total, *own.shape[1:])
        everything[share] = own
        dist.all_reduce(everything)
        return everything

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        # Every process has a loss of its own in which these rows take part.
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)
        return total[ctx.share], None, None


def average_gradients(network: nn.Module) -> None:
    """Average the gradients over all processes.

    DistributedDataParallel of torch needs one `forward` that uses every weight, while a loss calls the branches of a
    network one by one and may leave some out. All weights are sent in one message after the backward pass.
    """
    if process_count() == 1:
        return
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    taking_part = torch.tensor([weight.grad is not None for weight in weights], dtype=torch.float32)
    taking_part = taking_part.to(weights[0].device)
    dist.all_reduce(taking_part)
    used = [weight for weight, count in zip(weights, taking_part.tolist(), strict=True) if count]
    gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in used]
    flat = torch.cat(
        [gradient.flatten().to(torch.promote_types(gradient.dtype, torch.float32)) for gradient in gradients]
    )
    dist.all_reduce(flat)
    flat /= process_count()
    for weight, gradient in zip(used, torch.split(flat, [weight.numel() for weight in used]), strict=True):
        weight.grad = gradient.view_as(weight).to(weight.dtype, copy=True)


def broadcast_weights(network: nn.Module) -> None:
    """Copy the weights of the first process to all."""
    if process_count() > 1:
        for tensor in network.state_dict().values():
            dist.broadcast(tensor, 0)


def broadcast(drawn: Tensor) -> Tensor:
    """Copy what the first process has drawn to all: randomness must not depend on the shares."""
    if process_count() > 1:
        dist.broadcast(drawn, 0)
    return drawn


def broadcast_number(number: float, device: torch.device) -> float:
    """Copy a number of the first process to all."""
    if process_count() == 1:
        return number
    # Not before the return above: Apple GPUs have no float64.
    value = torch.tensor([number], dtype=torch.float64, device=device)
    dist.broadcast(value, 0)
    return float(value.item())


class SharedBatchNorm(_BatchNorm):
    """Batch norm over the rows of all processes, also on the CPU, where SyncBatchNorm of torch does not work.

    With one process, or in `eval` mode, it is torch's own batch norm. Weights and running statistics have the same
    names as there.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2 dimensions, got {input.dim()}")

    def forward(self, input: Tensor) -> Tensor:
        if process_count() == 1 or not self.training:
            normalized: Tensor = super().forward(input)
            return normalized
        counts = torch.zeros(process_count(), dtype=torch.int64, device=input.device)
        counts[process_number()] = len(input)
        dist.all_reduce(counts)
        ends = counts.cumsum(0).tolist()
        share = slice(ends[process_number()] - len(input), ends[process_number()])
        rows: Tensor = super().forward(_Gather.apply(input, share, ends[-1]))  # type: ignore[no-untyped-call]
        return rows[share]


def share_batch_norm(module: nn.Module) -> nn.Module:
    """Replace each batch norm of a network by a `SharedBatchNorm` with the same weights."""
    if isinstance(module, _BatchNorm) and not isinstance(module, SharedBatchNorm):
        return _shared(module)
    for name, child in module._modules.items():  # `named_children` skips the second name of a module
        if child is not None:
            module._modules[name] = share_batch_norm(child)
    return module


def _shared(module: _BatchNorm) -> SharedBatchNorm:
    shared = SharedBatchNorm(
        module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats
    )
    # Not copies: an optimizer may hold these tensors already.
    shared._parameters, shared._buffers = module._parameters, module._buffers
    shared.train(module.training)
    return shared


def epoch_generator(seed: int, epoch: int) -> np.random.Generator:
    return np.random.default_rng([seed, epoch])


def seed_step(seed: int, step: int, device: torch.device) -> None:
    """Seed torch for a step, for dropout; differently in each process."""
    drawn = np.random.SeedSequence([seed, step, process_number()]).generate_state(1, np.uint64)
    state = int(drawn[0]) >> 1
    # `torch.manual_seed` seeds every kind of device, which takes some hundred times as long.
    torch.default_generator.manual_seed(state)
    if device.type == "cuda":
        torch.cuda.manual_seed(state)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the initial weights; the state of torch is restored afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def reproducible(device: torch.device, threads: int) -> Iterator[None]:
    """Compute deterministically, on the CPU bit for bit; the state of torch is restored afterwards."""
    threads_before = torch.get_num_threads()
    strict_before, warn_before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    fill_before = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    try:
        if threads:
            torch.set_num_threads(threads)
        if device.type == "cpu":
            # By default, threads add up the gradient of `x[rows]` in the order in which they finish.
            torch.use_deterministic_algorithms(True, warn_only=True)
            torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        torch.set_num_threads(threads_before)
        torch.use_deterministic_algorithms(strict_before, warn_only=warn_before)
        torch.utils.deterministic.fill_uninitialized_memory = fill_before  # type: ignore[attr-defined]
