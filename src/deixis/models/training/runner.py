"""The runner that trains every model, as its `ModelSpec` says: data, model, training loop, saving and model card.

A run of a network leaves a run directory with checkpoints, a log and the best model in the folder ``model``. A model
with a closed form is saved as the directory itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from deixis.data.dataset import Dataset, Photos
from deixis.errors import DatasetError, DeixisError
from deixis.models.arguments import check_path, check_text
from deixis.models.photo_features import PhotoFeatures
from deixis.models.pipeline import new_model
from deixis.models.provenance import EncoderInfo, Provenance, TrainOn
from deixis.models.registry import ModelSpec, get_spec
from deixis.models.training.data import (
    DataSettings,
    FeatureSource,
    RegionDataSettings,
    read_photos,
    training_photos,
    validation_split,
)
from deixis.models.training.objective import DevScores, Stage, Validation
from deixis.models.training.reproducibility import chosen_device
from deixis.models.training.run_record import (
    RunDescription,
    describe_data,
    model_card,
    refuse_other_run,
    write_description,
)
from deixis.models.training.settings import Settings, TrainSettings, settings_to_json, train_command
from deixis.models.training.trainer import MODEL, RUN, Outcome, Trainer, refuse_unusable
from deixis.storage.atomic import explain_os_errors, new_directory
from deixis.storage.progress import OnProgress, no_progress


@dataclass(frozen=True)
class DevResult:
    """Scores of a model on the validation split, by the names that ``deixis evaluate`` gives them."""

    split: str
    photos: int  # how many were used
    scores: Mapping[str, float]
    left_out: tuple[str, ...] = ()  # why the others were not, one line each


@dataclass(frozen=True)
class TrainResult:
    """Result of `deixis.train`.

    Attributes
    ----------
    model
        Name of the model.
    path
        Directory that `deixis.load` opens.
    settings
        All settings by name.
    data
        The data set directory.
    photos, sentences, phrases
        Numbers of training examples.
    left_out
        Why other photos of the split were left out, a line each.
    dev
        Scores on the validation split; None if there is none.
    outcome
        How the training loop ended; None for a model with a closed form.
    """

    model: str
    path: Path
    settings: Mapping[str, Any]
    data: Path
    photos: int
    sentences: int
    phrases: int
    left_out: tuple[str, ...] = ()
    dev: DevResult | None = None
    outcome: Outcome | None = None

    @property
    def next_command(self) -> str:
        """The command that users will want next."""
        spec = get_spec(self.model)
        if spec.next_command:
            return spec.next_command(self)
        task = spec.evaluation_task or ("grounding" if self.phrases and not self.sentences else "retrieval")
        split = f" --split {self.dev.split}" if self.dev else ""
        return f"deixis evaluate {task} --model {self.path} --data {self.data}{split}"


@dataclass
class TrainingData:
    """Base class of prepared training data."""

    train: PhotoFeatures
    sentences: int = 0
    phrases: int = 0
    texts: str = ""  # the numbers of examples on the model card, such as "320 sentences"
    sources: dict[str, str] = field(default_factory=dict)  # other inputs of the model, for the model card


@dataclass(frozen=True)
class Run:
    """One training run."""

    spec: ModelSpec
    settings: Settings
    dataset: Dataset
    out: Path
    resume: bool = False
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    on_progress: OnProgress = no_progress
    validation: Mapping[str, Photos] = field(default_factory=dict)  # by name; the first set chooses the best epoch
    keep_epochs: bool = False

    @property
    def training(self) -> TrainSettings:
        return self.settings[TrainSettings]

    @property
    def train_split(self) -> str:
        return self.settings[DataSettings].train_split

    def read_photos(self, photos: Photos, source: FeatureSource) -> PhotoFeatures:
        """Read the features of photos; missing features are computed."""
        return read_photos(self.dataset, photos, source, on_progress=self.on_progress)

    def read_training_photos(
        self, source: FeatureSource, *, boxes: bool = False, sentences: bool = False
    ) -> PhotoFeatures:
        """Read the features of the training photos; on request, refuse photos without boxes or sentences."""
        train = self.read_photos(training_photos(self.dataset, self.train_split, boxes=boxes), source)
        return self.refuse_empty(train, sentences=sentences)

    def refuse_empty(self, train: PhotoFeatures, *, sentences: bool = False) -> PhotoFeatures:
        """Refuse training photos of which none has features or, on request, a sentence."""
        where = f"{self.dataset.path}: no photo of split {self.train_split!r} has"
        if not len(train.photos):
            why = f", the first: {train.left_out[0]}" if train.left_out else ""
            raise DatasetError(f"{where} features{why}")
        if sentences and not train.sentence_count:
            raise DatasetError(f"{where} a sentence")
        return train

    def prepare_validation(self, data: TrainingData) -> dict[str, Validation]:
        """Prepare the validation sets on which the model can be scored."""
        found = {name: self.spec.validation(self, data, photos) for name, photos in self.validation.items()}
        return {name: validation for name, validation in found.items() if validation is not None}

    def about(self, data: TrainingData) -> RunDescription:
        """Describe the run for its files and the model card."""
        made_by = data.train.store.contents
        used = {
            "photos learned from": f"{len(data.train.photos):,}, with {data.texts}; "
            f"{len(data.train.left_out):,} left out",
            "encoder": f"{made_by.encoder} ({made_by.fingerprint})",
            **data.sources,
        }
        parts = [part for part in self.settings.parts if not isinstance(part, TrainSettings)]
        settings = {name: value for part in parts for name, value in settings_to_json(part).items()}
        splits = {self.train_split: self.dataset.split(self.train_split), **self.validation}
        facts = describe_data(self.dataset, splits)
        command = train_command(self.spec.name, self.dataset.path, self.settings, self.spec.defaults)
        return RunDescription(self.spec.name, settings, facts, command, used)

    def result(
        self,
        data: TrainingData,
        path: Path,
        validation: Mapping[str, Validation],
        best: DevScores,
        outcome: Outcome | None = None,
    ) -> TrainResult:
        dev = None
        for name, each in islice(validation.items(), 1 if best.scores else 0):
            scores = {score: value for score, value in best.scores.items() if score not in self.spec.internal_scores}
            dev = DevResult(name, len(each.features.photos), scores, each.features.left_out)
        counts = len(data.train.photos), data.sentences, data.phrases
        settings = self.settings.to_json()
        return TrainResult(
            self.spec.name, path, settings, self.dataset.path, *counts, data.train.left_out, dev, outcome
        )


def train(
    model: str,
    data: Dataset | str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    settings: Settings | str | os.PathLike[str] | None = None,
    resume: bool = False,
    validation: Mapping[str, Photos] | None = None,
    keep_epochs: bool = False,
    on_progress: OnProgress = no_progress,
    **changes: Any,
) -> TrainResult:
    """Train a model on a data set, as ``deixis train`` does.

    Features that are missing are computed first and kept beside the data.

    Parameters
    ----------
    model
        A name of the registry: cca, two-branch, similarity, grounder, captioner, m-rnn, consensus, hm-lstm, or a model
        that another package registers.
    data
        A data set, or its directory.
    out
        Directory of the run; ``MODEL.model`` by default.
    settings
        Name of a preset, or path of a JSON file.
    resume
        Continue the run in the directory from its last checkpoint.
    validation
        Photos that the epochs of a network are scored on, by name, each set on its own; the first set chooses the best
        epoch. By default the photos of the split dev, or val.
    keep_epochs
        Save the weights of every scored epoch, in the folder ``epochs`` of the run.
    on_progress
        Progress callback.
    changes
        Single settings, such as ``epochs=3``; ``deixis train MODEL --list-settings`` lists them.

    Returns
    -------
    TrainResult
        The directory of the model, and its scores on the validation split.

    Examples
    --------
    >>> result = train("cca", "flickr8k.data", embedding_dim=128)  # doctest: +SKIP
    >>> result.dev.scores["i2t_r1"]  # doctest: +SKIP
    12.5
    """
    spec = get_spec(check_text(model, "model"))
    if not isinstance(settings, Settings):
        settings = spec.choose_settings(None if settings is None else os.fspath(settings))
    settings = settings.with_values(changes)
    if spec.check:
        spec.check(settings)
    dataset = data if isinstance(data, Dataset) else Dataset(check_path(data, "data"))
    folder = Path(check_path(out, "out")) if out is not None else Path(f"{model}.model")
    if validation is None:
        name = validation_split(dataset, settings[DataSettings].train_split)
        validation = {name: dataset.split(name)} if name else {}
    run = Run(spec, settings, dataset, folder, resume, on_progress=on_progress, validation=validation)
    training = settings.get(TrainSettings)
    if training is None:
        if resume:
            raise DeixisError(f"--resume: {model} is trained in one pass and has no checkpoints; run it again")
        return _fit_closed_form(run)
    refuse_unusable(folder, resume)
    return _train_network(replace(run, device=chosen_device(training.device), keep_epochs=keep_epochs))


def _fit_closed_form(run: Run) -> TrainResult:
    started = time.monotonic()
    with new_model(run.out) as unfinished:
        data = run.spec.prepare_data(run)
        validation = run.prepare_validation(data)
        model = run.spec.build(run, data)
        about, best = run.about(data), DevScores("", {})
        for name, each in islice(validation.items(), 1):
            best = each.score(model)
            scored = f"{len(each.features.photos):,} photos; {len(each.features.left_out):,} left out"
            about = replace(about, features={**about.features, f"scored on {name}": scored})
        model.write(unfinished, model_card(about, None, best, time.monotonic() - started))
    return run.result(data, run.out, validation, best)


def _train_network(run: Run) -> TrainResult:
    spec = run.spec
    data = spec.prepare_data(run)
    validation = run.prepare_validation(data)
    model = spec.build(run, data)
    evaluate = {name: partial(each.score, model) for name, each in validation.items()}
    objective = spec.objective(run, model, data)
    if isinstance(objective, Stage):
        outcome = _train_stage(run, model, objective, evaluate, run.out, run.about(data), run.resume)
    elif objective is not None:
        outcome = _train_stages(run, model, data, objective, evaluate)
    else:
        raise DeixisError(f"{spec.name}: has training settings but no objective")
    if spec.finish:
        spec.finish(run, model, data)
    return run.result(data, run.out, validation, outcome.best, outcome)


Evaluate = Mapping[str, Callable[[], DevScores]]


def _train_stage(
    run: Run, model: Any, stage: Stage, evaluate: Evaluate, folder: Path, about: RunDescription, resume: bool
) -> Outcome:
    """Train a stage; the model then has the best weights."""

    def show(description: str, done: int, total: int | None) -> None:
        run.on_progress(f"{stage.name}: {description}" if stage.name else description, done, total)

    return Trainer(
        stage.network,
        stage.sampler,
        stage.loss,
        stage.settings or run.training,
        folder,
        about=about,
        keep=model.write,
        evaluate=evaluate or {"": None},
        keep_epochs=run.keep_epochs,
        on_progress=show,
        choose_from=stage.choose_from,
    ).train(resume=resume)


def _train_stages(run: Run, model: Any, data: TrainingData, stages: Iterator[Stage], evaluate: Evaluate) -> Outcome:
    """Train in stages, each in its own folder and from the best epoch of the one before.

    The model of the last stage is saved with a card about all of them.
    """
    about = run.about(data)
    _begin(run, about)
    outcomes = []
    for stage in stages:
        folder = run.out / stage.name
        about_stage = replace(about, features={**about.features, "stage": stage.name})
        resume = run.resume and (folder / RUN).exists()  # a finished stage ends at once and hands over its weights
        outcomes.append(_train_stage(run, model, stage, evaluate, folder, about_stage, resume))
    last, path, seconds = outcomes[-1], run.out / MODEL, sum(each.seconds for each in outcomes)
    card = model_card(run.about(data), run.training, last.best, seconds)
    with explain_os_errors(path), new_directory(path, replace=True) as folder:
        model.write(folder, card)
    return replace(last, model=path, steps=sum(each.steps for each in outcomes), seconds=seconds)


def _begin(run: Run, about: RunDescription) -> None:
    """Write the description of a run, or refuse to continue a different one."""
    path = run.out / RUN
    if run.resume:
        refuse_other_run(path, about, run.training)
        return
    with explain_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_description(path, about, run.training)


def encoder_of(features: PhotoFeatures, feature_grid: int = 0) -> EncoderInfo:
    """Return the image encoder, for the provenance of a model."""
    contents = features.store.contents
    return EncoderInfo(contents.encoder, contents.fingerprint, features.crops, feature_grid, features.photo_vector)


def provenance_of(data: RegionDataSettings, train_on: TrainOn, features: PhotoFeatures) -> Provenance:
    """Return what a model was trained on, for its artifact."""
    made_by = features.store.contents
    name, fingerprint = data.proposals, ""
    if train_on != "sentences" and made_by.proposer:
        name, fingerprint = made_by.proposer, made_by.proposer_fingerprint
    return Provenance(encoder_of(features), train_on, features.location_weight, name, data.max_proposals, fingerprint)


def proposals_of(features: PhotoFeatures, max_proposals: int) -> str:
    """Describe the region proposals for the model card."""
    return f"{max_proposals} of {features.store.contents.proposer} ({features.store.contents.proposer_fingerprint})"
