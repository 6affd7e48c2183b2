"""Fisher vectors: how a sentence's words would have the mixture changed.

The gradient of the mean log-likelihood of a sentence's words with respect to the locations and the scales of the
mixture, each divided by the square root of its Fisher information (Perronnin, Sánchez and Mensink, ECCV 2010; for
Laplacians Klein et al., CVPR 2015). With z = (x − location) / scale, posterior γ and weight λ, a word x adds

=========  ================  ========================
dimension  location          scale
=========  ================  ========================
Gaussian   γ z / √λ          γ (z² − 1) / √(2 λ)
Laplacian  γ sign(z) / √λ    γ (abs(z) − 1) / √λ
=========  ================  ========================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from deixis.errors import DeixisError
from deixis.language.features.base import Floats, Text, chunks_of, fitted, to_unit_length, token_counts, word_shares
from deixis.language.features.ica import ICA
from deixis.language.features.mixtures import Components, Family, Mixture
from deixis.language.saved import Saved, Storable
from deixis.language.vectors import WordVectors

Count = Literal["words", "tokens"]

ON_THE_MEDIAN = 1e-4
"""Within so many deviations of a Laplacian's median the sign is 0. The median is one word's number, and rounding must
not decide on which side of itself that word lies."""


class FisherVectors(Storable):
    """Fisher vectors of sentences over a mixture fitted to word vectors.

    Parameters
    ----------
    vectors
        Of words.
    components, family
        Of the mixture.
    ica
        Whether word vectors go through `ICA` first.
    scales
        Whether the gradient with respect to the scales is in: K · D · 2 numbers; else K · D.
    count
        What the mixture and ICA are fitted on: ``words`` counts each distinct word once, ``tokens`` as often as it
        occurs.
    normalized
        Whether each number becomes its signed square root and each vector gets unit length.
    seed
        Of ICA and the mixture.

    Attributes
    ----------
    ica_ : ICA or None
    mixture_ : Mixture

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> vectors = WordVectors(rng.normal(size=(5, 3)).astype(np.float32), ["a", "dog", "cat", "runs", "sits"])
    >>> features = FisherVectors(vectors, components=2, ica=False).fit(["a dog runs", "a cat sits"])
    >>> features.transform(["a dog sits"]).shape
    (1, 12)
    """

    KIND = "fisher-vectors"

    def __init__(
        self,
        vectors: WordVectors,
        *,
        components: int = 30,
        family: Family = "hybrid",
        ica: bool = True,
        scales: bool = True,
        count: Count = "words",
        normalized: bool = True,
        seed: int = 0,
    ) -> None:
        if count not in ("words", "tokens"):
            raise DeixisError(f"Fisher vectors: count is 'words' or 'tokens', not {count!r}")
        self.vectors = vectors
        self.components = components
        self.family: Family = family
        self.ica = ica
        self.scales = scales
        self.count: Count = count
        self.normalized = normalized
        self.seed = seed
        self.ica_: ICA | None = None
        self.mixture_: Mixture | None = None

    @property
    def dimension(self) -> int:
        """Components × dimensions of the word vectors, twice that with scales."""
        learned = fitted(fitted(self.mixture_, self).components_, self)
        return learned.locations.size * (2 if self.scales else 1)

    def fit(self, sentences: Sequence[Text]) -> Self:
        """Learn ICA and the mixture from the known words of the sentences."""
        rows, counts = token_counts(sentences, self.vectors)
        if not len(rows):
            raise DeixisError(f"Fisher vectors: none of the words of {len(sentences):,} sentences has a vector")
        weights = counts.astype(np.float64) if self.count == "tokens" else np.ones(len(rows))
        given = np.asarray(self.vectors.matrix[rows])
        self.ica_ = ICA(seed=self.seed).fit(given, weights) if self.ica else None
        points = self.ica_.transform(given) if self.ica_ else given
        # Clusters of the vectors as they are, or after ICA, are mostly single odd words; those of directions are not.
        directions = to_unit_length(given.copy())
        self.mixture_ = Mixture(self.components, self.family, seed=self.seed).fit(points, weights, like=directions)
        return self

    def transform(self, sentences: Sequence[Text]) -> Floats:
        """One Fisher vector for each sentence; zeros where no word is known.

        The location part comes first, component after component, then the scale part in the same order.
        """
        rows = np.empty((len(sentences), self.dimension), dtype=np.float32)
        done = 0
        for chunk in chunks_of(sentences):
            self._fill(rows[done : done + len(chunk)], chunk)
            done += len(chunk)
        return rows

    def _fill(self, rows: Floats, sentences: Sequence[Text]) -> None:
        mixture = fitted(self.mixture_, self)
        learned = fitted(mixture.components_, self)
        used, shares = word_shares(sentences, self.vectors)
        points = np.asarray(self.vectors.matrix[used])
        points = self.ica_.transform(points) if self.ica_ else points
        posteriors = mixture.posteriors(points)
        width = points.shape[1]
        for k in range(len(learned.weights)):
            location, scale = gradients(learned, k, points, posteriors[:, k])
            rows[:, k * width : (k + 1) * width] = shares @ location
            if self.scales:
                start = learned.locations.size + k * width
                rows[:, start : start + width] = shares @ scale
        if self.normalized:
            signs = np.signbit(rows)
            np.sqrt(np.abs(rows, out=rows), out=rows)
            np.negative(rows, out=rows, where=signs)
            to_unit_length(rows)

    def saved(self) -> Saved:
        """What `save` writes."""
        parts = {"vectors": self.vectors.saved(), "mixture": fitted(self.mixture_, self).saved()}
        if self.ica_ is not None:
            parts["ica"] = self.ica_.saved()
        return Saved(self.KIND, self._settings(), parts=parts)

    def _settings(self) -> dict[str, Any]:
        names = ("components", "family", "ica", "scales", "count", "normalized", "seed")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        features = cls(WordVectors.from_saved(saved.parts["vectors"]), **saved.settings)
        features.mixture_ = Mixture.from_saved(saved.parts["mixture"])
        features.ica_ = ICA.from_saved(saved.parts["ica"]) if features.ica else None
        features._check()
        return features

    def _check(self) -> None:
        ica = fitted(self.ica_, self).saved().arrays["unmixing"].shape if self.ica else None
        into, out = (ica[1], ica[0]) if ica else (self.vectors.dimension, self.vectors.dimension)
        mixed = fitted(fitted(self.mixture_, self).components_, self).locations.shape[1]
        if into != self.vectors.dimension or out != mixed:
            raise ValueError(f"vectors of {self.vectors.dimension}, ICA and a mixture of {mixed} do not fit each other")


def gradients(learned: Components, k: int, points: Floats, posteriors: Floats) -> tuple[Floats, Floats]:
    """What each point adds to the location and to the scale part of component k.

    Parameters
    ----------
    learned
        The mixture.
    k
        The component.
    points
        (n, D).
    posteriors
        (n,): of this component.
    """
    z = (points - learned.locations[k]) / learned.scales[k]
    far = np.abs(z)
    laplacian = learned.laplacian[k]
    factors = (posteriors / np.sqrt(learned.weights[k]))[:, None]
    signs = np.where(far > ON_THE_MEDIAN, np.sign(z), np.float32(0))
    location = np.where(laplacian, signs, z) * factors
    scale = np.where(laplacian, far - 1, (far**2 - 1) / np.sqrt(np.float32(2))) * factors
    return location, scale
