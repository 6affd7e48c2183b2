"""Graphs of an artifact, run by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DeixisError
from deixis.runtime.devices import CPU, onnx_runtime
from deixis.runtime.memory import return_freed_memory
from deixis.storage.artifacts import WEIGHTS, damaged
from deixis.storage.checksums import CheckedFile
from deixis.storage.graphs import SUFFIX, check_graph
from deixis.storage.tensors import TensorFile

_CUDA = "CUDAExecutionProvider"
_LARGE_BYTES = 2**24

_DTYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
    "tensor(bool)": np.bool_,
}


class Session:
    """One graph of an artifact, opened when it is first called. Arrays take the type of the inputs.

    Parameters
    ----------
    files, name
        The files of the artifact, and the name of the function.
    device
        cpu, or cuda for the CUDA provider.
    """

    def __init__(self, files: Mapping[str, CheckedFile], name: str, device: str = CPU) -> None:
        self._graph = files[f"{name}{SUFFIX}"]
        self._weights = files.get(WEIGHTS)
        self.path = self._graph.path
        self._device = device
        self._opening = Lock()
        self._session: Any = None
        self._inputs: list[tuple[str, Any]] = []

    def __call__(self, *arrays: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        with self._opening:
            if self._session is None:
                self._session = self._open()
        inputs = {
            name: np.ascontiguousarray(array, dtype) for (name, dtype), array in zip(self._inputs, arrays, strict=True)
        }
        try:
            return tuple(self._session.run(None, inputs))
        except Exception as error:  # the only common base class of onnxruntime's errors
            raise DeixisError(f"{self.path}: cannot be run ({_short(error)})") from error

    def check(self) -> None:
        """Refuse a graph that does not belong to the weights beside it, or that could read or run anything else."""
        with damaged(self.path):
            check_graph(self._graph.read(), TensorFile(self._weights).layout if self._weights else {}, WEIGHTS)

    def _open(self) -> Any:
        onnxruntime = onnx_runtime()
        self.check()  # again, because the files may have been replaced
        if self._weights:
            with damaged(self._weights.path):
                self._weights.check()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # errors are raised
        # A call uses one thread. Calls of several threads run in parallel, which takes less CPU than sharing operators.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        providers: list[Any] = ["CPUExecutionProvider"]
        if self._device != CPU:
            providers.insert(0, (_CUDA, {"device_id": int(self._device.partition(":")[2] or 0)}))
        try:
            session = onnxruntime.InferenceSession(str(self.path), options, providers=providers)
        except Exception as error:  # as above
            raise DeixisError(f"{self.path}: damaged, or not made by deixis ({_short(error)})") from error
        if self._device != CPU and _CUDA not in session.get_providers():
            warn(
                f"{self._device}: ONNX Runtime cannot use it, are CUDA and cuDNN installed? The CPU computes.",
                stacklevel=2,
            )
        self._inputs = [(each.name, _DTYPES[each.type]) for each in session.get_inputs()]
        if self._weights and self._weights.path.stat().st_size > _LARGE_BYTES:
            return_freed_memory()  # opening takes twice the memory of the weights
        return session


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
