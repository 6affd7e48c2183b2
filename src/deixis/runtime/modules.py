"""Torch modules on arrays: inference functions, weights, and the export of functions as ONNX graphs without weights.

The TorchScript exporter is used: it keeps recurrent layers with sequence lengths as one operator, keeps the names of
weights, and takes a fifth of the time of the newer exporter.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from deixis.runtime.devices import INSTALL_TRAIN
from deixis.runtime.functions import Function

if TYPE_CHECKING:
    import onnx

OPSET = 20
_NETWORK = "network."
_SINGLE = ":single"
_GATES = {"GRU": (1, 0, 2), "LSTM": (0, 3, 1, 2)}
"""Recurrent layers of ONNX, and torch's index of each of their gates."""


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
    results: tuple[Tensor, ...] = found if isinstance(found, tuple) else (found,)
    return tuple((each.float() if each.is_floating_point() else each).cpu().numpy() for each in results)


def _to_tensor(array: NDArray[Any], like: Tensor) -> Tensor:
    array = np.ascontiguousarray(array)
    # torch refuses negative strides, which a contiguous array of one row may have
    shared = array.flags.writeable and min(array.strides, default=0) >= 0
    tensor = torch.from_numpy(array) if shared else torch.from_numpy(array.copy())
    return tensor.to(like.device, like.dtype if tensor.is_floating_point() else None)


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


def export_functions(module: nn.Module, functions: Sequence[Function] | None = None) -> dict[str, bytes]:
    """Return the graph of each function, by name; none, and a warning, if the package onnx is not installed.

    What training changes must be a parameter or a buffer of the module; everything else becomes a constant.
    """
    if functions is None:
        declared: Any = getattr(module, "functions", list)
        functions = declared()
    if not functions:
        return {}
    if find_spec("onnx") is None:
        warnings.warn(
            f"saved without graphs, so torch must compute; with the package onnx: {INSTALL_TRAIN}", stacklevel=2
        )
        return {}
    with eval_mode(module), torch.no_grad():
        return {function.name: _export(module, function) for function in functions}


class _Caller(nn.Module):
    """Calls one function of a module, because the exporter takes modules."""

    def __init__(self, module: nn.Module, function: str) -> None:
        super().__init__()
        self.network = module
        self._function = function

    def forward(self, *inputs: Tensor) -> Any:
        return getattr(self.network, self._function)(*inputs)


def _export(module: nn.Module, function: Function) -> bytes:
    import onnx

    device = next(module.parameters()).device
    written = io.BytesIO()
    varying = {
        name: {axis: size for axis, size in enumerate(array.shape) if isinstance(size, str)}
        for name, array in {**function.inputs, **function.outputs}.items()
    }
    with _without_warnings():
        torch.onnx.export(
            _Caller(module, function.name).eval(),
            tuple(tensor.to(device) for tensor in _examples(function)),
            written,  # type: ignore[arg-type] # the stubs lack files
            dynamo=False,
            opset_version=OPSET,
            export_params=False,
            do_constant_folding=False,
            input_names=list(function.inputs),
            output_names=list(function.outputs),
            dynamic_axes={name: axes for name, axes in varying.items() if axes},
        )
    model = onnx.load_from_string(written.getvalue())
    _take_weights_out(model, function)
    _order_gates(model)
    model.graph.name = function.name
    for node in model.graph.node:
        node.ClearField("doc_string")
        node.ClearField("name")
    return bytes(model.SerializeToString())


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Hide warnings: the tracer warns of every size that Python code reads, and writes some of them to file 2."""
    sys.stderr.flush()
    stderr = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere, warnings.catch_warnings():  # noqa: PTH123 - a device, not a path
            warnings.simplefilter("ignore")
            os.dup2(nowhere.fileno(), 2)
            yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _examples(function: Function) -> list[Tensor]:
    """Return inputs of different sizes in all named dimensions."""
    names = [size for array in function.inputs.values() for size in array.shape if isinstance(size, str)]
    sizes: dict[Any, Any] = {name: number for number, name in enumerate(dict.fromkeys(names), start=2)}
    sizes |= function.sizes
    return [
        torch.full([sizes.get(size, size) for size in array.shape], array.example, dtype=getattr(torch, array.dtype))
        for array in function.inputs.values()
    ]


def _take_weights_out(model: onnx.ModelProto, function: Function) -> None:
    """Make external initializers of the weights, which the exporter left as inputs of the graph.

    Weights may be stored in half precision, so each is cast to single precision; rows of a table are cast after they
    were gathered. ONNX Runtime computes casts of weights once, when it opens the graph.
    """
    from onnx import TensorProto, helper

    graph = model.graph
    weights = [value for value in graph.input if value.name not in function.inputs]
    kept = {value.name: value for value in graph.input if value.name in function.inputs}
    for name, array in function.inputs.items():  # the exporter leaves out inputs that the function does not use
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(array.dtype))
        kept.setdefault(name, helper.make_tensor_value_info(name, kind, array.shape))
    casts, after = [], {}
    for value in weights:
        stored = value.name.removeprefix(_NETWORK)
        dims = [size.dim_value for size in value.type.tensor_type.shape.dim]
        readers = [(node, slot) for node in graph.node for slot, name in enumerate(node.input) if name == value.name]
        if not readers:
            continue
        tensor = TensorProto(name=stored, dims=dims, data_type=value.type.tensor_type.elem_type)
        tensor.data_location = TensorProto.EXTERNAL
        graph.initializer.append(tensor)
        is_float = tensor.data_type == TensorProto.FLOAT
        only_gathered = all(node.op_type == "Gather" and slot == 0 for node, slot in readers)
        name = stored
        if is_float and not only_gathered:
            name = stored + _SINGLE
            casts.append(helper.make_node("Cast", [stored], [name], to=TensorProto.FLOAT))
        for node, slot in readers:
            node.input[slot] = name
            if is_float and only_gathered:
                rows = node.output[0]
                node.output[0] = rows + ":stored"
                after[node.output[0]] = helper.make_node("Cast", [node.output[0]], [rows], to=TensorProto.FLOAT)
    nodes = list(casts)
    for node in graph.node:
        nodes.append(node)
        nodes += [after[name] for name in node.output if name in after]
    del graph.node[:], graph.input[:]
    graph.node.extend(nodes)
    graph.input.extend(kept[name] for name in function.inputs)


def _order_gates(model: onnx.ModelProto) -> None:
    """Order the rows of the weights of recurrent layers by one selection, before they are cast to single precision.

    ONNX has the gates in another order than torch. The exporter cuts and joins copies in single precision, which ONNX
    Runtime makes when it opens the graph: several times the memory of the weights.
    """
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    maker = {name: node for node in graph.node for name in node.output}
    shapes = {each.name: each.dims for each in graph.initializer if each.data_location == TensorProto.EXTERNAL}

    def weights_in(name: str) -> list[str]:
        if name in shapes:
            return [name]
        return [part for each in maker[name].input for part in weights_in(each)] if name in maker else []

    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        gates = _GATES.get(node.op_type, ())
        for slot in range(1, 4) if gates else ():  # weights of the words and of the state, and two biases
            name = node.input[slot]
            parts = list(dict.fromkeys(weights_in(name)))
            if not parts:  # a layer without biases
                continue
            directions = len(parts) // (2 if slot == 3 else 1)
            begins = np.cumsum([0, *(shapes[part][0] for part in parts)])
            own = [np.arange(*ends).reshape(len(gates), -1)[list(gates)] for ends in pairwise(begins)]
            order = np.concatenate(own).astype(np.int32).reshape(directions, -1)
            joined, rows, indices = (f"{name}:{part}" for part in ("joined", "rows", "order"))
            graph.initializer.append(numpy_helper.from_array(order, indices))
            nodes += [
                helper.make_node("Concat", parts, [joined], axis=0),
                helper.make_node("Gather", [joined, indices], [rows], axis=0),
                helper.make_node("Cast", [rows], [f"{name}:single"], to=TensorProto.FLOAT),
            ]
            node.input[slot] = f"{name}:single"
        nodes.append(node)
    used = {each.name for each in graph.output}
    kept = []
    for node in reversed(nodes):
        if used & set(node.output):
            kept.append(node)
            used |= set(node.input)
    del graph.node[:]
    graph.node.extend(reversed(kept))
