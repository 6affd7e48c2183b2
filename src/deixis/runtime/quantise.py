"""Quantisation of saved networks: matrix products with int8 weights and activations that are quantised as they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DeixisError
from deixis.runtime.devices import INSTALL_TRAIN
from deixis.storage.artifacts import SCALE, Artifact

if TYPE_CHECKING:
    import onnx

_LEAST_WEIGHTS = 2**14
"""Smaller matrices are not worth it."""


def quantise(
    artifact: Artifact, *, largest: int = 127, exclude: Iterable[str] = (), stored: Iterable[str] = ()
) -> Artifact:
    """Return an artifact whose matrix products have int8 weights, one scale per output.

    Activations are quantised when they are computed, so no photos are needed. Weights that are used in any other way
    than as the matrix of a product keep their precision.

    Parameters
    ----------
    artifact
        A saved network with graphs.
    largest
        Largest absolute value of a weight. With 63, sums of products fit into 16 bits on processors without VNNI.
    exclude
        Weights to leave as they are.
    stored
        Matrices of recurrent layers and tables of words: stored as int8, computed with in single precision.
    """
    try:
        import onnx
    except ImportError:
        raise DeixisError(f"quantising a network needs the package onnx: {INSTALL_TRAIN}") from None
    models = {name: onnx.load_from_string(graph) for name, graph in artifact.graphs.items()}
    candidates = {
        name
        for name, array in artifact.arrays.items()
        if array.ndim == 2
        and array.size >= _LEAST_WEIGHTS
        and array.dtype.kind == "f"
        and name not in {*exclude, *stored}
    }
    used: set[str] = set()
    for model in models.values():
        products = _products(model)
        parts = {part for product in products for part in product.chain}
        used |= {product.weight for product in products}
        candidates -= {
            product.weight
            for product in products
            for node in model.graph.node
            if id(node) not in parts and set(node.input) & product.names
        }
        read = {name for node in model.graph.node for name in node.input}
        candidates -= read - {product.weight for product in products}
    chosen = candidates & used
    arrays = {name: array for name, array in artifact.arrays.items() if name not in chosen}
    for name in stored:
        arrays[name], arrays[name + SCALE] = quantise_rows(artifact.arrays[name])
    for name in chosen:
        arrays[name], arrays[name + SCALE] = quantise_rows(artifact.arrays[name], largest)
    graphs = {name: _rewrite(model, chosen, set(stored)) for name, model in models.items()}
    return replace(artifact, arrays=arrays, graphs=graphs)


def quantise_rows(matrix: NDArray[Any], largest: int = 127) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return int8 rows and one scale each, which make the squared error small.

    Examples
    --------
    >>> rows, scales = quantise_rows(np.array([[1.0, -0.5], [0.0, 0.0]]))
    >>> rows.tolist(), (rows * scales[:, None]).round(2).tolist()
    ([[127, -64], [0, 0]], [[1.0, -0.5], [0.0, 0.0]])
    """
    rows = np.asarray(matrix, np.float32)
    highest = np.abs(rows).max(axis=1, keepdims=True)
    best, scales = np.full(len(rows), np.inf), np.ones((len(rows), 1), np.float32)
    for share in (1.0, 0.95, 0.9, 0.85, 0.8, 0.75):
        scale = np.where(highest > 0, share * highest / largest, 1.0).astype(np.float32)
        error = (np.clip(np.round(rows / scale), -largest, largest) * scale - rows) ** 2
        better = error.sum(axis=1) < best
        best, scales = np.where(better, error.sum(axis=1), best), np.where(better[:, None], scale, scales)
    return np.clip(np.round(rows / scales), -largest, largest).astype(np.int8), scales[:, 0].astype(np.float32)


class _Product:
    """A product with a weight: ``Cast → (Transpose →) MatMul`` or ``Cast → Gemm``."""

    def __init__(self, node: onnx.NodeProto, weight: str, before: list[onnx.NodeProto]) -> None:
        self.node, self.weight, self.before = node, weight, before

    @property
    def chain(self) -> set[int]:
        return {id(self.node), *map(id, self.before)}

    @property
    def names(self) -> set[str]:
        """The weight, and what the nodes before the product make of it."""
        return {self.weight, *(name for node in self.before for name in node.output)}


def _products(model: onnx.ModelProto) -> list[_Product]:
    maker = {name: node for node in model.graph.node for name in node.output}
    found = []
    for node in model.graph.node:
        if node.op_type not in ("MatMul", "Gemm") or len(node.input) < 2:
            continue
        before, dead = maker.get(node.input[1]), []
        attributes: Mapping[str, Any] = {each.name: each for each in node.attribute}
        if node.op_type == "MatMul":
            if before is None or before.op_type != "Transpose" or list(before.attribute[0].ints) != [1, 0]:
                continue
            dead.append(before)
            before = maker.get(before.input[0])
        elif not attributes["transB"].i or attributes["alpha"].f != 1 or attributes["beta"].f != 1:
            continue
        if before is not None and before.op_type == "Cast":
            found.append(_Product(node, before.input[0], [*dead, before]))
    return found


def _rewrite(model: onnx.ModelProto, chosen: set[str], stored: set[str]) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    products = {id(product.node): product for product in _products(model) if product.weight in chosen}
    dead = {id(node) for product in products.values() for node in product.before}
    nodes: list[Any] = []
    quantised: dict[str, str] = {}
    initializers = {each.name: each for each in model.graph.initializer}
    for name in sorted((chosen | stored) & initializers.keys()):
        scale = TensorProto(name=name + SCALE, dims=initializers[name].dims[:1], data_type=TensorProto.FLOAT)
        scale.data_location = TensorProto.EXTERNAL
        model.graph.initializer.append(scale)
    if stored & initializers.keys():
        model.graph.initializer.append(numpy_helper.from_array(np.array([1]), ":columns"))
    for node in model.graph.node:
        if id(node) in dead:
            continue
        if node.op_type == "Cast" and node.input[0] in stored:
            name, result = node.input[0], node.output[0]
            nodes += [
                helper.make_node("Cast", [name], [f"{result}:int8"], to=TensorProto.FLOAT),
                helper.make_node("Unsqueeze", [name + SCALE, ":columns"], [f"{result}:scale"]),
                helper.make_node("Mul", [f"{result}:int8", f"{result}:scale"], [result]),
            ]
            continue
        if id(node) not in products:
            nodes.append(node)
            continue
        weight, source, result = products[id(node)].weight, node.input[0], node.output[0]
        if source not in quantised:
            quantised[source] = f"{source}:int8"
            parts = [f"{source}:int8{part}" for part in ("", ":scale", ":zero")]
            nodes.append(helper.make_node("DynamicQuantizeLinear", [source], parts))
        into = quantised[source]
        columns = f"{weight}:columns:{result}"
        nodes += [
            helper.make_node("Transpose", [weight], [columns], perm=[1, 0]),
            helper.make_node("MatMulInteger", [into, columns, f"{into}:zero"], [f"{result}:sum"]),
            helper.make_node("Cast", [f"{result}:sum"], [f"{result}:float"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"{into}:scale", weight + SCALE], [f"{result}:scale"]),
        ]
        has_bias = node.op_type == "Gemm" and len(node.input) == 3
        product = f"{result}:product" if has_bias else result
        nodes.append(helper.make_node("Mul", [f"{result}:float", f"{result}:scale"], [product]))
        if has_bias:
            nodes.append(helper.make_node("Add", [product, node.input[2]], [result]))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return bytes(model.SerializeToString())
