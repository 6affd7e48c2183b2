"""Where a run stands, as one file that is replaced whole: tensors in safetensors, the rest as JSON in its header.

One file, because a kill between two would leave the weights of one step beside the optimiser of another. Nothing is
pickled.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.files.atomic import new_file
from deixis.language.saved import damaged

FORMAT = "deixis-checkpoint"
VERSION = 1
WEIGHTS, AVERAGE, OPTIMISER = "weights/", "average/", "optimiser/"


@dataclass(frozen=True)
class Best:
    """The best look at dev so far.

    Attributes
    ----------
    step, epoch
        How far training was; epochs are counted from 1.
    watched
        The score that made it the best; empty where there is no dev.
    scores
        All scores by name.
    """

    step: int
    epoch: int
    watched: str
    scores: Mapping[str, float]

    @property
    def value(self) -> float:
        """The score that is watched."""
        return self.scores.get(self.watched, float("-inf"))


@dataclass(frozen=True)
class Position:
    """How far a run is.

    Attributes
    ----------
    step
        Steps of the optimiser so far.
    epoch, batches
        The epoch to go on with, counted from 0, and how many of its batches have been learnt from.
    best
        The best look at dev so far.
    looks_since_best
        Looks at dev since then.
    stopped
        Whether training stopped early.
    seconds
        How long training has taken.
    log_bytes
        How long the log was: what a killed run wrote later is not kept.
    """

    step: int = 0
    epoch: int = 0
    batches: int = 0
    best: Best | None = None
    looks_since_best: int = 0
    stopped: bool = False
    seconds: float = 0.0
    log_bytes: int = 0


def write_checkpoint(path: Path, tensors: Mapping[str, Tensor], position: Position) -> None:
    """Write a checkpoint, whole or not at all; until then, an older one stays."""
    # Copies, because safetensors takes no tensors that share their memory, as tied weights do.
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    facts = {"format": FORMAT, "version": VERSION, "checksum": _checksum(copies), "position": asdict(position)}
    with new_file(path) as unfinished, written(path):
        save_file(copies, unfinished, metadata={"deixis": json.dumps(facts)})


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], Position]:
    """Read what `write_checkpoint` wrote.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_checkpoint(Path(folder) / "last.safetensors", {"weights/a": torch.ones(2)}, Position(step=7))
    ...     tensors, position = read_checkpoint(Path(folder) / "last.safetensors")
    >>> tensors["weights/a"], position.step
    (tensor([1., 1.]), 7)
    """
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
            raise ValueError("the checksum does not fit the numbers")
        position = dict(facts["position"])
        best = position.pop("best")
        return tensors, Position(**position, best=Best(**best) if best else None)


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    total = 0
    for name in sorted(tensors):
        total = zlib.crc32(name.encode(), total)
        total = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().data, total)
    return total


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Say in one line that safetensors could not write; it hides what the operating system said."""
    try:
        yield
    except SafetensorError as error:
        raise DeixisError(f"{path}: cannot be written ({' '.join(str(error).split())})") from error


def named(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors with a prefix before their names."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def of_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def load_weights(network: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Put weights into a network; weights of another one are refused by name."""
    own = network.state_dict()
    for name in sorted(own.keys() | weights.keys()):
        if name not in weights or name not in own:
            raise DeixisError(f"{path}: {'holds' if name in weights else 'lacks'} {name}; it is of another model")
        if own[name].shape != weights[name].shape:
            here, there = tuple(own[name].shape), tuple(weights[name].shape)
            raise DeixisError(f"{path}: {name} has the shape {there}, the model's has {here}; it is of another model")
    network.load_state_dict(weights)


def optimiser_tensors(network: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What an optimiser remembers, by the weight it belongs to."""
    remembered = {name: optimiser.state.get(weight, {}) for name, weight in network.named_parameters()}
    return {f"{name}/{key}": value for name, state in remembered.items() for key, value in state.items()}


def load_optimiser(network: nn.Module, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Let an optimiser remember what `optimiser_tensors` gave; its groups must hold the weights in their order."""
    state: dict[int, dict[str, Tensor]] = {}
    numbers = {name: number for number, (name, _) in enumerate(learnt_weights(network))}
    for key, tensor in tensors.items():
        name, _, what = key.rpartition("/")
        if name in numbers:
            state.setdefault(numbers[name], {})[what] = tensor
    groups: list[Any] = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": state, "param_groups": groups})


def learnt_weights(network: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """The weights that are learnt, by name."""
    return [(name, weight) for name, weight in network.named_parameters() if weight.requires_grad]
