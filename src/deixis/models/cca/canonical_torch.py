"""`canonical` in torch, on any device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from deixis.errors import DeixisError
from deixis.models.cca.canonical import UNCORRELATED, Canonical, Doubles, Rows, ridge, singular


class TorchProducts:
    """Sums of products on a device: products of a block in its precision, sums in float64."""

    def __init__(self, x_size: int, y_size: int, device: str) -> None:
        try:
            self._xx, self._yy, self._xy = (
                torch.zeros(shape, dtype=torch.float64, device=device)
                for shape in ((x_size, x_size), (y_size, y_size), (x_size, y_size))
            )
        except (AssertionError, RuntimeError, TypeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise DeixisError(f"CCA: cannot compute on the device {device!r} ({reason})") from error
        self._device = device

    def add(self, x: Rows, y: Rows) -> None:
        x_block, y_block = self._tensor(x), self._tensor(y)
        self._xx += x_block.T @ x_block
        self._yy += y_block.T @ y_block
        self._xy += x_block.T @ y_block

    def canonical(
        self, count: int, x_mean: Doubles, y_mean: Doubles, embedding_dim: int, regularization: float
    ) -> Canonical:
        x_offset, y_offset = self._tensor(x_mean), self._tensor(y_mean)
        xx = self._xx.addr_(x_offset, x_offset, alpha=-count).div_(count)
        yy = self._yy.addr_(y_offset, y_offset, alpha=-count).div_(count)
        xy = self._xy.addr_(x_offset, y_offset, alpha=-count).div_(count)
        x_root, y_root = (_root(side, name, regularization) for side, name in ((xx, "X"), (yy, "Y")))
        whitened = torch.linalg.solve_triangular(x_root, xy, upper=False)
        whitened = torch.linalg.solve_triangular(y_root.T, whitened, upper=True, left=False)
        left, right, correlations = _singular(whitened, embedding_dim)
        return Canonical(
            _host(torch.linalg.solve_triangular(x_root.T, left, upper=True)),
            _host(torch.linalg.solve_triangular(y_root.T, right, upper=True)),
            _host(correlations),
        )

    def _tensor(self, numbers: Rows) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(numbers)).to(self._device)


def _host(numbers: Tensor) -> Doubles:
    array: Doubles = numbers.cpu().numpy()
    return array


def _root(covariance: Tensor, name: str, regularization: float) -> Tensor:
    """Return the lower triangular root L of the regularized covariance LLᵀ."""
    diagonal = covariance.diagonal()
    diagonal += ridge(diagonal, name, regularization)
    root: Tensor
    root, failed = torch.linalg.cholesky_ex(covariance)
    if failed:
        raise singular(name)
    return root


def _singular(matrix: Tensor, embedding_dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the singular vectors of the largest singular values, and these, as in `canonical`."""
    wide = matrix.shape[0] <= matrix.shape[1]
    short = matrix if wide else matrix.T
    squares, vectors = torch.linalg.eigh(short @ short.T)
    values = squares.flip(0)[:embedding_dim].clamp(min=0).sqrt()
    near = vectors.flip(1)[:, :embedding_dim]
    far = short.T @ near * torch.where(values > UNCORRELATED, 1 / values.clamp(min=UNCORRELATED), 0)
    return (near, far, values) if wide else (far, near, values)
