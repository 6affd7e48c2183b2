"""Steps on a GPU as recordings: what a step does is recorded once for each shape of batches, then replayed at one go.

A step of a small network is hundreds of small kernels, which take longer to launch than to run. A recording (a CUDA
graph) is launched as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Generic

import torch
from torch import Tensor

from deixis.training.base import Batch

Terms = Mapping[str, Tensor]

WARM_UP = 3
"""Batches of a shape that are learnt from in the plain way before one is recorded: torch prepares much at first use."""

MOST = 64
"""Shapes that are recorded; batches of further shapes are learnt from in the plain way."""


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    batch: Any
    terms: Terms


class Replayer(Generic[Batch]):
    """Learns from batches, from recordings where it can.

    Parameters
    ----------
    learn
        One whole step: gradients, optimiser and all. It must not wait for the GPU, nor choose by what it finds there.
    device
        A GPU.
    """

    def __init__(self, learn: Callable[[Batch], Terms], device: torch.device) -> None:
        self._learn = learn
        self._device = device
        # All on one stream beside the usual one, as recording demands.
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._recordings: dict[Any, _Recording] = {}
        self._met: Counter[Any] = Counter()

    def __call__(self, batch: Batch) -> Terms:
        """Learn from a batch; the loss and its terms."""
        usual = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(usual)
        with torch.cuda.stream(self._stream):
            terms = self._replayed(batch)
        usual.wait_stream(self._stream)
        return terms

    def _replayed(self, batch: Batch) -> Terms:
        shape = shape_of(batch)
        self._met[shape] += 1
        if shape not in self._recordings:
            if self._met[shape] <= WARM_UP or len(self._recordings) >= MOST:
                return self._learn(batch)
            self._recordings[shape] = self._recorded(batch)
        recording = self._recordings[shape]
        for there, new in zip(_tensors(recording.batch).values(), _tensors(batch).values(), strict=True):
            there.copy_(new, non_blocking=True)
        recording.graph.replay()
        return {name: term.clone() for name, term in recording.terms.items()}

    def _recorded(self, batch: Batch) -> _Recording:
        """A step that has been recorded and not yet run."""
        moved = {name: tensor.to(self._device) for name, tensor in _tensors(batch).items()}
        own: Any = replace(batch, **moved)  # type: ignore[type-var]
        graph = torch.cuda.CUDAGraph()
        pool = next(iter(self._recordings.values())).graph.pool() if self._recordings else None
        with torch.cuda.graph(graph, pool=pool, stream=self._stream):
            terms = self._learn(own)
        return _Recording(graph, own, terms)


def shape_of(batch: object) -> tuple[object, ...]:
    """What batches of one recording have in common: the shapes of their tensors, and all that is no tensor.

    Examples
    --------
    >>> from deixis.training.triplets import LabelledPairs
    >>> shape_of(LabelledPairs(*torch.ones(4, 3)))
    (torch.Size([3]), torch.Size([3]), torch.Size([3]), torch.Size([3]))
    """
    if not is_dataclass(batch):
        raise TypeError(f"a batch of named tensors is needed, not a {type(batch).__name__}")
    values = (getattr(batch, field.name) for field in fields(batch))
    return tuple(value.shape if isinstance(value, Tensor) else value for value in values)


def _tensors(batch: Any) -> dict[str, Tensor]:
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
