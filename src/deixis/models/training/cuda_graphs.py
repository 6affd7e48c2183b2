"""Training steps as CUDA graphs, captured once for each shape of batches.

A step of a small network consists of hundreds of small kernels that take longer to launch than to run. A graph is
launched at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Generic

import torch
from torch import Tensor

from deixis.models.training.objective import Batch

Terms = Mapping[str, Tensor]

WARM_UP = 3
"""Batches of a shape that are run without a graph before one is captured, as torch initializes on first use."""

MAX_GRAPHS = 64
"""Maximum number of graphs; batches of other shapes are run without one."""


@dataclass(frozen=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    batch: Any
    terms: Terms


class GraphRunner(Generic[Batch]):
    """Runs training steps, by graphs where possible.

    A step must not wait for the GPU, nor branch on values there.
    """

    def __init__(self, step: Callable[[Batch], Terms], device: torch.device) -> None:
        self._step = step
        self._device = device
        # Capturing needs a stream other than the default one.
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._graphs: dict[Any, _Captured] = {}
        self._counts: Counter[Any] = Counter()

    def __call__(self, batch: Batch) -> Terms:
        """Train on a batch; return the loss and its terms."""
        usual = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(usual)
        with torch.cuda.stream(self._stream):
            terms = self._run(batch)
        usual.wait_stream(self._stream)
        return terms

    def _run(self, batch: Batch) -> Terms:
        shape = shape_of(batch)
        self._counts[shape] += 1
        if shape not in self._graphs:
            if self._counts[shape] <= WARM_UP or len(self._graphs) >= MAX_GRAPHS:
                return self._step(batch)
            self._graphs[shape] = self._capture(batch)
        captured = self._graphs[shape]
        for there, new in zip(_tensors(captured.batch).values(), _tensors(batch).values(), strict=True):
            there.copy_(new, non_blocking=True)
        captured.graph.replay()
        return {name: term.clone() for name, term in captured.terms.items()}

    def _capture(self, batch: Batch) -> _Captured:
        """Capture a step without running it."""
        moved = {name: tensor.to(self._device) for name, tensor in _tensors(batch).items()}
        own: Any = replace(batch, **moved)  # type: ignore[type-var]
        graph = torch.cuda.CUDAGraph()
        pool = next(iter(self._graphs.values())).graph.pool() if self._graphs else None
        with torch.cuda.graph(graph, pool=pool, stream=self._stream):
            terms = self._step(own)
        return _Captured(graph, own, terms)


def shape_of(batch: object) -> tuple[object, ...]:
    """Return what batches of one graph have in common: the shapes of tensors, and all other values."""
    if not is_dataclass(batch):
        raise TypeError(f"expected a dataclass of tensors, not a {type(batch).__name__}")
    values = (getattr(batch, field.name) for field in fields(batch))
    return tuple(value.shape if isinstance(value, Tensor) else value for value in values)


def _tensors(batch: Any) -> dict[str, Tensor]:
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
