"""Ranking of generated captions by how well a matching model finds that they fit the photo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DeixisError
from deixis.models.grounding import EmbeddingPipeline, load_embedding_model
from deixis.models.installed import FAST
from deixis.models.m_rnn.decoding import GeneratedSentence
from deixis.models.m_rnn.model import Photos, as_vectors_and_cells
from deixis.storage.artifacts import Artifact, Storable

if TYPE_CHECKING:
    from deixis.models.provenance import EncoderInfo


class MatchRanking(Storable):
    """How captions are ranked: by log-probability per word + weight · similarity of caption and photo.

    The end token counts as a word.

    Parameters
    ----------
    model
        A matching model of the same encoder as the captioner.
    weight
        Weight of the similarity.
    """

    KIND = "caption-ranking"

    def __init__(self, model: str = "two-branch", weight: float = 2.0) -> None:
        self.model, self.weight = model, float(weight)

    def open(self, encoder: EncoderInfo, opened: EmbeddingPipeline | None = None) -> MatchRanker:
        """Open the matching model, for photos by the encoder of a captioner, unless it is the one that is given."""
        name = f"{self.model}{FAST}" if encoder.is_fast else self.model
        matcher = opened if opened is not None and opened.name == name else load_embedding_model(name)
        if not matcher.has_common_space:
            raise DeixisError(f"{name}: cannot rank captions, because it does not compare vectors")
        if (matcher.encoder.fingerprint, matcher.encoder.crops) != (encoder.fingerprint, encoder.crops):
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


class MatchRanker:
    """Scores generated sentences for `MatchRanking`."""

    is_consensus = False

    def __init__(self, matcher: EmbeddingPipeline, weight: float) -> None:
        self._matcher, self._weight = matcher, weight

    def scores(self, photos: Photos, sentences: Sequence[Sequence[GeneratedSentence]]) -> list[NDArray[np.float64]]:
        """For each photo a score for each of its sentences; higher is better."""
        row = {text: index for index, text in enumerate(dict.fromkeys(one.text for each in sentences for one in each))}
        encoded = self._matcher.encode_sentences(list(row))
        images = self._matcher.model.prepare_visual(as_vectors_and_cells(photos).vectors)
        return [
            np.array([one.log_probability_per_word for one in each])
            + self._weight * (encoded[[row[one.text] for one in each]] @ image)
            for each, image in zip(sentences, images, strict=True)
        ]
