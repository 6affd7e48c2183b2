"""Torch modules on arrays: inference functions, weights, and attention that is exported as one operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode


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


def attention(query: Tensor, key: Tensor, value: Tensor, heads: int, bias: Tensor | None = None) -> Tensor:
    """Attend from n to m positions: vectors (b, n or m, width), of all heads; `bias` of logits is (1, heads, n, m)."""
    if torch.onnx.is_in_onnx_export():
        fused: Tensor = _FusedAttention.apply(query, key, value, heads, bias)  # type: ignore[no-untyped-call]
        return fused
    return _attention(query, key, value, heads, bias)


def _attention(query: Tensor, key: Tensor, value: Tensor, heads: int, bias: Tensor | None) -> Tensor:
    q, k, v = (each.reshape(*each.shape[:2], heads, -1).transpose(1, 2) for each in (query, key, value))
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2)


class _FusedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, heads: int, bias: Tensor | None) -> Tensor:
        return _attention(query, key, value, heads, bias)

    @staticmethod
    def symbolic(graph: Any, query: Any, key: Any, value: Any, heads: int, bias: Any) -> Any:
        # The operator's own bias and its mask of padding are not given.
        more = () if bias is None else (_nothing(graph), _nothing(graph), bias)
        found = graph.op("com.microsoft::MultiHeadAttention", query, key, value, *more, num_heads_i=heads)
        found.setType(query.type().with_sizes([None, None, None]))
        return found


def _nothing(graph: Any) -> Any:
    """An optional input that is not given."""
    nothing = graph.op("prim::Constant")
    nothing.setType(torch._C.OptionalType.ofTensor())
    return nothing


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
        tensors = {name: _to_weight(array, own[name].dtype) for name, array in arrays.items()}
        network.load_state_dict(tensors, assign=True)
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    network.eval()


def _to_weight(array: NDArray[Any], dtype: torch.dtype) -> Tensor:
    """Convert an array; memory-mapped arrays are copied, because they are read-only and torch needs writable ones."""
    return torch.from_numpy(array).to(dtype) if array.flags.writeable else torch.tensor(array, dtype=dtype)
