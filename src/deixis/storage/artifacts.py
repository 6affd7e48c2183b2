"""The format of everything that deixis saves: a directory with ``config.json`` and ``weights.safetensors``.

``config.json`` holds the kind, the settings and the provenance; parts, such as the text features of a model, are
directories of the same form inside it. Nothing is pickled, so a directory from an unknown source can only be refused.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from tokenize import TokenError
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from deixis.errors import DeixisError
from deixis.storage.atomic import new_directory
from deixis.storage.files import hash_file, is_file_name

CONFIG = "config.json"
WEIGHTS = "weights.safetensors"
CARD = "README.md"
FORMAT = "deixis"
VERSION = 1
MAX_DEPTH = 5
"""Maximum nesting of parts: a link to its own directory must not be followed for ever."""

MAX_CONFIG_BYTES = 512 * 2**20

DESCRIPTION = ("summary", "trained_on", "licence", "scores", "capabilities", "tasks", "opened_by")
"""Entries of the provenance that describe a model, or a part that models share, and do not change what it computes."""

_PACKAGE = Path(__file__).parents[1]

_DTYPES = {
    **{f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)},
    **{f"I{8 * size}": f"<i{size}" for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": f"<u{size}" for size in (1, 2, 4, 8)},
    "BOOL": "?",
}
"""From the names of safetensors to those of numpy."""

_DAMAGE = (
    AttributeError,
    EOFError,
    IndexError,
    KeyError,
    MemoryError,
    OSError,
    OverflowError,
    RecursionError,
    RuntimeError,
    SafetensorError,
    SyntaxError,
    TokenError,
    TypeError,
    ValueError,
)
"""What readers raise on damaged files; SyntaxError and TokenError come from numpy's parser of array headers."""


@dataclass(frozen=True)
class Artifact:
    """Content of a saved directory.

    Attributes
    ----------
    kind
        What it holds: the name of a model, or of another class that can be saved.
    settings
        What is needed to build it again, as JSON.
    arrays
        Weights by name.
    parts
        Artifacts that it is made of.
    provenance
        Where it comes from, as JSON: encoder, proposals, training data, licence, scores.
    card
        Description for people, in Markdown.
    half
        Store float32 arrays as float16. They are read as float32 again.
    """

    kind: str
    settings: dict[str, Any]
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    parts: dict[str, Artifact] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    card: str = ""
    half: bool = False


def write_artifact(folder: str | PathLike[str], artifact: Artifact, *, half: bool = False) -> None:
    """Write a new directory atomically; an older one that deixis made is replaced.

    Parameters
    ----------
    folder
        Directory to write.
    artifact
        Its content.
    half
        Store all float32 arrays as float16, those of parts too.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     write_artifact(f"{parent}/made", Artifact("example", {"seed": 3}, {"numbers": np.arange(3)}))
    ...     read_artifact(f"{parent}/made", "example").arrays["numbers"].tolist()
    [0, 1, 2]
    """
    with new_directory(folder, replace=True) as unfinished:
        write_into(unfinished, artifact, half=half)


def write_into(folder: Path, artifact: Artifact, *, half: bool = False) -> None:
    """Write into an existing, empty directory, such as one that `new_directory` gives."""
    stored_as_half = half or artifact.half
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "kind": artifact.kind,
        "settings": artifact.settings,
        "parts": sorted(artifact.parts),
    }
    if stored_as_half:
        document["half"] = True
    if artifact.provenance:
        document["provenance"] = artifact.provenance
    (folder / CONFIG).write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    if artifact.arrays:
        save_file({name: _stored(array, stored_as_half) for name, array in artifact.arrays.items()}, folder / WEIGHTS)
        (folder / WEIGHTS).chmod((folder / CONFIG).stat().st_mode)  # safetensors lets only the owner read
    if artifact.card:
        (folder / CARD).write_text(artifact.card, encoding="utf-8")
    for name, part in artifact.parts.items():
        (folder / name).mkdir()
        write_into(folder / name, part, half=half)


def _stored(array: NDArray[Any], half: bool) -> NDArray[Any]:
    dtype = np.float16 if half and array.dtype == np.float32 else array.dtype
    return np.asarray(array, dtype=dtype, order="C")  # not ascontiguousarray, which adds an axis to scalars


def read_artifact(
    folder: str | PathLike[str], kind: str | None = None, *, mapped: bool = False, keep_half: bool = False
) -> Artifact:
    """Read a directory that `write_artifact` wrote.

    Parameters
    ----------
    folder
        Directory to read.
    kind
        What it must hold; None accepts any kind.
    mapped
        Map arrays into memory, read-only, instead of reading them: for large ones of which few rows are used.
    keep_half
        Return half precision as it is stored instead of as float32: for `storage.networks.set_weights`, because torch
        converts it faster.
    """
    artifact = _read(Path(folder), mapped, keep_half, 1)
    if kind is not None and artifact.kind != kind:
        raise DeixisError(f"{Path(folder) / CONFIG}: holds {artifact.kind!r}, not {kind!r}")
    return artifact


def _read(folder: Path, mapped: bool, keep_half: bool, depth: int) -> Artifact:
    if depth > MAX_DEPTH:
        raise DeixisError(f"{folder / CONFIG}: parts are nested more than {MAX_DEPTH} deep")
    config = read_config(folder)
    path = folder / CONFIG
    with damaged(path):
        names = list(config["parts"])
        settings, half = dict(config["settings"]), bool(config.get("half", False))
        provenance = dict(config.get("provenance", {}))
        for name in names:
            if not isinstance(name, str) or not is_file_name(name):
                raise DeixisError(f"{path}: names a part that cannot be a directory: {name!r}")
    weights = folder / WEIGHTS
    with damaged(weights):
        arrays = _read_arrays(weights, mapped, half and not keep_half) if weights.is_file() else {}
    parts = {name: _read(folder / name, mapped, keep_half, depth + 1) for name in names}
    return Artifact(str(config["kind"]), settings, arrays, parts, provenance, _read_card(folder / CARD), half)


def read_config(folder: Path) -> dict[str, Any]:
    """Content of ``config.json``, checked to be of this format; the arrays are not opened."""
    path = folder / CONFIG
    if not path.is_file():
        advice = "; reinstall deixis" if _PACKAGE in folder.absolute().parents else ""
        raise DeixisError(f"{folder}: nothing saved here ({CONFIG} is missing){advice}")
    with damaged(path):
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise DeixisError(f"{path}: larger than {MAX_CONFIG_BYTES // 2**20} MB")
        config: Any = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(config, dict) or config.get("format") != FORMAT:
            raise DeixisError(f"{path}: not made by deixis")
        if config.get("version") != VERSION:
            raise DeixisError(f"{path}: has version {config.get('version')}, this deixis reads {VERSION}")
        if not isinstance(config["kind"], str):
            raise DeixisError(f"{path}: has no kind")
    return config


def _read_card(path: Path) -> str:
    with damaged(path):
        return path.read_text(encoding="utf-8") if path.is_file() else ""


def _read_arrays(path: Path, mapped: bool, to_single: bool) -> dict[str, NDArray[Any]]:
    if not to_single:
        return _map_arrays(path) if mapped else dict(load_file(path))
    # Mapped first, so that half precision is converted without another copy.
    return {
        name: array.astype(np.float32) if array.dtype == np.float16 else array if mapped else array.copy()
        for name, array in _map_arrays(path).items()
    }


def _map_arrays(path: Path) -> dict[str, NDArray[Any]]:
    with safe_open(path, framework="numpy"):  # checks the header against the size of the file
        pass
    with path.open("rb") as file:
        begin = 8 + int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(begin - 8))
    header.pop("__metadata__", None)
    content = np.memmap(path, dtype=np.uint8, mode="r")
    return {
        name: np.ndarray(about["shape"], _DTYPES[about["dtype"]], content, begin + about["data_offsets"][0])
        for name, about in header.items()
    }


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Turn whatever a reader raises on a damaged file into one line that names the file."""
    try:
        yield
    except DeixisError as error:
        if path.name in str(error) or str(path.parent.absolute()) in str(error):
            raise
        raise DeixisError(f"{path}: {error}") from error
    except _DAMAGE as error:
        reason = " ".join(str(error).split())[:200]
        raise DeixisError(f"{path}: damaged, or not made by deixis ({type(error).__name__}: {reason})") from error


def fingerprint_artifact(folder: Path) -> str:
    """Hash of what determines the numbers that a saved model computes: its weights and their provenance.

    Settings and descriptions are left out, so that renaming a setting does not invalidate the indexes of users.
    """
    together = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.name == CONFIG:
            config = read_config(path.parent)
            about = {name: value for name, value in config.get("provenance", {}).items() if name not in DESCRIPTION}
            content = json.dumps([config["kind"], about], sort_keys=True)
        elif path.name == WEIGHTS:
            content = hash_file(path)
        else:
            continue
        together.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return together.hexdigest()


class Storable(ABC):
    """Base of classes that are saved as artifacts."""

    KIND: ClassVar[str]

    @abstractmethod
    def to_artifact(self) -> Artifact:
        """Content for `save`."""

    @classmethod
    @abstractmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        """Build from the content that `to_artifact` gave."""

    def save(self, folder: str | PathLike[str], *, half: bool = False) -> None:
        """Write a directory atomically, for `load`; an older one that deixis made is replaced.

        Parameters
        ----------
        folder
            Directory to write.
        half
            Store float32 arrays as float16. They are read as float32 again.
        """
        write_artifact(folder, self.to_artifact(), half=half)

    @classmethod
    def load(cls, folder: str | PathLike[str], *, mapped: bool = False) -> Self:
        """Read a directory that `save` wrote; `mapped` as of `read_artifact`."""
        artifact = read_artifact(folder, cls.KIND, mapped=mapped)
        with damaged(Path(folder)):
            return cls.from_artifact(artifact)
