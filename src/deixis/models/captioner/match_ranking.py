"""How well generated captions match the photo by a matching model, for their ranking and their confidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from deixis.arrays import FloatArray, Floats
from deixis.errors import DeixisError
from deixis.models.grounding import EmbeddingPipeline, load_embedding_model
from deixis.models.installed import SHIPPED, model_folder
from deixis.models.m_rnn.decoding import GeneratedSentence
from deixis.models.m_rnn.model import PhotoInputs, photo_arrays
from deixis.storage.artifacts import CONFIG, Artifact, Storable

if TYPE_CHECKING:
    from deixis.models.provenance import EncoderInfo


class MatchRanking(Storable):
    """How captions are ranked: by log-probability per word + weight · similarity of caption and photo.

    The end token counts as a word. `model` is a matching model of the same encoder as the captioner: the shipped one of
    this name, even if the working directory has another, or a directory.
    """

    KIND = "caption-ranking"

    def __init__(self, model: str = "two-branch", weight: float = 2.0) -> None:
        self.model, self.weight = model, float(weight)

    def open(self, encoder: EncoderInfo, given: EmbeddingPipeline | None = None) -> MatchRanker:
        """Open the matching model, for photos by the encoder of a captioner.

        `given` is a matching model that is already open. It is used if it is the one that is needed.
        """
        shipped = SHIPPED / self.model
        folder = shipped if (shipped / CONFIG).is_file() else model_folder(self.model)
        if given and model_folder(given.name) == folder and given.encoder.fingerprint == encoder.fingerprint:
            return MatchRanker(given, self.weight)
        matcher = load_embedding_model(folder)
        if not matcher.has_common_space:
            raise DeixisError(f"{self.model}: cannot rank captions, because it does not compare vectors")
        trained_on = matcher.encoder.faster() if encoder.is_fast else matcher.encoder
        if (trained_on.fingerprint, trained_on.crops) != (encoder.fingerprint, encoder.crops):
            raise DeixisError(
                f"captions of a model on {encoder.name} cannot be ranked by {self.model}, which was trained on "
                f"{matcher.encoder.name}: use --rerank none; in training, match_model="
            )
        return MatchRanker(matcher, self.weight)

    def to_artifact(self) -> Artifact:
        return Artifact(self.KIND, {"model": self.model, "weight": self.weight})

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        return cls(artifact.settings["model"], artifact.settings["weight"])


_SIMILARITY, _FAMILIARITY, _PER_UNIT = 0.5, 0.4, 10
"""Typical values of the two features, and by how much they are multiplied, so that they are about 1."""


class MatchRanker:
    """Compares generated sentences with photos, for `MatchRanking` and for the confidence of captions."""

    is_consensus = False

    def __init__(self, matcher: EmbeddingPipeline, weight: float) -> None:
        self._matcher, self._weight = matcher, weight
        self._encoded: dict[str, Floats] = {}  # the sentences of the last call, which are often those of the next one

    def scores(self, photos: PhotoInputs, sentences: Sequence[Sequence[GeneratedSentence]]) -> list[FloatArray]:
        """For each photo a score for each of its sentences; higher is better."""
        return [
            np.array([one.log_probability_per_word for one in each]) + self._weight * similarities
            for each, similarities in zip(sentences, self._similarities(self._images(photos), sentences), strict=True)
        ]

    def features(self, photos: PhotoInputs, sentences: Sequence[Sequence[GeneratedSentence]]) -> list[FloatArray]:
        """For each photo (sentences, 2), from which the confidence of a caption is computed as well.

        The similarity of photo and sentence; and the familiarity of the photo, its mean similarity to the nearest
        captions of the training data (those of the hubness correction), which is low for things that no caption names.
        """
        images, hubness = self._images(photos), self._matcher.hubness
        familiarity = 2 * hubness.photo_terms(images) if hubness else np.full(len(images), _FAMILIARITY)
        return [
            _PER_UNIT * np.column_stack([found - _SIMILARITY, np.full(len(found), known - _FAMILIARITY)])
            for found, known in zip(self._similarities(images, sentences), familiarity, strict=True)
        ]

    def _images(self, photos: PhotoInputs) -> Floats:
        return self._matcher.encode_photos(np.asarray(photo_arrays(photos)[0], np.float32))

    def _similarities(self, images: Floats, sentences: Sequence[Sequence[GeneratedSentence]]) -> list[FloatArray]:
        encoded = self._encode([one.text for each in sentences for one in each])
        return [
            self._matcher.compare(image[None], np.stack([encoded[one.text] for one in each]))[0].astype(np.float64)
            for each, image in zip(sentences, images, strict=True)
        ]

    def _encode(self, texts: Sequence[str]) -> dict[str, Floats]:
        known = self._encoded
        new = [text for text in dict.fromkeys(texts) if text not in known]
        encoded = dict(zip(new, self._matcher.encode_sentences(new), strict=True)) if new else {}
        found = {text: encoded[text] if text in encoded else known[text] for text in texts}
        self._encoded = found
        return found
