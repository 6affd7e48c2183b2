"""Weights stored as int8, with a scale for each row.

`quantize_weights` makes files smaller: networks compute with these weights in single precision or, for fast products of
few rows, with the int8 weights. `quantize_products` makes products of many rows faster, but the result of a row then
depends on the other rows of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import dequantize, quantize
from deixis.errors import DeixisError
from deixis.runtime.devices import INSTALL_TRAIN
from deixis.storage.artifacts import SCALE, Artifact

if TYPE_CHECKING:
    import onnx

MIN_ROW = 64
"""Rows that are shorter stay as they are: there is little to save."""

_MIN_PRODUCT = 2**14
"""Products with smaller matrices are not faster."""

_BLOCK = 64
"""Numbers of a row that are rounded with one scale before they are multiplied by int8 weights. ONNX Runtime adds up
blocks of up to 64 in the same order for one row and for many; for larger blocks, the last bits differ."""

_MICROSOFT = "com.microsoft"
_LARGEST = 127
_SHARES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75)


def quantize_weights(artifact: Artifact, names: Collection[str] | None = None, *, products: bool = False) -> Artifact:
    """Store weight matrices of a network as int8, with a scale for each row, a quarter of single precision.

    Graphs multiply by the scales. ONNX Runtime does so once, when it opens a graph, so speed and memory do not change.

    Parameters
    ----------
    artifact
        A saved network.
    names
        The matrices. By default all but matrices of short rows and tables of which a graph gathers rows; those that
        are also the matrix of a product are quantised with `products`.
    products
        Multiply by the int8 matrices; see `multiply_blocks`.
    """
    models = _models(artifact)
    if any(tensor.name.endswith(SCALE) for model in models.values() for tensor in model.graph.initializer):
        return artifact  # quantised already
    if names is None:
        kept = {name for model in models.values() for name in _read_otherwise(model)}
        gathered = {name for model in models.values() for name in _gathered(model)}
        if products:
            gathered -= {each.weight for model in models.values() for each in _products(model, sliced=True)}
        kept |= gathered
        names = {
            name
            for name, array in artifact.arrays.items()
            if array.dtype.kind == "f" and array.ndim > 1 and array[0].size >= MIN_ROW and name not in kept
        }
    return replace(
        artifact,
        arrays=_quantized(artifact.arrays, names, _LARGEST),
        graphs={name: use_integers(model, names, products=products) for name, model in models.items()},
    )


def use_integers(model: onnx.ModelProto, names: Collection[str], *, products: bool) -> bytes:
    """Return a graph that reads int8 weights and their scales, in place of weights in single or half precision."""
    if products:
        multiply_blocks(model, names)
    return multiply_by_scales(model, names)


def quantize_products(artifact: Artifact, *, largest: int = _LARGEST, exclude: Iterable[str] = ()) -> Artifact:
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
    """
    models = _models(artifact)
    candidates = {
        name
        for name, array in artifact.arrays.items()
        if array.ndim == 2 and array.size >= _MIN_PRODUCT and array.dtype.kind == "f" and name not in set(exclude)
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
    return replace(
        artifact,
        arrays=_quantized(artifact.arrays, chosen, largest),
        graphs={name: _multiply_integers(model, chosen) for name, model in models.items()},
    )


def quantize_rows(array: NDArray[Any], largest: int = _LARGEST) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return int8 rows and one scale each, which make the squared error small.

    Examples
    --------
    >>> rows, scales = quantize_rows(np.array([[1.0, -0.5], [0.0, 0.0]]))
    >>> rows.tolist(), (rows * scales[:, None]).round(2).tolist()
    ([[127, -64], [0, 0]], [[1.0, -0.5], [0.0, 0.0]])
    """
    rows = np.asarray(array, np.float32).reshape(len(array), -1)
    highest = np.abs(rows).max(axis=1, keepdims=True)
    best, scales = np.full(len(rows), np.inf), np.ones((len(rows), 1), np.float32)
    for share in _SHARES:
        scale = np.where(highest > 0, share * highest / largest, 1.0).astype(np.float32)
        error = ((dequantize(quantize(rows, scale, largest), scale) - rows) ** 2).sum(axis=1)
        better = error < best
        best, scales = np.where(better, error, best), np.where(better[:, None], scale, scales)
    return quantize(rows, scales, largest).reshape(array.shape), scales[:, 0]


def _models(artifact: Artifact) -> dict[str, onnx.ModelProto]:
    try:
        import onnx
    except ImportError:
        raise DeixisError(f"quantising a network needs the package onnx: {INSTALL_TRAIN}") from None
    return {name: onnx.load_from_string(graph) for name, graph in artifact.graphs.items()}


def _quantized(arrays: Mapping[str, NDArray[Any]], names: Collection[str], largest: int) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    for name, array in arrays.items():
        if name in names:
            found[name], found[name + SCALE] = quantize_rows(array, largest)
        else:
            found[name] = array
    return found


def _add_scales(model: onnx.ModelProto, names: Collection[str]) -> None:
    from onnx import TensorProto

    for weight in [each for each in model.graph.initializer if each.name in names]:
        scale = TensorProto(name=weight.name + SCALE, dims=weight.dims[:1], data_type=TensorProto.FLOAT)
        scale.data_location = TensorProto.EXTERNAL
        model.graph.initializer.append(scale)


def _moved_weights(model: onnx.ModelProto) -> Callable[[str], list[str]]:
    """Return a function from a name to the weights whose rows it has, and to no weights for anything else.

    Rows are moved by a concatenation, and by a selection.
    """
    maker = {name: node for node in model.graph.node for name in node.output}
    constants = {each.name for each in model.graph.initializer}

    def weights_of(name: str) -> list[str]:
        if name in constants:
            return [name]
        node = maker.get(name)
        if node is not None and node.op_type == "Gather" and not any(each.i for each in node.attribute):
            return weights_of(node.input[0])
        if node is not None and node.op_type == "Concat":
            parts = [weights_of(part) for part in node.input]
            return [weight for part in parts for weight in part] if all(parts) else []
        return []

    return weights_of


def _read_otherwise(model: onnx.ModelProto) -> set[str]:
    """Weights that are read by anything but a cast to single precision, before which rows may be moved."""
    weights_of = _moved_weights(model)
    weights = {tensor.name for tensor in model.graph.initializer}
    found: set[str] = set()
    for node in model.graph.node:
        moves = any(weights_of(name) for name in node.output)
        if node.op_type != "Cast" and not moves:
            found |= {weight for name in node.input for weight in weights_of(name)}
    return found & weights


def _gathered(model: onnx.ModelProto) -> set[str]:
    """Weights of which rows are selected that an input names."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return {
        node.input[0] for node in model.graph.node if node.op_type == "Gather" and node.input[1] not in weights
    } & weights


def multiply_by_scales(model: onnx.ModelProto, names: Collection[str]) -> bytes:
    """Return a graph that multiplies weights by their scales, where it casts them to single precision."""
    from onnx import helper, numpy_helper

    graph = model.graph
    weights_of = _moved_weights(model)
    maker = {name: node for node in graph.node for name in node.output}
    dims = {each.name: len(each.dims) for each in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    _add_scales(model, names)

    def scale_of(name: str) -> str:
        """Move the scales as the rows were moved."""
        if name in dims:
            return name + SCALE
        moved = maker[name]
        inputs = [scale_of(moved.input[0]), moved.input[1]] if moved.op_type == "Gather" else map(scale_of, moved.input)
        copy = helper.make_node(moved.op_type, list(inputs), [name + SCALE], axis=0)
        nodes.append(copy)
        return name + SCALE

    axes: set[int] = set()
    for node in graph.node:
        nodes.append(node)
        weights = weights_of(node.input[0]) if node.op_type == "Cast" else []
        if not weights or weights[0] not in names:
            continue
        single, column = node.output[0], f"{node.output[0]}:scale"
        rank = dims[weights[0]]
        axes.add(rank)
        node.output[0] = f"{single}:integers"
        nodes.append(helper.make_node("Unsqueeze", [scale_of(node.input[0]), f":axes:{rank}"], [column]))
        nodes.append(helper.make_node("Mul", [node.output[0], column], [single]))
    for rank in sorted(axes):
        graph.initializer.append(numpy_helper.from_array(np.arange(1 - rank, 0), f":axes:{rank}"))
    del graph.node[:]
    graph.node.extend(nodes)
    return bytes(model.SerializeToString())


def multiply_blocks(model: onnx.ModelProto, names: Collection[str]) -> None:
    """Multiply by int8 weights with MatMulNBits: a product of one row reads a quarter of the bytes of single precision.

    Each block of a row of the other factor gets a scale of its own and is rounded to int8, so the result of a row does
    not depend on the others. Stored weights need not be packed for it: ONNX Runtime computes the blocks once, when it
    opens the graph.
    """
    from onnx import TensorProto, helper, numpy_helper

    products = {id(each.node): each for each in _products(model, sliced=True) if each.weight in names}
    shapes = _matrix_shapes(model, products.values())
    products = {key: each for key, each in products.items() if shapes[each.matrix][1] % _BLOCK == 0}
    if not products:
        return
    nodes: list[onnx.NodeProto] = []
    made: set[str] = set()
    for node in model.graph.node:
        product = products.get(id(node))
        if product is None:
            nodes.append(node)
            continue
        weight, matrix, result = product.weight, product.matrix, node.output[0]
        rows, columns = shapes[matrix]
        blocks = f"{matrix}:blocks"
        if blocks not in made:
            made.add(blocks)
            codes, scales = weight, f"{blocks}:scale"
            nodes.append(helper.make_node("Unsqueeze", [weight + SCALE, ":last"], [scales]))
            if product.slice is not None:
                parts = product.slice.input[1:]
                nodes += [
                    helper.make_node("Slice", [weight, *parts], [f"{blocks}:rows"]),
                    helper.make_node("Slice", [scales, *parts], [f"{blocks}:rows:scale"]),
                ]
                codes, scales = f"{blocks}:rows", f"{blocks}:rows:scale"
            sizes = np.array([rows, columns // _BLOCK, _BLOCK])
            model.graph.initializer.append(numpy_helper.from_array(sizes, f"{blocks}:shape"))
            model.graph.initializer.append(numpy_helper.from_array(sizes[:2], f"{blocks}:scales:shape"))
            nodes += [
                helper.make_node("Reshape", [codes, f"{blocks}:shape"], [f"{blocks}:signed"]),
                helper.make_node("Cast", [f"{blocks}:signed"], [f"{blocks}:bytes"], to=TensorProto.UINT8),
                helper.make_node("BitwiseXor", [f"{blocks}:bytes", ":128"], [blocks]),  # adds 128, which stands for 0
                helper.make_node("Expand", [scales, f"{blocks}:scales:shape"], [f"{blocks}:scales"]),
            ]
        has_bias = node.op_type == "Gemm" and len(node.input) == 3
        multiplied = f"{result}:product" if has_bias else result
        attributes: dict[str, Any] = {"K": columns, "N": rows, "bits": 8, "block_size": _BLOCK, "accuracy_level": 4}
        inputs = [node.input[0], blocks, f"{blocks}:scales"]
        nodes.append(helper.make_node("MatMulNBits", inputs, [multiplied], domain=_MICROSOFT, **attributes))
        if has_bias:
            nodes.append(helper.make_node("Add", [multiplied, node.input[2]], [result]))
    model.graph.initializer.append(numpy_helper.from_array(np.array([-1]), ":last"))
    model.graph.initializer.append(numpy_helper.from_array(np.array(128, np.uint8), ":128"))
    if all(each.domain != _MICROSOFT for each in model.opset_import):
        model.opset_import.append(helper.make_opsetid(_MICROSOFT, 1))
    nodes = _used(nodes, [each.name for each in model.graph.output])
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def has_block_products(model: onnx.ModelProto) -> bool:
    """Whether a graph multiplies by int8 weights as `multiply_blocks` does."""
    return any(node.op_type == "MatMulNBits" for node in model.graph.node)


def _matrix_shapes(model: onnx.ModelProto, products: Iterable[_Product]) -> dict[str, tuple[int, ...]]:
    """Shapes of the matrices of products, some of which are slices of a weight."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    weights = {each.name: each for each in model.graph.initializer}
    shapes = {}
    for product in products:
        dims = tuple(weights[product.weight].dims)
        if product.slice is not None:
            cut = product.slice
            value = helper.make_tensor_value_info(cut.input[0], weights[product.weight].data_type, dims)
            result = helper.make_empty_tensor_value_info(cut.output[0])
            nodes = _used(model.graph.node, [cut.output[0]], {cut.input[0]})
            part = helper.make_model(
                helper.make_graph(nodes, "slice", [value], [result]), opset_imports=model.opset_import
            )
            outputs: Any = ReferenceEvaluator(part).run(None, {cut.input[0]: np.zeros(dims, np.float32)})
            dims = outputs[0].shape
        shapes[product.matrix] = dims
    return shapes


def _used(nodes: Sequence[onnx.NodeProto], outputs: Iterable[str], given: Collection[str] = ()) -> list[onnx.NodeProto]:
    """Return the nodes, in their order, that the outputs need, where some values are given."""
    used, kept = set(outputs), []
    for node in reversed(nodes):
        if used & set(node.output) - set(given):
            kept.append(node)
            used |= set(node.input)
    return kept[::-1]


def _multiply_integers(model: onnx.ModelProto, chosen: Collection[str]) -> bytes:
    from onnx import TensorProto, helper

    products = {id(product.node): product for product in _products(model) if product.weight in chosen}
    dead = {id(node) for product in products.values() for node in product.before}
    nodes: list[Any] = []
    quantized: dict[str, str] = {}
    _add_scales(model, chosen)
    for node in model.graph.node:
        if id(node) in dead:
            continue
        if id(node) not in products:
            nodes.append(node)
            continue
        weight, source, result = products[id(node)].weight, node.input[0], node.output[0]
        if source not in quantized:
            quantized[source] = f"{source}:int8"
            parts = [f"{source}:int8{part}" for part in ("", ":scale", ":zero")]
            nodes.append(helper.make_node("DynamicQuantizeLinear", [source], parts))
        into = quantized[source]
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


class _Product:
    """A product with a weight: ``Cast → (Slice →) Transpose → MatMul`` or ``Cast → (Slice →) Gemm``."""

    def __init__(
        self, node: onnx.NodeProto, weight: str, before: list[onnx.NodeProto], slice: onnx.NodeProto | None = None
    ) -> None:
        self.node, self.weight, self.before, self.slice = node, weight, before, slice

    @property
    def matrix(self) -> str:
        """The weight, or the slice of it by which the product multiplies."""
        return self.weight if self.slice is None else self.slice.output[0]

    @property
    def chain(self) -> set[int]:
        return {id(self.node), *map(id, self.before)}

    @property
    def names(self) -> set[str]:
        """The weight, and what the nodes before the product make of it."""
        return {self.weight, *(name for node in self.before for name in node.output)}


def _products(model: onnx.ModelProto, *, sliced: bool = False) -> list[_Product]:
    """Products with weights and, with `sliced`, with slices of them."""
    weights = {each.name for each in model.graph.initializer}
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
        slice = before if sliced and before is not None and before.op_type == "Slice" else None
        if slice is not None:
            dead.append(slice)
            before = maker.get(slice.input[0])
        if before is not None and before.op_type == "Cast" and before.input[0] in weights:
            found.append(_Product(node, before.input[0], [*dead, before], slice))
    return found
