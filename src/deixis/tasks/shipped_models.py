"""The models that come with deixis, by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from deixis import language, vision
from deixis.tasks.given import path_of

SHIPPED = Path(__file__).parent / "shipped"
ABOUT = "about.json"


@dataclass(frozen=True)
class ShippedModel:
    """A model that is part of the package.

    Attributes
    ----------
    name
        What `deixis.load` and ``--model`` take.
    folder
        Where it is; its ``README.md`` is its card. For a part of others, a file with its card beside it.
    does, trained_on, licence
        In a few words.
    scores
        On data that it has not learned from.
    """

    name: str
    folder: Path
    does: str
    trained_on: str
    licence: str
    scores: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        if self.folder.is_file():
            return self.folder.stat().st_size
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())


def shipped_models() -> list[ShippedModel]:
    """All of them, by the alphabet.

    Examples
    --------
    >>> [model.name for model in shipped_models()]
    ['describer', 'grounder', 'm-rnn', 'two-branch']
    """
    found = []
    for file in sorted(SHIPPED.glob(f"*/{ABOUT}")):
        about = json.loads(file.read_text(encoding="utf-8"))
        found.append(ShippedModel(file.parent.name, file.parent, **about))
    return found


def parts_of_models() -> list[ShippedModel]:
    """What they all see and read with; not for `deixis.load`.

    Examples
    --------
    >>> [model.name for model in parts_of_models()]
    ['encoder', 'head', 'chunker', 'parser', 'tagger']
    """
    rooms = Path(vision.__file__).parent, Path(language.__file__).parent
    return [part for room in rooms for part in parts_in(room / "models")]


def parts_in(folder: Path) -> list[ShippedModel]:
    """The models that a folder's ``about.json`` tells of."""
    parts = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    return [ShippedModel(name, folder / part.pop("file"), **part) for name, part in parts.items()]


def place_of(model: str | PathLike[str]) -> Path:
    """The folder of a model: the shipped one of this name, unless a model of the user's has it.

    Examples
    --------
    >>> place_of("two-branch").name
    'two-branch'
    """
    name = path_of(model, "model")
    shipped = next((each.folder for each in shipped_models() if each.name == name), None)
    holds_a_model = any((Path(name) / place).is_file() for place in ("bundle.json", "model/bundle.json"))
    return shipped if shipped and not holds_a_model else Path(name)
