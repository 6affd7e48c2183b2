"""The projections of canonical correlation analysis, from sums of products of rows.

With the covariances C of both sides, and R the Cholesky factors of C_xx and C_yy after regularization:

1. K = R_x⁻ᵀ · C_xy · R_y⁻¹
2. U, ρ, V: the singular vectors of K with the largest singular values
3. x ↦ (x − mean) · R_x⁻¹ · U and y ↦ (y − mean) · R_y⁻¹ · V have the correlations ρ

Data may come in blocks: memory is O(d²), whatever the number of rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import blas

from deixis.errors import DeixisError

Doubles = NDArray[np.float64]
FloatRows = NDArray[np.float32] | NDArray[np.float64]

UNCORRELATED = 1e-6
"""Correlations below this are rounding errors, and so are their directions."""


class Canonical(NamedTuple):
    """Projections (d, embedding_dim) of both sides, and the correlations of their columns, the highest first."""

    x: Doubles
    y: Doubles
    correlations: Doubles


class PairSums:
    """Sums over pairs of rows: products of a block in its precision, sums in float64.

    A shift is subtracted from the rows of each side. Any shift gives the same covariance; one near the mean, that of
    the first block, keeps the precision of float32.

    Only the upper triangles of the two symmetric sums are computed. All are in Fortran order, so that LAPACK works in
    place.
    """

    def __init__(self, x_size: int, y_size: int) -> None:
        self.count = 0
        self.shifts = [np.zeros(x_size), np.zeros(y_size)]
        self.totals = [np.zeros(x_size), np.zeros(y_size)]
        shapes = (x_size, x_size), (y_size, y_size), (x_size, y_size)
        self._products: list[Any] = [np.zeros(shape, order="F") for shape in shapes]

    def add(self, x: FloatRows, y: FloatRows) -> None:
        """Add two blocks of rows, which are pairs."""
        if self.count == 0:  # the means, rounded to the precision of the rows
            self.shifts = [side.mean(0, dtype=np.float64).astype(side.dtype).astype(np.float64) for side in (x, y)]
        x, y = (
            np.subtract(side, shift.astype(side.dtype), order="C")
            for side, shift in zip((x, y), self.shifts, strict=True)
        )
        for total, side in zip(self.totals, (x, y), strict=True):
            total += side.sum(axis=0, dtype=np.float64)
        self.count += len(x)
        syrk, gemm = linalg.get_blas_funcs(("syrk", "gemm"), (x, y))
        xx, yy, xy = self._products
        xx += syrk(1.0, x.T)
        yy += syrk(1.0, y.T)
        xy += gemm(1.0, x.T, y.T, trans_b=True)

    @property
    def means(self) -> list[Doubles]:
        return [shift + total / self.count for shift, total in zip(self.shifts, self.totals, strict=True)]

    def canonical(self, embedding_dim: int, regularization: float) -> Canonical:
        """Return the projections. The sums are overwritten."""
        count = float(self.count)
        x_mean, y_mean = (total / count for total in self.totals)
        xx, yy, xy = self._products
        xx = blas.dsyr(-count, x_mean, a=xx, overwrite_a=True)
        yy = blas.dsyr(-count, y_mean, a=yy, overwrite_a=True)
        xy = blas.dger(-count, x_mean, y_mean, a=xy, overwrite_a=True)
        for sums in (xx, yy, xy):
            sums /= count
        x_root, y_root = (_root(side, name, regularization) for side, name in ((xx, "X"), (yy, "Y")))
        whitened = blas.dtrsm(1.0, x_root, xy, trans_a=1, overwrite_b=True)
        whitened = blas.dtrsm(1.0, y_root, whitened, side=1, overwrite_b=True)
        left, right, correlations = _singular(whitened, embedding_dim)
        return Canonical(blas.dtrsm(1.0, x_root, left), blas.dtrsm(1.0, y_root, right), correlations)


def _root(covariance: Doubles, name: str, regularization: float) -> Doubles:
    """Return the upper triangular root R of the regularized covariance RᵀR, in place."""
    diagonal = np.einsum("ii->i", covariance)
    if (mean := diagonal.mean()) <= 0:
        raise DeixisError(f"CCA: all rows of {name} are the same")
    diagonal += regularization * mean  # a fraction, so that units do not matter
    try:
        root: Doubles = linalg.cholesky(covariance, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        raise DeixisError(f"CCA: columns of {name} depend on each other; give a regularization above 0") from None
    return root


def _singular(matrix: Doubles, embedding_dim: int) -> tuple[Doubles, Doubles, Doubles]:
    """Return the left and right singular vectors, by column, of the largest singular values, and these.

    Computed from the eigenvectors of the smaller of M·Mᵀ and Mᵀ·M. A full decomposition of M takes many times as
    long, and squaring only loses digits of correlations that are nearly 0.
    """
    wide = matrix.shape[0] <= matrix.shape[1]
    squares, near = _largest_eigenvectors(blas.dsyrk(1.0, matrix, trans=0 if wide else 1), embedding_dim)
    values = np.sqrt(np.clip(squares, 0, None))
    far = blas.dgemm(1.0, matrix, near, trans_a=1 if wide else 0)
    far *= np.where(values > UNCORRELATED, 1 / np.maximum(values, UNCORRELATED), 0)
    return (near, far, values) if wide else (far, near, values)


def _largest_eigenvectors(symmetric: Doubles, count: int) -> tuple[Doubles, Doubles]:
    """Return the largest eigenvalues and their eigenvectors by column; only the upper triangle is read.

    The subspace is found in float32, in half the time, and the eigenvectors are then solved in float64 within it: the
    error of the eigenvalues is the square of that of the subspace.
    """
    size = len(symmetric)
    largest = [size - count, size - 1]
    _, rough = linalg.eigh(
        symmetric.astype(np.float32), lower=False, subset_by_index=largest, overwrite_a=True, check_finite=False
    )
    basis = linalg.qr(rough.astype(np.float64), mode="economic", overwrite_a=True, check_finite=False)[0]
    values, turn = linalg.eigh(blas.dgemm(1.0, basis, blas.dsymm(1.0, symmetric, basis), trans_a=True))
    return values[::-1], blas.dgemm(1.0, basis, turn[:, ::-1])
