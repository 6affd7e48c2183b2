"""Normalised canonical correlation analysis: the first model of Flickr30k Entities (§3.1), and its fastest.

Two linear maps are found that bring photos and sentences into one space, where the coordinates of a pair are as
correlated as can be. `docs/models/cca.md` has the equations and the choices that the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis.errors import DeixisError
from deixis.language.features.base import Floats, fitted, to_unit_length
from deixis.language.saved import Saved
from deixis.models.base import Embedder
from deixis.models.canonical import Doubles, HostProducts, Products, Rows
from deixis.models.saved import StoredModel

BLOCK = 4096
"""Rows that are worked on at a time: 165 MB of the papers' features."""

LEARNED = ("x_mean", "y_mean", "x_projection", "y_projection", "correlations")


@dataclass(frozen=True)
class CCASettings:
    """What can be chosen.

    Attributes
    ----------
    components
        Dimensions of the common space.
    regularisation
        Added to the variance of every column, as a share of the mean variance of its side.
    power
        Each dimension counts by its correlation to this power; 0 counts all the same.
    """

    components: int = 256
    regularisation: float = 0.5
    power: float = 1.0


class CCA(StoredModel, Embedder):
    """Canonical correlation analysis whose vectors have unit length, so that their dot product ranks as distance does.

    Parameters
    ----------
    components, regularisation, power
        As in `CCASettings`.
    device
        Where to compute while fitting: None for the processor, else as torch names it (``"cuda"``).

    Attributes
    ----------
    x_mean_, y_mean_ : array of float32, (d,)
        Of the rows of each side.
    x_projection_, y_projection_ : array of float32, (d, components)
        Project centred rows of each side to coordinates of variance 1 (less what regularisation takes), not
        correlated with each other, and each as correlated as can be with its partner on the other side.
    correlations_ : array of float32, (components,)
        Of the partners, the regularised variances counted; the greatest first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> seen = rng.normal(size=(300, 4))
    >>> photos, sentences = seen @ rng.normal(size=(4, 8)), seen @ rng.normal(size=(4, 6))
    >>> cca = CCA(components=4, regularisation=1e-3).fit(photos[:200], sentences[:200])
    >>> visual, text = cca.transform(photos[200:], sentences[200:])
    >>> cca.scores(visual, text).argmax(axis=1)[:5]
    array([0, 1, 2, 3, 4])
    >>> round(cca.score(photos[200:], sentences[200:]), 2)
    1.0
    """

    KIND = "cca"

    def __init__(
        self,
        components: int = CCASettings.components,
        regularisation: float = CCASettings.regularisation,
        power: float = CCASettings.power,
        *,
        device: str | None = None,
    ) -> None:
        self.components = components
        self.regularisation = regularisation
        self.power = power
        self.device = device
        self.x_mean_: Floats | None = None
        self.y_mean_: Floats | None = None
        self.x_projection_: Floats | None = None
        self.y_projection_: Floats | None = None
        self.correlations_: Floats | None = None
        self._sums: _Sums | None = None

    @property
    def settings(self) -> CCASettings:
        """What was chosen."""
        return CCASettings(self.components, self.regularisation, self.power)

    @property
    def dimension(self) -> int:
        """Numbers in each vector."""
        return self.components

    def fit(self, X: ArrayLike, Y: ArrayLike) -> Self:  # noqa: N803 - as in scikit-learn
        """Learn from pairs: row i of `X`, a photo or region, belongs to row i of `Y`, a sentence or phrase.

        The rows are read once, a block at a time; they may lie in a memory-mapped file.
        """
        return self.fit_blocks([(X, Y)])

    def fit_blocks(self, pairs: Iterable[tuple[ArrayLike, ArrayLike]]) -> Self:
        """Learn from pairs that come in blocks, each seen once: from a stream, or from several sets together."""
        self._sums = None
        for x_block, y_block in pairs:
            self.partial_fit(x_block, y_block)
        return self.finish()

    def partial_fit(self, X: ArrayLike, Y: ArrayLike) -> Self:  # noqa: N803
        """Take in more pairs. When all have been seen, `finish` learns from them; the next pairs begin anew."""
        x_rows, y_rows = _rows(X, "X"), _rows(Y, "Y")
        if len(x_rows) != len(y_rows):
            raise DeixisError(f"CCA: X has {len(x_rows):,} rows, Y has {len(y_rows):,}; they must be pairs")
        if self._sums is None:
            self._sums = _Sums(x_rows.shape[1], y_rows.shape[1], self.device)
        for block in blocks(len(x_rows)):
            self._sums.add(x_rows[block], y_rows[block])
        return self

    def finish(self) -> Self:
        """Learn from all that `partial_fit` was given, and let go of it."""
        sums, self._sums = self._sums, None
        if sums is None or sums.count == 0:
            raise DeixisError("CCA: no rows to learn from")
        most = min(sums.count - 1, len(sums.x.total), len(sums.y.total))
        if not 1 <= self.components <= most:
            raise DeixisError(
                f"CCA: {self.components:,} components cannot be had from {sums.count:,} pairs of "
                f"{len(sums.x.total):,} and {len(sums.y.total):,} numbers; ask for 1 to {most:,}"
            )
        x_away, y_away = sums.x.total / sums.count, sums.y.total / sums.count
        found = sums.products.canonical(sums.count, x_away, y_away, self.components, self.regularisation)
        signs = _signs(found.x)
        self.x_mean_ = (sums.x.shift + x_away).astype(np.float32)
        self.y_mean_ = (sums.y.shift + y_away).astype(np.float32)
        self.x_projection_ = np.ascontiguousarray(found.x * signs, dtype=np.float32)
        self.y_projection_ = np.ascontiguousarray(found.y * signs, dtype=np.float32)
        self.correlations_ = found.correlations.astype(np.float32)
        return self

    @overload
    def transform(self, X: ArrayLike, Y: None = None) -> Floats: ...  # noqa: N803
    @overload
    def transform(self, X: None = None, *, Y: ArrayLike) -> Floats: ...  # noqa: N803
    @overload
    def transform(self, X: ArrayLike, Y: ArrayLike) -> tuple[Floats, Floats]: ...  # noqa: N803
    def transform(self, X: ArrayLike | None = None, Y: ArrayLike | None = None) -> Floats | tuple[Floats, Floats]:  # noqa: N803
        """Vectors of unit length for the rows of `X`, of `Y`, or of both."""
        if X is not None and Y is not None:
            return self.prepare_visual(X), self.prepare_text(Y)
        if X is not None:
            return self.prepare_visual(X)
        if Y is not None:
            return self.prepare_text(Y)
        raise DeixisError("CCA: give X, Y or both")

    def prepare_visual(self, features: ArrayLike) -> Floats:
        """A vector of unit length for each photo or region."""
        return to_unit_length(self._project_visual(features) * self._weights())

    def prepare_text(self, features: ArrayLike) -> Floats:
        """A vector of unit length for each sentence or phrase."""
        return to_unit_length(self._project_text(features) * self._weights())

    def score(self, X: ArrayLike, Y: ArrayLike) -> float:  # noqa: N803
        """The correlation of partners on these pairs, averaged over the dimensions; at most 1."""
        visual, text = self._project_visual(X).astype(np.float64), self._project_text(Y).astype(np.float64)
        if len(visual) != len(text) or len(visual) < 2:
            raise DeixisError(f"CCA: {len(visual):,} rows and {len(text):,} rows are no pairs to correlate")
        visual -= visual.mean(axis=0)
        text -= text.mean(axis=0)
        lengths = np.sqrt((visual**2).sum(axis=0) * (text**2).sum(axis=0))
        together = (visual * text).sum(axis=0)
        return float(np.divide(together, lengths, out=np.zeros_like(lengths), where=lengths > 0).mean())

    def saved(self) -> Saved:
        """What `save` writes."""
        arrays = {name: fitted(getattr(self, f"{name}_"), self) for name in LEARNED}
        return Saved(self.KIND, asdict(self.settings), arrays)

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        cca = cls(**asdict(CCASettings(**saved.settings)))
        arrays = {name: np.asarray(saved.arrays[name], dtype=np.float32) for name in LEARNED}
        for side in ("x", "y"):
            mean, projection = arrays[f"{side}_mean"], arrays[f"{side}_projection"]
            if mean.ndim != 1 or projection.shape != (len(mean), cca.components):
                raise ValueError(f"a projection of shape {projection.shape} for a mean of shape {mean.shape}")
        if arrays["correlations"].shape != (cca.components,):
            raise ValueError(f"correlations of shape {arrays['correlations'].shape}")
        for name, array in arrays.items():
            setattr(cca, f"{name}_", array)
        return cca

    def _weights(self) -> Floats:
        weights: Floats = fitted(self.correlations_, self) ** np.float32(self.power)
        return weights

    def _project_visual(self, features: ArrayLike) -> Floats:
        return _projected(_rows(features, "X"), "X", fitted(self.x_mean_, self), fitted(self.x_projection_, self))

    def _project_text(self, features: ArrayLike) -> Floats:
        return _projected(_rows(features, "Y"), "Y", fitted(self.y_mean_, self), fitted(self.y_projection_, self))


def blocks(count: int) -> Iterator[slice]:
    """Slices that cover so many rows, a block at a time."""
    return (slice(start, start + BLOCK) for start in range(0, count, BLOCK))


class _Side:
    """One side of the pairs: what is taken off each of its rows, and the total of what is left."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.shift = np.zeros(size)
        self.total = np.zeros(size)


class _Sums:
    """Totals and products of all pairs so far."""

    def __init__(self, x_size: int, y_size: int, device: str | None) -> None:
        self.count = 0
        self.x, self.y = _Side("X", x_size), _Side("Y", y_size)
        self.products = _products(x_size, y_size, device)

    def add(self, x: Rows, y: Rows) -> None:
        """Take in a block of pairs."""
        for side, rows in ((self.x, x), (self.y, y)):
            _refuse_other_width(rows, side.name, len(side.total))
            _refuse_what_is_not_finite(rows, side.name, self.count)
        if self.count == 0:
            # Any shift gives the same covariance; one near the mean keeps float32 from losing digits.
            self.x.shift = _mean(x)
            self.y.shift = _mean(y)
        x, y = _less(x, self.x.shift), _less(y, self.y.shift)
        self.x.total += x.sum(axis=0, dtype=np.float64)
        self.y.total += y.sum(axis=0, dtype=np.float64)
        self.products.add(x, y)
        self.count += len(x)


def _products(x_size: int, y_size: int, device: str | None) -> Products:
    if device is None:
        return HostProducts(x_size, y_size)
    from deixis.models.canonical_torch import TorchProducts

    return TorchProducts(x_size, y_size, device)


def _mean(rows: Rows) -> Doubles:
    """The mean, rounded to the numbers of the rows: subtracting it is then exact enough."""
    mean: Doubles = rows.mean(axis=0, dtype=np.float64).astype(rows.dtype).astype(np.float64)
    return mean


def _less(rows: Rows, shift: Doubles) -> Rows:
    shifted: Rows = np.subtract(rows, shift.astype(rows.dtype), order="C")
    return shifted


def _rows(numbers: ArrayLike, name: str) -> Rows:
    """An array of float32, or of float64 if it was so given, with two dimensions."""
    try:
        array = np.asarray(numbers)
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float32)
    except (TypeError, ValueError) as error:
        raise DeixisError(f"CCA: {name} is no array of numbers ({error})") from error
    if array.ndim != 2:
        raise DeixisError(f"CCA: {name} has {array.ndim} dimensions; give rows and columns")
    return array


def _refuse_other_width(rows: NDArray[Any], name: str, width: int) -> None:
    if rows.shape[1] != width:
        raise DeixisError(f"CCA: {name} has {rows.shape[1]:,} columns, those before had {width:,}")


def _refuse_what_is_not_finite(rows: Rows, name: str, before: int) -> None:
    # The sum of the rows is finite if all numbers are, and much cheaper than asking each.
    if np.isfinite(rows.sum(axis=0, dtype=np.float64)).all():
        return
    row, column = np.argwhere(~np.isfinite(rows))[0]
    raise DeixisError(f"CCA: row {before + row:,} of {name} has {rows[row, column]} in column {column:,}")


def _signs(directions: Doubles) -> Doubles:
    """Make the largest number of each direction positive: directions have no sign of their own."""
    largest = np.argmax(np.abs(directions), axis=0)
    signs: Doubles = np.where(directions[largest, np.arange(directions.shape[1])] < 0, -1.0, 1.0)
    return signs


def _projected(rows: Rows, name: str, mean: Floats, projection: Floats) -> Floats:
    _refuse_other_width(rows, name, len(mean))
    projected = np.empty((len(rows), projection.shape[1]), dtype=np.float32)
    for block in blocks(len(rows)):
        np.matmul((rows[block] - mean).astype(np.float32, copy=False), projection, out=projected[block])
    return projected
