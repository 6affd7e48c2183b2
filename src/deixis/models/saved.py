"""A model as a folder: its settings in JSON, its weights in safetensors, the models it is made of in folders below.

Nothing is pickled, so a folder from a stranger can do no more than be refused.
"""

from __future__ import annotations

import json
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from deixis.errors import DeixisError
from deixis.files.atomic import new_directory
from deixis.files.names import is_plain
from deixis.language.saved import MAX_DEPTH, Saved, Storable, damaged

SETTINGS = "settings.json"
WEIGHTS = "weights.safetensors"
FORMAT = "deixis-model"
VERSION = 1

_CLASSES = {
    "cca": ("cca", "CCA"),
    "grounder": ("grounder", "Grounder"),
    "hm-lstm": ("hm_lstm", "HMLSTM"),
    "m-rnn": ("m_rnn_model", "MRNN"),
    "similarity": ("similarity", "Similarity"),
    "stacked": ("stacked", "Stacked"),
    "two-branch": ("two_branch", "TwoBranch"),
}
"""For each kind of model its module and its class, which are imported when they are needed: some need torch."""


def load_model(folder: str | PathLike[str]) -> StoredModel:
    """Open a model of any kind that `save` wrote.

    Examples
    --------
    >>> type(load_model("cca-model")).__name__  # doctest: +SKIP
    'CCA'
    """
    saved = _read(Path(folder), 1)
    if saved.kind not in _CLASSES:
        known = ", ".join(_CLASSES)
        raise DeixisError(f"{Path(folder) / SETTINGS}: no kind of model is called {saved.kind!r}; there are {known}")
    module, name = _CLASSES[saved.kind]
    kind: type[StoredModel] = getattr(import_module(f"deixis.models.{module}"), name)
    with damaged(Path(folder)):
        return kind.from_saved(saved)


class StoredModel(Storable):
    """Saves itself to a folder and opens what it saved."""

    def save(self, folder: str | PathLike[str], *, half: bool = False) -> None:
        """Write a folder that `load` reads, whole or not at all; an older one made here is replaced.

        Parameters
        ----------
        folder
            Where to.
        half
            Write single precision as half: what ships is half as large. It is computed with in single precision.
        """
        saved = self.saved()
        with new_directory(folder, replace=True) as unfinished:
            _write(saved, unfinished, half)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """Open a folder that `save` wrote."""
        saved = _read(Path(folder), 1)
        if saved.kind != cls.KIND:
            raise DeixisError(f"{Path(folder) / SETTINGS}: holds {saved.kind!r}, not {cls.KIND!r}")
        with damaged(Path(folder)):
            return cls.from_saved(saved)


def _write(saved: Saved, folder: Path, half: bool) -> None:
    document = {
        "format": FORMAT,
        "version": VERSION,
        "kind": saved.kind,
        "settings": saved.settings,
        "parts": sorted(saved.parts),
    }
    (folder / SETTINGS).write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    save_file({name: _as_stored(array, half) for name, array in saved.arrays.items()}, folder / WEIGHTS)
    for name, part in saved.parts.items():
        (folder / name).mkdir()
        _write(part, folder / name, half)


def _as_stored(array: NDArray[Any], half: bool) -> NDArray[Any]:
    return np.ascontiguousarray(array, dtype=np.float16 if half and array.dtype == np.float32 else array.dtype)


def _read(folder: Path, depth: int) -> Saved:
    if depth > MAX_DEPTH:
        raise DeixisError(f"{folder}: models are nested more than {MAX_DEPTH} deep")
    path = folder / SETTINGS
    if not path.is_file():
        raise DeixisError(f"{folder}: no model saved here ({SETTINGS} is missing)")
    with damaged(path):
        document = _document(path)
        kind, settings, names = str(document["kind"]), dict(document["settings"]), list(document["parts"])
    for name in names:
        if not isinstance(name, str) or not is_plain(name):
            raise DeixisError(f"{path}: names a part that cannot be a folder: {name!r}")
    parts = {name: _read(folder / name, depth + 1) for name in names}
    return Saved(kind, settings, _weights(folder / WEIGHTS), parts)


def _document(path: Path) -> dict[str, Any]:
    document: Any = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DeixisError(f"{path}: not a model made by deixis")
    if document.get("version") != VERSION:
        raise DeixisError(f"{path}: written for version {document.get('version')}, this deixis reads {VERSION}")
    return document


def _weights(path: Path) -> dict[str, NDArray[Any]]:
    if not path.is_file():
        raise DeixisError(f"{path}: missing")
    with damaged(path):
        try:
            arrays: dict[str, NDArray[Any]] = load_file(path)
        except SafetensorError as error:
            raise ValueError(str(error)) from error
    return {name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in arrays.items()}
