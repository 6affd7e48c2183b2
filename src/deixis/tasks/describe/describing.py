"""Several different phrases for a region of a photo, or for every region that stands out."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from deixis.errors import DeixisError
from deixis.files.atomic import new_file
from deixis.geometry import Boxes
from deixis.language.features.base import Floats, to_unit_length
from deixis.language.saved import damaged
from deixis.models.base import Embedder
from deixis.models.grounder import Grounder
from deixis.models.grounder_inputs import RegionInputs
from deixis.tasks.bundle import Bundle, PhotoLike, load, opened
from deixis.tasks.describe.diverse import diverse
from deixis.tasks.describe.phrase_bank import EMPTY_WORDS, PhraseBank
from deixis.tasks.describe.salient import Box, objectness, region_within, standing_out
from deixis.tasks.given import count_of, path_of
from deixis.tasks.pictures.grounded import PhraseBoxes, draw_grounding
from deixis.tasks.places import with_places
from deixis.tasks.shipped_models import place_of
from deixis.vision.features import FeatureMap
from deixis.vision.proposals import open_proposer
from deixis.vision.proposals.proposer import Proposer

DEFAULT = "describer"
"""The model that describes where nobody names another."""

BANK = "phrases.txt.gz"
SETTINGS = "describing.json"
"""Beside a model: the phrases that it describes with, and how."""

Likely = npt.NDArray[np.float64]

TOP = 5
REGIONS = 10

_SAME = 0.999
"""Phrases as alike as this say the same."""

_GOOD = 0.4
"""Of the score of the best phrase: others should have as much."""


@dataclass(frozen=True)
class DescribeSettings:
    """How phrases and regions are chosen.

    Attributes
    ----------
    prior
        How much the logarithm of a phrase's share of all that people said is added to its score: 0 asks only how well
        it fits (which favours rare phrases), more asks what people would say.
    scale, bias
        The visible score is the logistic function of ``scale · (score + prior) + bias``.
    phrase_diversity, region_diversity
        Weights of likeness, between 0 and 1, as of `deixis.tasks.describe.diverse.diverse`.
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

    def chances(self, ranking: Floats) -> Floats:
        """Visible scores, between 0 and 1, from scores with their prior."""
        return np.asarray(1 / (1 + np.exp(-(self.scale * ranking + self.bias))))

    @classmethod
    def read(cls, path: Path) -> DescribeSettings:
        """Read what `save` wrote."""
        with damaged(path):
            return cls(**json.loads(path.read_text(encoding="utf-8")))

    def save(self, path: Path) -> None:
        """Write a file that `read` reads."""
        with new_file(path) as unfinished:
            unfinished.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


OF_LOGITS = DescribeSettings(prior=1.0, scale=0.5, bias=1.3)
"""For grounders, whose scores are no cosines: about what was found best for the shipped one."""


@dataclass(frozen=True)
class FittingPhrase:
    """A phrase and how likely it names what a region shows, between 0 and 1."""

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
        The best first, each unlike those before it.
    """

    box: Box
    phrases: tuple[FittingPhrase, ...]

    def as_json(self) -> dict[str, Any]:
        """One of the regions that ``deixis describe --json`` prints."""
        return {
            "box": [round(side, 1) for side in self.box],
            "phrases": [{"text": phrase.text, "score": round(phrase.score, 4)} for phrase in self.phrases],
        }


class Describer:
    """Finds phrases for regions of photos.

    Parameters
    ----------
    bundle
        A model that compares regions with phrases.
    bank
        The phrases to choose from.
    settings
        How.

    Examples
    --------
    >>> from deixis.data.samples import SAMPLES
    >>> found = Describer.open().describe(SAMPLES / "images" / "dogs.jpg", regions=2)
    >>> len(found), len(found[0].phrases)
    (2, 5)
    """

    def __init__(self, bundle: Bundle, bank: PhraseBank, settings: DescribeSettings | None = None) -> None:
        self.bundle = bundle
        self.bank = bank
        self.settings = settings or DescribeSettings()

    @classmethod
    def open(
        cls, model: str | PathLike[str] = DEFAULT, bank: str | PathLike[str] | PhraseBank | None = None
    ) -> Describer:
        """Open a model with the phrases and settings that lie beside it.

        Parameters
        ----------
        model
            A name that ``deixis models`` lists, or the directory of a model. One without phrases and settings of its
            own takes those of the shipped one; its scores are then not calibrated.
        bank
            Other phrases: a file as `PhraseBank.read` takes it, or a bank.
        """
        folder = place_of(model)
        if bank is None:
            bank = next(path for path in (folder / BANK, place_of(DEFAULT) / BANK) if path.is_file())
        if not isinstance(bank, PhraseBank):
            bank = PhraseBank.read(bank)
        bundle = load(model)
        own = folder / SETTINGS
        if isinstance(bundle.model, Grounder) and not own.is_file():
            return cls(bundle, bank, OF_LOGITS)
        return cls(bundle, bank, DescribeSettings.read(own if own.is_file() else place_of(DEFAULT) / SETTINGS))

    def describe(
        self, photo: PhotoLike, region: Sequence[float] | None = None, *, top: int = TOP, regions: int = REGIONS
    ) -> list[RegionDescription]:
        """Phrases for one region of a photo, or for those that stand out.

        Parameters
        ----------
        photo
            A path, or a Pillow image that is open already.
        region
            ``x1, y1, x2, y2`` in pixels of the photo, upright; what lies outside is cut off.
        top
            At most so many phrases for a region.
        regions
            Where no region is given: at most so many.
        """
        top, regions = count_of(top, "top"), count_of(regions, "regions")
        image = opened(photo)
        box = None if region is None else region_within(region, image.size)
        seen = self.bundle.image_encoder.encode([image])[0]
        proposed = self.proposer.propose(image, seen, self.bundle.learned.top)
        if box is not None:
            asked = np.array([box])
            return self._described(asked, self._visual(seen, asked, objectness(asked, proposed)), top)
        if not len(proposed.boxes):
            return []
        visual = self._visual(seen, proposed.boxes, proposed.scores)
        fitting = self.fitting(self.ranking(visual))
        # What no phrase fits may be well set off from the rest, but there is little to say of it.
        worth, kinds = proposed.scores * np.sqrt(fitting.max(axis=1)), fitting.argmax(axis=1)
        chosen = standing_out(
            proposed.boxes, worth, to_unit_length(visual), kinds, regions, self.settings.region_diversity
        )
        return self._described(proposed.boxes[chosen], visual[chosen], top)

    @cached_property
    def proposer(self) -> Proposer:
        """Who proposes regions."""
        return open_proposer(self.bundle.learned.proposals, self.bundle.encoder.name)

    @cached_property
    def bank_vectors(self) -> Floats:
        """All phrases of the bank as the model reads them."""
        return self.bundle.encode_sentences(self.bank.phrases)

    def see(self, vectors: Floats, boxes: Boxes, size: tuple[int, int], likely: Likely, whole: Floats) -> Floats:
        """Regions of a photo as the model sees them, for `ranking`.

        Parameters
        ----------
        vectors, boxes
            (n, d) and (n, 4) of the regions, in pixels.
        size
            Width and height of the photo.
        likely
            (n,) how likely each holds anything.
        whole
            The vector of the whole photo.
        """
        model = self.bundle.model
        if isinstance(model, Grounder):
            return model.prepare_visual(RegionInputs(vectors, boxes / np.tile(size, 2), likely, whole))
        return model.prepare_visual(with_places(vectors, boxes, size, self.bundle.learned.place))

    def ranking(self, visual: Floats) -> Floats:
        """Regions, as the model sees them, × all phrases of the bank; higher is better."""
        return self.bundle.similarity(visual, self.bank_vectors) + self.settings.prior * self.bank.log_shares()

    def fitting(self, ranking: Floats) -> Floats:
        """How likely phrases name what regions show, from `ranking`."""
        return self.settings.chances(ranking)

    def _described(self, boxes: Boxes, visual: Floats, top: int) -> list[RegionDescription]:
        found = []
        for box, row in zip(boxes.tolist(), self.fitting(self.ranking(visual)), strict=True):
            phrases = tuple(FittingPhrase(self.bank.phrases[n], float(row[n])) for n in self._different(row, top))
            x1, y1, x2, y2 = box
            found.append(RegionDescription((x1, y1, x2, y2), phrases))
        return found

    def _different(self, scores: Floats, top: int) -> npt.NDArray[np.intp]:
        """Places of phrases that fit a region well and are unlike each other."""
        best_first = np.argsort(-scores, kind="stable")
        relevance = scores[best_first] / scores[best_first[0]]
        # What fits much worse than the best must not win by being different.
        some = best_first[: max(2 * top, int((relevance >= _GOOD).sum()))]
        chosen = diverse(
            relevance[: len(some)],
            lambda place: self._likeness(some[place], some),
            top,
            weight=self.settings.phrase_diversity,
            too_similar=_SAME,
        )
        return some[chosen]

    def _visual(self, seen: FeatureMap, boxes: Boxes, likely: Likely) -> Floats:
        return self.see(seen.regions(boxes), boxes, seen.size, likely, seen.whole)

    def _likeness(self, place: int, others: npt.NDArray[np.intp]) -> Floats:
        """How alike a phrase of the bank is to others: by their words, and by what the model makes of them."""
        by_words = (self._words[others] @ self._words[place].T).toarray()[:, 0]
        return np.asarray(np.maximum(by_words, self._directions[others] @ self._directions[place]))

    @cached_property
    def _directions(self) -> Floats:
        if isinstance(self.bundle.model, Embedder):
            return to_unit_length(self.bank_vectors)
        return np.zeros((len(self.bank), 1), np.float32)  # vectors that only a network can compare

    @cached_property
    def _words(self) -> Any:
        return _bags(self.bank.phrases)


def describe(
    photo: PhotoLike,
    region: Sequence[float] | None = None,
    *,
    top: int = TOP,
    regions: int = REGIONS,
    model: str | PathLike[str] = DEFAULT,
    bank: str | PathLike[str] | None = None,
) -> list[RegionDescription]:
    """Several different phrases for a region of a photo, or for every region that stands out.

    Parameters
    ----------
    photo
        A path, or a Pillow image that is open already.
    region
        ``x1, y1, x2, y2`` in pixels of the photo, upright.
    top
        At most so many phrases for a region.
    regions
        Where no region is given: at most so many.
    model
        A name that ``deixis models`` lists, or the directory of a model.
    bank
        A file of other phrases, one a line.

    Examples
    --------
    >>> import deixis
    >>> from deixis.data.samples import SAMPLES
    >>> found = deixis.describe(SAMPLES / "images" / "dogs.jpg", (0, 0, 200, 200), top=3)
    >>> len(found), len(found[0].phrases)
    (1, 3)
    """
    describer = _describer(path_of(model, "model"), None if bank is None else path_of(bank, "bank"))
    return describer.describe(photo, region, top=top, regions=regions)


@lru_cache(maxsize=2)
def _describer(model: str, bank: str | None) -> Describer:
    return Describer.open(model, bank)


def draw_descriptions(photo: Image.Image, regions: Sequence[RegionDescription], *, top: int = 3) -> Image.Image:
    """The photo with its regions and, below it, for each in its colour, the first `top` of its phrases.

    Examples
    --------
    >>> dog = RegionDescription((10, 10, 90, 60), (FittingPhrase("a brown dog", 0.8), FittingPhrase("a puppy", 0.4)))
    >>> draw_descriptions(Image.new("RGB", (280, 210)), [dog]).width
    960
    """
    lines = []
    for region in regions:
        text = "  ·  ".join(phrase.text for phrase in region.phrases[:top])
        if text:
            lines.append((text, [PhraseBoxes(0, len(text), (region.box,))]))
    return draw_grounding(photo, lines)


def _bags(phrases: Sequence[str]) -> Any:
    """A row of unit length for each phrase, with a column for each of its words but those that say little."""
    from scipy import sparse

    columns: dict[str, int] = {}
    said = [[columns.setdefault(word, len(columns)) for word in _content(phrase)] for phrase in phrases]
    places = [column for row in said for column in row]
    values = [len(row) ** -0.5 for row in said for _ in row]
    starts = np.cumsum([0, *map(len, said)])
    shape = (len(phrases), max(1, len(columns)))
    return sparse.csr_matrix((np.array(values, np.float32), places, starts), shape)


def _content(phrase: str) -> set[str]:
    words = set(phrase.split())
    return words - EMPTY_WORDS or words
