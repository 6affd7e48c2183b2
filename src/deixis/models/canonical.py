"""The directions of canonical correlation analysis, from sums of products of centred rows.

Written for data that comes in blocks: what is kept is d² numbers, whatever the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import blas

from deixis.errors import DeixisError

Doubles = NDArray[np.float64]
Rows = NDArray[np.float32] | NDArray[np.float64]

UNCORRELATED = 1e-6
"""Correlations below this are rounding errors, and so would be the directions that come with them."""


@dataclass(frozen=True)
class Canonical:
    """Directions by column, the best correlated first: float64, (d, components) each, and their correlations."""

    x: Doubles
    y: Doubles
    correlations: Doubles


class Products(Protocol):
    """Sums of products of rows, on the processor or on another device."""

    def add(self, x: Rows, y: Rows) -> None:
        """Add the products of two blocks of rows, which are pairs."""
        ...

    def canonical(
        self, count: int, x_mean: Doubles, y_mean: Doubles, components: int, regularisation: float
    ) -> Canonical:
        """The best directions, given how many rows were added and their mean. The sums are lost."""
        ...


class HostProducts:
    """Sums of products in numpy: a block's products in the precision of its numbers, the sums in float64.

    Only the upper triangles of the two symmetric sums are ever computed. All are in Fortran's order, for LAPACK to
    work in place.
    """

    def __init__(self, x_size: int, y_size: int) -> None:
        self._xx = np.zeros((x_size, x_size), order="F")
        self._yy = np.zeros((y_size, y_size), order="F")
        self._xy = np.zeros((x_size, y_size), order="F")

    def add(self, x: Rows, y: Rows) -> None:
        """Add the products of two blocks of rows, which are pairs."""
        syrk, gemm = linalg.get_blas_funcs(("syrk", "gemm"), (x, y))
        self._xx += syrk(1.0, x.T)
        self._yy += syrk(1.0, y.T)
        self._xy += gemm(1.0, x.T, y.T, trans_b=True)

    def canonical(
        self, count: int, x_mean: Doubles, y_mean: Doubles, components: int, regularisation: float
    ) -> Canonical:
        """The best directions, given how many rows were added and their mean. The sums are lost."""
        xx = blas.dsyr(-float(count), x_mean, a=self._xx, overwrite_a=True)
        yy = blas.dsyr(-float(count), y_mean, a=self._yy, overwrite_a=True)
        xy = blas.dger(-float(count), x_mean, y_mean, a=self._xy, overwrite_a=True)
        for sums in (xx, yy, xy):
            sums /= count
        x_root, y_root = (_root(side, name, regularisation) for side, name in ((xx, "X"), (yy, "Y")))
        whitened = blas.dtrsm(1.0, x_root, xy, trans_a=1, overwrite_b=True)
        whitened = blas.dtrsm(1.0, y_root, whitened, side=1, overwrite_b=True)
        left, right, correlations = _singular(whitened, components)
        return Canonical(blas.dtrsm(1.0, x_root, left), blas.dtrsm(1.0, y_root, right), correlations)


def ridge(variances: Any, name: str, regularisation: float) -> float:
    """What is added to every variance of a side: a share of their mean, so that units make no difference."""
    mean = float(variances.mean())
    if mean <= 0:
        raise DeixisError(f"CCA: all rows of {name} are the same")
    return regularisation * mean


def singular(name: str) -> DeixisError:
    """What is wrong when a side cannot be whitened."""
    return DeixisError(f"CCA: columns of {name} depend on each other; give a regularisation above 0")


def _root(covariance: Doubles, name: str, regularisation: float) -> Doubles:
    """The upper triangular root R of the regularised covariance RᵀR, in its place."""
    diagonal = np.einsum("ii->i", covariance)
    diagonal += ridge(diagonal, name, regularisation)
    try:
        root: Doubles = linalg.cholesky(covariance, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        raise singular(name) from None
    return root


def _singular(matrix: Doubles, components: int) -> tuple[Doubles, Doubles, Doubles]:
    """The largest singular values and their vectors, left and right, by column.

    They come from the eigenvectors of the smaller of M·Mᵀ and Mᵀ·M. The whole decomposition of M takes many times as
    long, and squaring costs only digits of correlations that are nearly 0.
    """
    wide = matrix.shape[0] <= matrix.shape[1]
    squares, near = _largest_eigenvectors(blas.dsyrk(1.0, matrix, trans=0 if wide else 1), components)
    values = np.sqrt(np.clip(squares, 0, None))
    far = blas.dgemm(1.0, matrix, near, trans_a=1 if wide else 0)
    far *= np.where(values > UNCORRELATED, 1 / np.maximum(values, UNCORRELATED), 0)
    return (near, far, values) if wide else (far, near, values)


def _largest_eigenvectors(symmetric: Doubles, count: int) -> tuple[Doubles, Doubles]:
    """Eigenvalues, largest first, and eigenvectors by column; only the upper triangle is read.

    Where the eigenvectors lie is found in float32, in half the time. What they are is then solved in float64 within the
    space that they span: the error of the eigenvalues is the square of the first one's.
    """
    size = len(symmetric)
    _, rough = linalg.eigh(
        symmetric.astype(np.float32),
        lower=False,
        subset_by_index=[size - count, size - 1],
        overwrite_a=True,
        check_finite=False,
    )
    basis = linalg.qr(rough.astype(np.float64), mode="economic", overwrite_a=True, check_finite=False)[0]
    values, turn = linalg.eigh(blas.dgemm(1.0, basis, blas.dsymm(1.0, symmetric, basis), trans_a=True))
    return values[::-1], blas.dgemm(1.0, basis, turn[:, ::-1])
