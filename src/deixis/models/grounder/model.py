"""The grounder as a model: regions of a photo and phrases of a sentence in, scores and refined boxes out.

`docs/reference/models/grounder.md` has an ablation of its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis.arrays import Floats, logistic
from deixis.errors import DeixisError
from deixis.geometry import iou_of_sides
from deixis.language.features.base import Text
from deixis.language.vectors import WordVectors
from deixis.language.vocabulary import Vocabulary
from deixis.language.words import stated_count
from deixis.models.base import Embedder, WordNetworkModel
from deixis.models.box_sets import BoxSet, BoxSetSettings, RegionMembers
from deixis.models.grounder.inputs import Span, cell_arrays, make_text_inputs, text_arrays
from deixis.models.grounder.spec import GrounderSettings
from deixis.models.presence import PresenceCalibration
from deixis.models.region_inputs import RegionInputs
from deixis.runtime import Functions
from deixis.storage.artifacts import Artifact

if TYPE_CHECKING:
    from deixis.models.grounder.network import GrounderNetwork

PRESENCE = "presence_calibrations"
"""The setting in `config.json` that `scripts/fit_presence.py` writes."""

_MIN_AGREEMENT = 0.5
"""IoU from which on a box counts for the best one, as for a correct box in evaluation."""


@dataclass(frozen=True)
class GroundingOutput:
    """The location of the phrases of a sentence in a photo."""

    scores: Floats
    """(phrases, regions). Comparable among the regions of a phrase, and among photos with `presence_weight`."""
    boxes: Floats
    """(phrases, regions, 4): the region's box refined for each phrase, divided by the size of the photo.

    That of the best region of a phrase is the mean of all that agree with it; see `vote`.
    """
    members: Floats | None = None
    """(phrases, regions): probability that a region is one of the things of the phrase. Needs `sets_weight`."""
    member_boxes: Floats | None = None
    """(phrases, regions, 4): the region's box refined to one of the things of each phrase. Needs `sets_weight`."""
    counts: tuple[int | None, ...] = ()
    """(phrases,): how many things each phrase says that it names, or None."""
    presence: Floats | None = None
    """(phrases,): probability that the photo shows the phrase, at a prior of one half. Needs `presence_weight`."""


def vote(scores: Floats, boxes: Floats) -> Floats:
    """Box of each phrase: the mean of its boxes that overlap the best one enough, weighted by their probabilities.

    `scores` (phrases, regions) are logits and `boxes` (phrases, regions, 4) the regions refined for each phrase; the
    result is (phrases, 4). Box voting (Gidaris and Komodakis, ICCV 2015): the errors of single boxes differ.

    Examples
    --------
    >>> boxes = np.array([[[0, 0, 0.4, 0.4], [0, 0, 0.5, 0.4], [0.6, 0.6, 1, 1]]])
    >>> vote(np.array([[2.0, 2.0, 1.0]]), boxes).round(2).tolist()
    [[0.0, 0.0, 0.45, 0.4]]
    """
    phrases, best = np.arange(len(boxes)), scores.argmax(axis=1)
    sides = np.moveaxis(boxes.astype(np.float64), -1, 0)
    agrees = iou_of_sides(sides[:, phrases, best][..., None], sides) >= _MIN_AGREEMENT
    agrees[phrases, best] = True  # an empty box agrees with none
    weights = np.exp(scores - scores.max(axis=1, keepdims=True)) * agrees
    mean = (weights[..., None] * boxes).sum(axis=1) / weights.sum(axis=1, keepdims=True)
    return np.asarray(mean, dtype=boxes.dtype)


class Grounder(WordNetworkModel[GrounderSettings, "GrounderNetwork"], Embedder):
    """Finds the region of a photo that a phrase names.

    A new model is untrained; `deixis.train("grounder", …)` trains one. `channels` and `whole_size` are the dimensions
    of the features of a region and of a whole photo. `frozen` are word vectors to which training adds a difference for
    each word of the vocabulary. `box_sets` are the thresholds of the selection of boxes, `presence_calibrations` are
    fits of presence, one for each image encoder.

    Examples
    --------
    >>> settings = GrounderSettings(embedding_dim=16, hidden_size=8)
    >>> model = Grounder(8, 8, Vocabulary(("a", "dog"), (2, 1)), settings)
    >>> boxes = np.array([[0, 0, 0.5, 1], [0.2, 0, 1, 1]])
    >>> photo = RegionInputs(np.ones((2, 8)), boxes, np.array([0.7, 0.4]), np.ones(8))
    >>> model.ground(photo, ["a", "dog", "and", "a", "cat"], [(0, 2), (3, 5)]).scores.shape
    (2, 2)
    >>> model.scores(model.prepare_visual(photo), model.prepare_text(["a dog"])).shape
    (2, 1)
    """

    KIND = "grounder"
    SETTINGS = GrounderSettings
    SIZES = ("channels", "whole_size")
    WORDS = "text_encoder.words"
    vocabulary: Vocabulary

    def __init__(
        self,
        channels: int,
        whole_size: int,
        vocabulary: Vocabulary,
        settings: GrounderSettings | None = None,
        frozen: WordVectors | None = None,
        *,
        box_sets: BoxSetSettings | None = None,
        presence_calibrations: Sequence[PresenceCalibration] = (),
        functions: Functions | None = None,
    ) -> None:
        self.channels = channels
        self.whole_size = whole_size
        self.box_sets = box_sets or BoxSetSettings()
        self.presence_calibrations = tuple(presence_calibrations)
        super().__init__(settings, vocabulary, frozen, functions)

    def make_network(self) -> GrounderNetwork:
        from deixis.models.grounder.network import GrounderNetwork

        network = GrounderNetwork(self.channels, self.whole_size, len(self.vocabulary), self.settings)
        if self.frozen is not None:
            network.text_encoder.words.add_frozen(lambda: self.words.frozen_by_id(), self.settings.delta_dropout)
        return network

    @property
    def dimension(self) -> int:
        return self.settings.embedding_dim + 1

    def ground(
        self, regions: RegionInputs, words: Sequence[str], spans: Sequence[Span], *, presence: bool = True
    ) -> GroundingOutput:
        """Score each phrase of a sentence against each region of a photo, and refine the boxes.

        `words` are in lower case and `spans` are phrases, end exclusive; `to_word_spans` gives both. `presence=False`
        leaves out the presence of the phrases, which takes further computations.
        """
        self._check_sizes(regions)
        count, region_count = len(spans), len(regions)
        output = GroundingOutput(
            np.zeros((count, region_count), np.float32),
            np.zeros((count, region_count, 4), np.float32),
            np.zeros((count, region_count), np.float32) if self.settings.sets_weight else None,
            np.zeros((count, region_count, 4), np.float32) if self.settings.sets_weight else None,
            tuple(stated_count(words[slice(*span)]) for span in spans),
            np.zeros(count, np.float32) if presence and self.settings.presence_weight else None,
        )
        inputs = make_text_inputs(words, spans, context=self.settings.sentence_context)
        if not inputs or not region_count:
            return output
        vectors, lengths, word_spans, mask = text_arrays(inputs, self.words)
        cells = cell_arrays(regions, self.settings.feature_grid) if self.settings.use_feature_map else ()
        photo = _region_arrays(regions)
        rows = [phrase for each in inputs for phrase in each.phrases]
        found = self.functions("ground", *photo, vectors, lengths, word_spans, *cells)
        output.scores[rows], output.boxes[rows] = found[0][mask], found[1][mask]
        output.boxes[np.arange(count), output.scores.argmax(axis=1)] = vote(output.scores, output.boxes)
        if output.members is not None and output.member_boxes is not None:
            output.members[rows], output.member_boxes[rows] = logistic(found[2][mask]), found[3][mask]
        if output.presence is not None:
            alone = self.embed_texts(
                "embed_phrases", [each.words[slice(*span)] for each in inputs for span in each.spans], self.dimension
            )
            (visual,) = self.functions("embed_regions", *photo)
            output.presence[rows] = self.presence_probability((alone @ visual.T).max(axis=1))
        return output

    def select_boxes(self, output: GroundingOutput) -> list[BoxSet]:
        """The boxes of the things that each phrase names, divided by the size of the photo.

        One box for a phrase that names one thing, and for all phrases without `sets_weight`. The photo must have
        regions.
        """
        if output.members is None:
            best = output.boxes[np.arange(len(output.boxes)), output.scores.argmax(axis=1)]
            return [BoxSet(box[None]) for box in best.astype(np.float64)]
        return [phrase.select(self.box_sets) for phrase in self.members(output)]

    def members(self, output: GroundingOutput) -> list[RegionMembers]:
        """Each phrase with its regions as single things; needs `sets_weight`, and a photo that has regions."""
        if output.members is None or output.member_boxes is None:
            raise DeixisError("sets_weight=0: the model was not trained to find one box for each thing")
        best = output.boxes[np.arange(len(output.boxes)), output.scores.argmax(axis=1)]
        return list(map(RegionMembers, best, output.member_boxes, output.members, output.counts))

    def presence_probability(self, scores: ArrayLike) -> Floats:
        """Probability, at a prior of one half, that photos show phrases, from the highest region score of each.

        Only for models that were trained with `presence_weight`.
        """
        if not self.settings.presence_weight:
            raise DeixisError("presence_weight=0: the model was not trained to estimate presence")
        scale, bias = self.functions.weight("presence_calibration").astype(np.float32)
        return np.asarray(logistic(np.exp(scale) * np.asarray(scores) + bias), dtype=np.float32)

    def prepare_visual(self, features: RegionInputs | Sequence[RegionInputs]) -> Floats:
        """Embed the regions of a photo, or of several photos in order, without transformer layers."""
        self._require_vectors()
        vectors = [np.zeros((0, self.dimension), np.float32)]
        for photo in [features] if isinstance(features, RegionInputs) else features:
            self._check_sizes(photo)
            if len(photo):
                vectors += self.functions("embed_regions", *_region_arrays(photo))
        return np.concatenate(vectors)

    def prepare_text(self, features: Sequence[Text]) -> Floats:
        """Embed phrases, each without a sentence."""
        self._require_vectors()
        return self.embed_texts("embed_phrases", features, self.dimension)

    def save_arguments(self) -> dict[str, Any]:
        presence = [asdict(each) for each in self.presence_calibrations]
        return {**super().save_arguments(), "box_sets": asdict(self.box_sets), PRESENCE: presence}

    @classmethod
    def load_arguments(cls, artifact: Artifact) -> dict[str, Any]:
        saved = artifact.settings
        return {
            **super().load_arguments(artifact),
            "box_sets": BoxSetSettings(**saved.get("box_sets", {})),
            PRESENCE: [PresenceCalibration.from_json(each) for each in saved.get(PRESENCE, ())],
        }

    def _check_sizes(self, photo: RegionInputs) -> None:
        sizes = photo.vectors.shape[1], len(photo.whole)
        if sizes != (self.channels, self.whole_size):
            raise DeixisError(
                f"features of {sizes[0]:,} numbers per region and {sizes[1]:,} per photo: the model was trained on "
                f"{self.channels:,} and {self.whole_size:,}; use the encoder of the model"
            )

    def _require_vectors(self) -> None:
        """With transformer layers, vectors are meaningful only if phrases alone were trained too."""
        if self.settings.num_layers and not self.settings.presence_weight:
            raise DeixisError(
                f"num_layers={self.settings.num_layers}: the layers combine regions and words, so neither has a vector "
                "of its own; use ground, or train with presence_weight=0.3"
            )


def _region_arrays(photo: RegionInputs) -> tuple[NDArray[Any], ...]:
    return photo.vectors, photo.boxes, photo.objectness, photo.whole
