"""Training of the grounder on the phrases with boxes of a data set."""

from __future__ import annotations

from dataclasses import dataclass

from deixis.data.dataset import Photos
from deixis.errors import DatasetError
from deixis.language.vocabulary import Vocabulary, WordTable
from deixis.models.grounder.data import GroundingExamples, build_vocabulary, collect_examples
from deixis.models.grounder.model import Grounder, GrounderPipeline
from deixis.models.grounder.objective import GroundingObjective, GroundingSampler, score_examples
from deixis.models.grounder.spec import GrounderDataSettings, GrounderSettings
from deixis.models.photo_features import PhotoFeatures
from deixis.models.training.data import EncoderVectors, read_encoder_vectors
from deixis.models.training.objective import DevScores, Stage, Validation
from deixis.models.training.reproducibility import seeded
from deixis.models.training.runner import Run, TrainingData, proposals_of, provenance_of
from deixis.models.training.trainer import MODEL
from deixis.storage.artifacts import CARD
from deixis.storage.atomic import explain_os_errors, new_directory


@dataclass(kw_only=True)
class GrounderTrainingData(TrainingData):
    """Examples of the training split, the vocabulary, and word vectors."""

    vocabulary: Vocabulary
    word_vectors: EncoderVectors
    examples: GroundingExamples


def prepare_data(run: Run) -> GrounderTrainingData:
    """Collect the phrases with boxes and the regions of their photos."""
    data, settings = run.settings[GrounderDataSettings], run.settings[GrounderSettings]
    vectors = read_encoder_vectors(data.word_vectors, settings.word_dim)
    train = run.read_training_photos(data.feature_source, boxes=True)
    vocabulary = build_vocabulary(train.photos, settings.min_count)
    examples = _collect(run, train, WordTable(vocabulary, frozen=vectors.frozen))
    return GrounderTrainingData(
        train=train,
        phrases=len(examples),
        texts=f"{len(examples):,} phrases",
        sources={
            "proposals": proposals_of(train, data.max_proposals),
            "word vectors": vectors.source,
        },
        vocabulary=vocabulary,
        word_vectors=vectors,
        examples=examples,
    )


def _collect(run: Run, features: PhotoFeatures, table: WordTable) -> GroundingExamples:
    return collect_examples(
        features.photos,
        features.store,
        table,
        run.settings[GrounderSettings],
        max_proposals=run.settings[GrounderDataSettings].max_proposals,
        on_progress=run.on_progress,
    ).to(run.device)


def validation(run: Run, data: GrounderTrainingData, photos: Photos) -> Validation | None:
    """Score localization; R@1 selects the best epoch."""
    features = run.read_photos(photos, run.settings[GrounderDataSettings].feature_source)
    try:
        examples = _collect(run, features, WordTable(data.vocabulary, frozen=data.word_vectors.frozen))
    except DatasetError:  # no phrase has a box
        return None
    monitor = "refined_r1" if run.settings[GrounderSettings].refine_boxes else "r1"
    return Validation(features, lambda pipeline: DevScores(monitor, score_examples(pipeline.model.network, examples)))


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
