"""The captioner as a model, and its pipeline: ranked, grammatical captions with their probability of being right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import FloatArray, Floats
from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.captioner.ranking import Confidence, MatchRanker, MatchRanking, choose_captions, is_grammatical
from deixis.models.captioner.spec import CaptionerSettings
from deixis.models.m_rnn.decoding import Decoding, GeneratedSentence, take_photos
from deixis.models.m_rnn.model import MRNN, PhotoArrays, PhotoInputs
from deixis.models.m_rnn.pipeline import CaptionPipeline, CaptionResult, Ranker, rank_captions
from deixis.models.pipeline import Rerank
from deixis.runtime import Functions
from deixis.storage.artifacts import Artifact, Storable
from deixis.storage.progress import OnProgress, no_progress, track
from deixis.tokens import words as words_in
from deixis.vision.encoder import FeatureMap

if TYPE_CHECKING:
    from deixis.models.captioner.network import CaptionerNetwork
    from deixis.models.grounding import EmbeddingPipeline
    from deixis.models.photo_features import PhotoFeatures


class VectorsAndCells(NamedTuple):
    """Photos as a captioner takes them: vectors (n, photo_size) and cells (n, k, cell_size)."""

    vectors: NDArray[Any]
    cells: NDArray[Any]


class Captioner(MRNN):
    """Generates sentences for photos, given as `VectorsAndCells`, and scores sentences against them."""

    KIND = "captioner"
    SETTINGS = CaptionerSettings
    SIZES = ("photo_size", "cell_size")
    INPUTS = ("vectors", "cells")
    ATTENDS = True
    settings: CaptionerSettings

    def __init__(
        self,
        photo_size: int,
        vocabulary: Vocabulary,
        settings: CaptionerSettings | None = None,
        *,
        cell_size: int,
        functions: Functions | None = None,
    ) -> None:
        self.cell_size = cell_size
        super().__init__(photo_size, vocabulary, settings, functions=functions)

    def make_network(self) -> CaptionerNetwork:
        from deixis.models.captioner.network import CaptionerNetwork

        return CaptionerNetwork(self.photo_size, len(self.vocabulary), self.settings, self.cell_size).eval()

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.settings.hidden_size,) * 2

    def check_photos(self, photos: PhotoInputs) -> PhotoArrays:
        vectors, cells = super().check_photos(photos)
        if cells.ndim != 3 or len(cells) != len(vectors) or cells.shape[2] != self.cell_size:
            raise DeixisError(f"cells of shape {cells.shape}: must be ({len(vectors)}, cells, {self.cell_size})")
        return vectors, cells


CONFIDENCE = "confidence"
"""Part of a saved model that holds the calibration of its captions."""

RANKING = "ranking"
"""Part of a saved model that says how its captions are ranked."""


class CaptionerPipeline(CaptionPipeline):
    """A captioner with its image encoder, and the ranking and calibration of its captions."""

    MODEL = Captioner
    model: Captioner
    confidence: Confidence | None = None
    """Calibration of the captions; ``deixis calibrate --captions`` fits it."""
    ranking: MatchRanking | None = None
    """How captions are ranked by default; by their probability if None."""
    photo_model: EmbeddingPipeline | None = None
    """A matching model that is already open, so that this model need not open another one to rank captions."""

    @property
    def default_rerank(self) -> Rerank:
        return "match" if self.ranking else "none"

    @property
    def tasks(self) -> frozenset[str]:
        """Regions have no feature maps of their own, so they cannot be scored."""
        return frozenset({"captions", "retrieval"})

    @cached_property
    def match_ranker(self) -> MatchRanker:
        """Opens the matching model of the ranking, or ``two-branch``."""
        return (self.ranking or MatchRanking()).open(self.encoder, self.photo_model)

    def model_inputs(self, features: PhotoFeatures, on_progress: OnProgress = no_progress) -> PhotoArrays:
        return vectors_and_cells(features, self.encoder.feature_grid, on_progress)

    def to_artifact(self, *, half: bool = False) -> Artifact:
        own = super().to_artifact(half=half)
        own_parts: dict[str, Storable | None] = {CONFIDENCE: self.confidence, RANKING: self.ranking}
        parts = {name: part.to_artifact() for name, part in own_parts.items() if part is not None}
        return replace(own, parts=own.parts | parts)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        pipeline = super().from_artifact(artifact)
        if CONFIDENCE in artifact.parts:
            pipeline.confidence = Confidence.from_artifact(artifact.parts[CONFIDENCE])
        if RANKING in artifact.parts:
            pipeline.ranking = MatchRanking.from_artifact(artifact.parts[RANKING])
        return pipeline

    def _model_input(self, features: FeatureMap, crops: Floats | None = None) -> PhotoArrays:
        return (*super()._model_input(features, crops), pool_cells(features.cells, self.encoder.feature_grid)[None])

    def caption_inputs(
        self, photos: PhotoArrays, decoding: Decoding | None = None, start: str = "", *, ranker: Ranker | None = None
    ) -> list[CaptionResult]:
        """Caption photos as the model takes them. Samples are returned as they were drawn."""
        decoding = decoding or Decoding(max_length=self.model.settings.max_length)
        if decoding.method == "sample":
            return super().caption_inputs(photos, decoding, start, ranker=ranker)
        ranked = rank_captions(photos, self._generate_grammatical(photos, decoding, start), ranker)
        matches = self._match_features(photos, [each.captions for each in ranked])
        chosen = [self._choose(each, words_in(start), match) for each, match in zip(ranked, matches, strict=True)]
        return self._with_log_probabilities(photos, chosen)

    def _match_features(
        self, photos: PhotoArrays, sentences: Sequence[Sequence[GeneratedSentence]]
    ) -> Sequence[FloatArray | None]:
        """For each photo the features of the match of its sentences, if the confidence uses them."""
        if self.confidence is None or not self.confidence.uses_match:
            return [None] * len(sentences)
        return self.match_ranker.features(photos, sentences)

    def _generate_grammatical(
        self, photos: PhotoArrays, decoding: Decoding, start: str = ""
    ) -> list[list[GeneratedSentence]]:
        """Generate sentences as the model does, but the whole beam where one of the best is ungrammatical."""
        found = self.model.generate(photos, decoding, start)
        if decoding.method != "beam" or decoding.top == decoding.beam:
            return found
        first = words_in(start)
        rows = [row for row, each in enumerate(found) if not all(is_grammatical(one, first) for one in each)]
        if rows:
            whole = replace(decoding, top=decoding.beam)
            for row, each in zip(
                rows, self.model.generate(take_photos(photos, np.array(rows)), whole, start), strict=True
            ):
                found[row] = each
        return found

    def best_sentences(self, photos: PhotoArrays) -> list[GeneratedSentence]:
        """The sentence of each photo that its caption is made of: the first grammatical one, if there is one."""
        ranker = self.ranker()
        generated = self._generate_grammatical(photos, self.beam_search(None, 1, ranker=ranker))
        ranked = rank_captions(photos, generated, ranker)
        return [next(filter(is_grammatical, each.captions), each.captions[0]) for each in ranked]

    def _choose(
        self, result: CaptionResult, start: Sequence[str], matches: FloatArray | None
    ) -> tuple[CaptionResult, list[bool]]:
        """The captions to show, and whether each was changed after it was generated."""
        chosen = choose_captions(result.captions, self.confidence, start, matches)
        consensus = [result.consensus[each.rank] for each in chosen] if result.consensus else []
        shown = CaptionResult(
            tuple(each.sentence for each in chosen),
            tuple(consensus),
            tuple(each.confidence for each in chosen),
            tuple(each.sure for each in chosen),
        )
        return shown, [each.changed for each in chosen]

    def _with_log_probabilities(
        self, photos: PhotoArrays, results: Sequence[tuple[CaptionResult, list[bool]]]
    ) -> list[CaptionResult]:
        """Compute the log-probabilities of the captions that were changed."""
        places = [
            (row, index)
            for row, (_, changed) in enumerate(results)
            for index, is_other in enumerate(changed)
            if is_other
        ]
        if not places:
            return [result for result, _ in results]
        texts = [results[row][0].captions[index].words for row, index in places]
        rows = np.array([row for row, _ in places], dtype=np.int64)
        found = [list(result.captions) for result, _ in results]
        for (row, index), log_p in zip(places, self.model.log_probabilities(photos, texts, rows), strict=True):
            found[row][index] = GeneratedSentence(
                found[row][index].words, float(log_p.sum()), True, tuple(log_p.tolist())
            )
        return [replace(result, captions=tuple(each)) for (result, _), each in zip(results, found, strict=True)]


def vectors_and_cells(
    features: PhotoFeatures, feature_grid: int, on_progress: OnProgress = no_progress
) -> VectorsAndCells:
    """The photos of a data set as a captioner takes them."""
    vectors = features.vectors()
    # In half precision, as in the store, because the cells of all photos are in memory together.
    cells = np.empty((len(vectors), feature_grid**2, features.store.contents.channels), np.float16)
    ids = features.photos.ids
    for row, photo_id in enumerate(track(ids, "reading feature maps", len(ids), on_progress)):
        cells[row] = pool_cells(features.store.map(photo_id).cells, feature_grid)
    return VectorsAndCells(vectors, cells)


def pool_cells(cells: NDArray[np.floating], side: int) -> Floats:
    """Average-pool a feature map (channels, rows, columns) to (side · side, channels)."""
    rows, columns = (_pooling(size, side) for size in cells.shape[1:])
    pooled = rows @ np.asarray(cells, dtype=np.float32) @ columns.T
    flat: Floats = np.ascontiguousarray(pooled.reshape(len(cells), -1).T)
    return flat


def _pooling(size: int, side: int) -> Floats:
    """Weights (side, size) that average neighbouring cells; cell i covers rows ⌊i·size/side⌋ to ⌈(i+1)·size/side⌉."""
    first = np.arange(side) * size // side
    last = -(-(np.arange(1, side + 1) * size) // side)
    at = np.arange(size)
    covered = ((at >= first[:, None]) & (at < last[:, None])).astype(np.float32)
    weights: Floats = covered / covered.sum(1, keepdims=True)
    return weights
