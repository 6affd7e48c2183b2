"""What an estimator has learned, as a folder of plain files: a JSON document and arrays that can be memory-mapped.

Nothing is pickled, so a folder from a stranger can do no more than be refused.
"""

from __future__ import annotations

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

from deixis.errors import DeixisError
from deixis.files.atomic import new_directory
from deixis.files.names import is_plain

FILE = "saved.json"
FORMAT = "deixis-language"
VERSION = 1
MAX_DEPTH = 4
"""Parts may hold parts, but no deeper than this: a link to its own folder must not be followed for ever."""

MAX_JSON_BYTES = 512 * 2**20

# The last two are how numpy stumbles over the header of an array.
_DAMAGE = (
    AttributeError,
    EOFError,
    IndexError,
    KeyError,
    MemoryError,
    OSError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    SyntaxError,
    TokenError,
)


@dataclass(frozen=True)
class Saved:
    """What is to be written, or was read.

    Attributes
    ----------
    kind
        Which class it belongs to.
    settings
        What JSON can hold.
    arrays
        Numbers by name.
    parts
        Other estimators that this one is made of.
    """

    kind: str
    settings: dict[str, Any]
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    parts: dict[str, Saved] = field(default_factory=dict)


def write_saved(saved: Saved, folder: str | PathLike[str]) -> None:
    """Write into a new folder, whole or not at all; an older one made here is replaced.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     write_saved(Saved("example", {"seed": 3}, {"numbers": np.arange(3)}), f"{parent}/made")
    ...     read_saved(f"{parent}/made", "example").arrays["numbers"].tolist()
    [0, 1, 2]
    """
    with new_directory(folder, replace=True) as unfinished:
        _write(saved, unfinished)


def _write(saved: Saved, folder: Path) -> None:
    document = {
        "format": FORMAT,
        "version": VERSION,
        "kind": saved.kind,
        "settings": saved.settings,
        "arrays": {name: [array.dtype.str, *array.shape] for name, array in saved.arrays.items()},
        "parts": sorted(saved.parts),
    }
    (folder / FILE).write_text(json.dumps(document, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, array in saved.arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    for name, part in saved.parts.items():
        (folder / name).mkdir()
        _write(part, folder / name)


def read_saved(folder: str | PathLike[str], kind: str | None = None) -> Saved:
    """Read a folder; its arrays stay on disk until they are used.

    Parameters
    ----------
    folder
        As `write_saved` made it.
    kind
        What it must hold; None takes any kind.
    """
    saved = _read(Path(folder), 1)
    if kind is not None and saved.kind != kind:
        raise DeixisError(f"{Path(folder) / FILE}: holds {saved.kind!r}, not {kind!r}")
    return saved


def _read(folder: Path, depth: int) -> Saved:
    path = folder / FILE
    if depth > MAX_DEPTH:
        raise DeixisError(f"{path}: parts are nested more than {MAX_DEPTH} deep")
    if not path.is_file():
        raise DeixisError(f"{folder}: nothing saved here ({FILE} is missing)")
    with damaged(path):
        document = _document(path)
        arrays = {name: _array(folder, name, stated) for name, stated in document["arrays"].items()}
        names = [_checked_name(folder, name) for name in document["parts"]]
        kind, settings = str(document["kind"]), dict(document["settings"])
    return Saved(kind, settings, arrays, {name: _read(folder / name, depth + 1) for name in names})


def _document(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MAX_JSON_BYTES:
        raise DeixisError(f"{path}: larger than {MAX_JSON_BYTES // 2**20} MB")
    document: Any = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DeixisError(f"{path}: not made by deixis")
    if document.get("version") != VERSION:
        raise DeixisError(f"{path}: written for version {document.get('version')}, this deixis reads {VERSION}")
    return document


def _checked_name(folder: Path, name: Any) -> str:
    if not isinstance(name, str) or not is_plain(name):
        raise DeixisError(f"{folder / FILE}: names a part that cannot be a file: {name!r}")
    return name


def _array(folder: Path, name: str, stated: list[Any]) -> NDArray[Any]:
    path = folder / f"{_checked_name(folder, name)}.npy"
    if not path.is_file():
        raise DeixisError(f"{path}: missing")
    with damaged(path):
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        if [array.dtype.str, *array.shape] != stated:
            raise DeixisError(f"{path}: holds {array.dtype.str} {array.shape}, {FILE} states {stated}")
    return array


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Say in one line that a file or folder cannot be what was saved."""
    try:
        yield
    except _DAMAGE as error:
        reason = " ".join(str(error).split())[:200]
        raise DeixisError(f"{path}: damaged, or not made by deixis ({type(error).__name__}: {reason})") from error


class Storable(ABC):
    """Saves itself to a folder and opens what it saved; a kind says what `saved` gives and how to build from it."""

    KIND: ClassVar[str]

    @abstractmethod
    def saved(self) -> Saved:
        """What `save` writes."""

    @classmethod
    @abstractmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""

    def save(self, folder: str | PathLike[str]) -> None:
        """Write a folder that `load` reads, with all that is needed to go on."""
        write_saved(self.saved(), folder)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """Open a folder that `save` wrote."""
        saved = read_saved(folder, cls.KIND)
        with damaged(Path(folder)):
            return cls.from_saved(saved)
