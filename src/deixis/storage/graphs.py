"""ONNX graphs of artifacts: files ``NAME.onnx`` without weights, whose initializers point into ``weights.safetensors``.

A graph says where each weight lies in the weights file (offset and length), so weights are stored once and any ONNX
tool can open the file. `link_graph` writes these places and `check_graph` refuses a graph from an unknown source that
points elsewhere. Both read the protocol buffers themselves: the package `onnx` is needed only for the export.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deixis.storage.checksums import StoredTensor

SUFFIX = ".onnx"
DOMAINS = ("", "ai.onnx", "com.microsoft")
"""Operator sets that ONNX Runtime brings; custom ones are refused."""

MAX_GRAPH_BYTES = 64 * 2**20

_DTYPES = {
    "F32": 1, "U8": 2, "I8": 3, "U16": 4, "I16": 5, "I32": 6, "I64": 7, "BOOL": 9, "F16": 10, "F64": 11, "U32": 12,
    "U64": 13, "BF16": 16,
}  # fmt: skip
"""From the names of safetensors to the numbers of ONNX."""

# Field numbers of the messages in onnx.proto.
_MODEL_GRAPH, _MODEL_OPSETS, _MODEL_TRAINING, _MODEL_FUNCTIONS = 7, 8, 20, 25
_OPSET_DOMAIN = 1
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_SPARSE = 1, 5, 15
_NODE_ATTRIBUTE, _NODE_DOMAIN = 5, 7
_ATTRIBUTE_TENSORS = (5, 10)
_ATTRIBUTE_REFUSED = {6: "a subgraph", 11: "a subgraph", 22: "a sparse tensor", 23: "a sparse tensor"}
_TENSOR_DIMS, _TENSOR_DTYPE, _TENSOR_NAME, _TENSOR_EXTERNAL, _TENSOR_LOCATION = 1, 2, 8, 13, 14
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EXTERNAL = 1
_MAX_BYTE = 0x7F


def link_graph(graph: bytes, layout: Mapping[str, StoredTensor], weights: str) -> bytes:
    """Point external initializers to the tensors of their name in `weights`; raises `ValueError` if one is missing."""
    model = [
        (number, _link_initializers(value, layout, weights) if number == _MODEL_GRAPH else value)
        for number, value in _fields(graph)
    ]
    return _encode(model)


def _link_initializers(graph: int | bytes, layout: Mapping[str, StoredTensor], weights: str) -> bytes:
    return _encode(
        (number, _linked(value, layout, weights) if number == _GRAPH_INITIALIZER else value)
        for number, value in _fields(graph)
    )


def _linked(tensor: int | bytes, layout: Mapping[str, StoredTensor], weights: str) -> int | bytes:
    fields = _fields(tensor)
    if (_TENSOR_LOCATION, _EXTERNAL) not in fields:
        return tensor
    name = _text(dict(fields)[_TENSOR_NAME])
    if name not in layout:
        raise ValueError(f"the graph needs the array {name}")
    stored = layout[name]
    place = {"location": weights, "offset": str(stored.offset), "length": str(stored.length)}
    return _encode(
        [
            *((_TENSOR_DIMS, size) for size in stored.shape),
            (_TENSOR_DTYPE, _DTYPES[stored.dtype]),
            (_TENSOR_NAME, name.encode()),
            *(
                (_TENSOR_EXTERNAL, _encode([(_ENTRY_KEY, key.encode()), (_ENTRY_VALUE, value.encode())]))
                for key, value in place.items()
            ),
            (_TENSOR_LOCATION, _EXTERNAL),
        ]
    )


def check_graph(graph: bytes, layout: Mapping[str, StoredTensor], weights: str) -> None:
    """Refuse a graph that has custom operators or subgraphs, or that reads anything but the tensors it names.

    Raises `ValueError`. Operators and shapes are checked by ONNX Runtime.
    """
    if len(graph) > MAX_GRAPH_BYTES:
        raise ValueError(f"larger than {MAX_GRAPH_BYTES // 2**20} MB")
    graphs = []
    for number, value in _fields(graph):
        if number == _MODEL_GRAPH:
            graphs.append(value)
        elif number == _MODEL_OPSETS:
            _check_domain(dict(_fields(value)).get(_OPSET_DOMAIN, b""))
        elif number in (_MODEL_TRAINING, _MODEL_FUNCTIONS):
            raise ValueError("it has functions or training information")
    if len(graphs) != 1:
        raise ValueError("it is not an ONNX graph")
    for number, value in _fields(graphs[0]):
        if number == _GRAPH_NODE:
            _check_node(value)
        elif number == _GRAPH_SPARSE:
            raise ValueError("it has a sparse tensor")
        elif number == _GRAPH_INITIALIZER:
            _check_initializer(value, layout, weights)


def _check_node(node: int | bytes) -> None:
    for number, value in _fields(node):
        if number == _NODE_DOMAIN:
            _check_domain(value)
        elif number == _NODE_ATTRIBUTE:
            for kind, content in _fields(value):
                if kind in _ATTRIBUTE_REFUSED:
                    raise ValueError(f"it has {_ATTRIBUTE_REFUSED[kind]}")
                if kind in _ATTRIBUTE_TENSORS and _is_external(_fields(content)):
                    raise ValueError("a constant of it is outside the graph")


def _check_domain(domain: int | bytes) -> None:
    if _text(domain) not in DOMAINS:
        raise ValueError(f"it has operators of {_text(domain)!r}")


def _check_initializer(tensor: int | bytes, layout: Mapping[str, StoredTensor], weights: str) -> None:
    fields = _fields(tensor)
    if not _is_external(fields):
        return
    name = _text(dict(fields).get(_TENSOR_NAME, b""))
    entries = [dict(_fields(value)) for number, value in fields if number == _TENSOR_EXTERNAL]
    place = {_text(entry.get(_ENTRY_KEY, b"")): _text(entry.get(_ENTRY_VALUE, b"")) for entry in entries}
    stored = layout.get(name)
    expected = stored and {"location": weights, "offset": str(stored.offset), "length": str(stored.length)}
    if len(place) < len(entries) or stored is None or place != expected:
        raise ValueError(f"its array {name!r} is not that of {weights}")
    if dict(fields).get(_TENSOR_DTYPE) != _DTYPES.get(stored.dtype):
        raise ValueError(f"its array {name!r} is of another type than that of {weights}")


def _is_external(fields: list[tuple[int, int | bytes]]) -> bool:
    return any(number in (_TENSOR_EXTERNAL, _TENSOR_LOCATION) and value != 0 for number, value in fields)


# Protocol buffers.


def _fields(message: int | bytes) -> list[tuple[int, int | bytes]]:
    """Return the numbers and values of the fields of a message: whole numbers, or bytes."""
    if isinstance(message, int):
        raise ValueError("not a protocol buffer")
    fields: list[tuple[int, int | bytes]] = []
    position, end = 0, len(message)
    while position < end:
        key = message[position]
        position += 1
        if key > _MAX_BYTE:
            key, position = _varint(message, position - 1)
        number, kind = key >> 3, key & 7
        if kind in (_VARINT, _BYTES):
            if position < end and message[position] <= _MAX_BYTE:  # most numbers have one byte
                value = message[position]
                position += 1
            else:
                value, position = _varint(message, position)
            if kind == _VARINT:
                fields.append((number, value))
                continue
        elif kind in (_FIXED32, _FIXED64):
            value = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError("not a protocol buffer")
        after = position + value
        if after > end:
            raise ValueError("the file is cut off")
        content = message[position:after]
        fields.append((number, content if kind == _BYTES else _Fixed(content)))
        position = after
    return fields


class _Fixed(bytes):
    """A number of 4 or 8 bytes, which is written as it was read."""


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(message) or shift > 63:
            raise ValueError("the file is cut off")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _encode(fields: Iterable[tuple[int, int | bytes]]) -> bytes:
    message = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            message += _as_varint(number << 3 | _VARINT) + _as_varint(value)
        elif isinstance(value, _Fixed):
            message += _as_varint(number << 3 | (_FIXED32 if len(value) == 4 else _FIXED64)) + value
        else:
            message += _as_varint(number << 3 | _BYTES) + _as_varint(len(value)) + value
    return bytes(message)


def _as_varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _text(value: int | bytes) -> str:
    if isinstance(value, int):
        raise ValueError("not a protocol buffer")
    return value.decode()
