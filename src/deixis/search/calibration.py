"""Calibration: the probability that a photo matches a query, from scores of the photo and of its regions.

A logistic regression that `deixis.search.fitting` fits on photos with captions, of several sources. Where the sources
disagree, the logit is lowered towards that of the source with the fewest correct results.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats, code_step, dequantize, quantize
from deixis.errors import DeixisError
from deixis.models.calibrator import LogisticCalibrator
from deixis.models.installed import SHIPPED
from deixis.search.encoder import EncodedSentence, WordStatistics
from deixis.search.index.base import RegionVectors
from deixis.storage.checksums import seal, unseal

SHIPPED_FILE = SHIPPED / "search" / "calibration.json"
FAST_FILE = SHIPPED / "search" / "calibration-fast.json"
"""The calibrations of the default models, and of the same with the fast encoder."""
FEATURES = 12
"""Number of features of a photo; see `features`."""

MONOTONE = slice(1, 7)
"""The features that are scores of the photo. Their weights are not negative."""


_MIN_SHARE_OF_BEST = 1 / 3
"""Photos with less than this share of the best probability are not shown."""

SHORT, LONG = 2, 5
"""Numbers of content words up to which a query is short, and from which on it is long."""

_MAX_PRIOR = 0.5
"""The largest share of photos that is expected to match any words."""


@dataclass(frozen=True)
class QueryBank:
    """Vectors of typical queries, which tell how high the scores of a photo are for other queries.

    The vectors of some photos are near those of many queries (hubness). Such a photo matches a query only if its score
    is high among its own scores: querybank normalization (Bogolin et al., CVPR 2022), with a fixed bank.
    """

    codes: str  # (queries, dimension): int8, in base64
    queries: int
    step: float  # the size of one code step
    temperature: float  # the lower, the more the best query of a photo counts

    @classmethod
    def encode(cls, vectors: Floats, temperature: float) -> QueryBank:
        """Create a bank of the vectors of queries: (queries, dimension)."""
        step = float(code_step(vectors))
        return cls(b64encode(quantize(vectors, step).tobytes()).decode(), len(vectors), step, temperature)

    def scores(self, photos: Floats) -> Floats:
        """Return a smooth maximum of the scores of each photo, (n, dimension), for the queries of the bank: (n,)."""
        scores: Floats = photos @ self._vectors.T
        best = scores.max(axis=1)
        scores -= best[:, None]
        scores /= np.float32(self.temperature)
        np.exp(scores, out=scores)
        return np.asarray(best + np.float32(self.temperature) * np.log(scores.mean(axis=1)), dtype=np.float32)

    @cached_property
    def _vectors(self) -> Floats:
        codes = np.frombuffer(b64decode(self.codes, validate=True), dtype=np.int8)
        return dequantize(codes.reshape(self.queries, -1), self.step)


@dataclass(frozen=True)
class Evidence:
    """The scores of n photos and a query with k phrases."""

    whole: Floats  # (n,): the query and the whole photos
    phrases: Floats  # (n, k): each phrase and the whole photos
    regions: Floats  # (n, k): each phrase and the best region of each photo
    others: Floats  # (n,): other queries and the whole photos; see `QueryBank`
    words: WordStatistics
    query: Floats  # (dimension,): the vector of the query

    @classmethod
    def collect(cls, query: EncodedSentence, photos: Floats, regions: RegionVectors, others: Floats) -> Evidence:
        """Score a query against photos (n, dimension), and against the regions of each."""
        best = regions.best_scores(np.stack([phrase.vector for phrase in query.phrases]))
        lowest = np.nanmin(best) if np.isfinite(best).any() else 0.0
        best = np.nan_to_num(best, nan=float(lowest))
        whole_phrases = photos @ np.stack([phrase.whole_vector for phrase in query.phrases]).T
        return cls(photos @ query.vector, whole_phrases, best, others, query.statistics, query.vector)

    def take(self, photos: NDArray[np.int64]) -> Evidence:
        """Return the evidence for some of the photos."""
        return replace(
            self,
            whole=self.whole[photos],
            phrases=self.phrases[photos],
            regions=self.regions[photos],
            others=self.others[photos],
        )


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


def features(evidence: Evidence, photos: int, prior: WordPrior, background: Floats) -> Floats:
    """Return the features of the regression: (n, FEATURES).

    The score of a query and the mean vector of many photos (`background`) says how high its scores are in general.
    """
    words, ones = evidence.words, np.ones(len(evidence.whole))
    whole, length = 10 * evidence.whole, float(np.log(max(words.count, 1)))
    columns = [
        ones,
        whole,
        whole * length,
        10 * evidence.regions.mean(axis=1),
        10 * evidence.phrases.min(axis=1),
        -10 * evidence.others,
        -10 * evidence.others * length,
        ones * 10 * float(evidence.query @ background),
        ones * prior.log_prior(words, photos),
        ones * words.rarest,
        ones * length,
        ones * words.unknown_share,
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
    lines: tuple[tuple[float, float], ...]  # offset and slope; the lowest value of a line replaces the logit
    background: tuple[float, ...]  # the mean vector of many photos
    bank: QueryBank
    prior: WordPrior
    threshold: Threshold  # of long queries
    short_threshold: Threshold
    similarity_weights: tuple[float, float, float]  # of 1, the cosine, and the logarithm of the number of photos
    similarity_threshold: Threshold

    @classmethod
    def for_models(cls, fingerprint: str, files: Sequence[Path] = (SHIPPED_FILE, FAST_FILE)) -> Calibration | None:
        """Return the shipped calibration that was fitted to these models, if there is one."""
        for file in files:
            if file.is_file() and (calibration := cls.load(file)).fingerprint == fingerprint:
                return calibration
        return None

    @classmethod
    def load(cls, file: str | PathLike[str]) -> Calibration:
        """Read a file written by `save`."""
        try:
            document = unseal(Path(file).read_bytes())
        except (OSError, ValueError) as error:
            raise DeixisError(f"{file}: cannot be read ({error})") from None
        return cls._from_document(document, str(file))

    @classmethod
    def from_json(cls, text: str, name: str) -> Calibration:
        """Read what `to_json` gave; `name` is what an error calls invalid."""
        try:
            return cls._from_document(json.loads(text), name)
        except ValueError as error:
            raise DeixisError(f"{name}: not a valid search calibration ({error!r})") from None

    @classmethod
    def _from_document(cls, document: Any, name: str) -> Calibration:
        try:
            numbers = len(document["weights"]), len(document["similarity_weights"])
            if numbers != (FEATURES, 3) or not document["lines"]:
                wrong = "a calibration with a wrong number of weights"
                raise DeixisError(f"{name}: {wrong}; fit it again: deixis calibrate")
            return cls(
                str(document["fingerprint"]),
                tuple(map(float, document["weights"])),
                tuple((float(offset), float(slope)) for offset, slope in document["lines"]),
                tuple(map(float, document["background"])),
                QueryBank(**document["bank"]),
                WordPrior(**document["prior"]),
                Threshold.from_json(document["threshold"]),
                Threshold.from_json(document["short_threshold"]),
                tuple(map(float, document["similarity_weights"])),  # type: ignore[arg-type] # counted below
                Threshold.from_json(document["similarity_threshold"]),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise DeixisError(f"{name}: not a valid search calibration ({error!r})") from None

    def save(self, file: str | PathLike[str]) -> None:
        """Write the calibration to a file."""
        Path(file).write_bytes(seal(asdict(self)))

    def to_json(self) -> str:
        """Return the calibration as JSON."""
        return json.dumps(asdict(self), indent=1)

    def logits(self, evidence: Evidence, photos: int) -> Floats:
        """Return the logit of the probability that each photo matches, among a number of searched photos."""
        background = np.array(self.background, dtype=np.float32)
        logits = LogisticCalibrator(self.weights).logits(features(evidence, photos, self.prior, background))
        return np.asarray(np.min([offset + slope * logits for offset, slope in self.lines], axis=0), dtype=np.float32)

    def cut_off(self, words: int, photos: int) -> float:
        """Return the logit below which a photo is not shown, for a number of content words and of searched photos.

        Captions of the fit say more than others confirm, so the photo of a long query is less probable than that of a
        short one; one cut-off for both would show results for short queries of things that are not there.
        """
        share = np.interp(np.log(max(words, 1)), np.log([SHORT, LONG]), [0.0, 1.0])
        return float((1 - share) * self.short_threshold.at(photos) + share * self.threshold.at(photos))

    def is_hit(self, logits: Floats, words: int, photos: int) -> NDArray[np.bool_]:
        """Return which photos are probable enough to be shown, absolutely and relative to the best; see `cut_off`."""
        if not len(logits):
            return np.zeros(0, dtype=bool)
        log_probabilities = -np.logaddexp(0, -logits)
        near_best = log_probabilities >= log_probabilities.max() + np.log(_MIN_SHARE_OF_BEST)
        return np.asarray((logits >= self.cut_off(words, photos)) & near_best)

    def similarity_logits(self, cosines: Floats, photos: int) -> Floats:
        """Return the logit of the probability that a similar photo matches the captions of the given one."""
        bias, weight, size = self.similarity_weights
        return np.asarray(bias + weight * cosines + size * np.log(max(photos, 1)), dtype=np.float32)
