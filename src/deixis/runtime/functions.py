"""Inference functions of a network on arrays: what a network declares, and the engine that computes it.

A graph of an artifact is run by a `Session` of ONNX Runtime; `Functions` calls it, or the torch module of the network.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DeixisError, short_reason
from deixis.runtime.devices import (
    CPU,
    CUDA_PROVIDER,
    choose_device,
    cpu_threads,
    has_cuda_provider,
    onnx_runtime,
    require_torch,
    return_freed_memory,
)
from deixis.storage.artifacts import WEIGHTS, Artifact, StoredTable, damaged
from deixis.storage.checksums import CheckedFile, TensorFile
from deixis.storage.graphs import SUFFIX, check_graph

if TYPE_CHECKING:
    from torch import nn

BLOCK_ROWS = 4096
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


class Array:
    """Shape and type of an input or output. A dimension that varies has a name instead of a size."""

    def __init__(self, *shape: int | str, dtype: str = "float32", example: float = 0) -> None:
        self.shape, self.dtype, self.example = shape, dtype, example


@dataclass(frozen=True)
class Function:
    """An inference function of a network: the method of this name, with its arguments and results in order.

    `sizes` are those of named dimensions in the example that the export traces; a size of 1 would specialize the graph.
    """

    name: str
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    sizes: Mapping[str, int] = field(default_factory=dict)


class Session:
    """One graph of an artifact, opened when it is first called. Arrays take the type of the inputs."""

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
            raise DeixisError(f"{self.path}: cannot be run ({short_reason(error)})") from error

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
            providers.insert(0, (CUDA_PROVIDER, {"device_id": int(self._device.partition(":")[2] or 0)}))
        try:
            session = onnxruntime.InferenceSession(str(self.path), options, providers=providers)
        except Exception as error:  # as above
            raise DeixisError(f"{self.path}: damaged, or not made by deixis ({short_reason(error)})") from error
        if self._device != CPU and CUDA_PROVIDER not in session.get_providers():
            warn(
                f"{self._device}: ONNX Runtime cannot use it, are CUDA and cuDNN installed? The CPU computes.",
                stacklevel=2,
            )
        self._inputs = [(each.name, _DTYPES[each.type]) for each in session.get_inputs()]
        if self._weights and self._weights.path.stat().st_size > _LARGE_BYTES:
            return_freed_memory()  # opening takes twice the memory of the weights
        return session


class Functions:
    """The inference functions of a network, called by name on arrays.

    A network that was loaded from an artifact is run by ONNX Runtime. Its torch module is made when `module` is first
    used; from then on the module computes, because it may be trained. `other_arrays` of a saved network are not
    weights of its module.
    """

    def __init__(
        self,
        module: nn.Module | None = None,
        *,
        artifact: Artifact | None = None,
        make_module: Callable[[], nn.Module] | None = None,
        other_arrays: Collection[str] = (),
        device: str = CPU,
    ) -> None:
        self._module = module
        self._make_module = make_module
        self._artifact = artifact
        self._other_arrays = other_arrays
        self._graphs: Mapping[str, bytes] | None = None
        self._sessions: dict[str, Session] = {}
        self._device = CPU
        if module is None and (artifact is None or make_module is None):
            raise TypeError("give a module, or an artifact and what makes its module")
        if module is None:
            self.to(device)

    def __call__(self, function: str, *arrays: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Call a function; floating point results are float32."""
        if function in self._sessions:
            return self._sessions[function](*arrays)
        from deixis.runtime.modules import call_module

        return call_module(self.module, function, arrays)

    def in_blocks(
        self, function: str, *arrays: NDArray[Any], columns: int | None = None, rows: int = BLOCK_ROWS
    ) -> NDArray[Any]:
        """Call a function that has one result on many rows, some at a time.

        A result that has not the number of `columns` that the settings of the model say is refused.
        """
        starts = range(0, max(len(arrays[0]), 1), rows)
        blocks = [self(function, *(array[start : start + rows] for array in arrays))[0] for start in starts]
        found = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        if columns is not None and found.shape[1:] != (columns,):
            folder = self._artifact.folder if self._artifact else None
            raise DeixisError(f"{folder}: {function} returns vectors of {found.shape[1:]}, the settings say {columns}")
        return found

    def in_parallel(self, function: str, *arrays: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Call a function on each row, in as many threads as there are cores; see `cpu_threads`.

        Products with dynamic int8 activations have one scale for all rows of a call, so the result of a row would
        otherwise depend on the others. A GPU, and torch, which has threads of its own, get all rows at once.
        """
        if function not in self._sessions or self._device != CPU or len(arrays[0]) < 2:
            return self(function, *arrays)
        rows = zip(*(np.array_split(array, len(array)) for array in arrays), strict=True)
        threads = min(cpu_threads(), len(arrays[0]))
        with ThreadPoolExecutor(threads, thread_name_prefix=function) if threads > 1 else nullcontext() as pool:
            found = list((pool.map if pool else map)(lambda row: self(function, *row), rows))
        return tuple(np.concatenate(outputs) for outputs in zip(*found, strict=True))

    def weight(self, name: str) -> NDArray[Any]:
        """One of the weights, for what is computed outside of the network; those of a module may change."""
        if self._module is None and self._artifact is not None:
            with damaged(self._artifact.folder or Path()):
                return self._artifact.arrays[name]
        array: NDArray[Any] = self.module.get_parameter(name).detach().cpu().numpy()
        return array

    def table(self, name: str) -> NDArray[Any] | StoredTable:
        """One of the weights, of which few rows are used; see `weight`."""
        if self._module is None and self._artifact is not None:
            with damaged(self._artifact.folder or Path()):
                return self._artifact.table(name)
        return self.weight(name)

    @property
    def has_sessions(self) -> bool:
        """Whether sessions of ONNX Runtime compute, and not the module."""
        return bool(self._sessions)

    @property
    def device(self) -> str:
        """Kind of the device that computes: cpu or cuda."""
        return self._device if self._module is None else str(next(self._module.parameters()).device.type)

    @property
    def module(self) -> Any:
        """The torch module, which computes from now on."""
        if self._module is None:
            self._module, self._sessions = self._load_module(), {}
        return self._module

    def _load_module(self) -> nn.Module:
        assert self._make_module is not None  # noqa: S101 - checked by __init__
        assert self._artifact is not None  # noqa: S101 - as above
        require_torch("training, or a network without graphs,")
        from deixis.runtime.modules import set_weights, without_weights

        with damaged(self._artifact.folder or Path()):
            with without_weights():
                module = self._make_module()
            arrays = self._artifact.arrays
            set_weights(module, {name: arrays[name] for name in arrays if name not in self._other_arrays})
        return module

    def to(self, device: str) -> None:
        """Move to a device. On a GPU, torch computes unless ONNX Runtime has the CUDA provider."""
        chosen = choose_device(device)
        self._device = chosen.partition(":")[0]
        artifact = self._artifact
        has_provider = chosen == CPU or (chosen.startswith("cuda") and has_cuda_provider())
        if self._module is None and artifact is not None and artifact.folder is not None and has_provider:
            self._sessions = {name: Session(artifact.files, name, chosen) for name in artifact.graphs}
            for session in self._sessions.values():
                session.check()  # a damaged model is refused when it is loaded
        elif chosen != CPU or self._module is not None:
            self.module.to(chosen)

    def to_artifact(
        self, kind: str, settings: dict[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None
    ) -> Artifact:
        """Artifact of the network: its weights, its functions as graphs, and other `arrays` of the model."""
        if self._module is None and self._artifact is not None and self._artifact.graphs:
            return Artifact(kind, settings, self._artifact.arrays, graphs=self._artifact.graphs)
        from deixis.runtime.modules import export_functions, weights_of

        if self._graphs is None:  # they do not depend on the weights
            self._graphs = export_functions(self.module)
        return Artifact(kind, settings, {**weights_of(self.module), **(arrays or {})}, graphs=self._graphs)
