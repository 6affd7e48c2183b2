"""Inference functions of a torch module on arrays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


@contextmanager
def eval_mode(network: nn.Module) -> Iterator[None]:
    """Switch a network to eval mode, and back at the end."""
    was_training = network.training
    if was_training:  # switching all layers takes as long as generating a word
        network.eval()
    try:
        yield
    finally:
        if was_training:
            network.train()


@torch.inference_mode()
def call_module(module: nn.Module, function: str, arrays: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
    """Call a method of a module in `eval` mode, on its device and in its precision."""
    weight = next(module.parameters())
    with eval_mode(module):
        found = getattr(module, function)(*(_to_tensor(array, weight) for array in arrays))
    return tuple(_to_array(tensor) for tensor in (found if isinstance(found, tuple) else (found,)))


def _to_tensor(array: NDArray[Any], like: Tensor) -> Tensor:
    array = np.ascontiguousarray(array)
    # torch refuses negative strides, which a contiguous array of one row may have
    shared = array.flags.writeable and min(array.strides, default=0) >= 0
    tensor = torch.from_numpy(array) if shared else torch.from_numpy(array.copy())
    return tensor.to(like.device, like.dtype if tensor.is_floating_point() else None)


def _to_array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = (tensor.float() if tensor.is_floating_point() else tensor).cpu().numpy()
    return array
