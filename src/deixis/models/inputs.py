"""Inputs of networks as arrays: rows of features, checked, and the words of texts, as ids or as vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.language.features.base import Text, words_of
from deixis.language.vocabulary import Vocabulary
from deixis.language.word_table import WordTable

MAX_WORDS = 100
"""Longer texts are cut; the longest caption of Flickr30k is shorter."""


def check_rows(features: Any, size: int, name: str) -> NDArray[Any]:
    """Return features as an array with one row each; refuse those of another size."""
    rows = np.asarray(features)
    if rows.ndim != 2 or rows.shape[1] != size:
        raise DeixisError(f"features of shape {rows.shape}: a {name} has {size:,} features here, one row each")
    return rows


def word_ids(texts: Sequence[Text], vocabulary: Vocabulary | WordTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the padded word ids of texts (n, length), and their lengths (n,).

    A text without words becomes one unknown word.

    Examples
    --------
    >>> word_ids(["A red dog", ""], Vocabulary(("a", "dog"), (2, 1)))
    (array([[0, 2, 1],
           [2, 3, 3]]), array([3, 1]))
    """
    unknown, padding = len(vocabulary), len(vocabulary) + 1
    numbers = [vocabulary.encode(words_of(text), unknown)[:MAX_WORDS] or [unknown] for text in texts]
    lengths = np.array([len(ids) for ids in numbers], dtype=np.int64)
    ids = np.full((len(numbers), max(lengths, default=1)), padding, dtype=np.int64)
    for row, known in zip(ids, numbers, strict=True):
        row[: len(known)] = known
    return ids, lengths


def word_vectors(texts: Sequence[Text], table: WordTable) -> tuple[Floats, NDArray[np.int64]]:
    """Return the word vectors of texts (n, length, dimension), padded with zeros, and their lengths (n,).

    A text without words becomes one unknown word.
    """
    words = [words_of(text)[:MAX_WORDS] or [""] for text in texts]
    lengths = np.array([len(each) for each in words], dtype=np.int64)
    vectors = np.zeros((len(words), max(lengths, default=1), table.dimension), dtype=np.float32)
    vectors[np.arange(vectors.shape[1]) < lengths[:, None]] = table.vectors(word for each in words for word in each)
    return vectors, lengths
