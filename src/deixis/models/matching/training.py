"""Training of the embedding and the similarity network, on photos with sentences or on regions with phrases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from deixis.data.dataset import Dataset, Photos
from deixis.data.pairs import RegionPhrasePairs
from deixis.errors import DeixisError
from deixis.language.features import TextFeatures
from deixis.language.vocabulary import Vocabulary
from deixis.models.matching.losses import Features, LogisticObjective, MatchingObjective
from deixis.models.matching.model import MatchingPipeline, Similarity, TwoBranch
from deixis.models.matching.samplers import (
    LabelledRegionSampler,
    LabelledSentenceSampler,
    RegionPhraseSampler,
    SentenceSampler,
)
from deixis.models.matching.spec import SimilaritySettings, TwoBranchSettings
from deixis.models.networks import word_tensors
from deixis.models.photo_features import PhotoFeatures, sentence_vectors
from deixis.models.training.data import FeatureSource, MatchingDataSettings, read_encoder_vectors, training_photos
from deixis.models.training.objective import DevScores, Sampler, Stage, Validation, retrieval_scores
from deixis.models.training.regions import dev_regions, localization_scores, phrase_vectors, region_set
from deixis.models.training.reproducibility import seeded
from deixis.models.training.runner import Run, TrainingData, proposals_of, provenance_of
from deixis.tokens import words_of

FeatureArray = NDArray[np.float16] | NDArray[np.float32]
TextData = FeatureArray | Sequence[str]
"""Text features, a row for each text; or the texts, for a network with a text encoder."""


@dataclass(kw_only=True)
class MatchingData(TrainingData):
    """Pairs to train on."""

    visual: FeatureArray  # features of photos or regions, by the rows that samplers name
    text: TextData  # sentences or phrases, likewise
    pairs: RegionPhrasePairs | NDArray[np.int64]  # regions and phrases; or the row of the photo of each sentence
    training_texts: Callable[[], Sequence[str]]  # every training text, as often as it occurs: what a vocabulary counts
    encoder: Texts


def prepare_data(run: Run) -> MatchingData:
    """Read the features of the training pairs."""
    data, dataset = run.settings[MatchingDataSettings], run.dataset
    if data.train_on == "both":
        raise DeixisError("train_on=both: only cca trains on both together; take sentences or phrases")
    if run.training.batch_size < 2:
        raise DeixisError("batch_size=1: batch norm needs 2 pairs or more")
    training_photos(dataset, run.train_split, boxes=data.uses_regions)
    # First the texts: missing word vectors raise an error before any photo is encoded.
    texts = read_texts(run)
    train = run.read_training_photos(data.feature_source, boxes=data.uses_regions, sentences=data.uses_sentences)
    return (_phrase_data if data.uses_regions else _sentence_data)(run, train, texts)


def validation(run: Run, data: MatchingData, photos: Photos) -> Validation | None:
    """Score retrieval; localization, for a model of phrases, where R@1 chooses the best epoch."""
    return validate(run, data.encoder, run.settings[MatchingDataSettings].feature_source, photos)


def validate(run: Run, texts: Texts, source: FeatureSource, photos: Photos) -> Validation | None:
    """Score retrieval on photos; localization on their regions, if the source has them."""
    dev = run.read_photos(photos, source)
    if source.proposal_source:
        regions = dev_regions(dev, run.on_progress)
        if regions is None:
            return None
        phrases = texts.encode_phrases(run, regions.pairs.phrases)
        return Validation(dev, lambda pipeline: DevScores("r1", localization_scores(pipeline.model, regions, phrases)))
    rows, owner = dev.photos.sentence_rows()
    if not len(rows):
        return None
    visual, text = dev.vectors(), texts.encode_captions(rows)

    def score(pipeline: MatchingPipeline) -> DevScores:
        model: Any = pipeline.model
        return retrieval_scores(model.scores(model.prepare_visual(visual), model.prepare_text(text)), owner)

    return Validation(dev, score)


@dataclass(frozen=True)
class Texts:
    """Texts as a model takes them: as text features, or as they are, where it has a text encoder."""

    dataset: Dataset
    features: TextFeatures | None = None
    caption_vectors: NDArray[np.float32] | None = None

    @property
    def fitted(self) -> TextFeatures:
        """The text features of a model without a text encoder."""
        assert self.features is not None  # noqa: S101 - as the settings say
        return self.features

    def encode_phrases(self, run: Run, phrases: Sequence[str]) -> TextData:
        return phrases if self.features is None else phrase_vectors(self.features, phrases, run.on_progress)

    def encode_captions(self, rows: NDArray[np.int64]) -> TextData:
        return self.caption_texts(rows) if self.caption_vectors is None else self.caption_vectors[rows]

    def caption_texts(self, rows: NDArray[np.int64]) -> list[str]:
        return self.dataset.tables["captions"]["text"].take(rows).to_pylist()


def read_texts(run: Run) -> Texts:
    two_branch, data = run.settings.get(TwoBranchSettings), run.settings[MatchingDataSettings]
    if two_branch and two_branch.text_encoder != "none":
        read_encoder_vectors(data.word_vectors, two_branch.word_dim)  # raises an error now if they are missing
        return Texts(run.dataset)
    found = sentence_vectors(
        run.dataset, run.dataset.photos, data.text_recipe(), train=run.train_split, on_progress=run.on_progress
    )
    return Texts(run.dataset, found.features, found.vectors)


def _sentence_data(run: Run, train: PhotoFeatures, texts: Texts) -> MatchingData:
    """Photos with their sentences, to train on."""
    rows, owner = train.photos.sentence_rows()
    return MatchingData(
        train=train,
        sentences=len(rows),
        texts=f"{len(rows):,} sentences",
        visual=train.vectors(),
        text=texts.encode_captions(rows),
        pairs=owner,
        training_texts=lambda: texts.caption_texts(rows),
        encoder=texts,
    )


def _phrase_data(run: Run, train: PhotoFeatures, texts: Texts) -> MatchingData:
    """Regions with their phrases, to train on."""
    data = run.settings[MatchingDataSettings]
    regions = region_set(train, data, where=str(run.dataset.path), on_progress=run.on_progress)
    pairs = regions.pairs
    return MatchingData(
        train=train,
        phrases=len(pairs),
        texts=f"{len(pairs):,} phrases",
        sources={"proposals": proposals_of(train, data.max_proposals)},
        visual=regions.vectors,
        text=texts.encode_phrases(run, pairs.phrases),
        pairs=pairs,
        training_texts=lambda: [pairs.phrases[phrase] for phrase in pairs.phrase],
        encoder=texts,
    )


def build_two_branch(run: Run, data: MatchingData) -> MatchingPipeline:
    """Make the embedding network, the same for the same seed."""
    settings = run.settings[TwoBranchSettings]
    visual_size = data.visual.shape[1]
    with seeded(run.training.seed):
        if isinstance(data.text, np.ndarray):
            return _pipeline(run, data, TwoBranch(visual_size, data.text.shape[1], settings))
        vocabulary = Vocabulary.fit((words_of(text) for text in data.training_texts()), settings.min_count)
        vectors = read_encoder_vectors(run.settings[MatchingDataSettings].word_vectors, settings.word_dim)
        model = TwoBranch(visual_size, settings=settings, vocabulary=vocabulary, frozen=vectors.frozen)
    if vectors.initial is not None and model.network.encoder:
        model.network.encoder.words.init_from(vocabulary, vectors.initial)
    return _pipeline(run, data, model)


def build_similarity(run: Run, data: MatchingData) -> MatchingPipeline:
    """Make the similarity network, the same for the same seed."""
    with seeded(run.training.seed):
        text_size = np.asarray(data.text).shape[1]
        return _pipeline(run, data, Similarity(data.visual.shape[1], text_size, run.settings[SimilaritySettings]))


def _pipeline(run: Run, data: MatchingData, model: TwoBranch | Similarity) -> MatchingPipeline:
    chosen = run.settings[MatchingDataSettings]
    if model.settings.standardize_images:
        scale = data.visual.std(axis=0, dtype=np.float64)
        model.network.visual_mean.copy_(torch.from_numpy(data.visual.mean(axis=0, dtype=np.float64)))
        model.network.visual_scale.copy_(torch.from_numpy(np.where(scale > 0, scale, 1.0)))
    provenance = provenance_of(chosen, chosen.train_on, data.train)
    return MatchingPipeline(model, provenance, data.encoder.features)


def two_branch_objective(run: Run, pipeline: MatchingPipeline, data: MatchingData) -> Stage:
    """Triplets of Algorithm 1 and the loss of eq. 6."""
    model: Any = pipeline.model
    settings, batch_size = model.settings, run.training.batch_size
    sampler: Sampler[Any]
    if isinstance(data.pairs, RegionPhrasePairs):
        sampler = RegionPhraseSampler(data.pairs, settings, batch_size)
    else:
        sampler = SentenceSampler(data.pairs, settings, batch_size)
    text: list[Features]
    if isinstance(data.text, np.ndarray):
        text = [_on(run.device, data.text)]
    else:
        text = [ids.to(run.device) for ids in word_tensors(data.text, model.words)]
    loss = MatchingObjective(settings, _on(run.device, data.visual), text)
    return Stage(model.network, sampler, loss, choose_from=settings.constraints_from)


def similarity_objective(run: Run, pipeline: MatchingPipeline, data: MatchingData) -> Stage:
    """Labelled pairs of Algorithm 1 and the loss of eq. 7."""
    model: Any = pipeline.model
    sampler: Sampler[Any]
    if isinstance(data.pairs, RegionPhrasePairs):
        sampler = LabelledRegionSampler(data.pairs, model.settings, run.training.batch_size)
    else:
        sampler = LabelledSentenceSampler(data.pairs, run.training.batch_size)
    loss = LogisticObjective(_on(run.device, data.visual), _on(run.device, np.asarray(data.text)))
    return Stage(model.network, sampler, loss)


def _on(device: torch.device, rows: FeatureArray) -> Features:
    """Features on a GPU, copied there once; on the CPU they stay memory-mapped."""
    return rows if device.type == "cpu" else torch.from_numpy(np.ascontiguousarray(rows)).to(device)
