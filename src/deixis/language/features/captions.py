"""Text features of all captions of a data set, fitted to the training split and cached in a folder."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deixis import __version__
from deixis.data.dataset import FEATURES, Dataset
from deixis.errors import DeixisError
from deixis.language import features
from deixis.language.features import COMPONENTS, HGLMM_DIMENSION, TextFeatures
from deixis.language.vectors import PACKAGE, named_vectors
from deixis.storage import artifacts
from deixis.storage.artifacts import damaged
from deixis.storage.atomic import MARK, exclusive_lock, explain_os_errors, make_parents, new_file
from deixis.storage.checksums import CheckedFile, FileChecks, seal, unseal
from deixis.storage.files import read_regular
from deixis.storage.progress import OnProgress, no_progress
from deixis.tokens import TOKENIZER_VERSION

FILE = "manifest.json"
FORMAT = "deixis-caption-features"
VERSION = 2

CODE_VERSION = 1
"""Part of the hash `learned`: raised when the code gives different vectors for the same captions."""

_FILE_NAME = re.compile(r"captions-[0-9a-f]{8}\.npy", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)

KINDS = ("mean", "tfidf", "fisher", "hglmm")
"""Names of the text features."""


@dataclass(frozen=True)
class Recipe:
    """Configuration of text features."""

    kind: str
    vectors: str  # hash of the word vectors; empty if none are used
    make: Callable[[], TextFeatures]
    sizes: str = ""  # numbers of components and dimensions that are not the papers', such as "components=10,dim=500"

    def folder(self, data: Path) -> Path:
        """Default folder of the features in a data set."""
        return default_folder(data, self.kind + (f",{self.sizes}" if self.sizes else ""))


@dataclass(frozen=True)
class CaptionManifest:
    """The manifest of cached text features."""

    kind: str
    # Hash of everything that fitting depends on: kind, word vectors, code, tokenizer and training captions
    learned: str
    data: str  # hash of the captions of the data set
    # The array file, its size and checksums
    file: str
    bytes: int
    sha256: str
    crc32: str
    captions: int
    dimension: int
    code: str = __version__

    def opened(self, folder: Path) -> CheckedFile:
        """Return the array file in the folder of the features."""
        checks = {name: getattr(self, name) for name in ("bytes", "sha256", "crc32")}
        return CheckedFile(folder / self.file, FileChecks.from_json(checks))


@dataclass(frozen=True)
class CaptionReport:
    """The result of a run: whether it fitted and transformed, and the manifest."""

    manifest: CaptionManifest
    fitted: bool
    transformed: bool


def default_folder(data: Path, kind: str) -> Path:
    return data / FEATURES / f"text-{kind}"


def recipe_of(
    kind: str, vectors: str | None = None, *, components: int = COMPONENTS, dimension: int = HGLMM_DIMENSION
) -> Recipe:
    """Return the recipe of one of `KINDS`; `vectors` as of `named_vectors`, by default the first known package.

    `components` is the maximum number of components of the mixtures of fisher and hglmm, and `dimension` the maximum
    dimension of hglmm after PCA.
    """
    if kind not in KINDS:
        raise DeixisError(f"text features {kind!r} do not exist; choose {', '.join(KINDS)}")
    if kind == "tfidf":
        return Recipe(kind, "", features.TfIdf)
    words = named_vectors(vectors or PACKAGE)
    changed = {"components": (components, COMPONENTS)} if kind in ("fisher", "hglmm") else {}
    changed |= {"dim": (dimension, HGLMM_DIMENSION)} if kind == "hglmm" else {}
    sizes = ",".join(f"{name}={size}" for name, (size, usual) in changed.items() if size != usual)
    makers: dict[str, Callable[[], TextFeatures]] = {
        "mean": lambda: features.MeanVector(words),
        "fisher": lambda: features.gmm_fisher_vectors(words, components),
        "hglmm": lambda: features.hglmm_features(words, dimension, components),
    }
    return Recipe(kind, words.fingerprint, makers[kind], sizes)


def build_caption_features(
    path: Path, dataset: Dataset, recipe: Recipe, *, train: str = "train", on_progress: OnProgress = no_progress
) -> CaptionReport:
    """Fit text features to the training split and store a vector for every caption.

    Valid results in the folder `path` are not computed again; a folder with other contents is an error.
    """
    texts = _training_texts(dataset, train)
    sizes = [recipe.sizes] if recipe.sizes else []
    learned = _hash([recipe.kind, recipe.vectors, *sizes, CODE_VERSION, TOKENIZER_VERSION, *texts])
    data = dataset.manifest.files["captions"]
    path = path.absolute()
    # Checked before locking, so that any number of processes can read; only writers need the lock.
    existing = _read(path) if (path / FILE).exists() else None
    if existing and _is_current(existing, path, learned, data):
        return CaptionReport(existing, fitted=False, transformed=False)
    with explain_os_errors(path), make_parents(path), exclusive_lock(path):
        existing = _read(path) if (path / FILE).exists() else None
        if existing and _is_current(existing, path, learned, data):
            return CaptionReport(existing, fitted=False, transformed=False)
        folder, file = path / _fitted_name(learned), f"captions-{_hash([learned, data])[:8]}.npy"
        if existing is None:
            _check_no_other_files(path, file)
        path.mkdir(exist_ok=True)
        to_fit = not folder.is_dir()
        if to_fit:
            on_progress(f"learning from {len(texts):,} captions", 0, None)
            recipe.make().fit(texts).save(folder)
        captions: list[str] = dataset.tables["captions"]["text"].to_pylist()
        checks, dimension = _write_vectors(path / file, features.load_features(folder), captions, on_progress)
        manifest = CaptionManifest(
            recipe.kind, learned, data, file, **checks.to_json(), captions=len(captions), dimension=dimension
        )
        _write_manifest(path / FILE, manifest)
        _remove_old(path, existing, manifest)
    return CaptionReport(manifest, fitted=to_fit, transformed=True)


def _check_no_other_files(path: Path, file: str) -> None:
    """Raise `DeixisError` if the folder has files other than those of an interrupted run."""
    if not path.is_dir():
        return
    for child in path.iterdir():
        is_fitted = child.name.startswith("fitted-") and (child / MARK).is_file()
        if not (is_fitted or child.name == file or child.name.startswith(".")):
            raise _not_text_features(path)


def _not_text_features(path: Path) -> DeixisError:
    return DeixisError(f"{path}: exists and does not contain text features; choose another --out")


def _fitted_name(learned: str) -> str:
    return f"fitted-{learned[:8]}"


def _is_current(existing: CaptionManifest, path: Path, learned: str, data: str) -> bool:
    """Whether the cached vectors are up to date and undamaged."""
    if (existing.learned, existing.data) != (learned, data):
        return False
    try:
        existing.opened(path).check()
        return True
    except (FileNotFoundError, ValueError):
        return False


def _training_texts(dataset: Dataset, train: str) -> list[str]:
    rows = dataset.split(train).rows
    captions = dataset.tables["captions"]
    texts: list[str] = captions["text"].take(np.flatnonzero(np.isin(captions["photo"].to_numpy(), rows))).to_pylist()
    if not texts:
        raise DeixisError(f"{dataset.path}: split {train!r} has no captions to fit to")
    return texts


def _write_vectors(
    path: Path, text_features: TextFeatures, captions: Sequence[str], on_progress: OnProgress
) -> tuple[FileChecks, int]:
    """Write the vectors of captions; return the checksums of the file and the dimension of the vectors."""
    dimension = text_features.dimension
    # Written as a stream instead of a memory map, so that a full disk is an error and not a crash.
    with new_file(path) as temporary:
        with temporary.open("wb") as stream:
            header = {"descr": "<f4", "fortran_order": False, "shape": (len(captions), dimension)}
            np.lib.format.write_array_header_1_0(stream, header)
            done = 0
            for rows in features.transform_in_chunks(text_features, captions):
                stream.write(rows.astype("<f4", copy=False).tobytes())
                done += len(rows)
                on_progress("transforming captions", done, len(captions))
        return FileChecks.of(temporary), dimension


def _write_manifest(path: Path, manifest: CaptionManifest) -> None:
    with new_file(path) as temporary:
        document = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
        temporary.write_bytes(seal(document))


def _remove_old(path: Path, old: CaptionManifest | None, new: CaptionManifest) -> None:
    """Remove the files that the old manifest names, and nothing else in the folder."""
    for partial in path.glob(".captions-????????.partial-*.npy"):
        partial.unlink(missing_ok=True)
    if old is None:
        return
    if _fitted_name(old.learned) != _fitted_name(new.learned):
        shutil.rmtree(path / _fitted_name(old.learned), ignore_errors=True)
    if old.file != new.file:
        (path / old.file).unlink(missing_ok=True)


def caption_vectors(path: str | Path, dataset: Dataset) -> NDArray[np.float32]:
    """Open the memory-mapped vectors of all captions, in the order of the captions table."""
    path = Path(path)
    manifest = _read(path)
    again = f"run deixis features {dataset.path} --text {manifest.kind} again"
    if manifest.data != dataset.manifest.files["captions"]:
        raise DeixisError(f"{path}: made from other captions than those of {dataset.path}; {again}")
    try:
        manifest.opened(path).check()
        vectors: NDArray[np.float32] = np.load(path / manifest.file, mmap_mode="r", allow_pickle=False)
    except (FileNotFoundError, ValueError, EOFError) as error:
        raise DeixisError(f"{path / manifest.file}: damaged ({error}); {again}") from None
    except OSError as error:
        raise DeixisError(f"{path / manifest.file}: cannot be read ({error.strerror or error})") from None
    if vectors.shape != (manifest.captions, manifest.dimension):
        raise DeixisError(f"{path / manifest.file}: damaged (its shape is {vectors.shape}); {again}")
    return vectors


def find_damage(path: Path) -> Iterator[str]:
    """Read all files of cached text features, and yield one line for each that is damaged."""
    try:
        manifest = _read(path)
        file = manifest.opened(path)
        with damaged(file.path):
            file.check()
    except DeixisError as error:
        yield str(error)
        return
    yield from artifacts.find_damage(path / _fitted_name(manifest.learned))


def fitted_features(path: Path, manifest: CaptionManifest) -> TextFeatures:
    """Read the fitted text features, for sentences that are not in the data set."""
    return features.load_features(path / _fitted_name(manifest.learned))


def _read(path: Path) -> CaptionManifest:
    file = path / FILE
    try:
        document = unseal(read_regular(file))
    except FileNotFoundError:
        raise DeixisError(f"{path}: no text features; create them with: deixis features DATA --text KIND") from None
    except OSError as error:
        raise DeixisError(f"{file}: cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError) as error:
        raise _damaged(file, error) from None
    if not isinstance(document, dict) or document.pop("format", None) != FORMAT:
        raise _not_text_features(path)
    try:
        if document.pop("version") != VERSION:
            raise ValueError("unsupported version")
        manifest = CaptionManifest(**document)
        manifest.opened(path)
        # The files with these names are read and, when outdated, removed.
        if not _FILE_NAME.fullmatch(manifest.file) or not _HASH.fullmatch(manifest.learned):
            raise ValueError(f"invalid names: {manifest.file!r}, {manifest.learned!r}")
        return manifest
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(file, error) from None


def _damaged(file: Path, error: Exception) -> DeixisError:
    return DeixisError(f"{file}: damaged; remove {file.parent} and run again ({' '.join(str(error).split())})")


def _hash(parts: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()
