"""The projections of canonical correlation analysis, from sums of products of rows.

With the covariances C of both sides, and R the Cholesky factors of C_xx and C_yy after regularization:

1. K = R_x⁻ᵀ · C_xy · R_y⁻¹
2. U, ρ, V: the singular vectors of K with the largest singular values
3. x ↦ (x − mean) · R_x⁻¹ · U and y ↦ (y − mean) · R_y⁻¹ · V have the correlations ρ

Data may come in blocks: memory is O(d²), whatever the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import blas

from deixis.errors import DeixisError, short_reason

Doubles = NDArray[np.float64]
FeatureRows = NDArray[np.float32] | NDArray[np.float64]

UNCORRELATED = 1e-6
"""Correlations below this are rounding errors, and so are their directions."""


@dataclass(frozen=True)
class Canonical:
    """Projections (d, embedding_dim) of both sides, and the correlations of their columns, the highest first."""

    x: Doubles
    y: Doubles
    correlations: Doubles


class Products:
    """Sums of products of pairs of rows: products of a block in its precision, sums in float64.

    Only the upper triangles of the two symmetric sums are computed. All are in Fortran order, so that LAPACK works in
    place.
    """

    def __init__(self, x_size: int, y_size: int) -> None:
        self._xx = np.zeros((x_size, x_size), order="F")
        self._yy = np.zeros((y_size, y_size), order="F")
        self._xy = np.zeros((x_size, y_size), order="F")

    def add(self, x: FeatureRows, y: FeatureRows) -> None:
        """Add two blocks of rows, which are pairs."""
        syrk, gemm = linalg.get_blas_funcs(("syrk", "gemm"), (x, y))
        self._xx += syrk(1.0, x.T)
        self._yy += syrk(1.0, y.T)
        self._xy += gemm(1.0, x.T, y.T, trans_b=True)

    def canonical(
        self, count: int, x_mean: Doubles, y_mean: Doubles, embedding_dim: int, regularization: float
    ) -> Canonical:
        """Return the projections, given the number of rows and their means. The sums are overwritten."""
        xx = blas.dsyr(-float(count), x_mean, a=self._xx, overwrite_a=True)
        yy = blas.dsyr(-float(count), y_mean, a=self._yy, overwrite_a=True)
        xy = blas.dger(-float(count), x_mean, y_mean, a=self._xy, overwrite_a=True)
        for sums in (xx, yy, xy):
            sums /= count
        x_root, y_root = (_root(side, name, regularization) for side, name in ((xx, "X"), (yy, "Y")))
        whitened = blas.dtrsm(1.0, x_root, xy, trans_a=1, overwrite_b=True)
        whitened = blas.dtrsm(1.0, y_root, whitened, side=1, overwrite_b=True)
        left, right, correlations = _singular(whitened, embedding_dim)
        return Canonical(blas.dtrsm(1.0, x_root, left), blas.dtrsm(1.0, y_root, right), correlations)


class DeviceProducts(Products):
    """Sums of products computed by torch on a device."""

    def __init__(self, x_size: int, y_size: int, device: str) -> None:
        import torch

        shapes = ((x_size, x_size), (y_size, y_size), (x_size, y_size))
        try:
            self._sums = [torch.zeros(shape, dtype=torch.float64, device=device) for shape in shapes]
        except (AssertionError, RuntimeError, TypeError) as error:
            reason = short_reason(error)
            raise DeixisError(f"CCA: cannot compute on the device {device!r} ({reason})") from error

    def add(self, x: FeatureRows, y: FeatureRows) -> None:
        import torch

        x_block, y_block = (torch.from_numpy(rows).to(self._sums[0].device) for rows in (x, y))
        for sums, one, other in zip(self._sums, (x_block, y_block, x_block), (x_block, y_block, y_block), strict=True):
            sums += one.T @ other

    def canonical(self, count: int, *arguments: Any) -> Canonical:
        self._xx, self._yy, self._xy = (np.asfortranarray(sums.cpu().numpy()) for sums in self._sums)
        return super().canonical(count, *arguments)


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
