"""Weights stored as int8, with a scale for each row; networks compute with them in single precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deixis.storage.artifacts import SCALE, Artifact

if TYPE_CHECKING:
    import onnx

MIN_ROW = 64
"""Rows that are shorter stay as they are: there is little to save."""

_LARGEST = 127


def quantize_weights(artifact: Artifact) -> Artifact:
    """Store the weight matrices of a network as int8, with a scale for each row, a quarter of single precision.

    Graphs multiply by the scales. ONNX Runtime does so once, when it opens a graph, so speed and memory do not change.
    Tables of which a graph gathers rows, short rows and vectors stay as they are.
    """
    import onnx

    models = {name: onnx.load_from_string(graph) for name, graph in artifact.graphs.items()}
    if any(tensor.name.endswith(SCALE) for model in models.values() for tensor in model.graph.initializer):
        return artifact  # quantised already
    gathered = {name for model in models.values() for name in _read_without_cast(model)}
    arrays: dict[str, NDArray[Any]] = {}
    for name, array in artifact.arrays.items():
        if array.dtype.kind == "f" and array.ndim > 1 and array[0].size >= MIN_ROW and name not in gathered:
            arrays[name], arrays[name + SCALE] = quantize_rows(array)
        else:
            arrays[name] = array
    graphs = {name: _multiply_by_scales(model, arrays) for name, model in models.items()}
    return replace(artifact, arrays=arrays, graphs=graphs)


def quantize_rows(array: NDArray[np.floating]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return int8 values, and scales (rows, 1, …) such that their product is about the array."""
    values = np.asarray(array, dtype=np.float32)
    largest = np.abs(values).max(axis=tuple(range(1, array.ndim)), keepdims=True)
    scale = np.where(largest > 0, largest / _LARGEST, 1).astype(np.float32)
    return np.rint(values / scale).astype(np.int8), scale


def _read_without_cast(model: onnx.ModelProto) -> set[str]:
    """Weights that something else than a cast to single precision reads."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return {name for node in model.graph.node if node.op_type != "Cast" for name in node.input if name in weights}


def _multiply_by_scales(model: onnx.ModelProto, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    from onnx import TensorProto, helper

    graph = model.graph
    nodes = []
    for node in graph.node:
        nodes.append(node)
        weight = node.input[0] if node.op_type == "Cast" else ""
        if weight + SCALE not in arrays:
            continue
        single, integers = node.output[0], f"{weight}:integers"
        node.output[0] = integers
        nodes.append(helper.make_node("Mul", [integers, weight + SCALE], [single]))
        scale = TensorProto(name=weight + SCALE, dims=arrays[weight + SCALE].shape, data_type=TensorProto.FLOAT)
        scale.data_location = TensorProto.EXTERNAL
        graph.initializer.append(scale)
    del graph.node[:]
    graph.node.extend(nodes)
    return bytes(model.SerializeToString())
