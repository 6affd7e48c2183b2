"""Training of the grounder on the phrases with boxes of a data set."""

from __future__ import annotations

from dataclasses import dataclass

from deixis.errors import DatasetError
from deixis.language.vocabulary import Vocabulary
from deixis.language.word_table import WordTable
from deixis.models.grounder.data import GroundingExamples, build_vocabulary, collect_examples
from deixis.models.grounder.model import Grounder
from deixis.models.grounder.objective import GroundingObjective, GroundingSampler, score_examples
from deixis.models.grounder.pipeline import GrounderPipeline
from deixis.models.grounder.spec import GrounderDataSettings, GrounderSettings
from deixis.models.photo_features import PhotoFeatures
from deixis.models.training.data import EncoderVectors, read_encoder_vectors
from deixis.models.training.distributed import seeded
from deixis.models.training.objective import DevScores, Stage
from deixis.models.training.runner import Run, TrainingData, proposals_of, provenance_of
from deixis.models.training.trainer import MODEL
from deixis.storage.artifacts import CARD
from deixis.storage.atomic import explain_os_errors, new_directory


@dataclass(kw_only=True)
class GrounderTrainingData(TrainingData):
    """Examples of the training and the validation split, the vocabulary, and word vectors."""

    vocabulary: Vocabulary
    word_vectors: EncoderVectors
    examples: GroundingExamples
    dev_examples: GroundingExamples | None


def prepare_data(run: Run) -> GrounderTrainingData:
    """Collect the phrases with boxes and the regions of their photos."""
    data, settings = run.settings[GrounderDataSettings], run.settings[GrounderSettings]
    vectors = read_encoder_vectors(data.word_vectors, settings.word_dim)
    train, dev = run.read_photos(data.feature_source, boxes=True)
    vocabulary = build_vocabulary(train.photos, settings.min_count)
    table = WordTable(vocabulary, frozen=vectors.frozen)

    def collect(features: PhotoFeatures) -> GroundingExamples:
        return collect_examples(
            features.photos,
            features.store,
            table,
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
            "word vectors": vectors.source,
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
        settings, frozen = run.settings[GrounderSettings], data.word_vectors.frozen
        model = Grounder(contents.channels, contents.dimension, data.vocabulary, settings, frozen)
    if data.word_vectors.initial is not None:
        model.network.text_encoder.words.init_from(data.vocabulary, data.word_vectors.initial)
    return GrounderPipeline(model, provenance_of(run.settings[GrounderDataSettings], "phrases", data.train))


def objective(run: Run, pipeline: GrounderPipeline, data: GrounderTrainingData) -> Stage:
    """Batches of captions, and the loss."""
    sampler = GroundingSampler(data.examples, run.training.batch_size)
    return Stage(pipeline.model.network, sampler, GroundingObjective(pipeline.model.settings, data.examples))


def finish(run: Run, pipeline: GrounderPipeline, data: GrounderTrainingData) -> None:
    """Fit the selection of boxes to training photos, and save the model again."""
    if pipeline.separates_boxes:
        pipeline.fit_selection(data.train, run.on_progress)
        card = (run.out / MODEL / CARD).read_text(encoding="utf-8")
        with explain_os_errors(run.out / MODEL), new_directory(run.out / MODEL, replace=True) as folder:
            pipeline.write(folder, card)


def evaluate(run: Run, pipeline: GrounderPipeline, data: GrounderTrainingData) -> DevScores:
    """Score localization on the validation split; R@1 selects the best epoch."""
    assert data.dev_examples is not None  # noqa: S101 - only called with a validation split
    monitor = "refined_r1" if pipeline.model.settings.refine_boxes else "r1"
    return DevScores(monitor, score_examples(pipeline.model.network, data.dev_examples))
