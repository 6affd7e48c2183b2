"""Short codes of region vectors: int8 along the axes that carry most of their length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats

Codes = NDArray[np.int8]

CODE_WIDTHS = (64, 128, 256)
"""Bytes per region code; the smallest sufficient one is used. Two million regions take 128 MB, 512 MB at worst."""

_MIN_ENERGY = 0.65
"""The share of the squared length of the vectors that the axes of a code must carry."""

_MAX_CODE = 127
_BLOCK = 1024
"""Codes converted to floats at a time: they fit the processor's cache and stay below BLAS's threading threshold."""


@dataclass(frozen=True)
class Basis:
    """Axes on which vectors are quantized to int8 codes.

    Attributes
    ----------
    axes : array of float32, (dimension, width)
    steps : array of float32, (width,)
        The length of one code step along each axis.

    Examples
    --------
    >>> vectors = np.eye(4, dtype=np.float32)
    >>> basis = fit_basis(vectors)
    >>> int(basis.scores(basis.encode(vectors), vectors[2]).argmax())
    2
    """

    axes: Floats
    steps: Floats

    def encode(self, vectors: Floats) -> Codes:
        """Return the codes of vectors: (n, width)."""
        rotated: Floats = vectors @ self.axes
        rotated /= self.steps
        np.rint(rotated, out=rotated)
        return np.clip(rotated, -_MAX_CODE, _MAX_CODE, out=rotated).astype(np.int8)

    def scores(self, codes: Codes, query: Floats) -> Floats:
        """Return approximate dot products of the encoded vectors with a query: (n,)."""
        weights = (query @ self.axes) * self.steps
        scores = np.empty(len(codes), dtype=np.float32)
        block = np.empty((_BLOCK, codes.shape[1]), dtype=np.float32)
        for begin in range(0, len(codes), _BLOCK):
            part = codes[begin : begin + _BLOCK]
            np.copyto(block[: len(part)], part)
            np.dot(block[: len(part)], weights, out=scores[begin : begin + len(part)])
        return scores


def fit_basis(sample: Floats, widths: tuple[int, ...] = CODE_WIDTHS) -> Basis:
    """Fit axes to a sample of vectors, (n, dimension), by uncentred principal components."""
    energies, axes = np.linalg.eigh((sample.T @ sample).astype(np.float64))
    energies, axes = energies[::-1], axes[:, ::-1]
    sufficient = [width for width in widths if energies[:width].sum() >= _MIN_ENERGY * energies.sum()]
    chosen = np.ascontiguousarray(axes[:, : min([*sufficient, widths[-1]])], dtype=np.float32)
    largest = np.abs(sample @ chosen).max(axis=0)
    return Basis(chosen, np.maximum(largest / _MAX_CODE, np.float32(1e-12)).astype(np.float32))
