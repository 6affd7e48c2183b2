"""Checkpoints: one safetensors file with the position of the run as JSON in its header, replaced atomically.

One file, because a kill between two writes would leave the weights of one step with the optimizer state of another.
Nothing is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.models.training.objective import DevScores
from deixis.storage.artifacts import damaged
from deixis.storage.atomic import new_file
from deixis.storage.checksums import crc32_of

FORMAT = "deixis-checkpoint"
VERSION = 3
WEIGHTS, AVERAGE, OPTIMIZER = "weights/", "average/", "optimizer/"


def best_epoch(evaluations: Sequence[DevScores], patience: int = 0) -> tuple[DevScores | None, bool]:
    """Return the best of the epochs, and whether early stopping ends training after them.

    Epochs after the early stop are ignored: `patience` evaluations without improvement; 0 never stops.
    """
    best, since_best = None, 0
    for each in evaluations:
        best, since_best = (each, 0) if best is None or each.value > best.value else (best, since_best + 1)
        if 0 < patience <= since_best:
            return best, True
    return best, False


@dataclass(frozen=True)
class Position:
    """Position of a run."""

    step: int = 0
    epoch: int = 0  # counted from 0
    batches: int = 0  # of this epoch, already used
    evaluations: Mapping[str, Sequence[DevScores]] = field(default_factory=dict)  # by the name of the validation set
    seconds: float = 0.0
    log_bytes: int = 0  # later lines of an interrupted run are removed


def write_checkpoint(path: Path, tensors: Mapping[str, Tensor], position: Position) -> None:
    """Write a checkpoint atomically; an older one is replaced."""
    # Copies, because safetensors refuses tensors that share memory, such as tied weights.
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    facts = {"format": FORMAT, "version": VERSION, "checksum": _checksum(copies), "position": asdict(position)}
    with new_file(path) as unfinished, explain_safetensors_errors(path):
        save_file(copies, unfinished, metadata={"deixis": json.dumps(facts)})


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], Position]:
    if not path.is_file():
        raise DeixisError(f"{path}: missing")
    with damaged(path):
        try:
            with safe_open(path, framework="pt") as file:
                facts = json.loads((file.metadata() or {})["deixis"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
        except SafetensorError as error:
            raise ValueError(str(error)) from error
        if facts["format"] != FORMAT or facts["version"] != VERSION:
            raise DeixisError(f"{path}: {facts['format']} {facts['version']}, this deixis reads {FORMAT} {VERSION}")
        if facts["checksum"] != _checksum(tensors):
            raise ValueError("the checksum does not match")
        position = dict(facts["position"])
        evaluations = {
            name: [DevScores(**scores) for scores in epochs] for name, epochs in position.pop("evaluations").items()
        }
        return tensors, Position(**position, evaluations=evaluations)


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    named = ((name.encode(), tensors[name].reshape(-1).view(torch.uint8).numpy().data) for name in sorted(tensors))
    return crc32_of(*chain.from_iterable(named))


@contextmanager
def explain_safetensors_errors(path: Path) -> Iterator[None]:
    """Turn errors of safetensors, which hide those of the operating system, into one line."""
    try:
        yield
    except SafetensorError as error:
        raise DeixisError(f"{path}: cannot be written ({' '.join(str(error).split())})") from error


def add_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in tensors.items()}


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names have a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def load_weights(network: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Load weights into a network; name the first tensor that does not fit."""
    own = network.state_dict()
    for name in sorted(own.keys() | weights.keys()):
        if name not in weights or name not in own:
            raise DeixisError(f"{path}: {'holds' if name in weights else 'lacks'} {name}; it belongs to another model")
        if own[name].shape != weights[name].shape:
            here, there = tuple(own[name].shape), tuple(weights[name].shape)
            raise DeixisError(
                f"{path}: {name} has the shape {there}, the model's has {here}; it belongs to another model"
            )
    network.load_state_dict(weights)


def optimizer_tensors(network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimizer, by the names of weights."""
    states = {name: optimizer.state.get(weight, {}) for name, weight in network.named_parameters()}
    return {f"{name}/{key}": value for name, state in states.items() for key, value in state.items()}


def load_optimizer(network: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the state that `optimizer_tensors` returned; the optimizer must have the weights in the same order."""
    state: dict[int, dict[str, Tensor]] = {}
    numbers = {name: number for number, (name, _) in enumerate(trained_weights(network))}
    for key, tensor in tensors.items():
        name, _, what = key.rpartition("/")
        if name in numbers:
            state.setdefault(numbers[name], {})[what] = tensor
    groups: list[Any] = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def trained_weights(network: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, weight) for name, weight in network.named_parameters() if weight.requires_grad]
