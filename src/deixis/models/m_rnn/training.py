"""Training of the m-RNN on the captions of a data set: data, untrained model, objective and validation scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from deixis.data.dataset import Photos
from deixis.errors import DatasetError, DeixisError
from deixis.evaluation.items import sentences_of
from deixis.language.vocabulary import Vocabulary
from deixis.models.m_rnn.evaluation import caption_perplexity
from deixis.models.m_rnn.model import MRNN, PhotoArrays
from deixis.models.m_rnn.objective import CaptionSampler, LikelihoodObjective
from deixis.models.m_rnn.pipeline import CaptionPipeline
from deixis.models.m_rnn.reranking import FOLDER, Neighbours, RerankConfig
from deixis.models.m_rnn.spec import MONITOR, CaptionDataSettings, MRNNSettings
from deixis.models.networks import word_tensors
from deixis.models.photo_features import PhotoFeatures
from deixis.models.provenance import EncoderInfo, Provenance
from deixis.models.training.objective import DevScores, Stage, Validation
from deixis.models.training.reproducibility import seeded
from deixis.models.training.runner import Run, TrainingData, encoder_of
from deixis.tokens import words as words_in


@dataclass(frozen=True)
class Captions:
    """The words of captions, the number of each caption's photo, and the number of photos."""

    words: list[tuple[str, ...]]
    photo_of_caption: NDArray[np.int64]
    photo_count: int

    @classmethod
    def of(cls, features: PhotoFeatures) -> Captions | None:
        """Read the captions of photos; None if they have none."""
        if not len(features.photos.sentence_rows()[0]):
            return None
        gold = sentences_of(features.photos)
        words = [tuple(words_in(text)) for text in gold.texts]
        return Captions(words, np.array(gold.photo_of_sentence), len(features.photos))

    def by_photo(self) -> list[list[tuple[str, ...]]]:
        """The captions of each photo."""
        found: list[list[tuple[str, ...]]] = [[] for _ in range(self.photo_count)]
        for words, photo in zip(self.words, self.photo_of_caption.tolist(), strict=True):
            found[photo].append(words)
        return found

    def vocabulary(self, min_count: int) -> Vocabulary:
        """Return the words that occur often enough."""
        found = Vocabulary.fit(self.words, min_count)
        if not len(found):
            raise DeixisError(f"min_count={min_count}: no word occurs so often in the captions; set a smaller one")
        return found


@dataclass(kw_only=True)
class CaptionData(TrainingData):
    """Training photos as the model takes them, their captions, and their encoder."""

    captions: Captions
    photos: PhotoArrays
    encoder: EncoderInfo


def prepare_data(run: Run) -> CaptionData:
    """Read the features of photos and the words of their captions."""
    train = run.read_training_photos(run.settings[CaptionDataSettings].feature_source)
    return caption_data(run, train, (train.vectors(),))


def caption_data(run: Run, train: PhotoFeatures, photos: PhotoArrays, feature_grid: int = 0) -> CaptionData:
    captions = Captions.of(train)
    if captions is None:
        raise DatasetError(f"{run.dataset.path}: no photo of split {run.train_split!r} has a caption to train on")
    return CaptionData(
        train,
        sentences=len(captions.words),
        texts=f"{len(captions.words):,} captions",
        captions=captions,
        photos=photos,
        encoder=encoder_of(train, feature_grid),
    )


def validation(run: Run, data: CaptionData, photos: Photos) -> Validation | None:
    """Perplexity of the captions."""
    features = run.read_photos(photos, run.settings[CaptionDataSettings].feature_source)
    dev = Captions.of(features)
    if dev is None:
        return None
    vectors = (features.vectors(),)
    return Validation(features, lambda pipeline: DevScores(MONITOR, perplexity_scores(pipeline.model, vectors, dev)))


def perplexity_scores(model: MRNN, photos: PhotoArrays, captions: Captions) -> dict[str, float]:
    found = caption_perplexity(model, photos, captions.words, captions.photo_of_caption)
    return {"perplexity": found.perplexity, "oov": found.oov or 0.0, MONITOR: -found.perplexity}


def build(run: Run, data: CaptionData) -> CaptionPipeline:
    """Make the untrained model."""
    settings = run.settings[MRNNSettings]
    vocabulary = data.captions.vocabulary(settings.min_count)
    with seeded(run.training.seed):
        model = MRNN(data.photos[0].shape[1], vocabulary, settings)
    data.sources["words"] = f"{len(vocabulary):,}"
    return CaptionPipeline(model.fit_statistics(data.photos, run.training.seed), Provenance(data.encoder))


def objective(run: Run, pipeline: CaptionPipeline, data: CaptionData) -> Stage:
    """Batches of captions and their likelihood (eq. 6)."""
    likelihood = LikelihoodObjective(*likelihood_inputs(run, pipeline, data))
    return Stage(pipeline.model.network, CaptionSampler(likelihood.lengths, run.training.batch_size), likelihood)


def likelihood_inputs(
    run: Run, pipeline: CaptionPipeline, data: CaptionData
) -> tuple[tuple[torch.Tensor, ...], torch.Tensor, torch.Tensor, torch.Tensor]:
    """The first four arguments of `LikelihoodObjective`."""
    photos = tuple(torch.from_numpy(part).to(run.device) for part in data.photos)
    ids, lengths = word_tensors(data.captions.words, pipeline.model.vocabulary)
    return photos, torch.from_numpy(data.captions.photo_of_caption), ids, lengths


def finish(run: Run, pipeline: CaptionPipeline, data: CaptionData) -> None:
    """Save the training photos and captions, for reranking, into the folder ``neighbours`` of the run."""
    config = RerankConfig("refined" if pipeline.model.settings.refines_images else "photo")
    Neighbours.from_features(data.train, data.encoder, config).save(run.out / FOLDER)
