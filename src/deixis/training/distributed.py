"""Several processes that train one model, as if they were one with the same batch.

``torchrun`` starts the processes and tells them of each other through the environment. Each sees the whole batch,
computes what belongs to its share of the rows, and hands the results to all the others (`by_shares`), gradients
included: every process then holds the loss of the whole batch, with all of its negatives. The mean of the processes'
gradients (`average_gradients`) is the gradient that one process would have found.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn

from deixis.errors import DeixisError


def chosen_device(name: str) -> torch.device:
    """The device of a name; ``auto`` is a GPU where there is one.

    Examples
    --------
    >>> chosen_device("cpu")
    device(type='cpu')
    """
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
    """How many processes train together; 1 outside `processes`."""
    return dist.get_world_size() if dist.is_initialized() else 1


def process_number() -> int:
    """Which of them this is; 0 is the one that writes files and talks."""
    return dist.get_rank() if dist.is_initialized() else 0


@contextmanager
def processes(device: torch.device) -> Iterator[torch.device]:
    """Join the processes that ``torchrun`` started; give the device of this one. Alone, do nothing.

    Examples
    --------
    >>> with processes(torch.device("cpu")) as device:
    ...     process_count(), device.type
    (1, 'cpu')
    """
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
        dist.barrier()  # nobody leaves while others still wait for what they sent
    finally:
        dist.destroy_process_group()


def leave(code: int = 0) -> NoReturn:
    """End a program whose work is done; the last line of whatever ``torchrun`` starts.

    Threads that torch keeps for several processes abort one in about fifteen of those that end in the usual way, and
    ``torchrun`` then calls a finished run failed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if "LOCAL_RANK" in os.environ:
        os._exit(code)
    sys.exit(code)


def own_share(rows: int) -> slice:
    """The rows of a batch that this process computes: unbroken runs, in the order of the processes.

    Examples
    --------
    >>> own_share(10)
    slice(0, 10, None)
    """
    return _shares(rows)[process_number()]


def _shares(rows: int) -> list[slice]:
    ends = [rows * (number + 1) // process_count() for number in range(process_count())]
    return [slice(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def by_shares(compute: Callable[..., Tensor], *rows: Tensor) -> Tensor:
    """What `compute` gives for all rows, each process having computed its share of them.

    Parameters
    ----------
    compute
        Gives a row for each row of what it is handed: a branch of a network, as a rule.
    rows
        Tensors with as many rows each, the same in all processes.

    Examples
    --------
    >>> by_shares(lambda a, b: a + b, torch.ones(3, 2), torch.ones(3, 2)).shape
    torch.Size([3, 2])
    """
    share = own_share(len(rows[0]))
    return gather_with_gradient(compute(*(tensor[share] for tensor in rows)), len(rows[0]))


def gather_with_gradient(own: Tensor, total: int) -> Tensor:
    """The rows of all processes, in their order; gradients flow back to the process that each row came from.

    Parameters
    ----------
    own
        The rows of this process' share, as `own_share(total)` says.
    total
        How many rows there are in all.
    """
    if process_count() == 1:
        return own
    gathered: Tensor = _Gather.apply(own, total)  # type: ignore[no-untyped-call]
    return gathered


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, total: int) -> Tensor:
        ctx.share = own_share(total)
        # Adding zeros changes no number, and shares need not be equally long.
        everything = own.new_zeros(total, *own.shape[1:])
        everything[ctx.share] = own
        dist.all_reduce(everything)
        return everything

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        # Every process has a loss of its own in which these rows take part.
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)
        return total[ctx.share], None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        total = own.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)
        return total


def sum_with_gradient(own: Tensor) -> Tensor:
    """The sum over all processes, through which gradients flow."""
    if process_count() == 1:
        return own
    total: Tensor = _Sum.apply(own)  # type: ignore[no-untyped-call]
    return total


def average_gradients(network: nn.Module) -> None:
    """Give every process the mean of all processes' gradients.

    Not torch's DistributedDataParallel: that wants one `forward` in which every weight takes part, while a loss calls
    the branches of a network one by one and may leave some out. One message for all weights, after the backward pass.
    """
    if process_count() == 1:
        return
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    taking_part = torch.tensor([weight.grad is not None for weight in weights], dtype=torch.float32)
    taking_part = taking_part.to(weights[0].device)
    dist.all_reduce(taking_part)
    used = [weight for weight, count in zip(weights, taking_part.tolist(), strict=True) if count]
    gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in used]
    flat = torch.cat([gradient.flatten().to(at_least_float32(gradient.dtype)) for gradient in gradients])
    dist.all_reduce(flat)
    flat /= process_count()
    for weight, gradient in zip(used, torch.split(flat, [weight.numel() for weight in used]), strict=True):
        weight.grad = gradient.view_as(weight).to(weight.dtype, copy=True)


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """What to add up numbers in.

    Examples
    --------
    >>> at_least_float32(torch.bfloat16), at_least_float32(torch.float64)
    (torch.float32, torch.float64)
    """
    return torch.promote_types(dtype, torch.float32)


def from_first(network: nn.Module) -> None:
    """Give every process the weights of the first."""
    if process_count() > 1:
        for tensor in network.state_dict().values():
            dist.broadcast(tensor, 0)


def same_everywhere(drawn: Tensor) -> Tensor:
    """What the first process has drawn, for all: chances that must not depend on who computes which rows."""
    if process_count() > 1:
        dist.broadcast(drawn, 0)
    return drawn


def number_from_first(number: float, device: torch.device) -> float:
    """Give every process a number that the first one knows."""
    if process_count() == 1:
        return number
    # Apple's GPUs know no float64, and they train alone.
    told = torch.tensor([number], dtype=torch.float64, device=device)
    dist.broadcast(told, 0)
    return float(told.item())
