"""The grounder as a model: regions of a photo and phrases of a sentence in, scores and refined boxes out.

`docs/reference/models/grounder.md` has an ablation of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.language.features.base import Text, words_of
from deixis.language.vocabulary import Vocabulary
from deixis.models.base import Embedder
from deixis.models.grounder.inputs import RegionBatch, Span, TextBatch, make_text_inputs
from deixis.models.grounder.network import GrounderNetwork, NetworkOutput
from deixis.models.grounder.spec import GrounderSettings
from deixis.models.networks import eval_mode
from deixis.models.photo_features import RegionInputs
from deixis.storage.artifacts import Artifact, Storable
from deixis.storage.networks import set_weights, weights_of, without_weights

_PHRASES_PER_BATCH = 1024


@dataclass(frozen=True)
class GroundingOutput:
    """The location of the phrases of a sentence in a photo."""

    scores: Floats
    """(phrases, regions). Comparable among the regions of a phrase, and among photos with `presence_weight`."""
    boxes: Floats
    """(phrases, regions, 4): the region's box refined for each phrase, divided by the size of the photo."""
    presence: Floats | None = None
    """(phrases,): probability that the photo shows the phrase, at a prior of one half. Needs `presence_weight`."""


class Grounder(Storable, Embedder):
    """Finds the region of a photo that a phrase names.

    A new model is untrained; `deixis.train("grounder", …)` trains one. `channels` and `whole_size` are the dimensions
    of the features of a region and of a whole photo.

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

    def __init__(
        self,
        channels: int,
        whole_size: int,
        vocabulary: Vocabulary,
        settings: GrounderSettings | None = None,
        *,
        device: str | torch.device = "cpu",
    ) -> None:
        self.channels = channels
        self.whole_size = whole_size
        self.vocabulary = vocabulary
        self.settings = settings or GrounderSettings()
        self.network = GrounderNetwork(channels, whole_size, len(vocabulary), self.settings).to(device)

    @property
    def dimension(self) -> int:
        return self.settings.embedding_dim + 1

    def ground(self, regions: RegionInputs, words: Sequence[str], spans: Sequence[Span]) -> GroundingOutput:
        """Score each phrase of a sentence against each region of a photo, and refine the boxes.

        `words` are in lower case and `spans` are phrases, end exclusive; `to_word_spans` gives both.
        """
        self._check_sizes(regions)
        count, region_count = len(spans), len(regions)
        scores, boxes = np.zeros((count, region_count), np.float32), np.zeros((count, region_count, 4), np.float32)
        presence = np.zeros(count, np.float32) if self.settings.presence_weight else None
        inputs = make_text_inputs(words, spans, context=self.settings.sentence_context)
        if not inputs or not region_count:
            return GroundingOutput(scores, boxes, presence)
        with self._inference() as like:
            photos = RegionBatch.collate([regions], cells=self.settings.use_feature_map).to(like.device, like.dtype)
            text = TextBatch.collate(inputs, self.vocabulary).to(like.device)
            photo_of = torch.zeros(len(text), dtype=torch.int64, device=like.device)
            output: NetworkOutput = self.network(photos, photo_of, text)
            every = torch.arange(region_count, device=like.device).expand(*text.mask.shape, region_count)
            refined = self.network.refine(output, photos.boxes.expand(len(text), -1, -1), every)
            rows = [phrase for each in inputs for phrase in each.phrases]
            scores[rows] = output.scores[text.mask].cpu().numpy()
            boxes[rows] = refined[text.mask].cpu().numpy()
            if presence is not None:
                alone = self.network.phrase_vectors_alone(text) @ output.region_vectors[0].T
                presence[rows] = self.presence_probability(alone.amax(dim=1).cpu().numpy())
        return GroundingOutput(scores, boxes, presence)

    def presence_probability(self, scores: ArrayLike) -> Floats:
        """Probability, at a prior of one half, that photos show phrases, from the highest region score of each.

        Only for models that were trained with `presence_weight`.
        """
        calibration = self.network.presence_calibration
        if calibration is None:
            raise DeixisError("presence_weight=0: the model was not trained to estimate presence")
        scale, bias = calibration.detach().cpu().numpy()
        return np.asarray(1 / (1 + np.exp(-(np.exp(scale) * np.asarray(scores) + bias))), dtype=np.float32)

    def prepare_visual(self, features: RegionInputs | Sequence[RegionInputs]) -> Floats:
        """Embed the regions of a photo, or of several photos in order, without transformer layers."""
        self._require_vectors()
        vectors = [np.zeros((0, self.dimension), np.float32)]
        for photo in [features] if isinstance(features, RegionInputs) else features:
            self._check_sizes(photo)
            with self._inference() as like:
                batch = RegionBatch.collate([photo]).to(like.device, like.dtype)
                states = self.network.encode_regions(batch.vectors, batch.boxes, batch.objectness, batch.whole)
                vectors.append(self.network.region_vectors(states, batch.objectness)[0, : len(photo)].cpu().numpy())
        return np.concatenate(vectors)

    def prepare_text(self, features: Sequence[Text]) -> Floats:
        """Embed phrases, each without a sentence."""
        self._require_vectors()
        vectors = [np.zeros((0, self.dimension), np.float32)]
        for begin in range(0, len(features), _PHRASES_PER_BATCH):
            phrases = [words_of(text) for text in features[begin : begin + _PHRASES_PER_BATCH]]
            inputs = [each for words in phrases for each in make_text_inputs(words, [(0, len(words))])]
            with self._inference() as like:
                text = TextBatch.collate(inputs, self.vocabulary).to(like.device)
                vectors.append(self.network.phrase_vectors_alone(text).cpu().numpy())
        return np.concatenate(vectors)

    def to_artifact(self) -> Artifact:
        vocabulary = self.vocabulary
        settings = {
            "channels": self.channels,
            "whole_size": self.whole_size,
            "settings": asdict(self.settings),
            "vocabulary": [vocabulary.words, vocabulary.counts, vocabulary.min_count],
        }
        return Artifact(self.KIND, settings, weights_of(self.network))

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        settings = artifact.settings
        words, counts, min_count = settings["vocabulary"]
        vocabulary = Vocabulary(tuple(words), tuple(counts), min_count)
        with without_weights():
            hyperparameters = GrounderSettings(**settings["settings"])
            model = cls(settings["channels"], settings["whole_size"], vocabulary, hyperparameters, device="meta")
        set_weights(model.network, artifact.arrays)
        return model

    @contextmanager
    def _inference(self) -> Iterator[Tensor]:
        """Switch to evaluation mode; gives a weight, for its device and dtype."""
        with eval_mode(self.network), torch.inference_mode():
            yield self.network.matching.phrase.weight

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
