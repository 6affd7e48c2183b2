"""Safetensors files as mapped arrays, checked when they are read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from deixis.storage.checksums import CheckedFile

_DTYPES = {
    **{f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)},
    **{f"I{8 * size}": f"<i{size}" for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": f"<u{size}" for size in (1, 2, 4, 8)},
    "BOOL": "?",
}
"""From the names of safetensors to those of numpy."""


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies in a weights file."""

    dtype: str  # as safetensors calls it
    shape: tuple[int, ...]
    offset: int
    length: int


class TensorFile:
    """A safetensors file: the place of every tensor, and the strings in the header, which alone is read on opening."""

    def __init__(self, file: CheckedFile) -> None:
        with safe_open(file.path, framework="numpy"):  # checks the header against the size of the file
            pass
        begin = 8 + int.from_bytes(file.array(np.uint8, (8,), 0).tobytes(), "little")
        header = json.loads(file.array(np.uint8, (begin - 8,), 8).tobytes())
        self.file = file
        self.metadata: dict[str, str] = header.pop("__metadata__", {})
        self.layout: dict[str, StoredTensor] = {}
        for name, about in header.items():
            first, last = about["data_offsets"]
            self.layout[name] = StoredTensor(about["dtype"], tuple(about["shape"]), begin + first, last - first)

    def array(self, name: str) -> NDArray[Any]:
        """Return a read-only, mapped array."""
        return self.rows(name, 0, None)

    def rows(self, name: str, begin: int, end: int | None) -> NDArray[Any]:
        """Return some rows of an array, read-only and mapped; `end` is None for all."""
        tensor = self.layout[name]
        if tensor.dtype not in _DTYPES:
            raise ValueError(f"the type {tensor.dtype} is not known")
        dtype = np.dtype(_DTYPES[tensor.dtype])
        if end is None:
            return self.file.array(dtype, tensor.shape, tensor.offset)
        count, *rest = tensor.shape
        if not 0 <= begin <= end <= count:
            raise ValueError(f"rows {begin} to {end} of {count}")
        row_bytes = dtype.itemsize * int(np.prod(rest))
        return self.file.array(dtype, (end - begin, *rest), tensor.offset + begin * row_bytes)
