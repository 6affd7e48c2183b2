"""How likely a photo shows what was asked for: what both models see in it, weighed as photos with captions taught.

`docs/search.md` says how the numbers are fitted and how well they hold.
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

from deixis.errors import DeixisError
from deixis.language.features.base import Floats
from deixis.tasks.search.seeing import ReadSentence, WordFacts
from deixis.tasks.shipped_models import SHIPPED

SHIPPED_FILE = SHIPPED / "search" / "certainty.json"
FEATURES = 13
"""Numbers that `features` gives for a photo."""

_WORTH_SHOWING = 1 / 3
"""Of the probability of the best hit: what is less likely than that is in the way."""

_LIKELIEST = 0.5
"""Nothing is shown by more than this share of photos, as far as words alone can tell."""


@dataclass(frozen=True)
class Evidence:
    """What the models see of a query in some photos.

    Attributes
    ----------
    whole : array of float32, (n,)
        Scores of the whole query and the whole photos.
    phrases : array of float32, (n, k)
        Scores of each phrase and the whole photos.
    regions : array of float32, (n, k)
        Scores of each phrase and the best region of each photo.
    facts
        How many words the query has, and how usual they are.
    """

    whole: Floats
    phrases: Floats
    regions: Floats
    facts: WordFacts

    @classmethod
    def of(cls, read: ReadSentence, photos: Floats, regions: Sequence[Floats | None]) -> Evidence:
        """Compare a query with photos (n, dimension), and with the regions (m, region_dimension) of each."""
        asked = np.stack([phrase.vector for phrase in read.phrases])
        best = np.full((len(photos), len(asked)), np.nan, dtype=np.float32)
        for row, vectors in enumerate(regions):
            if vectors is not None:
                best[row] = (vectors @ asked.T).max(axis=0)
        lowest = np.nanmin(best) if np.isfinite(best).any() else 0.0
        phrases = photos @ np.stack([phrase.whole_vector for phrase in read.phrases]).T
        return cls(photos @ read.vector, phrases, np.nan_to_num(best, nan=float(lowest)), read.facts)

    def at(self, rows: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.int64]]) -> Evidence:
        """The same of some of the photos."""
        return Evidence(self.whole[rows], self.phrases[rows], self.regions[rows], self.facts)


@dataclass(frozen=True)
class Commonness:
    """What share of photos shows what words say, from how usual the words are: its logarithm is a line.

    Attributes
    ----------
    bias, slope
        Of the line over the sum of the logarithms of the words' shares among all words.
    """

    bias: float
    slope: float

    def log_prior(self, facts: WordFacts, photos: int) -> float:
        """The logarithm of the share of an index that answers, given that at least one photo does.

        Rare things are in one photo of a few as of many, so their share falls as the index grows; that of usual things
        does not. This is how a probability knows the size of the index.

        Examples
        --------
        >>> line = Commonness(0.0, 1.0)
        >>> rare, usual = WordFacts(1, -12.0, -9.0, 1.0), WordFacts(1, -2.0, -2.0, 0.0)
        >>> [round(float(np.exp(line.log_prior(rare, photos))), 4) for photos in (100, 10_000)]
        [0.01, 0.0001]
        >>> [round(float(np.exp(line.log_prior(usual, photos))), 4) for photos in (100, 10_000)]
        [0.1353, 0.1353]
        """
        share = float(np.exp(min(self.bias + self.slope * facts.log_shares, np.log(_LIKELIEST))))
        return float(np.log(share / -np.expm1(-share * max(photos, 1))))


def features(evidence: Evidence, photos: int, commonness: Commonness) -> Floats:
    """What is weighed: (n, FEATURES)."""
    facts, ones = evidence.facts, np.ones(len(evidence.whole))
    whole, phrases = 10 * evidence.whole, 10 * evidence.phrases.min(axis=1)
    length = float(np.log(max(facts.count, 1)))
    columns = [
        ones,
        whole,
        evidence.regions.mean(axis=1),
        evidence.regions.min(axis=1),
        phrases,
        ones * commonness.log_prior(facts, photos),
        ones * facts.rarest,
        ones * length,
        whole * length,
        whole * facts.rarest,
        phrases * facts.rarest,
        ones * facts.strange,
        whole * facts.strange,
    ]
    return np.stack(columns, axis=1).astype(np.float32)


@dataclass(frozen=True)
class CutOff:
    """The logit below which a photo is not shown. It falls as an index grows: what is right stands out less there.

    Attributes
    ----------
    sizes, logits
        Numbers of photos, ascending, and the cut-off for each.

    Examples
    --------
    >>> round(CutOff((10, 1000), (0.0, -2.0)).at(100), 3)
    -1.0
    """

    sizes: tuple[int, ...]
    logits: tuple[float, ...]

    def at(self, photos: int) -> float:
        """The cut-off for so many photos that are looked at; for fewer or more than were tried it stays as it is."""
        return float(np.interp(np.log(max(photos, 1)), np.log(self.sizes), self.logits))

    @classmethod
    def from_json(cls, given: Any) -> CutOff:
        """Read what JSON has kept."""
        found = cls(tuple(map(int, given["sizes"])), tuple(map(float, given["logits"])))
        if len(found.sizes) != len(found.logits) or not found.sizes:
            raise ValueError("sizes and logits of a cut-off")
        return found


NO_CUT_OFF = CutOff((1,), (-100.0,))
"""All photos are shown."""


@dataclass(frozen=True)
class Certainty:
    """The weights, for the models that they were fitted to.

    Attributes
    ----------
    fingerprint
        Of the models.
    weights
        One for each of the `features`; their sum is a logit.
    commonness
        How usual what is asked for is.
    cut_off
        Where hits end.
    likeness
        Weights of one, of the cosine of two photos and of the logarithm of the number of photos.
    likeness_cut_off
        The same for photos that are to be like another.

    Examples
    --------
    >>> certainty = Certainty("7f", (0.0,) * FEATURES, Commonness(0, 1), NO_CUT_OFF, (-3.0, 8.0, 0.0), NO_CUT_OFF)
    >>> round(float(certainty.of_likeness(np.array([0.9]), 100)[0]), 1)
    4.2
    """

    fingerprint: str
    weights: tuple[float, ...]
    commonness: Commonness
    cut_off: CutOff
    likeness: tuple[float, float, float]
    likeness_cut_off: CutOff

    @classmethod
    def of_models(cls, fingerprint: str, file: Path = SHIPPED_FILE) -> Certainty | None:
        """What comes with deixis, if it was fitted to these models."""
        if not file.is_file():
            return None
        certainty = cls.load(file)
        return certainty if certainty.fingerprint == fingerprint else None

    @classmethod
    def load(cls, file: str | PathLike[str]) -> Certainty:
        """Read what `save` wrote."""
        try:
            given = json.loads(Path(file).read_text(encoding="utf-8"))
            found = cls(
                str(given["fingerprint"]),
                tuple(map(float, given["weights"])),
                Commonness(**given["commonness"]),
                CutOff.from_json(given["cut_off"]),
                tuple(map(float, given["likeness"])),  # type: ignore[arg-type] # counted below
                CutOff.from_json(given["likeness_cut_off"]),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise DeixisError(f"{file}: does not say how certain a search is ({error!r})") from None
        if (len(found.weights), len(found.likeness)) != (FEATURES, 3):
            raise DeixisError(f"{file}: written for other numbers of weights; fit it again with scripts/fit_search.py")
        return found

    def save(self, file: str | PathLike[str]) -> None:
        """Write a small JSON document."""
        Path(file).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def of(self, evidence: Evidence, photos: int) -> Floats:
        """The logit of the probability that each photo shows it, one of so many photos that are looked at."""
        return features(evidence, photos, self.commonness) @ np.array(self.weights, dtype=np.float32)

    def worth_showing(self, logits: Floats, photos: int) -> NDArray[np.bool_]:
        """Which photos are hits, of so many that were looked at: likely enough, and not far less so than the best."""
        if not len(logits):
            return np.zeros(0, dtype=bool)
        chances = -np.logaddexp(0, -logits)
        near_the_best = chances >= chances.max() + np.log(_WORTH_SHOWING)
        return np.asarray((logits >= self.cut_off.at(photos)) & near_the_best)

    def of_likeness(self, cosines: Floats, photos: int) -> Floats:
        """The same for photos that are to be like another: what a caption of the one says, the other shows."""
        bias, weight, size = self.likeness
        return np.asarray(bias + weight * cosines + size * np.log(max(photos, 1)), dtype=np.float32)
