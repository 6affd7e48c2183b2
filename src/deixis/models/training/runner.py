"""The runner that trains every model, as its `ModelSpec` says: data, model, training loop, saving and model card.

A run of a network leaves a run directory with checkpoints, a log and the best model in the folder ``model``. A model
with a closed form is saved as the directory itself. Under ``torchrun`` all processes come here: the first one fills
what is missing beside the data, the others then find it there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from deixis.data.dataset import Dataset
from deixis.errors import DatasetError, DeixisError
from deixis.models.arguments import check_path, check_text
from deixis.models.photo_features import PhotoFeatures
from deixis.models.pipeline import new_model
from deixis.models.provenance import EncoderInfo, Provenance, TrainOn
from deixis.models.registry import ModelSpec, get_spec
from deixis.models.training.checkpoints import Best
from deixis.models.training.data import (
    HALVES,
    DataSettings,
    FeatureSource,
    RegionDataSettings,
    has_sentences,
    read_photos,
    refuse_no_photos,
    training_photos,
)
from deixis.models.training.distributed import chosen_device, process_count, process_number, processes
from deixis.models.training.objective import Evaluate, Stage
from deixis.models.training.run_record import (
    RunDescription,
    describe_data,
    model_card,
    refuse_other_run,
    write_description,
)
from deixis.models.training.settings import Settings, TrainSettings, settings_to_json, train_command
from deixis.models.training.trainer import MODEL, RUN, Outcome, Trainer, refuse_unusable
from deixis.storage.atomic import explain_os_errors, make_parents, new_directory
from deixis.storage.progress import OnProgress, no_progress

T = TypeVar("T")


DEV_SPLITS = ("dev", "val")
"""Names of the validation split; the first one in the data set is used."""


@dataclass(frozen=True)
class DevResult:
    """Scores of a model on the validation split, by the names that ``deixis evaluate`` gives them."""

    split: str
    photos: int  # how many were used
    scores: Mapping[str, float]
    left_out: tuple[str, ...] = ()  # why the others were not, one line each


@dataclass(frozen=True)
class TrainResult:
    """What `deixis.train` returns.

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
    """What the runner must know of the data of a model. Models extend it with what they train on."""

    train: PhotoFeatures
    dev: PhotoFeatures | None  # None where the model cannot be measured on them
    sentences: int = 0
    phrases: int = 0
    texts: str = ""  # the numbers of examples on the model card, such as "320 sentences"
    sources: dict[str, str] = field(default_factory=dict)  # what else the model is made from, for the model card


@dataclass(frozen=True)
class Run:
    """One training run; under ``torchrun`` each process has its own, and only the first reports progress."""

    spec: ModelSpec
    settings: Settings
    dataset: Dataset
    out: Path
    resume: bool = False
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    on_progress: OnProgress = no_progress
    prepared: TrainingData | None = None  # data that differs in the validation photos only, to take the rest from

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files."""
        return process_number() == 0

    @property
    def training(self) -> TrainSettings:
        return self.settings[TrainSettings]

    @property
    def train_split(self) -> str:
        return self.settings[DataSettings].train_split

    @property
    def dev_split(self) -> str | None:
        """Name of the validation split, if the data set has one besides the split to train on."""
        splits = self.dataset.manifest.splits
        return next((name for name in DEV_SPLITS if name in splits and name != self.train_split), None)

    def read_photos(
        self,
        features: FeatureSource,
        dev_features: FeatureSource | None = None,
        *,
        boxes: bool = False,
        sentences: bool = False,
    ) -> tuple[PhotoFeatures, PhotoFeatures | None]:
        """Read the features of the training photos, and of the validation photos if there are any.

        `dev_features` are those of the validation photos, if they differ; `boxes` requires a data set with boxes, and
        `sentences` requires sentences of the photos.
        """
        photos = training_photos(self.dataset, self.train_split, boxes=boxes)
        if self.prepared:
            train = self.prepared.train
        else:
            train = in_turn(lambda: read_photos(self.dataset, photos, features, on_progress=self.on_progress))
        refuse_no_photos(self.dataset, train, self.train_split)
        if sentences and not has_sentences(train):
            raise DatasetError(f"{self.dataset.path}: no photo of split {self.train_split!r} has a sentence")
        if self.dev_split is None:
            return train, None
        dev_photos = self.settings[DataSettings].select(self.dataset.split(self.dev_split))
        source = dev_features or features
        dev = in_turn(lambda: read_photos(self.dataset, dev_photos, source, on_progress=self.on_progress))
        return train, dev if has_sentences(dev) or not sentences else None

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
        facts = describe_data(self.dataset, self.train_split, *filter(None, [self.dev_split]))
        command = train_command(self.spec.name, self.dataset.path, self.settings, self.spec.defaults)
        return RunDescription(self.spec.name, settings, facts, command, used)

    def result(self, data: TrainingData, path: Path, best: Best, outcome: Outcome | None = None) -> TrainResult:
        dev = None
        if data.dev is not None and self.dev_split and best.scores:
            scores = {name: value for name, value in best.scores.items() if name not in self.spec.internal_scores}
            dev = DevResult(self.dev_split, len(data.dev.photos), scores, data.dev.left_out)
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
    on_progress: OnProgress = no_progress,
    **changes: Any,
) -> TrainResult | None:
    """Train a model on a data set, as ``deixis train`` does.

    Features that are missing are computed first and kept beside the data.

    Parameters
    ----------
    model
        A name of the registry: cca, two-branch, similarity, grounder, m-rnn, consensus, hm-lstm, or a model that
        another package registers.
    data
        A data set, or its directory.
    out
        Directory of the run; ``MODEL.model`` by default.
    settings
        Name of a preset, or path of a JSON file.
    resume
        Continue the run in the directory from its last checkpoint.
    on_progress
        Progress callback.
    changes
        Single settings, such as ``epochs=3``; ``deixis train MODEL --list-settings`` lists them.

    Returns
    -------
    TrainResult or None
        None in all processes but the first, under ``torchrun``.

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
    training = settings.get(TrainSettings)
    if training is None:
        if resume:
            raise DeixisError(f"--resume: {model} is trained in one pass and has no checkpoints; run it again")
        return _fit_closed_form(Run(spec, settings, dataset, folder, on_progress=on_progress))
    if spec.single_choice and settings[DataSettings].select_on == "halves":
        raise DeixisError(f"select_on=halves: {model} needs a run for each half; set {' or '.join(HALVES)}")
    refuse_unusable(folder, resume)
    with processes(chosen_device(training.device)) as device:
        shown = on_progress if process_number() == 0 else no_progress
        run = Run(spec, settings, dataset, folder, resume, device, shown)
        return _train_network(run)


def _fit_closed_form(run: Run) -> TrainResult:
    started = time.monotonic()
    spec = run.spec
    with new_model(run.out) as unfinished:
        data = spec.prepare_data(run)
        model = spec.build(run, data)
        found = spec.evaluate(run, model, data) if data.dev is not None else None
        best = Best(0, 0, found.monitor if found else "", dict(found.scores) if found else {})
        about = run.about(data)
        if found and data.dev is not None:
            scored = f"{len(data.dev.photos):,} photos; {len(data.dev.left_out):,} left out"
            about = replace(about, features={**about.features, f"scored on {run.dev_split}": scored})
        model.write(unfinished, model_card(about, None, best, time.monotonic() - started))
    return run.result(data, run.out, best)


def _train_network(run: Run) -> TrainResult | None:
    spec = run.spec
    data = spec.prepare_data(run)
    model = spec.build(run, data)
    objective = spec.objective(run, model, data)
    choices = _choices(run, model, data)
    if isinstance(objective, Stage):
        outcome = _train_stage(run, model, objective, choices, run.out, run.about(data), run.resume)
    elif objective is not None:
        outcome = _train_stages(run, model, data, choices)
    else:
        raise DeixisError(f"{spec.name}: has training settings but no objective")
    if not run.is_first:
        return None
    if spec.finish:
        spec.finish(run, model, data)
    return run.result(data, outcome.model.parent, outcome.best, outcome)


Choices = Mapping[str, Evaluate | None]
"""What chooses the best epoch, by name: the validation split, without a name, or each half of it."""


def _choices(run: Run, model: Any, data: TrainingData) -> Choices:
    if data.dev is None:
        return {"": None}

    def evaluation(own_run: Run, own_data: TrainingData) -> Evaluate:
        def evaluate() -> Any:
            return run.spec.evaluate(own_run, model, own_data)

        return evaluate

    if run.settings[DataSettings].select_on != "halves":
        return {"": evaluation(run, data)}
    shared = replace(run, prepared=data)
    halves = {half: replace(shared, settings=run.settings.with_values({"select_on": half})) for half in HALVES}
    return {half: evaluation(own_run, run.spec.prepare_data(own_run)) for half, own_run in halves.items()}


def _train_stage(
    run: Run, model: Any, stage: Stage, choices: Choices, folder: Path, about: RunDescription, resume: bool
) -> Outcome:
    """Train a stage; the model then has the weights of the first choice."""

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
        evaluate=choices,
        on_progress=show,
        choose_from=stage.choose_from,
    ).train(resume=resume)


def _train_stages(run: Run, model: Any, data: TrainingData, choices: Choices) -> Outcome:
    """Train in stages, each in its own folder; the model of the last one is saved with a card about all.

    A stage starts from the epoch that was chosen in the one before. Choices share stages as long as they choose the
    same epochs; a later choice then continues in a folder of its name.
    """
    about = run.about(data)
    if run.is_first:
        _begin(run, about)
    folders: dict[str, list[Path]] = {name: [] for name in choices}  # of the stages that are trained already
    outcomes: dict[str, Outcome] = {}
    for name in choices:
        together = [name] if outcomes else list(choices)
        shared, found = list(folders[name]), list[Outcome]()
        out = run.out if shared in [[], *(folders[other] for other in outcomes)] else run.out / name
        stages: Any = run.spec.objective(replace(run, out=out), model, data)
        for number, stage in enumerate(stages):
            known = number < len(shared)
            folder = shared[number] if known else out / stage.name
            about_stage = replace(about, features={**about.features, "stage": stage.name})
            # A finished stage ends at once and hands over its weights.
            resume = known or (run.resume and (folder / RUN).exists())
            own = {each: choices[each] for each in together}
            found.append(_train_stage(run, model, stage, own, folder, about_stage, resume))
            for each in together if not known else ():
                folders[each].append(folder)
            bests = found[-1].bests
            together = [each for each in together if bests[each].epoch == bests[name].epoch]
        seconds = sum(outcome.seconds for outcome in found)
        path = run.out / name / MODEL
        if run.is_first:
            card = model_card(run.about(data), run.training, found[-1].bests[name], seconds)
            with explain_os_errors(path), make_parents(path), new_directory(path, replace=True) as folder:
                model.write(folder, card)
        outcomes[name] = replace(found[-1], model=path, steps=sum(each.steps for each in found), seconds=seconds)
    bests = {name: outcomes[name].bests[name] for name in choices}
    return replace(outcomes[next(iter(choices))], bests=bests)


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


def in_turn(work: Callable[[], T]) -> T:
    """Run work that fills a folder in one process after the other: the first does it, the others find it done."""
    done: list[T] = []
    for number in range(process_count()):
        if number == process_number():
            done.append(work())
        if process_count() > 1:
            dist.barrier()
    return done[0]
