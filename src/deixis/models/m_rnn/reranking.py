"""Reranking of generated captions by the captions of similar training photos, which are kept beside a model.

The captions belong to the data set of the user who trained the model, so they are stored with the run, outside the
model directory that is passed on to others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import FloatArray, Floats
from deixis.errors import DatasetError, DeixisError
from deixis.models.installed import model_folder
from deixis.models.m_rnn.consensus import CaptionMeasure, Consensus, RerankSettings, oracle_scores
from deixis.models.m_rnn.decoding import Decoding, GeneratedSentence
from deixis.models.m_rnn.model import MRNN, PhotoArrays, PhotoInputs, photo_arrays
from deixis.models.m_rnn.pipeline import CaptionPipeline, CaptionResult, Ranker
from deixis.models.m_rnn.spec import BleuForm, NeighbourDistance, NeighbourFeature
from deixis.models.pipeline import Rerank
from deixis.models.provenance import EncoderInfo
from deixis.models.registry import get_spec
from deixis.storage.artifacts import CONFIG, Artifact, Storable, damaged, read_artifact
from deixis.storage.progress import OnProgress, no_progress
from deixis.tokens import words
from deixis.vision.feature_map import FeatureMap

if TYPE_CHECKING:
    from deixis.arrays import IntArray
    from deixis.models.photo_features import PhotoFeatures

FOLDER = "neighbours"
"""Folder of the training photos in the run of a captioner."""


@dataclass(frozen=True)
class RerankConfig:
    """How the neighbours of photos are found (section 8.1), and k and m of each similarity."""

    neighbour_feature: NeighbourFeature = "refined"
    bleu: RerankSettings = field(default_factory=lambda: RerankSettings("bleu"))
    cider: RerankSettings = field(default_factory=lambda: RerankSettings("cider"))
    neighbour_distance: NeighbourDistance = "cosine"
    bleu_form: BleuForm = "smoothed"

    def __post_init__(self) -> None:
        similarities = (self.bleu.similarity, self.cider.similarity)
        known = (
            self.neighbour_feature in get_args(NeighbourFeature)
            and self.neighbour_distance in get_args(NeighbourDistance)
            and self.bleu_form in get_args(BleuForm)
        )
        if not known or similarities != ("bleu", "cider"):
            raise ValueError(f"not a configuration of reranking: {self!r}")

    def settings(self, similarity: CaptionMeasure) -> RerankSettings:
        return self.bleu if similarity == "bleu" else self.cider

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RerankConfig:
        """Read what `dataclasses.asdict` gave."""
        return cls(**{**document, **{name: RerankSettings(**document[name]) for name in ("bleu", "cider")}})


class Neighbours(Storable):
    """Training photos: their ids, vectors, and the words of their captions."""

    KIND = "neighbours"

    def __init__(
        self,
        encoder: EncoderInfo,
        photos: Sequence[str],
        vectors: NDArray[np.floating],
        captions: Sequence[Sequence[Sequence[str]]],
        config: RerankConfig | None = None,
    ) -> None:
        if not len(photos) == len(vectors) == len(captions):
            raise DeixisError(f"neighbours: {len(photos)} photos, {len(vectors)} vectors, captions of {len(captions)}")
        self.encoder = encoder
        self.photos = tuple(photos)
        self.vectors = vectors
        self.captions = captions
        self.config = config or RerankConfig()

    @classmethod
    def from_features(cls, features: PhotoFeatures, encoder: EncoderInfo, config: RerankConfig | None = None) -> Self:
        """The photos of a data set that have captions."""
        captions = [[words(caption.text) for caption in photo.sentences] for photo in features.photos]
        kept = np.array([row for row, texts in enumerate(captions) if texts], dtype=np.int64)
        if not len(kept):
            raise DatasetError("no training photo has a caption; there is nothing to rerank by")
        ids = features.photos.ids
        vectors = features.vectors()[kept]
        return cls(encoder, [ids[row] for row in kept], vectors, [captions[row] for row in kept], config)

    def captions_of(self, row: int) -> list[str]:
        return [" ".join(each) for each in self.captions[row]]

    def consensus(self, model: MRNN) -> Consensus:
        vectors = neighbour_vectors(model, self.vectors, self.config.neighbour_feature)
        config = self.config
        return Consensus(vectors, self.captions, distance=config.neighbour_distance, bleu=config.bleu_form)

    def to_artifact(self) -> Artifact:
        settings = {
            "encoder": asdict(self.encoder),
            "photos": list(self.photos),
            "captions": [self.captions_of(row) for row in range(len(self.captions))],
            "config": asdict(self.config),
        }
        return Artifact(self.KIND, settings, {"vectors": np.asarray(self.vectors, dtype=np.float32)})

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        settings = artifact.settings
        captions = [[text.split(" ") if text else [] for text in texts] for texts in settings["captions"]]
        config = RerankConfig.from_json(settings["config"])
        vectors = artifact.arrays["vectors"]
        return cls(EncoderInfo(**settings["encoder"]), settings["photos"], vectors, captions, config)


def neighbour_vectors(model: MRNN, vectors: NDArray[np.floating], feature: NeighbourFeature) -> NDArray[np.floating]:
    """The features by which similar photos are found."""
    return vectors if feature == "photo" else model.refine(np.asarray(vectors, dtype=np.float32))


@dataclass(frozen=True)
class Reranker:
    """Scores generated sentences by the captions of similar training photos."""

    is_consensus = True

    neighbours: Neighbours
    model: MRNN
    settings: RerankSettings

    @cached_property
    def consensus(self) -> Consensus:
        return self.neighbours.consensus(self.model)

    def nearest(self, photos: PhotoInputs, count: int) -> IntArray:
        """The rows of the nearest training photos, for each photo."""
        return self.consensus.neighbours(self._vectors(photos), count)

    def scores(self, photos: PhotoInputs, sentences: Sequence[Sequence[GeneratedSentence]]) -> list[FloatArray]:
        texts = [[each.words for each in some] for some in sentences]
        return self.consensus.scores(self._vectors(photos), texts, self.settings)

    def _vectors(self, photos: PhotoInputs) -> NDArray[np.floating]:
        vectors = photo_arrays(photos)[0]
        return neighbour_vectors(self.model, vectors, self.neighbours.config.neighbour_feature)


@dataclass(frozen=True)
class Oracle:
    """Scores generated sentences by the photos' own captions: the upper bound of reranking."""

    is_consensus = True

    references: Sequence[Sequence[str]]
    similarity: CaptionMeasure

    def scores(self, photos: PhotoInputs, sentences: Sequence[Sequence[GeneratedSentence]]) -> list[FloatArray]:
        return oracle_scores([[each.words for each in some] for some in sentences], self.references, self.similarity)


def open_reranker(
    rerank: CaptionMeasure, pipeline: CaptionPipeline, neighbours: str | PathLike[str] | None = None
) -> Reranker:
    """Open the reranker of a captioner; see `CaptionPipeline.reranker`."""
    folder = Path(neighbours) if neighbours else _folder_beside(pipeline.name)
    command = f"deixis train consensus --data DATA --set captioner={pipeline.name}"
    if folder is None or not (folder / CONFIG).is_file():
        missing = f"{folder} has none" if folder else f"{pipeline.name} has none beside it"
        raise DeixisError(
            f"--rerank {rerank}: needs training photos with their captions, and {missing}; make them from your own "
            f"data with: {command}, and give --neighbours consensus.model"
        )
    found = load_neighbours(folder)
    if (found.encoder.fingerprint, found.encoder.crops) != (pipeline.encoder.fingerprint, pipeline.encoder.crops):
        raise DeixisError(
            f"{folder}: its photos were encoded by {_describe(found.encoder)}, those of the model by "
            f"{_describe(pipeline.encoder)}; make it again with: {command}"
        )
    return Reranker(found, pipeline.model, found.config.settings(rerank))


def load_neighbours(folder: Path) -> Neighbours:
    """Read the training photos of a training run, or those that ``deixis train consensus`` made."""
    artifact = read_artifact(folder)
    if artifact.kind not in (Neighbours.KIND, ConsensusPipeline.KIND):
        raise DeixisError(f"{folder / CONFIG}: holds {artifact.kind!r}, not training photos with captions")
    with damaged(folder / CONFIG):
        return Neighbours.from_artifact(artifact)


def _folder_beside(model: str) -> Path | None:
    """Where training leaves them, for the run directory or the model directory in it."""
    folder = model_folder(model)
    return next((each for each in (folder / FOLDER, folder.parent / FOLDER) if (each / CONFIG).is_file()), None)


def _describe(encoder: EncoderInfo) -> str:
    return f"{encoder.name} ({encoder.fingerprint}{', ten crops' if encoder.crops else ''})"


class ConsensusPipeline(CaptionPipeline):
    """A captioner with training photos, by whose captions its own are reranked by default."""

    KIND = "consensus"

    def __init__(self, captioner: CaptionPipeline, neighbours: Neighbours, *, card: str = "") -> None:
        super().__init__(captioner.model, captioner.provenance, card=card)
        self.captioner, self.neighbours = captioner, neighbours
        self.name = self.KIND

    @property
    def default_rerank(self) -> Rerank:
        return "cider"

    @property
    def kind(self) -> str:
        return self.KIND

    @property
    def tasks(self) -> frozenset[str]:
        return self.captioner.tasks

    @property
    def match_ranker(self) -> Ranker:
        return self.captioner.match_ranker

    def model_inputs(self, features: PhotoFeatures, on_progress: OnProgress = no_progress) -> PhotoArrays:
        return self.captioner.model_inputs(features, on_progress)

    def caption_inputs(
        self, photos: PhotoArrays, decoding: Decoding | None = None, start: str = "", *, ranker: Ranker | None = None
    ) -> list[CaptionResult]:
        return self.captioner.caption_inputs(photos, decoding, start, ranker=ranker)

    def _model_input(self, features: FeatureMap, crops: Floats | None = None) -> PhotoArrays:
        return self.captioner._model_input(features, crops)

    def _open_reranker(self, rerank: CaptionMeasure, neighbours: str | PathLike[str] | None) -> Reranker:
        if neighbours is not None:
            return super()._open_reranker(rerank, neighbours)
        return Reranker(self.neighbours, self.model, self.neighbours.config.settings(rerank))

    def to_artifact(self, *, half: bool = False) -> Artifact:
        captioner = self.captioner.to_artifact(half=half)
        own = self.neighbours.to_artifact()
        parts = {"captioner": replace(captioner, card="")}
        return Artifact(self.KIND, own.settings, own.arrays, parts, captioner.provenance, self.card)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        part = artifact.parts["captioner"]
        captioner: Any = get_spec(part.kind).load(part)
        return cls(captioner, Neighbours.from_artifact(artifact), card=artifact.card)
