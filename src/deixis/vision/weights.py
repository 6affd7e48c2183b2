"""Files of the weights that are trained here: half precision, with all that is needed to use them in the metadata."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from deixis.errors import DeixisError
from deixis.files.atomic import new_file

Config = dict[str, Any]
Network = TypeVar("Network", bound=nn.Module)

_CONFIG = "config"


def save_weights(
    path: str | PathLike[str],
    network: nn.Module,
    config: Mapping[str, object],
    about: Mapping[str, object] | None = None,
) -> None:
    """Write a network in half precision, whole or not at all.

    Parameters
    ----------
    path
        The file to write.
    network
        In any precision, on any device.
    config
        What `load_weights` needs to make such a network again, as JSON.
    about
        Whatever else should stand in the file, as JSON: settings, scores.
    """
    metadata = {key: json.dumps(value) for key, value in {**(about or {}), _CONFIG: config}.items()}
    weights = {name: tensor.detach().half().cpu().contiguous() for name, tensor in network.state_dict().items()}
    with new_file(path) as unfinished:
        save_file(weights, unfinished, metadata)


def load_weights(path: Path, what: str, made_of: Callable[[Config], Network]) -> tuple[Network, Config]:
    """A network in single precision, and its config.

    Parameters
    ----------
    path
        A file that `save_weights` wrote.
    what
        It holds, in words for people.
    made_of
        Makes a network of a config.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_weights(f"{folder}/a.safetensors", nn.Linear(2, 3), {"sides": [2, 3]})
    ...     load_weights(Path(folder) / "a.safetensors", "line", lambda config: nn.Linear(*config["sides"]))[0]
    Linear(in_features=2, out_features=3, bias=True)
    """
    with damaged(path, what), safe_open(path, framework="pt") as file:
        config: Config = json.loads((file.metadata() or {})[_CONFIG])
        # First without room for weights: a hostile file may state any size.
        with torch.device("meta"):
            network = made_of(config)
        stated = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
        held = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - no mapping
        if stated != held:
            wrong = sorted(name for name in stated.keys() | held.keys() if stated.get(name) != held.get(name))
            raise ValueError(f"{wrong[0]} is not as the shape asks for")
        network.load_state_dict({name: file.get_tensor(name).float() for name in stated}, assign=True)
        return network.eval(), config


@contextmanager
def damaged(path: Path, what: str) -> Iterator[None]:
    """Say in one line that a file is not what it should be, whatever was noticed first."""
    try:
        yield
    except (
        SafetensorError,
        AttributeError,
        KeyError,
        MemoryError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        reason = " ".join(str(error).split())[:200]
        raise DeixisError(f"{path}: damaged, or no {what} of deixis ({type(error).__name__}: {reason})") from error
