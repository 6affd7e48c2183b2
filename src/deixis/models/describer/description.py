"""Description of the regions of a photo: several different phrases each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from deixis.arrays import Floats, to_unit_length
from deixis.errors import DeixisError
from deixis.geometry import Boxes
from deixis.models.arguments import check_count
from deixis.models.describer.phrase_bank import FUNCTION_WORDS, PhraseBank
from deixis.models.describer.salience import Box, clip_region, estimate_objectness, select_diverse, select_salient
from deixis.models.photo_features import RegionInputs
from deixis.models.pipeline import SHIPPED, PhotoLike, open_image
from deixis.pictures.grounded import PhraseBoxes, draw_grounding
from deixis.storage.artifacts import Artifact, damaged, read_artifact
from deixis.vision.feature_map import FeatureMap

if TYPE_CHECKING:
    from deixis.models.grounding import RegionPipeline

DESCRIBER = "describer"
"""Name of the shipped describer, and of the part of a saved model that holds phrases and settings."""

_SAME_PHRASE = 0.999
"""Phrases at least this similar have the same meaning."""

_MIN_RELEVANCE = 0.4
"""Phrases should have at least this fraction of the score of the best one."""


@dataclass(frozen=True)
class DescriptionSettings:
    """How phrases and regions are chosen.

    Attributes
    ----------
    prior
        Weight of the logarithm of a phrase's frequency, which is added to its score: 0 ranks by the model alone, which
        favours rare phrases; more favours what people usually say.
    scale, bias
        The probability of a phrase is the logistic function of ``scale · (score + prior) + bias``.
    phrase_diversity, region_diversity
        Weights of similarity, between 0 and 1, as of `deixis.models.describer.salience.select_diverse`.
    """

    prior: float = 0.0
    scale: float = 1.0
    bias: float = 0.0
    phrase_diversity: float = 0.4
    region_diversity: float = 0.4

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (isinstance(value, int | float) and math.isfinite(value)):
                raise DeixisError(f"{name}={value!r}: must be a number")

    def probabilities(self, scores: Floats) -> Floats:
        """Probabilities of phrases, from scores with the prior."""
        return np.asarray(1 / (1 + np.exp(-(self.scale * scores + self.bias))))


@dataclass(frozen=True)
class DescribingPhrase:
    """A phrase and the probability that it describes a region."""

    text: str
    score: float


@dataclass(frozen=True)
class RegionDescription:
    """A region and the phrases that describe it.

    Attributes
    ----------
    box
        ``x1, y1, x2, y2`` in pixels of the photo.
    phrases
        The best first, each different from those before it.
    """

    box: Box
    phrases: tuple[DescribingPhrase, ...]

    def as_json(self) -> dict[str, Any]:
        """One of the regions that ``deixis describe --json`` prints."""
        return {
            "box": [round(side, 1) for side in self.box],
            "phrases": [{"text": phrase.text, "score": round(phrase.score, 4)} for phrase in self.phrases],
        }


class Describer:
    """Finds phrases for regions of photos.

    Examples
    --------
    >>> import deixis
    >>> from deixis.data.samples import SAMPLES
    >>> found = deixis.load("describer").describer.describe(SAMPLES / "images" / "dogs.jpg", regions=2)
    >>> len(found), len(found[0].phrases)
    (2, 5)
    """

    def __init__(self, pipeline: RegionPipeline, bank: PhraseBank, settings: DescriptionSettings | None = None) -> None:
        self.pipeline = pipeline
        self.bank = bank
        self.settings = settings or DescriptionSettings()

    @classmethod
    def of(cls, pipeline: RegionPipeline) -> Describer:
        """The describer of a model: its own, or else with the phrases of the shipped one, uncalibrated."""
        own = pipeline.describer_part
        if own is not None:
            with damaged(Path(pipeline.name) / DESCRIBER):
                return cls(pipeline, *description_from_artifact(own))
        bank, settings = _shipped_description()
        return cls(pipeline, bank, pipeline.uncalibrated_description or settings)

    def with_phrases(self, bank: str | PathLike[str]) -> Describer:
        """The same with the phrases of a file that `PhraseBank.read` takes."""
        return Describer(self.pipeline, PhraseBank.read(bank), self.settings)

    def to_artifact(self) -> Artifact:
        """Part of a saved model, from which `of` makes this describer again."""
        phrases = dict(zip(self.bank.phrases, self.bank.counts, strict=True))
        return Artifact(DESCRIBER, {**asdict(self.settings), "phrases": phrases})

    def describe(
        self, photo: PhotoLike, region: Sequence[float] | None = None, *, top: int = 5, regions: int = 10
    ) -> list[RegionDescription]:
        """Describe a region of a photo, or the most salient ones; see `Pipeline.describe`."""
        top, regions = check_count(top, "top"), check_count(regions, "regions")
        image = open_image(photo)
        box = None if region is None else clip_region(region, image.size)
        proposed = self.pipeline.propose(image)
        features, proposals = proposed.features, proposed.proposals
        if box is not None:
            boxes = np.array([box])
            return self._describe(boxes, self._encode(features, boxes, estimate_objectness(boxes, proposals)), top)
        if not len(proposals.boxes):
            return []
        visual = self._encode(features, proposals.boxes, proposals.scores)
        probabilities = self.probabilities(self.scores(visual))
        # A region that no phrase describes well may be a distinct object, but there is little to say about it.
        salience = proposals.scores * np.sqrt(probabilities.max(axis=1))
        best_phrases = probabilities.argmax(axis=1)
        chosen = select_salient(
            proposals.boxes, salience, to_unit_length(visual), best_phrases, regions, self.settings.region_diversity
        )
        return self._describe(proposals.boxes[chosen], visual[chosen], top)

    @cached_property
    def bank_vectors(self) -> Floats:
        """All phrases of the bank, encoded by the model."""
        return self.pipeline.encode_phrases(self.bank.phrases)

    def scores(self, visual: Floats) -> Floats:
        """Score encoded regions (rows) against all phrases of the bank (columns), with the prior."""
        return self.pipeline.compare(visual, self.bank_vectors) + self.settings.prior * self.bank.log_frequencies()

    def probabilities(self, scores: Floats) -> Floats:
        """Probabilities that phrases describe regions, from `scores`."""
        return self.settings.probabilities(scores)

    def _describe(self, boxes: Boxes, visual: Floats, top: int) -> list[RegionDescription]:
        found = []
        for box, row in zip(boxes.tolist(), self.probabilities(self.scores(visual)), strict=True):
            chosen = self._select_phrases(row, top)
            phrases = tuple(DescribingPhrase(self.bank.phrases[index], float(row[index])) for index in chosen)
            x1, y1, x2, y2 = box
            found.append(RegionDescription((x1, y1, x2, y2), phrases))
        return found

    def _select_phrases(self, probabilities: Floats, top: int) -> npt.NDArray[np.intp]:
        """Indices of probable phrases that differ from each other."""
        best_first = np.argsort(-probabilities, kind="stable")
        relevance = probabilities[best_first] / probabilities[best_first[0]]
        # An improbable phrase must not be selected only because it is different.
        candidates = best_first[: max(2 * top, int((relevance >= _MIN_RELEVANCE).sum()))]
        chosen = select_diverse(
            relevance[: len(candidates)],
            lambda item: self._similarity(candidates[item], candidates),
            top,
            weight=self.settings.phrase_diversity,
            max_similarity=_SAME_PHRASE,
        )
        return candidates[chosen]

    def _encode(self, features: FeatureMap, boxes: Boxes, objectness: npt.NDArray[np.float64]) -> Floats:
        shares = boxes / np.tile(features.size, 2)
        return self.pipeline.encode_regions(RegionInputs(features.regions(boxes), shares, objectness, features.whole))

    def _similarity(self, phrase: int, others: npt.NDArray[np.intp]) -> Floats:
        """Similarity of phrases by their words and by their vectors."""
        by_words = (self._bags_of_words[others] @ self._bags_of_words[phrase].T).toarray()[:, 0]
        return np.asarray(np.maximum(by_words, self._directions[others] @ self._directions[phrase]))

    @cached_property
    def _directions(self) -> Floats:
        if self.pipeline.has_common_space:
            return to_unit_length(self.bank_vectors)
        return np.zeros((len(self.bank), 1), np.float32)  # only a network can compare these vectors

    @cached_property
    def _bags_of_words(self) -> Any:
        return _bags_of_words(self.bank.phrases)


def description_from_artifact(artifact: Artifact) -> tuple[PhraseBank, DescriptionSettings]:
    """The phrases and settings that `Describer.to_artifact` gave."""
    settings = dict(artifact.settings)
    phrases: dict[str, int] = settings.pop("phrases")
    if artifact.kind != DESCRIBER or not all(isinstance(count, int) for count in phrases.values()):
        raise ValueError(f"{artifact.kind!r} is not a describer")
    return PhraseBank(tuple(phrases), tuple(phrases.values())), DescriptionSettings(**settings)


@lru_cache(maxsize=1)
def _shipped_description() -> tuple[PhraseBank, DescriptionSettings]:
    return description_from_artifact(read_artifact(SHIPPED / DESCRIBER / DESCRIBER))


def draw_descriptions(photo: Image.Image, regions: Sequence[RegionDescription], *, top: int = 3) -> Image.Image:
    """Draw regions on a photo, with the first `top` phrases of each below in its colour.

    Examples
    --------
    >>> dog = RegionDescription((10, 10, 90, 60), (DescribingPhrase("a brown dog", 0.8),))
    >>> draw_descriptions(Image.new("RGB", (280, 210)), [dog]).width
    960
    """
    lines = []
    for region in regions:
        text = "  ·  ".join(phrase.text for phrase in region.phrases[:top])
        if text:
            lines.append((text, [PhraseBoxes(0, len(text), (region.box,))]))
    return draw_grounding(photo, lines)


def _bags_of_words(phrases: Sequence[str]) -> Any:
    """A sparse unit vector of the content words of each phrase."""
    from scipy import sparse

    columns: dict[str, int] = {}
    rows = [[columns.setdefault(word, len(columns)) for word in _content_words(phrase)] for phrase in phrases]
    indices = [column for row in rows for column in row]
    values = [len(row) ** -0.5 for row in rows for _ in row]
    starts = np.cumsum([0, *map(len, rows)])
    shape = (len(phrases), max(1, len(columns)))
    return sparse.csr_matrix((np.array(values, np.float32), indices, starts), shape)


def _content_words(phrase: str) -> set[str]:
    words = set(phrase.split())
    return words - FUNCTION_WORDS or words
