"""Regions as short codes: enough to tell which few of millions deserve to be looked at exactly.

A vector is turned to the axes along which the vectors of this index differ most, and its first coordinates are kept in
a byte each. The dot product of codes misses what lies along the other axes; the exact one then puts a shortlist right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deixis.index.seeing import Floats

Codes = NDArray[np.int8]

WIDTHS = (64, 128, 256)
"""Bytes a region, as few as will do: two million take 128 MB, or in the worst case 512."""

_CARRIED = 0.65
"""The share of the vectors' squared length that the axes must carry."""

_HIGHEST = 127
_BLOCK = 1024
"""Codes that become floats at a time: they stay in the processor's cache, and below what BLAS gives to more threads."""


@dataclass(frozen=True)
class Basis:
    """The axes, and what one step of a code is worth along each.

    Attributes
    ----------
    axes : array of float32, (dimension, width)
    steps : array of float32, (width,)

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
        """The codes of vectors: (n, width)."""
        turned: Floats = vectors @ self.axes
        turned /= self.steps
        np.rint(turned, out=turned)
        return np.clip(turned, -_HIGHEST, _HIGHEST, out=turned).astype(np.int8)

    def scores(self, codes: Codes, query: Floats) -> Floats:
        """Nearly the dot products of the encoded vectors with a query: (n,)."""
        weights = (query @ self.axes) * self.steps
        found = np.empty(len(codes), dtype=np.float32)
        block = np.empty((_BLOCK, codes.shape[1]), dtype=np.float32)
        for begin in range(0, len(codes), _BLOCK):
            here = codes[begin : begin + _BLOCK]
            np.copyto(block[: len(here)], here)
            np.dot(block[: len(here)], weights, out=found[begin : begin + len(here)])
        return found


def fit_basis(sample: Floats, widths: tuple[int, ...] = WIDTHS) -> Basis:
    """Axes from a sample of vectors, (n, dimension); those that carry most of their length come first."""
    lengths, axes = np.linalg.eigh((sample.T @ sample).astype(np.float64))
    lengths, axes = lengths[::-1], axes[:, ::-1]
    enough = [width for width in widths if lengths[:width].sum() >= _CARRIED * lengths.sum()]
    kept = np.ascontiguousarray(axes[:, : min([*enough, widths[-1]])], dtype=np.float32)
    reach = np.abs(sample @ kept).max(axis=0)
    return Basis(kept, np.maximum(reach / _HIGHEST, np.float32(1e-12)).astype(np.float32))
