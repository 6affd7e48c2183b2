"""Arrays into networks and out of them: rows checked, some at a time, and weights by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from deixis.errors import DeixisError
from deixis.language.features.base import Floats

ROWS_AT_A_TIME = 4096


def checked_rows(features: Any, size: int, name: str) -> Tensor:
    """Features as a tensor, once it is certain that the network can take them."""
    rows = np.asarray(features)
    if rows.ndim != 2 or rows.shape[1] != size:
        raise DeixisError(f"features of shape {rows.shape}: a {name} has {size:,} numbers here, one row each")
    return torch.from_numpy(np.ascontiguousarray(rows))


@torch.inference_mode()
def in_blocks(network: nn.Module, embed: Any, *inputs: Tensor) -> Floats:
    """What a part of a network gives for many rows, some at a time, as in evaluation."""
    weight = next(network.parameters())
    was_training = network.training
    network.eval()
    try:
        made = [
            embed(*(_moved(rows[block], weight) for rows in inputs)).float().cpu() for block in _blocks(len(inputs[0]))
        ]
    finally:
        network.train(was_training)
    array: Floats = torch.cat(made).numpy()
    return array


def _moved(rows: Tensor, like: Tensor) -> Tensor:
    return rows.to(like.device, like.dtype if rows.is_floating_point() else None)


def _blocks(count: int) -> Iterator[slice]:
    return (slice(start, start + ROWS_AT_A_TIME) for start in range(0, max(count, 1), ROWS_AT_A_TIME))


def weights_of(network: nn.Module) -> dict[str, Any]:
    """All that a network has learned, by name."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in network.state_dict().items()}


@contextmanager
def without_weights() -> Iterator[None]:
    """Networks made here have no room for weights, as a hostile file may state any size; `give_weights` gives them."""
    with torch.device("meta"), _NothingDrawn():
        yield


class _NothingDrawn(TorchFunctionMode):
    """Let normal numbers be: where there is no room for them, drawing them would only load torch's compiler, 1.6 s."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.init.normal_:
            return kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def give_weights(network: nn.Module, arrays: Mapping[str, Any]) -> None:
    """Give a network made `without_weights` its weights, and leave it ready for use."""
    try:
        network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()}, assign=True)
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    network.eval()
