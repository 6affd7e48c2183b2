"""The grounder as a model: the regions of a photo and the phrases of a sentence in, scores and better boxes out.

`docs/models/grounder.md` says what each of its parts is worth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from deixis.errors import DeixisError
from deixis.language.features.base import Floats, Text, words_of
from deixis.language.saved import Saved
from deixis.language.vectors import WordVectors
from deixis.language.vocabulary import Vocabulary
from deixis.models.base import Embedder
from deixis.models.grounder_inputs import ReadingBatch, RegionBatch, RegionInputs, Span, readings_of
from deixis.models.grounder_network import GrounderNetwork, GrounderSettings, Pointed
from deixis.models.networks import give_weights, weights_of, without_weights
from deixis.models.saved import StoredModel

__all__ = ["Grounder", "GrounderSettings", "Pointing", "RegionInputs"]

_PHRASES_AT_A_TIME = 1024


@dataclass(frozen=True)
class Pointing:
    """Where the phrases of a sentence are in a photo.

    Attributes
    ----------
    scores : array of float32, (phrases, regions)
        Higher is better; comparable among the regions of a phrase, and among photos if the model learned that.
    boxes : array of float32, (phrases, regions, 4)
        For each phrase a better box than each of the regions', as shares of the photo.
    presence : array of float32, (phrases,), optional
        How likely the photo shows it, if half of all photos did; None where the model did not learn that.
    """

    scores: Floats
    boxes: Floats
    presence: Floats | None = None


class Grounder(StoredModel, Embedder):
    """Says which region of a photo a phrase names.

    What is made here is not trained; the loop of `deixis.training` trains `network`.

    Parameters
    ----------
    channels, whole_size
        Numbers in the vector of a region, and of a whole photo.
    vocabulary
        The words that it knows.
    settings
        What can be chosen.
    device
        Where to compute, as torch names it.

    Examples
    --------
    >>> model = Grounder(8, 8, Vocabulary(("a", "dog"), (2, 1)), GrounderSettings(dimension=16, hidden=8))
    >>> boxes = np.array([[0, 0, 0.5, 1], [0.2, 0, 1, 1]])
    >>> photo = RegionInputs(np.ones((2, 8)), boxes, np.array([0.7, 0.4]), np.ones(8))
    >>> model.point(photo, ["a", "dog", "and", "a", "cat"], [(0, 2), (3, 5)]).scores.shape
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
        """Numbers in each vector."""
        return self.settings.dimension + 1

    def start_from(self, vectors: WordVectors) -> None:
        """Let the words that have a vector begin with it."""
        if vectors.dimension != self.settings.word_size:
            raise DeixisError(
                f"word_size={self.settings.word_size}: the word vectors have {vectors.dimension} numbers; "
                f"set word_size={vectors.dimension}"
            )
        self.network.reader.start_from(self.vocabulary, vectors)

    def point(self, regions: RegionInputs, words: Sequence[str], spans: Sequence[Span]) -> Pointing:
        """Score each phrase of a sentence against each region of a photo, and give better boxes.

        Parameters
        ----------
        regions
            Of the photo.
        words
            Of the sentence, in lower case; `words_and_spans` gives them and the spans.
        spans
            Of the phrases, in words, the end exclusive.
        """
        self._check(regions)
        count, shown = len(spans), len(regions)
        scores, boxes = np.zeros((count, shown), np.float32), np.zeros((count, shown, 4), np.float32)
        presence = np.zeros(count, np.float32) if self.settings.other_photos else None
        readings = readings_of(words, spans, context=self.settings.context)
        if not readings or not shown:
            return Pointing(scores, boxes, presence)
        with self._inference() as like:
            photos = RegionBatch.of([regions], cells=self.settings.cells).to(like.device, like.dtype)
            text = ReadingBatch.of(readings, self.vocabulary).to(like.device)
            pointed: Pointed = self.network(photos, torch.zeros(len(text), dtype=torch.int64, device=like.device), text)
            every = torch.arange(shown, device=like.device).expand(*text.asked.shape, shown)
            better = self.network.refined(pointed, photos.boxes.expand(len(text), -1, -1), every)
            places = [place for reading in readings for place in reading.phrases]
            scores[places] = pointed.scores[text.asked].cpu().numpy()
            boxes[places] = better[text.asked].cpu().numpy()
            if presence is not None:
                alone = self.network.phrases_alone(text) @ pointed.region_vectors[0].T
                presence[places] = self.presence(alone.amax(dim=1).cpu().numpy())
        return Pointing(scores, boxes, presence)

    def presence(self, scores: ArrayLike) -> Floats:
        """How likely photos show what phrases say, from the highest dot product of each; for an even chance before.

        Only for models that were trained with `other_photos`.
        """
        learned = self.network.presence
        if learned is None:
            raise DeixisError("other_photos=0: the model has not learned whether a photo shows what a phrase says")
        scale, bias = learned.detach().cpu().numpy()
        return np.asarray(1 / (1 + np.exp(-(np.exp(scale) * np.asarray(scores) + bias))), dtype=np.float32)

    def prepare_visual(self, features: RegionInputs | Sequence[RegionInputs]) -> Floats:
        """A vector for each region of a photo, or of photos one after another; layers have no part in it."""
        self._refuse_layers_alone()
        made = [np.zeros((0, self.dimension), np.float32)]
        for photo in [features] if isinstance(features, RegionInputs) else features:
            self._check(photo)
            with self._inference() as like:
                seen = RegionBatch.of([photo]).to(like.device, like.dtype)
                states = self.network.see(seen.vectors, seen.boxes, seen.objectness, seen.whole)
                made.append(self.network.region_vectors(states, seen.objectness)[0, : len(photo)].cpu().numpy())
        return np.concatenate(made)

    def prepare_text(self, features: Sequence[Text]) -> Floats:
        """A vector for each phrase, read alone."""
        self._refuse_layers_alone()
        made = [np.zeros((0, self.dimension), np.float32)]
        for begin in range(0, len(features), _PHRASES_AT_A_TIME):
            phrases = [words_of(text) for text in features[begin : begin + _PHRASES_AT_A_TIME]]
            readings = [reading for words in phrases for reading in readings_of(words, [(0, len(words))])]
            with self._inference() as like:
                text = ReadingBatch.of(readings, self.vocabulary).to(like.device)
                made.append(self.network.phrases_alone(text).cpu().numpy())
        return np.concatenate(made)

    def saved(self) -> Saved:
        """What `save` writes."""
        known = self.vocabulary
        settings = {
            "channels": self.channels,
            "whole_size": self.whole_size,
            "settings": asdict(self.settings),
            "vocabulary": [known.words, known.counts, known.min_count],
        }
        return Saved(self.KIND, settings, weights_of(self.network))

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        settings: dict[str, Any] = saved.settings
        words, counts, min_count = settings["vocabulary"]
        vocabulary = Vocabulary(tuple(words), tuple(counts), min_count)
        with without_weights():
            chosen = GrounderSettings(**settings["settings"])
            model = cls(settings["channels"], settings["whole_size"], vocabulary, chosen, device="meta")
        give_weights(model.network, saved.arrays)
        return model

    @contextmanager
    def _inference(self) -> Iterator[Tensor]:
        """Let the network be as in evaluation; give one of its weights, for where and how it computes."""
        was_training = self.network.training
        self.network.eval()
        try:
            with torch.inference_mode():
                yield self.network.matching.phrase.weight
        finally:
            self.network.train(was_training)

    def _check(self, photo: RegionInputs) -> None:
        sizes = photo.vectors.shape[1], len(photo.whole)
        if sizes != (self.channels, self.whole_size):
            raise DeixisError(
                f"regions of {sizes[0]:,} numbers in a photo of {sizes[1]:,}: the model learned from "
                f"{self.channels:,} and {self.whole_size:,}"
            )

    def _refuse_layers_alone(self) -> None:
        """With layers, vectors say something only if they were taught to by phrases that were read alone."""
        if self.settings.layers and not self.settings.other_photos:
            raise DeixisError(
                f"layers={self.settings.layers}: regions and words are looked at together, so they have no vectors of "
                "their own; use point, or train with other_photos=0.3"
            )
