"""The models that come with the package, and the parts that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from deixis import language, vision
from deixis.models.arguments import check_path
from deixis.storage.artifacts import CONFIG, read_config
from deixis.storage.files import is_file_name

SHIPPED = Path(__file__).parent / "shipped"
FAST = "-fast"
"""A shipped model opens with the fast encoder if this follows its name."""


@dataclass(frozen=True)
class InstalledModel:
    """A model, or a part that models share, that comes with the package.

    Attributes
    ----------
    name
        Name for `deixis.load` and ``--model``.
    folder
        Where it is; its ``README.md`` is its card.
    summary, trained_on, licence
        In a few words.
    scores
        Scores on data that it was not trained on.
    capabilities, tasks
        Methods of a model, and tasks that ``deixis evaluate`` scores it on.
    opened_by
        How a part is opened.
    """

    name: str
    folder: Path
    summary: str
    trained_on: str
    licence: str
    scores: Mapping[str, Any] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    opened_by: str = ""

    @property
    def size(self) -> int:
        """Size on disk in bytes."""
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())


def shipped_models() -> list[InstalledModel]:
    """Models that come with deixis, in alphabetical order.

    Examples
    --------
    >>> {"captioner", "grounder", "two-branch"} <= {model.name for model in shipped_models()}
    True
    """
    return _installed_in(SHIPPED, "capabilities")


def shared_parts() -> list[InstalledModel]:
    """Parts that models share, such as the encoder and the tagger; they are not for `deixis.load`."""
    packages = Path(vision.__file__).parent, Path(language.__file__).parent
    return [part for package in packages for part in parts_in(package / "models")]


def parts_in(folder: Path) -> list[InstalledModel]:
    """The parts in a directory whose provenance says how they are opened."""
    return _installed_in(folder, "opened_by")


def _installed_in(folder: Path, key: str) -> list[InstalledModel]:
    """The models or parts in a directory whose provenance has this entry."""
    found = []
    for file in sorted(folder.glob(f"*/{CONFIG}")):
        about = read_config(file.parent).get("provenance", {})
        if key in about:
            described = {name: about[name] for name in ("summary", "trained_on", "licence", "scores")}
            found.append(
                InstalledModel(
                    file.parent.name,
                    file.parent,
                    **described,
                    capabilities=tuple(about.get("capabilities", ())),
                    tasks=tuple(about.get("tasks", ())),
                    opened_by=about.get("opened_by", ""),
                )
            )
    return found


def model_folder(model: str | PathLike[str]) -> Path:
    """The directory of a model: a saved model or run of this path, else the shipped model of this name."""
    name = check_path(model, "model")
    for folder in (Path(name), Path(name) / "model"):
        if (folder / CONFIG).is_file():
            return folder
    for shipped in (name, name.removesuffix(FAST)):
        if is_file_name(shipped) and (SHIPPED / shipped / CONFIG).is_file():
            return SHIPPED / shipped
    return Path(name)


def is_fast_name(model: str | PathLike[str]) -> bool:
    """Whether it is the name of a shipped model followed by ``-fast``: the model with the fast encoder."""
    name, folder = check_path(model, "model"), model_folder(model)
    return folder.parent == SHIPPED and name == folder.name + FAST
