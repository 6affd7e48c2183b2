"""Weights of networks as arrays by name, for artifacts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


def weights_of(network: nn.Module) -> dict[str, Any]:
    """Return the weights and buffers of a network as arrays, by name."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in network.state_dict().items()}


@contextmanager
def without_weights() -> Iterator[None]:
    """Make networks without memory for weights: a hostile file may state any size. `set_weights` sets them."""
    with torch.device("meta"), _SkipNormal():
        yield


class _SkipNormal(TorchFunctionMode):
    """Skip normal initialization: on the meta device it would only load torch's compiler, which takes 1.6 s."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.init.normal_:
            return kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def set_weights(network: nn.Module, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Set the weights of a network made `without_weights`, and put it into `eval` mode.

    They take the precision of the network. Raises `ValueError` if names or shapes are not those of the network.
    """
    own = network.state_dict()
    try:
        if unknown := sorted(arrays.keys() - own.keys()):
            raise ValueError(f"{unknown[0]} is not in the network")
        tensors = {name: _to_tensor(array, own[name].dtype) for name, array in arrays.items()}
        network.load_state_dict(tensors, assign=True)
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    network.eval()


def _to_tensor(array: NDArray[Any], dtype: torch.dtype) -> Tensor:
    """Convert an array; memory-mapped arrays are copied, because they are read-only and torch needs writable ones."""
    return torch.from_numpy(array).to(dtype) if array.flags.writeable else torch.tensor(array, dtype=dtype)
