"""A vector for every caption of a data set, learned from the training split alone and kept beside the photos'."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deixis import __version__
from deixis.data.dataset import Dataset
from deixis.data.making import FEATURES
from deixis.errors import DeixisError
from deixis.files.atomic import MARK, explained, new_file, only_one, parents_of
from deixis.files.hashes import hash_of_file
from deixis.files.progress import OnProgress, silent
from deixis.language import features
from deixis.language.features import TextFeatures
from deixis.language.vectors import PACKAGES, WordVectors, installed_vectors, read_vectors
from deixis.tokens import TOKENIZER_VERSION

FILE = "manifest.json"
FORMAT = "deixis-caption-features"
VERSION = 1

CODE_VERSION = 1
"""Part of what `learned` hashes: raised when the code starts to give other numbers from the same captions."""

_FILE_NAME = re.compile(r"captions-[0-9a-f]{8}\.npy", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)

KINDS = ("mean", "tfidf", "fisher", "hglmm")
"""The text features that `recipe_of` knows by name."""


@dataclass(frozen=True)
class Recipe:
    """How text features are made.

    Attributes
    ----------
    kind
        What users type.
    vectors
        A hash of the word vectors; empty where none are used.
    make
        Gives features that have learned nothing yet.
    """

    kind: str
    vectors: str
    make: Callable[[], TextFeatures]


@dataclass(frozen=True)
class CaptionManifest:
    """What is kept, and from what it was made.

    Attributes
    ----------
    learned
        A hash of everything that learning depends on: kind, word vectors, code, tokenizer, the training captions.
    data
        The hash of the data set's captions.
    file, sha256
        The array and what it hashes to.
    """

    kind: str
    learned: str
    data: str
    file: str
    sha256: str
    captions: int
    dimension: int
    code: str = __version__


@dataclass(frozen=True)
class CaptionReport:
    """What a run did: whether it had to learn and to transform, and what there is now."""

    manifest: CaptionManifest
    fitted: bool
    transformed: bool


def default_place(data: Path, kind: str) -> Path:
    """Where the text features of a data set are put, and looked for, when nobody says otherwise.

    Examples
    --------
    >>> default_place(Path("flickr8k.data"), "hglmm").as_posix()
    'flickr8k.data/features/text-hglmm'
    """
    return data / FEATURES / f"text-{kind}"


def recipe_of(kind: str, vectors: str | None = None) -> Recipe:
    """The recipe of a kind of text features.

    Parameters
    ----------
    kind
        One of `KINDS`.
    vectors
        Word vectors: a path, or one of the packages that deixis knows; without it, the first of these.

    Examples
    --------
    >>> type(recipe_of("tfidf").make()).__name__
    'TfIdf'
    """
    if kind not in KINDS:
        raise DeixisError(f"no text features {kind}; there are {', '.join(KINDS)}")
    if kind == "tfidf":
        return Recipe(kind, "", features.TfIdf)
    words = word_vectors(vectors)
    makers: dict[str, Callable[[WordVectors], TextFeatures]] = {
        "mean": features.MeanVector,
        "fisher": features.gmm_fisher_vectors,
        "hglmm": features.hglmm_features,
    }
    return Recipe(kind, _hash_of_vectors(words), lambda: makers[kind](words))


def word_vectors(vectors: str | None = None) -> WordVectors:
    """Word vectors from a path, or from a package that deixis knows; without either, from the first of these."""
    if vectors is None or (vectors in PACKAGES and not Path(vectors).exists()):
        return installed_vectors(vectors or PACKAGES[0])
    return read_vectors(vectors)


def fill_captions(
    path: Path, dataset: Dataset, recipe: Recipe, *, train: str = "train", on_progress: OnProgress = silent
) -> CaptionReport:
    """Learn from the captions of the training split, and keep a vector for every caption.

    Parameters
    ----------
    path
        The directory; what is there already and still true is not computed again. One that holds something else is
        refused.
    dataset
        Whose captions are turned into vectors.
    recipe
        Which features.
    train
        The split to learn from; no other caption is looked at before the learning is over.
    on_progress
        Called as the work goes on.
    """
    texts = _training_texts(dataset, train)
    learned = _hash([recipe.kind, recipe.vectors, CODE_VERSION, TOKENIZER_VERSION, *texts])
    data = dataset.manifest.files["captions"]
    path = path.absolute()
    # Asked first of all, so that any number of processes may use what is there: only writers keep others out.
    there = _read(path) if (path / FILE).exists() else None
    if there and _is_true(there, path, learned, data):
        return CaptionReport(there, fitted=False, transformed=False)
    with explained(path), parents_of(path), only_one(path):
        there = _read(path) if (path / FILE).exists() else None
        if there and _is_true(there, path, learned, data):
            return CaptionReport(there, fitted=False, transformed=False)
        folder = path / _fitted_name(learned)
        if there is None:
            _refuse_other_things(path, _file_name(learned, data))
        path.mkdir(exist_ok=True)
        to_fit = not folder.is_dir()
        if to_fit:
            on_progress(f"learning from {len(texts):,} captions", 0, None)
            recipe.make().fit(texts).save(folder)
        manifest = _transform(path, dataset, folder, (recipe.kind, learned, data), on_progress)
        _remove_old(path, there, manifest)
    return CaptionReport(manifest, fitted=to_fit, transformed=True)


def _refuse_other_things(path: Path, file: str) -> None:
    """Leave a folder alone that holds something, unless it is what a killed run has left there."""
    if not path.is_dir():
        return
    for child in path.iterdir():
        is_fitted = child.name.startswith("fitted-") and (child / MARK).is_file()
        if not (is_fitted or child.name == file or child.name.startswith(".")):
            raise _no_text_features(path)


def _no_text_features(path: Path) -> DeixisError:
    return DeixisError(f"{path}: exists already and holds no text features; give another --out")


def _fitted_name(learned: str) -> str:
    return f"fitted-{learned[:8]}"


def _file_name(learned: str, data: str) -> str:
    return f"captions-{_hash([learned, data])[:8]}.npy"


def _is_true(there: CaptionManifest, path: Path, learned: str, data: str) -> bool:
    """Whether what is there is what would be computed, and still as it was written."""
    if (there.learned, there.data) != (learned, data):
        return False
    try:
        return hash_of_file(path / there.file) == there.sha256
    except FileNotFoundError:
        return False


def _training_texts(dataset: Dataset, train: str) -> list[str]:
    rows = dataset.split(train).rows
    captions = dataset.tables["captions"]
    texts: list[str] = captions["text"].take(np.flatnonzero(np.isin(captions["photo"].to_numpy(), rows))).to_pylist()
    if not texts:
        raise DeixisError(f"{dataset.path}: split {train!r} has no captions to learn from")
    return texts


def _transform(
    path: Path, dataset: Dataset, fitted: Path, made_of: tuple[str, str, str], on_progress: OnProgress
) -> CaptionManifest:
    kind, learned, data = made_of
    text_features = features.load_features(fitted)
    texts: list[str] = dataset.tables["captions"]["text"].to_pylist()
    shape = (len(texts), text_features.dimension)
    file = _file_name(learned, data)
    # Written as a stream and not through a memory map: a full disk is then an error and not a crash.
    with new_file(path / file) as unfinished:
        with unfinished.open("wb") as stream:
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(stream, header)
            done = 0
            for rows in features.transform_in_chunks(text_features, texts):
                stream.write(rows.astype("<f4", copy=False).tobytes())
                done += len(rows)
                on_progress("transforming captions", done, len(texts))
        sha256 = hash_of_file(unfinished)
    manifest = CaptionManifest(kind, learned, data, file, sha256, *shape)
    with new_file(path / FILE) as unfinished:
        document = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
        unfinished.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return manifest


def _remove_old(path: Path, old: CaptionManifest | None, new: CaptionManifest) -> None:
    """What an earlier state of the data left behind: only what its manifest names, for the folder is its owner's."""
    for unfinished in path.glob(".captions-????????.partial-*.npy"):
        unfinished.unlink(missing_ok=True)
    if old is None:
        return
    if _fitted_name(old.learned) != _fitted_name(new.learned):
        shutil.rmtree(path / _fitted_name(old.learned), ignore_errors=True)
    if old.file != new.file:
        (path / old.file).unlink(missing_ok=True)


def caption_vectors(path: str | Path, dataset: Dataset) -> NDArray[np.float32]:
    """The vectors of all captions, memory-mapped, in the order of the data set's table of captions.

    Examples
    --------
    >>> vectors = caption_vectors("flickr8k.data/features/text-hglmm", dataset)  # doctest: +SKIP
    >>> vectors.shape  # doctest: +SKIP
    (35455, 6000)
    """
    path = Path(path)
    manifest = _read(path)
    again = f"run deixis features {dataset.path} --text {manifest.kind} again"
    if manifest.data != dataset.manifest.files["captions"]:
        raise DeixisError(f"{path}: made of other captions than {dataset.path} has now; {again}")
    try:
        vectors: NDArray[np.float32] = np.load(path / manifest.file, mmap_mode="r", allow_pickle=False)
    except (FileNotFoundError, ValueError, EOFError) as error:
        raise DeixisError(f"{path / manifest.file}: damaged ({error}); {again}") from None
    except OSError as error:
        raise DeixisError(f"{path / manifest.file}: cannot be read ({error.strerror or error})") from None
    if vectors.shape != (manifest.captions, manifest.dimension):
        raise DeixisError(f"{path / manifest.file}: damaged (its shape is {vectors.shape}); {again}")
    return vectors


def fitted_features(path: Path, manifest: CaptionManifest) -> TextFeatures:
    """The features that made the vectors, for sentences that are not in the data set."""
    return features.load_features(path / _fitted_name(manifest.learned))


def _read(path: Path) -> CaptionManifest:
    file = path / FILE
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DeixisError(f"{path}: no text features; make them with: deixis features DATA --text KIND") from None
    except OSError as error:
        raise DeixisError(f"{file}: cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError) as error:
        raise _damaged(file, error) from None
    if not isinstance(document, dict) or document.pop("format", None) != FORMAT:
        raise _no_text_features(path)
    try:
        if document.pop("version") != VERSION:
            raise ValueError("another version of the layout")
        return _checked(CaptionManifest(**document))
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(file, error) from None


def _damaged(file: Path, error: Exception) -> DeixisError:
    return DeixisError(f"{file}: damaged, remove {file.parent} to make it anew ({' '.join(str(error).split())})")


def _checked(manifest: CaptionManifest) -> CaptionManifest:
    """What it names is read, and removed when it is old: nothing but our own names may stand there."""
    if not _FILE_NAME.fullmatch(manifest.file):
        raise ValueError(f"{manifest.file!r} cannot be the file")
    if not _HASH.fullmatch(manifest.learned):
        raise ValueError(f"{manifest.learned!r} is no hash")
    return manifest


def _hash(parts: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()


def _hash_of_vectors(words: WordVectors) -> str:
    """What tells word vectors from others: the words, their rows and all numbers."""
    saved = words.saved()
    together = hashlib.sha256(json.dumps(saved.settings["words"]).encode())
    for name in ("rows", "matrix"):
        together.update(np.ascontiguousarray(saved.arrays[name]).data)
    return together.hexdigest()
