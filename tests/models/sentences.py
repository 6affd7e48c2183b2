"""Captions of few words, so that sentences have n-grams twice and much in common."""

from __future__ import annotations

import numpy as np

WORDS = ("a", "the", "dog", "cat", "runs", "red", "and")


def sentence(rng: np.random.Generator, longest: int = 9) -> list[str]:
    return list(rng.choice(WORDS, size=rng.integers(1, longest)))


def captions(photos: int = 12, seed: int = 0) -> list[list[list[str]]]:
    """Of few words, so that sentences have n-grams twice and much in common."""
    rng = np.random.default_rng(seed)
    return [[sentence(rng) for _ in range(rng.integers(1, 5))] for _ in range(photos)]


def flat(of_photos: list[list[list[str]]]) -> list[list[str]]:
    return [words for photo in of_photos for words in photo]
