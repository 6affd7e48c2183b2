"""Random word vectors and sentences."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.language.vectors import WordVectors

WORDS = [f"w{number}" for number in range(60)]


@pytest.fixture
def vectors() -> WordVectors:
    """Sixty words in five dimensions, in groups, some dimensions with heavy tails."""
    rng = np.random.default_rng(5)
    matrix = rng.normal(size=(60, 5)) + 4 * rng.normal(size=(4, 5))[np.arange(60) % 4]
    matrix[:, 3:] += rng.laplace(size=(60, 2)) ** 3
    return WordVectors(matrix.astype(np.float32), WORDS)


@pytest.fixture
def sentences() -> list[list[str]]:
    """Eighty sentences of 2 to 9 words, some unknown."""
    rng = np.random.default_rng(6)
    return [[*rng.choice(WORDS, size=rng.integers(2, 10)), "unknown"] for _ in range(80)]
