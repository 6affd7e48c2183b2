"""The format of everything that deixis saves: a directory with ``config.json`` and ``weights.safetensors``.

``config.json`` holds the kind, the settings, the provenance and the checksums of weights and graphs; parts, such as the
text features of a model, are directories of the same form inside it. A network also has its inference functions as
ONNX graphs, whose weights are those of ``weights.safetensors`` (`storage.graphs`). Nothing is pickled, so a directory
from an unknown source can only be refused.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from deixis.arrays import Floats, dequantize
from deixis.errors import DeixisError, short_reason
from deixis.storage.atomic import MARK, new_directory, new_file
from deixis.storage.checksums import READ_ERRORS, CheckedFile, FileChecks, TensorFile, seal, unseal
from deixis.storage.files import is_file_name
from deixis.storage.graphs import MAX_GRAPH_BYTES, SUFFIX, link_graph

CONFIG = "config.json"
WEIGHTS = "weights.safetensors"
CARD = "README.md"
FORMAT = "deixis"
VERSION = 2
"""Version 1 had no checksums."""

FILES = "files"
SCALE, ZERO_POINT = ".scale", ".zero_point"
"""Ends of the names of arrays with which a quantised array is read."""

MAX_DEPTH = 5
"""Maximum nesting of parts: a link to its own directory must not be followed for ever."""

MAX_CONFIG_BYTES = 512 * 2**20

DESCRIPTION = ("summary", "trained_on", "licence", "scores", "capabilities", "tasks", "opened_by")
"""Entries of the provenance that describe a model, or a part that models share, and do not change what it computes."""

HUBNESS = "hubness"
"""The part of a model that corrects its scores (`models.grounding`) and does not change its vectors."""

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Artifact:
    """Content of a saved directory.

    Quantised arrays are int8 or uint8, with scales under the name and ``.scale`` and, unless they are symmetric,
    ``.zero_point``, all for the first axis; `read_artifact` returns them as float32.
    """

    kind: str  # name of the model, or of another class that can be saved
    settings: dict[str, Any]  # to build it again, as JSON
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # weights by name
    parts: dict[str, Artifact] = field(default_factory=dict)  # artifacts that it is made of
    provenance: dict[str, Any] = field(default_factory=dict)  # encoder, proposals, training data, licence, scores
    card: str = ""  # description for people, in Markdown
    half: bool = False  # float32 arrays are stored as float16, and read as float32 again
    graphs: Mapping[str, bytes] = field(default_factory=dict)  # ONNX functions; their initializers are `arrays`
    folder: Path | None = field(default=None, compare=False)  # where it was read from, with graphs and weights
    files: Mapping[str, CheckedFile] = field(default_factory=dict, compare=False)  # weights and graphs in `folder`

    @property
    def weights_hash(self) -> str:
        """SHA-256 of the weights of an artifact that was read."""
        return self.files[WEIGHTS].sha256

    def table(self, name: str) -> NDArray[Any] | StoredTable:
        """One of the arrays, of which few rows are used: those of a stored one are converted when they are taken."""
        return self.arrays.table(name) if isinstance(self.arrays, _StoredArrays) else self.arrays[name]


class StoredTable:
    """Rows of a stored matrix, read and converted to single precision when they are taken."""

    def __init__(self, stored: NDArray[Any], scale: NDArray[Any] | None = None) -> None:
        self.stored, self.scale = stored, scale
        self.shape = stored.shape

    def __getitem__(self, rows: Any) -> Floats:
        taken = self.stored[rows]
        return np.asanyarray(taken, np.float32) if self.scale is None else dequantize(taken, self.scale[rows])


def write_artifact(folder: str | PathLike[str], artifact: Artifact, *, half: bool = False) -> None:
    """Write a new directory atomically; an older one that deixis made is replaced.

    With `half`, all float32 arrays are stored as float16, those of parts too.
    """
    with new_directory(folder, replace=True) as unfinished:
        write_into(unfinished, artifact, half=half)


def write_into(folder: Path, artifact: Artifact, *, half: bool = False) -> None:
    """Write into an existing, empty directory, such as one that `new_directory` gives."""
    stored_as_half = half or artifact.half
    document: dict[str, Any] = {"kind": artifact.kind, "settings": artifact.settings, "parts": sorted(artifact.parts)}
    optional = {"half": stored_as_half, "graphs": sorted(artifact.graphs), "provenance": artifact.provenance}
    document |= {name: value for name, value in optional.items() if value}
    arrays = artifact.arrays.quantized() if isinstance(artifact.arrays, _StoredArrays) else artifact.arrays
    if arrays:
        save_file(
            {name: _stored(array, stored_as_half and not name.endswith(SCALE)) for name, array in arrays.items()},
            folder / WEIGHTS,
        )
    layout = TensorFile(CheckedFile(folder / WEIGHTS, None)).layout if artifact.graphs else {}
    for name, graph in artifact.graphs.items():
        (folder / f"{name}{SUFFIX}").write_bytes(link_graph(graph, layout, WEIGHTS))
    write_config(folder, document)
    if arrays:
        (folder / WEIGHTS).chmod((folder / CONFIG).stat().st_mode)  # safetensors lets only the owner read
    if artifact.card:
        (folder / CARD).write_text(artifact.card, encoding="utf-8")
    for name, part in artifact.parts.items():
        (folder / name).mkdir()
        write_into(folder / name, part, half=half)


def add_part(folder: Path, name: str, part: Artifact) -> None:
    """Add a part to a directory that `write_artifact` wrote, or replace it; everything else stays as it is."""
    config = read_config(folder)
    if name in config["parts"] and (folder / name).is_dir():
        (folder / name / MARK).touch()  # a part that was written with the rest has no mark of its own
    write_artifact(folder / name, part)
    config["parts"] = sorted({*config["parts"], name})
    write_config(folder, config)


def write_config(folder: Path, document: Mapping[str, Any]) -> None:
    """Write ``config.json`` with the checksums of the weights and graphs in the directory."""
    names = [WEIGHTS, *(f"{name}{SUFFIX}" for name in document.get("graphs", ()))]
    files = {name: FileChecks.of(folder / name).to_json() for name in names if (folder / name).is_file()}
    about = {"format": FORMAT, "version": VERSION}
    with new_file(folder / CONFIG) as unfinished:
        unfinished.write_bytes(seal(about | {**document, **about, FILES: files}))


def _stored(array: NDArray[Any], half: bool) -> NDArray[Any]:
    dtype = np.float16 if half and array.dtype == np.float32 else array.dtype
    return np.asarray(array, dtype=dtype, order="C")  # not ascontiguousarray, which adds an axis to scalars


def read_artifact(
    folder: str | PathLike[str], kind: str | None = None, *, mapped: bool = False, keep_half: bool = False
) -> Artifact:
    """Read a directory that `write_artifact` wrote.

    Another `kind` is refused, if one is given. `mapped` arrays are read-only and not read before they are used.
    `keep_half` returns half precision as it is stored: for `runtime.modules.set_weights`, as torch converts it faster.
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
        names, graphs = list(config["parts"]), list(config.get("graphs", ()))
        settings, half = dict(config["settings"]), bool(config.get("half", False))
        provenance = dict(config.get("provenance", {}))
        files = _checked_files(folder, config)
        for name in [*names, *graphs]:
            if not isinstance(name, str) or not is_file_name(name):
                raise DeixisError(f"{path}: names a part that cannot be a file or directory: {name!r}")
    weights = folder / WEIGHTS
    with damaged(weights):
        arrays: Mapping[str, NDArray[Any]] = {}
        if WEIGHTS in files:
            arrays = _StoredArrays(files[WEIGHTS], mapped, half and not keep_half)
    parts = {name: _read(folder / name, mapped, keep_half, depth + 1) for name in names}
    return Artifact(
        str(config["kind"]),
        settings,
        arrays,
        parts,
        provenance,
        _read_card(folder / CARD),
        half,
        {name: _read_graph(files[f"{name}{SUFFIX}"]) for name in graphs},
        folder,
        files,
    )


def _checked_files(folder: Path, config: Mapping[str, Any]) -> dict[str, CheckedFile]:
    """Weights and graphs of a directory; weights need not exist."""
    names = [f"{name}{SUFFIX}" for name in config.get("graphs", ())]
    if config["version"] < VERSION:
        names += [WEIGHTS] if (folder / WEIGHTS).is_file() else []
        return {name: CheckedFile(folder / name, None) for name in names}
    checks = {name: FileChecks.from_json(entry) for name, entry in config[FILES].items()}
    if missing := sorted(name for name in {*names, *checks} if not (folder / name).is_file()):
        raise DeixisError(f"{folder / missing[0]}: missing")
    if (folder / WEIGHTS).is_file():
        names.append(WEIGHTS)
    if unlisted := sorted({*names} - checks.keys()):
        raise DeixisError(f"{folder / unlisted[0]}: {CONFIG} has no checksum of it")
    return {name: CheckedFile(folder / name, checks[name]) for name in names}


def _read_graph(file: CheckedFile) -> bytes:
    if not file.path.is_file():
        raise DeixisError(f"{file.path}: missing")
    with damaged(file.path):
        if file.path.stat().st_size > MAX_GRAPH_BYTES:
            raise DeixisError(f"{file.path}: larger than {MAX_GRAPH_BYTES // 2**20} MB")
        return file.read()


def find_damage(folder: Path) -> Iterator[str]:
    """Read all files of a directory and its parts, and yield one line for each that is damaged or has no checksum."""
    try:
        artifact = _read(folder, mapped=True, keep_half=True, depth=1)
    except DeixisError as error:
        yield str(error)
        return
    for part in [artifact, *_all_parts(artifact)]:
        for file in part.files.values():
            try:
                with damaged(file.path):
                    file.check()
            except DeixisError as error:
                yield str(error)
            if file.checks is None:
                yield f"{file.path}: saved without a checksum by an older deixis, so it cannot be checked"


def _all_parts(artifact: Artifact) -> Iterator[Artifact]:
    for part in artifact.parts.values():
        yield part
        yield from _all_parts(part)


def read_config(folder: Path) -> dict[str, Any]:
    """Content of ``config.json``, checked to be of this format; the arrays are not opened."""
    path = folder / CONFIG
    if not path.is_file():
        advice = "; reinstall deixis" if _PACKAGE in folder.absolute().parents else ""
        raise DeixisError(f"{folder}: nothing saved here ({CONFIG} is missing){advice}")
    with damaged(path):
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise DeixisError(f"{path}: larger than {MAX_CONFIG_BYTES // 2**20} MB")
        config: Any = unseal(path.read_bytes())
        if not isinstance(config, dict) or config.get("format") != FORMAT:
            raise DeixisError(f"{path}: not made by deixis")
        if config.get("version") not in (1, VERSION):
            raise DeixisError(f"{path}: has version {config.get('version')}, this deixis reads {VERSION}")
        if not isinstance(config["kind"], str):
            raise DeixisError(f"{path}: has no kind")
    return config


def _read_card(path: Path) -> str:
    with damaged(path):
        return path.read_text(encoding="utf-8") if path.is_file() else ""


class _StoredArrays(Mapping[str, NDArray[Any]]):
    """The arrays of a weights file, each of them read when it is used: sessions read the file themselves."""

    def __init__(self, file: CheckedFile, mapped: bool, to_single: bool) -> None:
        self._tensors = TensorFile(file)
        self._mapped = mapped
        self._to_single = to_single
        self._layout = self._tensors.layout
        self._names = dict.fromkeys(name for name in self._layout if not self._is_quantization(name))
        self._arrays: dict[str, NDArray[Any]] = {}
        self._tables: dict[str, StoredTable] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._arrays:
            with damaged(self._tensors.file.path):
                array = self._read(name)
                if self._is_quantized(name):
                    zero_point = self._read(name + ZERO_POINT) if name + ZERO_POINT in self._layout else None
                    array = dequantize(array, self._read(name + SCALE), zero_point)
                self._arrays[name] = array
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def table(self, name: str) -> NDArray[Any] | StoredTable:
        """Return a matrix whose rows are converted when they are taken."""
        if name in self._arrays or name + ZERO_POINT in self._layout:
            return self[name]
        if name not in self._tables:
            with damaged(self._tensors.file.path):
                scale = self._tensors.array(name + SCALE) if self._is_quantized(name) else None
                self._tables[name] = StoredTable(self._tensors.array(name), scale)
        return self._tables[name]

    def quantized(self) -> dict[str, NDArray[Any]]:
        """Return all arrays, quantised ones as they are stored."""
        return {name: self._read(name) for name in self._layout}

    def _read(self, name: str) -> NDArray[Any]:
        array = self._tensors.array(name)
        if self._to_single and array.dtype == np.float16:
            return array.astype(np.float32)
        return array if self._mapped else array.copy()

    def _is_quantization(self, name: str) -> bool:
        bases = (name.removesuffix(suffix) for suffix in (SCALE, ZERO_POINT) if name.endswith(suffix))
        return any(self._is_quantized(base) for base in bases)

    def _is_quantized(self, name: str) -> bool:
        return name + SCALE in self._layout and name in self._layout and self._layout[name].dtype in ("I8", "U8")


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Turn errors of readers on a damaged file into one line that names the file."""
    try:
        yield
    except DeixisError as error:
        if path.name in str(error) or str(path.parent.absolute()) in str(error):
            raise
        raise DeixisError(f"{path}: {error}") from error
    except READ_ERRORS as error:
        reason = f"{type(error).__name__}: {short_reason(error)}"
        raise DeixisError(f"{path}: damaged, or not made by deixis ({reason})") from error


def fingerprint_artifact(folder: Path) -> str:
    """Hash of what determines the vectors and captions that a saved model computes: its weights and their provenance.

    Settings and descriptions are left out, so that renaming a setting does not invalidate the indexes of users. So are
    graphs: they compute what the torch module does with the weights, and another exporter may write them differently.
    So is the correction of scores for hubness.
    """
    together = hashlib.sha256()
    configs: dict[Path, dict[str, Any]] = {}
    for path in sorted(folder.rglob("*")):
        if HUBNESS in path.relative_to(folder).parts:
            continue
        if path.name == CONFIG:  # comes before the weights of its directory
            config = configs[path.parent] = read_config(path.parent)
            about = {name: value for name, value in config.get("provenance", {}).items() if name not in DESCRIPTION}
            content = json.dumps([config["kind"], about], sort_keys=True)
        elif path.name == WEIGHTS:
            with damaged(path):
                content = _checked_files(path.parent, configs[path.parent])[WEIGHTS].sha256
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
        """Write a directory for `load`, as `write_artifact` does; with `half`, float32 arrays as float16."""
        write_artifact(folder, self.to_artifact(), half=half)

    @classmethod
    def load(cls, folder: str | PathLike[str], *, mapped: bool = False) -> Self:
        """Read a directory that `save` wrote; `mapped` as of `read_artifact`."""
        artifact = read_artifact(folder, cls.KIND, mapped=mapped)
        with damaged(Path(folder)):
            return cls.from_artifact(artifact)
