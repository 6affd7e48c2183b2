"""What a run is of: which model learns from which data, with which settings. A run goes on only as what it began as."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deixis.errors import DeixisError
from deixis.files.atomic import new_file
from deixis.language.saved import damaged
from deixis.training.settings import TrainSettings, settings_to_json

if TYPE_CHECKING:
    from deixis.data.dataset import Dataset

FORMAT = "deixis-run"
VERSION = 1
_SHOWN = 60


@dataclass(frozen=True)
class DataFacts:
    """Which data a model learns from.

    Attributes
    ----------
    name
        What people call it.
    hash
        Of the whole data set.
    splits
        For each split that is used, a hash of the photos in it.
    licence
        What the makers of the data allow.
    """

    name: str
    hash: str
    splits: Mapping[str, str]
    licence: str


@dataclass(frozen=True)
class About:
    """What a run is of.

    Attributes
    ----------
    model
        The kind of model, as ``deixis train`` calls it.
    model_settings
        The model's own settings, as JSON holds them.
    data
        What it learns from.
    command
        What repeats the run.
    features
        What else it was made from: encoders and text features, by name.
    """

    model: str
    model_settings: Mapping[str, Any]
    data: DataFacts
    command: str = ""
    features: Mapping[str, str] = field(default_factory=dict)


def facts_of(dataset: Dataset, *splits: str) -> DataFacts:
    """What a card says of a data set, and of the splits that are used."""
    return DataFacts(
        dataset.path.name,
        dataset.manifest.hash,
        {split: _split_hash(dataset, split) for split in splits},
        dataset.manifest.licence,
    )


def _split_hash(dataset: Dataset, split: str) -> str:
    ids = dataset.tables["photos"]["id"].take(dataset.split(split).rows).to_pylist()
    return "sha256:" + hashlib.sha256("\n".join(ids).encode()).hexdigest()


def versions() -> dict[str, str]:
    """The versions of what training rests on."""
    found = {"python": platform.python_version()}
    for package in ("deixis", "torch", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from its source, not installed
            continue
    return found


def write_about(path: Path, about: About, settings: TrainSettings) -> None:
    """Write down what a run is of."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        **asdict(about),
        "settings": settings_to_json(settings),
        "versions": versions(),
    }
    with new_file(path) as unfinished:
        unfinished.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def refuse_another(path: Path, about: About, settings: TrainSettings) -> None:
    """Refuse to go on with a run as something else than it began as; say in one line what differs.

    The name of the data and the command may change: the hashes say whether the data is the same.
    """
    with damaged(path):
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT or document["version"] != VERSION:
            raise DeixisError(f"{path}: {document['format']} {document['version']} is not {FORMAT} {VERSION}")
        began = _what_must_stay(document)
    now = _what_must_stay(json.loads(json.dumps(asdict(about))) | {"settings": settings_to_json(settings)})
    for name, before, after in _differences(began, now):
        raise DeixisError(
            f"{path}: the run began with {name} = {_short(before)}, now it is {_short(after)}; "
            "go on with the same, or begin another run in another directory"
        )


def _what_must_stay(document: Mapping[str, Any]) -> dict[str, Any]:
    data = document["data"]
    return {
        "model": document["model"],
        **{f"{name} of the model": value for name, value in document["model_settings"].items()},
        **document["settings"],
        "the hash of the data": data["hash"],
        **{f"the hash of split {name}": value for name, value in data["splits"].items()},
        **{f"features {name}": value for name, value in document["features"].items()},
    }


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in [*before, *(name for name in after if name not in before)]:
        if before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
