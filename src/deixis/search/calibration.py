"""Calibration: the probability that a photo matches a query, from scores of the photo and of its regions.

One logistic regression for each kind of query, such as words and sentences, which `deixis.search.fitting` fits on
photos with captions, of several sources.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats, code_step, dequantize, quantize
from deixis.errors import DeixisError
from deixis.models.installed import SHIPPED
from deixis.search.encoder import ACTION, PHRASE, SENTENCE, SENTENCE_KINDS, WORD, EncodedSentence, WordStatistics
from deixis.search.index.base import RegionVectors
from deixis.storage.checksums import seal, unseal

SHIPPED_FILE = SHIPPED / "search" / "calibration.json"
FAST_FILE = SHIPPED / "search" / "calibration-fast.json"
"""The calibrations of the default models, and of the same with the fast encoder."""
FEATURES = 11
"""Number of features of a photo; see `features`."""

SCORES = slice(0, 6)
"""The features that are scores of the photo. Their weights are not negative."""

_WITH_SLOPE = slice(6, 9)
"""The features with which the slope of the score changes."""

_MIN_SLOPE = 0.2
"""The lowest slope of the score, as a share of that of usual words."""


_MIN_SHARE_OF_BEST = 0.5
"""Photos with less than this share of the best probability are not shown."""

_MIN_PROBABILITY = {WORD: 0.4, PHRASE: 0.13, ACTION: 0.2, SENTENCE: 0.17}
"""Photos with a lower probability are not shown. With these, about nine in ten absent things find nothing."""

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
    words, ones = evidence.words, np.ones(len(evidence.whole), dtype=np.float32)
    whole, length = 10 * evidence.whole, float(np.log(max(words.count, 1)))
    columns = [
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
class KindWeights:
    """The regression of a kind of query: the weighted sum of the scores of a photo, and from it the logit.

    How steeply the probability rises with the sum depends on the words: the scores of well-known words tell more. It
    rises faster above `knee`.
    """

    scores: tuple[float, ...]  # of the features that are scores; these weights rank the photos of a query
    knee: float
    weights: tuple[float, ...]  # of `design`

    def score(self, rows: Floats) -> Floats:
        return np.asarray(rows[:, SCORES] @ np.array(self.scores, dtype=np.float32))

    def logits(self, rows: Floats) -> Floats:
        """Return the logits of rows of `features`; a higher score never gives a lower one."""
        weights, words = np.array(self.weights, dtype=np.float32), rows[:, SCORES.stop :]
        offset = weights[0] + words @ weights[1 : 1 + words.shape[1]]
        slope, above, *changes = weights[1 + words.shape[1] :]
        slopes = np.maximum(slope + rows[:, _WITH_SLOPE] @ np.array(changes), _MIN_SLOPE * slope)
        score = self.score(rows) - self.knee
        return np.asarray(offset + slopes * score + above * np.maximum(score, 0), dtype=np.float32)

    @classmethod
    def from_json(cls, document: Any) -> KindWeights:
        scores, weights = tuple(map(float, document["scores"])), tuple(map(float, document["weights"]))
        if (len(scores), len(weights)) != (SCORES.stop, 1 + FEATURES - SCORES.stop + 2 + 3):
            raise ValueError(f"{len(scores)} and {len(weights)} weights")
        return cls(scores, float(document["knee"]), weights)

    @staticmethod
    def design(rows: Floats, score: Floats, knee: float) -> Floats:
        """Return the columns of the regression: facts about the words, the score, and what changes its slope."""
        above = (score - knee)[:, None]
        changes = rows[:, _WITH_SLOPE] * above
        return np.concatenate([rows[:, SCORES.stop :], above, np.maximum(above, 0), changes], axis=1)


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
    """The weights of the regressions, for the models with a fingerprint."""

    fingerprint: str
    weights: Mapping[str, KindWeights]  # by kind of query
    background: tuple[float, ...]  # the mean vector of many photos
    bank: QueryBank
    prior: WordPrior
    people: tuple[float, float]  # of 1, and of the logit of the most probable word for people
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
        except (ValueError, RecursionError) as error:
            raise DeixisError(f"{name}: not a valid search calibration ({error!r})") from None

    @classmethod
    def _from_document(cls, document: Any, name: str) -> Calibration:
        try:
            weights = document["weights"]
            numbers = len(document.get("people", ())), len(document["similarity_weights"])
            if not isinstance(weights, dict) or numbers != (2, 3):
                wrong = "a calibration of another version of deixis"
                raise DeixisError(f"{name}: {wrong}; fit it again: deixis calibrate")
            return cls(
                str(document["fingerprint"]),
                {kind: KindWeights.from_json(weights[kind]) for kind in SENTENCE_KINDS},
                tuple(map(float, document["background"])),
                QueryBank(**document["bank"]),
                WordPrior(**document["prior"]),
                tuple(map(float, document["people"])),  # type: ignore[arg-type] # counted above
                tuple(map(float, document["similarity_weights"])),  # type: ignore[arg-type] # counted above
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
        return self.weights[evidence.words.kind].logits(features(evidence, photos, self.prior, background))

    def people_logits(self, most_probable: Floats) -> Floats:
        """Return the logits that photos show people, given those of the most probable word for them."""
        bias, slope = self.people
        return np.asarray(bias + slope * most_probable, dtype=np.float32)

    @staticmethod
    def cut_off(kind: str) -> float:
        """Return the logit below which a photo is not shown, for a kind of query."""
        return math.log(_MIN_PROBABILITY[kind] / (1 - _MIN_PROBABILITY[kind]))

    def is_hit(self, logits: Floats, kind: str) -> NDArray[np.bool_]:
        """Return which photos are probable enough to be shown, absolutely and relative to the best; see `cut_off`."""
        if not len(logits):
            return np.zeros(0, dtype=bool)
        log_probabilities = -np.logaddexp(0, -logits)
        near_best = log_probabilities >= log_probabilities.max() + np.log(_MIN_SHARE_OF_BEST)
        return np.asarray((logits >= self.cut_off(kind)) & near_best)

    def similarity_logits(self, cosines: Floats, photos: int) -> Floats:
        """Return the logit of the probability that a similar photo matches the captions of the given one."""
        bias, weight, size = self.similarity_weights
        return np.asarray(bias + weight * cosines + size * np.log(max(photos, 1)), dtype=np.float32)
