"""Training of the grounder on the phrases with boxes of a data set."""

from __future__ import annotations

from dataclasses import dataclass

from deixis.errors import DatasetError, DeixisError
from deixis.language.vectors import WordVectors
from deixis.language.vocabulary import Vocabulary
from deixis.models.grounder.data import GroundingExamples, build_vocabulary, collect_examples
from deixis.models.grounder.model import Grounder
from deixis.models.grounder.objective import GroundingObjective, GroundingSampler, score_examples
from deixis.models.grounder.pipeline import GrounderPipeline
from deixis.models.grounder.spec import GrounderDataSettings, GrounderSettings
from deixis.models.photo_features import PhotoFeatures
from deixis.models.training.data import initial_word_vectors
from deixis.models.training.distributed import seeded
from deixis.models.training.objective import DevScores, Stage
from deixis.models.training.runner import Run, TrainingData, proposals_of, provenance_of


@dataclass(kw_only=True)
class GrounderTrainingData(TrainingData):
    """Examples of the training and the validation split, the vocabulary, and initial word embeddings."""

    vocabulary: Vocabulary
    word_vectors: WordVectors | None
    examples: GroundingExamples
    dev_examples: GroundingExamples | None


def prepare_data(run: Run) -> GrounderTrainingData:
    """Collect the phrases with boxes and the regions of their photos."""
    data, settings = run.settings[GrounderDataSettings], run.settings[GrounderSettings]
    vectors = _initial_vectors(data.word_vectors, settings.word_dim)
    train, dev = run.read_photos(data.feature_source, boxes=True)
    vocabulary = build_vocabulary(train.photos, settings.min_count)

    def collect(features: PhotoFeatures) -> GroundingExamples:
        return collect_examples(
            features.photos,
            features.store,
            vocabulary,
            settings,
            max_proposals=data.max_proposals,
            on_progress=run.on_progress,
        ).to(run.device)

    examples, dev_examples = collect(train), None
    if dev is not None:
        try:
            dev_examples = collect(dev)
        except DatasetError:  # no phrase of the split has a box
            dev = None
    return GrounderTrainingData(
        train=train,
        dev=dev,
        phrases=len(examples),
        texts=f"{len(examples):,} phrases",
        sources={
            "proposals": proposals_of(train, data.max_proposals),
            "word vectors": vectors.source if vectors is not None else "none",
        },
        vocabulary=vocabulary,
        word_vectors=vectors,
        examples=examples,
        dev_examples=dev_examples,
    )


def build(run: Run, data: GrounderTrainingData) -> GrounderPipeline:
    """Make an untrained model; the seed determines its weights."""
    contents = data.train.store.contents
    with seeded(run.training.seed):
        model = Grounder(contents.channels, contents.dimension, data.vocabulary, run.settings[GrounderSettings])
    if data.word_vectors is not None:
        model.network.text_encoder.init_words(data.vocabulary, data.word_vectors)
    return GrounderPipeline(model, provenance_of(run.settings[GrounderDataSettings], "phrases", data.train))


def objective(run: Run, pipeline: GrounderPipeline, data: GrounderTrainingData) -> Stage:
    """Batches of captions, and the loss."""
    sampler = GroundingSampler(data.examples, run.training.batch_size)
    return Stage(pipeline.model.network, sampler, GroundingObjective(pipeline.model.settings, data.examples))


def evaluate(run: Run, pipeline: GrounderPipeline, data: GrounderTrainingData) -> DevScores:
    """Score localization on the validation split; R@1 selects the best epoch."""
    assert data.dev_examples is not None  # noqa: S101 - only called with a validation split
    monitor = "refined_r1" if pipeline.model.settings.refine_boxes else "r1"
    return DevScores(monitor, score_examples(pipeline.model.network, data.dev_examples))


def _initial_vectors(name: str, word_dim: int) -> WordVectors | None:
    """Initial word embeddings; the default ones are used only if they are installed and have the right dimension."""
    if name == "none":
        return None
    try:
        return initial_word_vectors(name, word_dim)
    except DeixisError:
        if name:
            raise
        return None
