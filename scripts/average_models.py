"""Average the weights of trained models that began from the same one.

python scripts/average_models.py OUT MODEL MODEL…

The models are directories from ``deixis train``, with the same network and vocabulary. OUT receives a model with the
mean of their weights and with everything else of the first one, except its card and its scores. They may also be towers
of ``scripts/train_encoder.py``, which continued from the same towers.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from deixis.errors import DeixisError
from deixis.models.pipeline import Pipeline, load


def average(folders: Sequence[Path]) -> Pipeline:
    """Return the first model, with the mean weights of all."""
    first, *others = map(load, folders)
    states: list[dict[str, torch.Tensor]] = [first.model.network.state_dict()]
    for folder, other in zip(folders[1:], others, strict=True):
        states.append(other.model.network.state_dict())
        if other.vocabulary != first.vocabulary or _shapes(states[-1]) != _shapes(states[0]):
            raise DeixisError(f"{folder}: has another network or vocabulary than {folders[0]}")
    means = {name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]}
    first.model.network.load_state_dict(means)
    first.provenance = replace(first.provenance, scores={})
    first.card = ""
    return first


def average_towers(out: Path, folders: Sequence[Path]) -> None:
    """Write the mean weights of towers, with what is known of the first ones."""
    from encoder_towers import read_towers, write_towers

    (first, about), *others = map(read_towers, folders)
    for folder, (weights, _) in zip(folders[1:], others, strict=True):
        if _shapes(weights) != _shapes(first):
            raise DeixisError(f"{folder}: has another network or vocabulary than {folders[0]}")
    every = [first, *(weights for weights, _ in others)]
    write_towers(
        {name: torch.stack([each[name] for each in every]).mean(0) for name in first}, about | {"dev": {}}, out
    )


def _shapes(state: dict[str, torch.Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in state.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    chosen = parser.parse_args()
    try:
        if (chosen.models[0] / "towers.json").is_file():
            average_towers(chosen.out, chosen.models)
        else:
            average(chosen.models).save_pretrained(chosen.out)
    except DeixisError as error:
        raise SystemExit(f"average_models: {error}") from None


if __name__ == "__main__":
    main()
