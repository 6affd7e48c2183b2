"""Description of the regions of a photo: several different phrases each.

Regions are given by the user, or the most salient ones; phrases are probable and differ from each other.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from deixis import geometry
from deixis.arrays import Floats, logistic, to_unit_length
from deixis.errors import DeixisError
from deixis.geometry import XYXY, Boxes
from deixis.language.sentence import Sentence
from deixis.models.arguments import PhotoLike, check_count, check_path, open_image
from deixis.models.base import RegionInputs
from deixis.models.installed import SHIPPED
from deixis.models.pipeline import Pipeline, load_once
from deixis.storage.artifacts import Artifact, damaged, read_artifact
from deixis.vision.proposals import Proposals

if TYPE_CHECKING:
    from deixis.models.grounding import EmbeddingPipeline, RegionPipeline
    from deixis.models.presence import PresenceModel

DESCRIBER = "describer"
"""Name of the shipped describer, and of the part of a saved model that holds phrases and settings."""

LONG_PHRASES = Path(__file__).parent / "long_phrases"
"""The shipped long phrases, made by scripts/make_long_phrases.py."""

TOP = 2
"""Number of phrases for a region, unless another is asked for."""

MAX_TOP = 1000
"""Maximum number of phrases for a region; each is compared with all others."""

_SAME_PHRASE = 0.999
"""Phrases at least this similar have the same meaning."""

_MIN_RELEVANCE = 0.4
"""Phrases should have at least this fraction of the score of the best one."""

_MIN_PROBABILITY, _MIN_LONG = 0.15, 0.1
"""Phrases with a lower probability are left out; long ones say more and are less probable.

This holds for models whose probabilities were fitted; of others none are left out by it."""

_CANDIDATES = 12
"""Number of phrases of a region of which it is checked whether the photo shows them."""

_MAX_SIMILARITY = 0.6
"""Similarity of two regions from which on only one of them is described."""

_OVERLAP_WEIGHT = 1.5
"""Weight of the overlap in the similarity: regions with an IoU of 0.4 count as one, even if they differ."""

_MIN_SALIENCE = 0.3
"""Regions below this fraction of the highest salience are not described."""

_MAX_BYTES = 64 << 20
"""Maximum size of a list of phrases, uncompressed: a small compressed file may expand to any size."""

FUNCTION_WORDS = frozenset(
    (
        *("a", "an", "the", "some", "his", "her", "its", "their", "our", "your", "my", "this", "that", "these"),
        *("those", "other", "others", "another", "one", "ones", "each", "both", "it", "something", "someone"),
    )
)
"""Words that do not change the meaning of a phrase ("a dog", "the dog") and mean nothing alone."""


@dataclass(frozen=True)
class PhraseBank:
    """Distinct phrases in lower case, and how often each occurs: at least once."""

    phrases: tuple[str, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.phrases:
            raise DeixisError("a phrase bank needs at least one phrase")
        if len(self.phrases) != len(self.counts) or min(self.counts) < 1:
            raise DeixisError(f"{len(self.phrases):,} phrases need as many counts, each at least 1")

    def __len__(self) -> int:
        return len(self.phrases)

    def log_frequencies(self) -> Floats:
        """Logarithm of the relative frequency of each phrase."""
        counts = np.array(self.counts, dtype=np.float64)
        return np.asarray(np.log(counts / counts.sum()), dtype=np.float32)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> PhraseBank:
        """Read a list: one phrase per line, optionally with its count after a tab.

        The count is 1 by default; empty lines are ignored; files that end in .gz are compressed. Counts of repeated
        phrases are added.
        """
        file = Path(path)
        counted: Counter[str] = Counter()
        for number, line in enumerate(_read_text(file).splitlines(), start=1):
            text, _, count = line.partition("\t")
            phrase = " ".join(text.lower().split())
            if phrase:
                counted[phrase] += _count(count.strip(), f"{file}: line {number}")
            elif count.strip():
                raise DeixisError(f"{file}: line {number} has a count, but no phrase")
        if not counted:
            raise DeixisError(f"{file}: holds no phrase; give one per line")
        return cls(tuple(counted), tuple(counted.values()))


def content_words(phrase: str) -> set[str]:
    """The words of a phrase without function words; all words if there are no others."""
    words = set(phrase.split())
    return words - FUNCTION_WORDS or words


def _count(text: str, where: str) -> int:
    if not text:
        return 1
    if not (text.isascii() and text.isdigit() and int(text[:18]) > 0):
        raise DeixisError(f"{where}: {text!r} after the tab is not a count of at least 1")
    return int(text[:18])


def _read_text(file: Path) -> str:
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as opened:
            data = opened.read(_MAX_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DeixisError(f"{file}: is damaged, or not compressed by gzip") from None
    if len(data) > _MAX_BYTES:
        raise DeixisError(f"{file}: holds more than {_MAX_BYTES >> 20} MB; it is not a list of phrases")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DeixisError(f"{file}: is not UTF-8 text") from None


@dataclass(frozen=True)
class DescriptionSettings:
    """Settings of the choice of phrases and regions.

    Attributes
    ----------
    prior
        Weight of the logarithm of a phrase's frequency, which is added to its score: 0 ranks by the model alone, which
        favours rare phrases; more favours what people usually say.
    scale, bias
        The probability of a phrase is the logistic function of ``scale · (score + prior) + bias``.
    phrase_diversity, region_diversity
        Weights of similarity, between 0 and 1, as of `select_diverse`.
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
        """Probabilities that phrases describe regions, from scores with the prior."""
        return logistic(self.scale * scores + self.bias)


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
        The most probable first, each different from the others; none if no phrase fits.
    """

    box: XYXY
    phrases: tuple[DescribingPhrase, ...]

    def as_json(self) -> dict[str, Any]:
        """One of the regions that ``deixis describe --json`` prints."""
        return {
            "box": [round(side, 1) for side in self.box],
            "phrases": [{"text": phrase.text, "score": round(phrase.score, 4)} for phrase in self.phrases],
        }


class Describer:
    """Finds phrases for regions of photos."""

    photo_model: EmbeddingPipeline | None = None
    """The photo model that `_presence` may use, if it is loaded already."""

    def __init__(
        self,
        pipeline: RegionPipeline,
        bank: PhraseBank,
        settings: DescriptionSettings | None = None,
        min_probability: float = _MIN_PROBABILITY,
    ) -> None:
        self.pipeline = pipeline
        self.bank = bank
        self.settings = settings or DescriptionSettings()
        self.min_probability = min_probability

    @classmethod
    def of(cls, pipeline: RegionPipeline) -> Describer:
        """The describer of a model: its own, or else with the phrases of the shipped one, uncalibrated.

        Uncalibrated probabilities only order phrases, so that none is too low.
        """
        if (own := pipeline.describer_part) is not None:
            with damaged(Path(pipeline.name) / DESCRIBER):
                return cls(pipeline, *description_from_artifact(own))
        bank, settings = _shipped_description()
        return cls(pipeline, bank, pipeline.uncalibrated_description or settings, 0.0)

    def with_phrases(self, bank: str | PathLike[str]) -> Describer:
        """Return a describer with the phrases of a file that `PhraseBank.read` takes."""
        return Describer(self.pipeline, PhraseBank.read(bank), self.settings, self.min_probability)

    def with_long_phrases(self) -> Describer:
        """Return a describer with the shipped long phrases, such as "a man in a red hat" (HM-LSTM, Figure 6).

        Their settings are those of the shipped describer; other models keep their own.
        """
        bank, settings = _long_phrases()
        if self.pipeline.describer_part is None:
            return Describer(self.pipeline, bank, self.settings, self.min_probability)
        return Describer(self.pipeline, bank, settings, _MIN_LONG)

    def to_artifact(self) -> Artifact:
        """Part of a saved model, from which `of` makes this describer again."""
        phrases = dict(zip(self.bank.phrases, self.bank.counts, strict=True))
        return Artifact(DESCRIBER, {**asdict(self.settings), "phrases": phrases})

    def describe(
        self, photo: PhotoLike, region: Sequence[float] | None = None, *, top: int = TOP, regions: int = 10
    ) -> list[RegionDescription]:
        """Describe a region of a photo, or the most salient ones; see `Pipeline.describe`."""
        top, regions = check_count(top, "top", MAX_TOP), check_count(regions, "regions")
        image = open_image(photo)
        boxes = None if region is None else np.array([clip_region(region, image.size)])
        proposed = self.pipeline.propose(image)
        proposals = proposed.proposals
        inputs = proposed.inputs()
        if boxes is not None:
            of_region = RegionInputs.of(proposed.features, boxes, estimate_objectness(boxes, proposals))
            return self._describe(boxes, self.pipeline.encode_regions(of_region), inputs, top)
        if not len(proposals.boxes):
            return []
        visual = self.pipeline.encode_regions(inputs)
        probabilities = self.settings.probabilities(self.scores(visual))
        # A region that no phrase describes well may be a distinct object, but there is little to say about it.
        salience = proposals.scores * np.sqrt(probabilities.max(axis=1))
        best_phrases = probabilities.argmax(axis=1)
        chosen = select_salient(
            proposals.boxes, salience, to_unit_length(visual), best_phrases, regions, self.settings.region_diversity
        )
        found = self._describe(proposals.boxes[chosen], visual[chosen], inputs, top)
        return [described for described in found if described.phrases]

    @cached_property
    def bank_vectors(self) -> Floats:
        """All phrases of the bank, encoded by the model."""
        return self.pipeline.encode_phrases(self.bank.phrases)

    def scores(self, visual: Floats) -> Floats:
        """Score encoded regions (rows) against all phrases of the bank (columns), with the prior."""
        return self.pipeline.compare(visual, self.bank_vectors) + self.settings.prior * self.bank.log_frequencies()

    def _describe(self, boxes: Boxes, visual: Floats, photo: RegionInputs, top: int) -> list[RegionDescription]:
        """Describe regions; `photo` has all regions of the photo."""
        rows = self.settings.probabilities(self.scores(visual))
        best = np.argsort(-rows, axis=1, kind="stable")[:, : max(2 * top, _CANDIDATES)]
        if self._presence is not None and len(rows):
            # A region may look like much that the whole photo contradicts, a teddy bear like a baby.
            checked = np.unique(best)
            shown = np.ones(len(self.bank), dtype=np.float32)
            phrases = [Sentence(self.bank.phrases[index]).whole for index in checked]
            shown[checked] = self._presence.probabilities(photo, phrases)
            rows = rows * shown
        found = []
        for (x1, y1, x2, y2), row, candidates in zip(boxes.tolist(), rows, best, strict=True):
            chosen = self._select_phrases(row, candidates[row[candidates] >= self.min_probability], top)
            described = tuple(DescribingPhrase(self.bank.phrases[index], float(row[index])) for index in chosen)
            found.append(RegionDescription((x1, y1, x2, y2), described))
        return found

    @cached_property
    def _presence(self) -> PresenceModel | None:
        """What tells whether a photo shows a phrase; None if it was not fitted to the image encoder of this model."""
        from deixis.models.grounding import load_grounding_model

        grounder = load_grounding_model()
        grounder.photo_model = grounder.photo_model or self.photo_model
        return grounder.presence_model(self.pipeline.encoder)

    def _select_phrases(self, probabilities: Floats, found: NDArray[np.intp], top: int) -> NDArray[np.intp]:
        """Indices of probable phrases that differ from each other, most probable first."""
        if not len(found) or not probabilities[found].any():
            return found[:0]
        best_first = found[np.argsort(-probabilities[found], kind="stable")]
        relevance = probabilities[best_first] / probabilities[best_first[0]]
        # An improbable phrase must not be selected only because it is different.
        candidates = best_first[relevance >= _MIN_RELEVANCE]
        chosen = select_diverse(
            relevance[: len(candidates)],
            lambda item: self._similarity(candidates[item], candidates),
            top,
            weight=self.settings.phrase_diversity,
            max_similarity=_SAME_PHRASE,
        )
        return candidates[np.sort(chosen)]

    def _similarity(self, phrase: int, others: NDArray[np.intp]) -> Floats:
        """Similarity of phrases by their words and by their vectors."""
        own, bags = self._content_words[phrase], self._content_words
        shared = ((len(own & bags[other]), len(own) * len(bags[other])) for other in others)
        by_words = np.array([count / math.sqrt(sizes) for count, sizes in shared], np.float32)
        return np.asarray(np.maximum(by_words, self._directions[others] @ self._directions[phrase]))

    @cached_property
    def _directions(self) -> Floats:
        if self.pipeline.has_common_space:
            return to_unit_length(self.bank_vectors)
        return np.zeros((len(self.bank), 1), np.float32)  # only a network can compare these vectors

    @cached_property
    def _content_words(self) -> list[set[str]]:
        return [content_words(text) for text in self.bank.phrases]


def describe(
    photo: PhotoLike,
    region: Sequence[float] | None = None,
    *,
    top: int = TOP,
    regions: int = 10,
    long: bool = False,
    model: str | PathLike[str] = DESCRIBER,
    bank: str | PathLike[str] | None = None,
) -> list[RegionDescription]:
    """Describe a region of a photo, or the most salient ones, with several different phrases each.

    Parameters
    ----------
    photo
        A path, or a Pillow image.
    region
        ``x1, y1, x2, y2`` in pixels of the photo, upright; by default the most salient regions.
    top
        Maximum number of phrases per region.
    regions
        Maximum number of regions, if `region` is not given.
    long
        Use long phrases, such as "a man in a red hat", instead of short ones.
    model
        A name that ``deixis models`` lists, or the directory of a model.
    bank
        A file with other phrases, one per line.

    Returns
    -------
    list of RegionDescription
        The regions with their phrases, the best first.

    Examples
    --------
    >>> import deixis
    >>> from deixis.data.samples import SAMPLES
    >>> found = deixis.describe(SAMPLES / "images" / "dogs.jpg", (0, 0, 200, 200), top=3)
    >>> len(found), len(found[0].phrases)
    (1, 3)
    """
    pipeline = load_once(check_path(model, "model"))
    pipeline.require("describe")
    if long and bank is not None:
        raise DeixisError("give one of long and bank")
    found = _long_describer(pipeline) if long else pipeline.describer
    if bank is not None:
        found = _describer_with(pipeline, check_path(bank, "bank"))
    return found.describe(photo, region, top=top, regions=regions)


@lru_cache(maxsize=2)
def _describer_with(pipeline: Pipeline, bank: str) -> Describer:
    return pipeline.describer.with_phrases(bank)


@lru_cache(maxsize=2)
def _long_describer(pipeline: Pipeline) -> Describer:
    return pipeline.describer.with_long_phrases()


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


@lru_cache(maxsize=1)
def _long_phrases() -> tuple[PhraseBank, DescriptionSettings]:
    return description_from_artifact(read_artifact(LONG_PHRASES))


def draw_descriptions(photo: Image.Image, regions: Sequence[RegionDescription], *, top: int = 3) -> Image.Image:
    """Draw regions on a photo, with the first `top` phrases of each below in its colour."""
    from deixis.pictures.grounded import PhraseBoxes, draw_grounding

    lines = []
    for region in regions:
        text = "  ·  ".join(phrase.text for phrase in region.phrases[:top])
        if text:
            lines.append((text, [PhraseBoxes(0, len(text), (region.box,))]))
    return draw_grounding(photo, lines)


def parse_region(text: str) -> XYXY:
    """Parse a box that a user typed."""
    try:
        x1, y1, x2, y2 = (float(side) for side in text.split(","))
    except ValueError:
        raise DeixisError(f"region {text!r}: give four numbers with commas between them: x1,y1,x2,y2") from None
    return x1, y1, x2, y2


def clip_region(region: Sequence[float], size: tuple[int, int]) -> XYXY:
    """Clip a region to a photo of the given width and height; refuse it if nothing is left."""
    try:
        sides = [float(side) for side in region]
    except (TypeError, ValueError):
        raise DeixisError(f"region {region!r}: give four numbers: x1, y1, x2, y2") from None
    name = "region " + ",".join(f"{side:g}" for side in sides)
    if len(sides) != 4 or not all(map(math.isfinite, sides)):
        raise DeixisError(f"{name}: give four numbers: x1, y1, x2, y2")
    if sides[0] >= sides[2] or sides[1] >= sides[3]:
        raise DeixisError(f"{name}: is empty; give x1, y1, x2, y2 with x1 < x2 and y1 < y2")
    x1, y1, x2, y2 = geometry.clip(sides, *size).tolist()
    if x1 >= x2 or y1 >= y2:
        raise DeixisError(f"{name}: lies outside the photo, which is {size[0]} × {size[1]} pixels")
    if min(x2 - x1, y2 - y1) < 1:
        raise DeixisError(f"{name}: is narrower than a pixel within the photo, which is {size[0]} × {size[1]} pixels")
    return x1, y1, x2, y2


def select_salient(
    boxes: Boxes, salience: Floats, vectors: Floats, best_phrases: NDArray[np.intp], count: int, diversity: float
) -> NDArray[np.intp]:
    """Select the most salient regions that differ from each other, the best first.

    Two regions are similar by their overlap (IoU); if one contains the other, also by their appearance; and if both
    have the same best phrase, also by the share of the smaller one that lies in the other. `vectors` are unit vectors
    of the appearance; `diversity` is the weight of `select_diverse`.
    """
    if not len(boxes):
        return np.empty(0, np.intp)
    good = np.flatnonzero(salience >= _MIN_SALIENCE * salience.max())
    boxes, vectors, best_phrases = boxes[good], vectors[good], best_phrases[good]

    def similarity(item: int) -> Floats:
        appearance = np.maximum(vectors @ vectors[item], 0) ** 2  # a part always resembles its whole a little
        same = np.where(best_phrases == best_phrases[item], _OVERLAP_WEIGHT, appearance)
        contained = same * _containment(boxes[item], boxes)
        return np.asarray(np.maximum(contained, _OVERLAP_WEIGHT * geometry.iou(boxes[item], boxes)[0]))

    selected = select_diverse(salience[good], similarity, count, weight=diversity, max_similarity=_MAX_SIMILARITY)
    return good[selected]


def estimate_objectness(boxes: Boxes, proposals: Proposals) -> NDArray[np.float64]:
    """The score of the proposal that overlaps each box most, times that overlap (IoU)."""
    if not len(proposals.boxes):
        return np.zeros(len(boxes))
    overlaps = geometry.iou(boxes, proposals.boxes)
    nearest = overlaps.argmax(axis=1)
    return np.asarray(overlaps[np.arange(len(boxes)), nearest] * proposals.scores[nearest])


def _containment(box: Boxes, boxes: Boxes) -> Floats:
    """The share of the smaller of two boxes that lies in the other."""
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    shared = np.maximum(sides, 0).prod(axis=1)
    return np.asarray(shared / np.maximum(np.minimum(geometry.area(box), geometry.area(boxes)), 1e-9))


def select_diverse(
    relevance: ArrayLike,
    similarity: Callable[[int], Floats],
    count: int,
    *,
    weight: float = 0.5,
    max_similarity: float = np.inf,
) -> NDArray[np.intp]:
    """Select items greedily by maximal marginal relevance.

    After Carbonell and Goldstein, *The use of MMR* (SIGIR 1998): the next item maximizes ``(1 − weight) · relevance −
    weight · highest similarity to a selected item``. Of equal items the first is selected. `similarity` gives the
    similarity of an item to all, on the scale of the relevance. Items at least `max_similarity` similar to a selected
    one are never selected.
    """
    values = np.asarray(relevance, dtype=np.float64)
    nearest = np.zeros(len(values))
    available = np.ones(len(values), dtype=bool)
    selected: list[int] = []
    while len(selected) < count and available.any():
        marginal = np.where(available, (1 - weight) * values - weight * nearest, -np.inf)
        best = int(marginal.argmax())
        selected.append(best)
        available[best] = False
        alike = np.asarray(similarity(best), dtype=np.float64)
        available &= alike < max_similarity
        nearest = np.maximum(nearest, alike) if len(selected) > 1 else alike
    return np.array(selected, dtype=np.intp)
