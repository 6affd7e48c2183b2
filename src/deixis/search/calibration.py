"""Calibration: the probability that a photo matches a query, from the scores of both models.

A logistic regression that `scripts/fit_search.py` fits on photos with captions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.models.installed import SHIPPED
from deixis.search.encoder import EncodedSentence, WordStatistics

SHIPPED_FILE = SHIPPED / "search" / "calibration.json"
FEATURES = 13
"""Number of features of a photo; see `features`."""

_MIN_SHARE_OF_BEST = 1 / 3
"""Photos with less than this share of the best probability are not shown."""

_MAX_PRIOR = 0.5
"""The largest share of photos that is expected to match any words."""


@dataclass(frozen=True)
class Evidence:
    """The scores of n photos and a query with k phrases."""

    whole: Floats  # (n,): the query and the whole photos
    phrases: Floats  # (n, k): each phrase and the whole photos
    regions: Floats  # (n, k): each phrase and the best region of each photo
    words: WordStatistics

    @classmethod
    def collect(cls, query: EncodedSentence, photos: Floats, regions: Sequence[Floats | None]) -> Evidence:
        """Score a query against photos (n, dimension), and against the regions (m, region_dimension) of each."""
        phrases = np.stack([phrase.vector for phrase in query.phrases])
        best = np.full((len(photos), len(phrases)), np.nan, dtype=np.float32)
        for row, vectors in enumerate(regions):
            if vectors is not None:
                best[row] = (vectors @ phrases.T).max(axis=0)
        lowest = np.nanmin(best) if np.isfinite(best).any() else 0.0
        whole_phrases = photos @ np.stack([phrase.whole_vector for phrase in query.phrases]).T
        return cls(photos @ query.vector, whole_phrases, np.nan_to_num(best, nan=float(lowest)), query.statistics)


@dataclass(frozen=True)
class WordPrior:
    """The share of photos that match words: its logarithm is linear in the sum of their log frequencies."""

    bias: float
    slope: float

    def log_prior(self, words: WordStatistics, photos: int) -> float:
        """Return the logarithm of the share of an index that matches, given that at least one photo does.

        The share of rare things falls as the index grows; that of common things does not. So probabilities depend on
        the size of the index.
        """
        share = float(np.exp(min(self.bias + self.slope * words.log_frequency, np.log(_MAX_PRIOR))))
        return float(np.log(share / -np.expm1(-share * max(photos, 1))))


def features(evidence: Evidence, photos: int, prior: WordPrior) -> Floats:
    """Return the features of the regression: (n, FEATURES)."""
    words, ones = evidence.words, np.ones(len(evidence.whole))
    whole, phrases = 10 * evidence.whole, 10 * evidence.phrases.min(axis=1)
    length = float(np.log(max(words.count, 1)))
    columns = [
        ones,
        whole,
        evidence.regions.mean(axis=1),
        evidence.regions.min(axis=1),
        phrases,
        ones * prior.log_prior(words, photos),
        ones * words.rarest,
        ones * length,
        whole * length,
        whole * words.rarest,
        phrases * words.rarest,
        ones * words.unknown_share,
        whole * words.unknown_share,
    ]
    return np.stack(columns, axis=1).astype(np.float32)


@dataclass(frozen=True)
class Threshold:
    """The logit below which a photo is not shown, for ascending numbers of photos.

    It falls as the index grows, where matches stand out less.
    """

    sizes: tuple[int, ...]
    logits: tuple[float, ...]

    def at(self, photos: int) -> float:
        """Return the threshold for a number of searched photos, interpolated; constant outside the range."""
        return float(np.interp(np.log(max(photos, 1)), np.log(self.sizes), self.logits))

    @classmethod
    def from_json(cls, document: Any) -> Threshold:
        threshold = cls(tuple(map(int, document["sizes"])), tuple(map(float, document["logits"])))
        if len(threshold.sizes) != len(threshold.logits) or not threshold.sizes:
            raise ValueError("sizes and logits differ in number")
        return threshold


@dataclass(frozen=True)
class Calibration:
    """The weights of the regression, for the models with a fingerprint."""

    fingerprint: str
    weights: tuple[float, ...]  # of the `features`; the weighted sum is a logit
    prior: WordPrior
    threshold: Threshold
    similarity_weights: tuple[float, float, float]  # of 1, the cosine, and the logarithm of the number of photos
    similarity_threshold: Threshold

    @classmethod
    def for_models(cls, fingerprint: str, file: Path = SHIPPED_FILE) -> Calibration | None:
        """Return the shipped calibration if it was fitted to these models."""
        if not file.is_file():
            return None
        calibration = cls.load(file)
        return calibration if calibration.fingerprint == fingerprint else None

    @classmethod
    def load(cls, file: str | PathLike[str]) -> Calibration:
        """Read a file written by `save`."""
        try:
            document = json.loads(Path(file).read_text(encoding="utf-8"))
            calibration = cls(
                str(document["fingerprint"]),
                tuple(map(float, document["weights"])),
                WordPrior(**document["prior"]),
                Threshold.from_json(document["threshold"]),
                tuple(map(float, document["similarity_weights"])),  # type: ignore[arg-type] # counted below
                Threshold.from_json(document["similarity_threshold"]),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise DeixisError(f"{file}: not a valid search calibration ({error!r})") from None
        if (len(calibration.weights), len(calibration.similarity_weights)) != (FEATURES, 3):
            raise DeixisError(f"{file}: has a wrong number of weights; fit it again with scripts/fit_search.py")
        return calibration

    def save(self, file: str | PathLike[str]) -> None:
        """Write the calibration as JSON."""
        Path(file).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def logits(self, evidence: Evidence, photos: int) -> Floats:
        """Return the logit of the probability that each photo matches, among a number of searched photos."""
        return features(evidence, photos, self.prior) @ np.array(self.weights, dtype=np.float32)

    def is_hit(self, logits: Floats, photos: int) -> NDArray[np.bool_]:
        """Return which photos are probable enough to be shown, absolutely and relative to the best."""
        if not len(logits):
            return np.zeros(0, dtype=bool)
        log_probabilities = -np.logaddexp(0, -logits)
        near_best = log_probabilities >= log_probabilities.max() + np.log(_MIN_SHARE_OF_BEST)
        return np.asarray((logits >= self.threshold.at(photos)) & near_best)

    def similarity_logits(self, cosines: Floats, photos: int) -> Floats:
        """Return the logit of the probability that a similar photo matches the captions of the given one."""
        bias, weight, size = self.similarity_weights
        return np.asarray(bias + weight * cosines + size * np.log(max(photos, 1)), dtype=np.float32)
