"""Presence: the probability that a photo shows a phrase at all, fitted to photos with captions.

A logistic regression of similarities by a photo model with the same image encoder: of the phrase with the photo, with
its most similar region, and of other things for which the phrase's thing is easily taken, which are listed in
``confusable_nouns.txt`` (English). `scripts/fit_presence.py` fits the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np

from deixis.arrays import Floats
from deixis.errors import DatasetError, DeixisError
from deixis.language.sentence import Phrase
from deixis.language.words import singular
from deixis.models.base import RegionInputs
from deixis.models.calibrator import LogisticCalibrator
from deixis.models.grounding import EmbeddingPipeline, load_embedding_model
from deixis.models.installed import model_folder
from deixis.models.provenance import EncoderInfo
from deixis.storage.artifacts import fingerprint_artifact

CONFUSABLE_NOUNS = Path(__file__).with_name("confusable_nouns.txt")

FEATURES = 4
"""Number of features of a phrase; see `PresenceModel.features`."""

_MIN_RIVALRY = -0.1


@dataclass(frozen=True)
class PresenceCalibration:
    """The weights of the regression, for a photo model with one image encoder."""

    encoder: str  # fingerprint of the image encoder
    photo_model: str  # name, as `deixis.load` takes it
    fingerprint: str  # of the photo model
    weights: tuple[float, ...]  # of a constant and the features; the weighted sum is a logit

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        return cls(**{**document, "weights": LogisticCalibrator.load(document["weights"], [FEATURES]).weights})

    def open(self, encoder: EncoderInfo, given: EmbeddingPipeline | None = None) -> PresenceModel | None:
        """Open the photo model; None if it is not installed, was trained again, or has another image encoder.

        `given` is a photo model that is already open. It is used if it is the one that is needed.
        """
        folder = model_folder(self.photo_model)
        if self.encoder != encoder.fingerprint or not folder.is_dir():
            return None
        if fingerprint_artifact(folder) != self.fingerprint:
            return None
        model = given if given and given.name == self.photo_model else load_embedding_model(self.photo_model)
        return PresenceModel(model, self) if model.encoder == encoder else None


class PresenceModel:
    """A photo model and the weights that were fitted to it; without weights for fitting only."""

    def __init__(self, photo_model: EmbeddingPipeline, calibration: PresenceCalibration | None = None) -> None:
        self.photo_model = photo_model
        self.calibration = calibration
        self._things: dict[str, Floats] = {}

    def probabilities(self, regions: RegionInputs, phrases: Sequence[Phrase]) -> Floats:
        """Probability that the photo shows each phrase, if half of all phrases were there: (phrases,)."""
        if self.calibration is None:
            raise DeixisError(f"{self.photo_model.name}: presence was not fitted to it")
        return LogisticCalibrator(self.calibration.weights).probabilities(self.features(regions, phrases))

    def features(self, regions: RegionInputs, phrases: Sequence[Phrase]) -> Floats:
        """The features of phrases in a photo: (phrases, FEATURES).

        Cosines of the phrase with the whole photo, and with the most similar region or the photo; whether the phrase
        names people, because the cosines of a photo with "a man" and "a woman" are similar; and by how much the photo
        is more similar to a rival of the phrase's thing (`ConfusableGroup`) than to the thing, 0 without rivals.
        """
        model = self.photo_model
        photo = model.encode_photos(np.asarray(regions.whole, dtype=np.float32)[None])
        cosines = model.compare(np.concatenate([photo, model.encode_regions(regions)]), model.encode_sentences(phrases))
        people = ["people" in phrase.types for phrase in phrases]
        rivals = [self._rivalry(photo, phrase) for phrase in phrases]
        return np.stack([cosines[0], cosines.max(axis=0), people, rivals], axis=1).astype(np.float32)

    def _rivalry(self, photo: Floats, phrase: Phrase) -> float:
        found = find_thing(phrase.words)
        if found is None or not (rivals := found[0].rivals(found[1])):
            return 0.0
        group, thing = found
        if group.name not in self._things:
            self._things[group.name] = self.photo_model.encode_sentences([each.text for each in group.things])
        cosines = self.photo_model.compare(photo, self._things[group.name])[0]
        return max(float(cosines[rivals].max() - cosines[thing]), _MIN_RIVALRY)


@dataclass(frozen=True)
class ConfusableNoun:
    """A thing of a group, the words that name it, and words that may mean it.

    Names have the form that `NamedThings` of scripts/named_things.py takes.
    """

    text: str
    names: str
    may_mean: str = ""

    @property
    def name(self) -> str:
        """The first name, or none."""
        return self.names.partition(",")[0].strip(" =")

    @property
    def words(self) -> frozenset[str]:
        """The words of both kinds."""
        listed = f"{self.names},{self.may_mean}".split(",")
        return frozenset(word.strip(" =") for word in listed if word.strip() and not word.strip().startswith("-"))


@dataclass(frozen=True)
class ConfusableGroup:
    """Things that are easily taken for each other; `unless` are words that may mean any of them."""

    name: str
    unless: str
    things: tuple[ConfusableNoun, ...]

    def rivals(self, thing: int) -> list[int]:
        """Return the others of the group, except hypernyms and hyponyms: the name of one is a word of the other."""
        own = self.things[thing]
        return [
            other
            for other, each in enumerate(self.things)
            if other != thing and own.name not in each.words and each.name not in own.words
        ]


def read_groups(file: Path = CONFUSABLE_NOUNS) -> list[ConfusableGroup]:
    """Read a list; its first lines say what its lines mean."""
    groups: list[ConfusableGroup] = []
    things: list[ConfusableNoun] = []
    heading = ("", "")
    lines = [*enumerate(file.read_text(encoding="utf-8").splitlines(), start=1), (0, "[")]
    for number, line in lines:
        if line.startswith("["):
            if things:
                groups.append(ConfusableGroup(*heading, tuple(things)))
            name, _, unless = line[1:].partition("] unless ")
            heading, things = (name, unless), []
        elif line.strip() and not line.startswith("#"):
            text, bar, words = (part.strip() for part in line.partition("|"))
            names, _, may_mean = (part.strip() for part in words.partition(";"))
            if not text or not bar or not heading[0]:
                raise DatasetError(f"{file}: line {number} must have the form 'phrase | name, name ; other word'")
            things.append(ConfusableNoun(text, names, may_mean))
    return groups


@cache
def shipped_groups() -> tuple[ConfusableGroup, ...]:
    return tuple(read_groups())


def find_thing(words: Sequence[str]) -> tuple[ConfusableGroup, int] | None:
    """Find the thing that the last words of a phrase name; None if no thing has such a name.

    Examples
    --------
    >>> group, thing = find_thing(["a", "white", "polar", "bear"])
    >>> group.name, group.things[thing].text
    ('animals', 'a polar bear')
    >>> find_thing(["a", "teddy", "bear"]) is None
    True
    """
    names, longest = _things_by_name()
    forms = tuple(map(singular, words))
    for count in range(min(longest, len(forms)), 0, -1):
        if forms[-count:] in names:
            return names[forms[-count:]]
    return None


@cache
def _things_by_name() -> tuple[dict[tuple[str, ...], tuple[ConfusableGroup, int] | None], int]:
    """The things by their names in the singular, None for names that mean something else; the longest name."""
    found: dict[tuple[str, ...], tuple[ConfusableGroup, int] | None] = {}
    hidden: set[tuple[str, ...]] = set()
    for group in shipped_groups():
        for number, thing in enumerate(group.things):
            for name in filter(None, map(str.strip, thing.names.split(","))):
                forms = tuple(map(singular, name.strip("=-").split()))
                if name.startswith("-"):
                    hidden.add(forms)
                else:
                    found.setdefault(forms, (group, number))
    found |= dict.fromkeys(hidden - found.keys())
    return found, max(map(len, found))
