"""Canonical correlation analysis, and the stacked auxiliary embedding of Flickr30k Entities (section 3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis.arrays import Floats, to_unit_length
from deixis.errors import DeixisError
from deixis.language.features.base import fitted
from deixis.models.base import Embedder
from deixis.models.cca.spec import CCASettings
from deixis.storage.artifacts import Artifact, Storable

if TYPE_CHECKING:
    from deixis.models.cca.canonical import Doubles, FloatRows

BLOCK = 4096
"""Rows per block: 165 MB of the papers' features."""

LEARNED = ("x_mean", "y_mean", "x_projection", "y_projection", "correlations")


class CCA(Storable, Embedder):
    """Canonical correlation analysis, with the normalized vectors of Flickr30k Entities (section 3.1).

    Vectors have unit length, so their dot product ranks like their distance.

    Parameters
    ----------
    embedding_dim, regularization, correlation_power
        As in `CCASettings`.

    Attributes
    ----------
    x_mean_, y_mean_ : array of float32, (d,)
        Means of both sides.
    x_projection_, y_projection_ : array of float32, (d, embedding_dim)
        Projections of centred rows to uncorrelated coordinates of variance 1 (before regularization), with maximum
        correlation between the two sides.
    correlations_ : array of float32, (embedding_dim,)
        Correlations of the coordinates of both sides, with regularized variances; the highest first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.normal(size=(300, 4))
    >>> photos, sentences = shared @ rng.normal(size=(4, 8)), shared @ rng.normal(size=(4, 6))
    >>> cca = CCA(embedding_dim=4, regularization=1e-3).fit(photos[:200], sentences[:200])
    >>> visual, text = cca.transform(photos[200:], sentences[200:])
    >>> cca.scores(visual, text).argmax(axis=1)[:5]
    array([0, 1, 2, 3, 4])
    >>> round(cca.score(photos[200:], sentences[200:]), 2)
    1.0
    """

    KIND = "cca"

    def __init__(
        self,
        embedding_dim: int = CCASettings.embedding_dim,
        regularization: float = CCASettings.regularization,
        correlation_power: float = CCASettings.correlation_power,
    ) -> None:
        self.embedding_dim = embedding_dim
        self.regularization = regularization
        self.correlation_power = correlation_power
        self.x_mean_: Floats | None = None
        self.y_mean_: Floats | None = None
        self.x_projection_: Floats | None = None
        self.y_projection_: Floats | None = None
        self.correlations_: Floats | None = None

    @property
    def settings(self) -> CCASettings:
        return CCASettings(self.embedding_dim, self.regularization, self.correlation_power)

    @property
    def dimension(self) -> int:
        return self.embedding_dim

    def fit(self, X: ArrayLike, Y: ArrayLike) -> Self:  # noqa: N803 - as in scikit-learn
        """Fit to pairs: row i of `X`, a photo or region, belongs to row i of `Y`, a sentence or phrase.

        Rows are read once, block by block; they may be memory-mapped.
        """
        return self.fit_blocks([(X, Y)])

    def fit_blocks(self, pairs: Iterable[tuple[ArrayLike, ArrayLike]]) -> Self:
        """Fit to pairs that come in blocks, each read once."""
        from deixis.models.cca.canonical import PairSums

        sums: PairSums | None = None
        for X, Y in pairs:  # noqa: N806
            x_rows, y_rows = _rows(X, "X"), _rows(Y, "Y")
            if len(x_rows) != len(y_rows):
                raise DeixisError(f"CCA: X has {len(x_rows):,} rows, Y has {len(y_rows):,}; they must be pairs")
            if sums is None:
                sums = PairSums(x_rows.shape[1], y_rows.shape[1])
            for block in blocks(len(x_rows)):
                for rows, name, total in zip((x_rows, y_rows), "XY", sums.totals, strict=True):
                    _refuse_other_width(rows, name, len(total))
                    _refuse_non_finite(rows[block], name, sums.count)
                sums.add(x_rows[block], y_rows[block])
        if sums is None or sums.count == 0:
            raise DeixisError("CCA: there are no rows to fit to")
        x_size, y_size = map(len, sums.totals)
        most = min(sums.count - 1, x_size, y_size)
        if not 1 <= self.embedding_dim <= most:
            raise DeixisError(
                f"CCA: embedding_dim={self.embedding_dim}: {sums.count:,} pairs of {x_size:,} and {y_size:,} features "
                f"allow 1 to {most:,}"
            )
        self.x_mean_, self.y_mean_ = (mean.astype(np.float32) for mean in sums.means)
        found = sums.canonical(self.embedding_dim, self.regularization)
        signs = _signs(found.x)
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
        """Return the unit vectors of the rows of `X`, of `Y`, or of both."""
        if X is not None and Y is not None:
            return self.prepare_visual(X), self.prepare_text(Y)
        if X is not None:
            return self.prepare_visual(X)
        if Y is not None:
            return self.prepare_text(Y)
        raise DeixisError("CCA: give X, Y or both")

    def prepare_visual(self, features: ArrayLike) -> Floats:
        return to_unit_length(self._project("x", features) * self._weights())

    def prepare_text(self, features: ArrayLike) -> Floats:
        return to_unit_length(self._project("y", features) * self._weights())

    def score(self, X: ArrayLike, Y: ArrayLike) -> float:  # noqa: N803
        """Return the correlation of the two sides on these pairs, averaged over the dimensions; at most 1."""
        visual, text = (self._project(*each).astype(np.float64) for each in (("x", X), ("y", Y)))
        if len(visual) != len(text) or len(visual) < 2:
            raise DeixisError(f"CCA: {len(visual):,} rows and {len(text):,} rows are no pairs to correlate")
        visual -= visual.mean(axis=0)
        text -= text.mean(axis=0)
        lengths = np.sqrt((visual**2).sum(axis=0) * (text**2).sum(axis=0))
        together = (visual * text).sum(axis=0)
        return float(np.divide(together, lengths, out=np.zeros_like(lengths), where=lengths > 0).mean())

    def to_artifact(self) -> Artifact:
        arrays = {name: fitted(getattr(self, f"{name}_"), self) for name in LEARNED}
        return Artifact(self.KIND, asdict(self.settings), arrays)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        cca = cls(**asdict(CCASettings(**artifact.settings)))
        arrays = {name: np.asarray(artifact.arrays[name], dtype=np.float32) for name in LEARNED}
        for side in ("x", "y"):
            mean, projection = arrays[f"{side}_mean"], arrays[f"{side}_projection"]
            if mean.ndim != 1 or projection.shape != (len(mean), cca.embedding_dim):
                raise ValueError(f"a projection of shape {projection.shape} for a mean of shape {mean.shape}")
        if arrays["correlations"].shape != (cca.embedding_dim,):
            raise ValueError(f"correlations of shape {arrays['correlations'].shape}")
        for name, array in arrays.items():
            setattr(cca, f"{name}_", array)
        return cca

    def _weights(self) -> Floats:
        return fitted(self.correlations_, self) ** np.float32(self.correlation_power)

    def _project(self, side: Literal["x", "y"], features: ArrayLike) -> Floats:
        rows = _rows(features, side.upper())
        mean, projection = (fitted(getattr(self, f"{side}_{name}_"), self) for name in ("mean", "projection"))
        _refuse_other_width(rows, side.upper(), len(mean))
        projected = np.empty((len(rows), projection.shape[1]), dtype=np.float32)
        for block in blocks(len(rows)):
            np.matmul((rows[block] - mean).astype(np.float32, copy=False), projection, out=projected[block])
        return projected


def blocks(count: int) -> Iterator[slice]:
    return (slice(start, start + BLOCK) for start in range(0, count, BLOCK))


def _rows(numbers: ArrayLike, name: str) -> FloatRows:
    """Return a two-dimensional array of float32, or of float64 if it is one already."""
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


def _refuse_non_finite(rows: FloatRows, name: str, before: int) -> None:
    # The sum of the rows is finite if all numbers are, and much cheaper than testing each.
    if np.isfinite(rows.sum(axis=0, dtype=np.float64)).all():
        return
    row, column = np.argwhere(~np.isfinite(rows))[0]
    raise DeixisError(f"CCA: row {before + row:,} of {name} has {rows[row, column]} in column {column:,}")


def _signs(directions: Doubles) -> Doubles:
    """Return the signs that make the largest number of each direction positive, as signs are arbitrary."""
    largest = np.argmax(np.abs(directions), axis=0)
    return np.where(directions[largest, np.arange(directions.shape[1])] < 0, -1.0, 1.0)


class Stacked(Storable, Embedder):
    """A CCA of features to which the vectors of an auxiliary CCA of regions and phrases are appended.

    `auxiliary` is fitted and takes the same features; if its visual features have another size, those of this model
    have them appended, and it takes them from there. `fit` fits `model`. `weight` is the length of the auxiliary
    vectors, relative to the features of their side: `visual_length_` and `text_length_`, the mean length of the
    features of each side over the first block of pairs.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> photos, sentences = rng.normal(size=(2, 100, 6)).astype(np.float32)
    >>> auxiliary = CCA(embedding_dim=2).fit(photos, sentences)
    >>> stacked = Stacked(auxiliary, CCA(embedding_dim=3)).fit(photos, sentences)
    >>> stacked.prepare_visual(photos).shape
    (100, 3)
    """

    KIND = "cca"

    def __init__(self, auxiliary: CCA, model: CCA, weight: float = 0.3) -> None:
        self.auxiliary = auxiliary
        self.model = model
        self.weight = weight
        self.visual_length_: float | None = None
        self.text_length_: float | None = None

    @property
    def dimension(self) -> int:
        return self.model.dimension

    def fit(self, X: ArrayLike, Y: ArrayLike) -> Self:  # noqa: N803 - as in scikit-learn
        """Fit to pairs: row i of `X`, a photo, belongs to row i of `Y`, a sentence."""
        photos, sentences = np.asarray(X), np.asarray(Y)
        if len(photos) != len(sentences):
            raise DeixisError(f"Stacked: X has {len(photos):,} rows, Y has {len(sentences):,}; they must be pairs")
        return self.fit_blocks((photos[block], sentences[block]) for block in blocks(len(photos)))

    def fit_blocks(self, pairs: Iterable[tuple[Floats, Floats]]) -> Self:
        """Fit to pairs that come in blocks, each read once."""
        self.model.fit_blocks(self._stacked(pairs))
        return self

    def prepare_visual(self, features: ArrayLike) -> Floats:
        return self.model.prepare_visual(self._stacked_visual(np.asarray(features)))

    def prepare_text(self, features: ArrayLike) -> Floats:
        return self.model.prepare_text(self._stacked_text(np.asarray(features)))

    def to_artifact(self) -> Artifact:
        parts = {"auxiliary": self.auxiliary.to_artifact(), "model": self.model.to_artifact()}
        lengths = fitted(self.visual_length_, self), fitted(self.text_length_, self)
        return Artifact(self.KIND, {"weight": self.weight, "lengths": lengths}, parts=parts)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        auxiliary, model = (CCA.from_artifact(artifact.parts[name]) for name in ("auxiliary", "model"))
        stacked = cls(auxiliary, model, float(artifact.settings["weight"]))
        stacked.visual_length_, stacked.text_length_ = map(float, artifact.settings["lengths"])
        return stacked

    def _stacked(self, pairs: Iterable[tuple[Floats, Floats]]) -> Iterator[tuple[Floats, Floats]]:
        for block, (photos, texts) in enumerate(pairs):
            if block == 0:
                self.visual_length_, self.text_length_ = _mean_length(self._split(photos)[0]), _mean_length(texts)
            yield self._stacked_visual(photos), self._stacked_text(texts)

    def _stacked_visual(self, features: Floats) -> Floats:
        length = self.weight * fitted(self.visual_length_, self)
        own, as_regions = self._split(features)
        return np.hstack([own, length * self.auxiliary.prepare_visual(as_regions)])

    def _split(self, features: Floats) -> tuple[Floats, Floats]:
        """Return the features of photos, and those that the auxiliary CCA takes of them."""
        size = len(fitted(self.auxiliary.x_mean_, self.auxiliary))
        return (features[:, :-size], features[:, -size:]) if features.shape[1] > size else (features, features)

    def _stacked_text(self, features: Floats) -> Floats:
        length = self.weight * fitted(self.text_length_, self)
        return np.hstack([features, length * self.auxiliary.prepare_text(features)])


def _mean_length(features: Floats) -> float:
    return float(np.linalg.norm(features, axis=1).mean())
