"""Models of tables: trained once, as by ``deixis train``, and stored with their scores."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deixis import __version__
from deixis.errors import DeixisError
from deixis.models.training.data import validation_split
from deixis.models.training.settings import TrainSettings
from deixis.papers.results import ModelScores
from deixis.papers.tables import Table, Training
from deixis.storage.atomic import new_directory, new_file
from deixis.storage.progress import OnProgress, no_progress

if TYPE_CHECKING:
    from deixis.data.dataset import Dataset, Photos
    from deixis.models.pipeline import Pipeline
    from deixis.models.training.objective import DevScores
    from deixis.models.training.settings import Settings


FOLDER, SCORE_FOLDER = "experiments", "scores"
"""Default directory, inside that of the data set, and the directory of scores in it."""

ABOUT = "about.json"
_DIGITS = 12


def hash_settings(about: Mapping[str, Any]) -> str:
    """Return a hash of everything that affects a result."""
    text = json.dumps(about, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


class MissingScoresError(DeixisError):
    """Scores that were not computed yet, and are not to be computed now."""


class ExperimentFolder:
    """A directory of trained models and their scores, created when something is saved.

    With `saved_only`, scores that are not there raise `MissingScoresError` instead of being computed.
    """

    def __init__(self, folder: Path, *, saved_only: bool = False) -> None:
        self.folder = folder
        self.saved_only = saved_only

    def model(self, name: str, about: Mapping[str, Any]) -> Path:
        return self.folder / "models" / f"{name}-{hash_settings(about)}"

    def score_folder(self, name: str, about: Mapping[str, Any]) -> Path:
        return self.folder / SCORE_FOLDER / f"{name}-{hash_settings(about)}"

    def scores(self, name: str, about: Mapping[str, Any], compute: Callable[[], ModelScores]) -> ModelScores:
        """Return saved scores; compute and save them if there are none."""
        path = self.score_folder(name, about)
        if not path.is_dir():
            if self.saved_only:
                raise MissingScoresError(f"{path}: not computed yet")
            scores = compute()
            try:
                with new_directory(path) as unfinished:
                    scores.save(unfinished)
                    text = json.dumps(about, indent=1, ensure_ascii=False)
                    (unfinished / ABOUT).write_text(text + "\n", encoding="utf-8")
            except OSError as error:
                raise DeixisError(f"{path}: cannot be written ({error.strerror}); name another with --runs") from None
        return ModelScores.load(path)


DEFAULT_CHANGES = ("text_features=tfidf",)
"""Used instead of the papers' Fisher vectors, unless changed; the two-branch paper found both similar."""

_WITHOUT_EFFECT = frozenset(["device", "threads", "log_every", "save_every", "tensorboard", "auxiliary_model"])
"""Settings that do not affect the result, or are recorded in another way."""

DONE = "done"

HALVES = ("first-half", "second-half")
"""The halves of the validation split: every other photo, from the first or the second."""


@dataclass(frozen=True)
class TableModels:
    """Trains and stores the models of tables; a change, as key=value, applies to the models that have the setting."""

    dataset: Dataset
    runs: ExperimentFolder
    changes: tuple[str, ...] = ()
    select_on: str = "all"  # photos of the validation split that choose the best epoch of a network: all or a half
    on_progress: OnProgress = no_progress
    inputs: tuple[str, ...] = ()  # changes that come before the others, but for settings that a model keeps

    @property
    def feature_dirs(self) -> tuple[Path, ...]:
        values = [
            change.partition("=")[2].strip()
            for change in (*self.inputs, *self.changes)
            if _setting_name(change) == "features_dir"
        ]
        return tuple(Path(folder) for folder in values if folder)

    def settings(self, training: Training, seed: int) -> Settings:
        inputs = [change for change in self.inputs if _setting_name(change) not in training.keeps]
        given = [*inputs, *self.changes, f"seed={seed}"]
        before, after = (_changes_for(training, changes) for changes in (DEFAULT_CHANGES, given))
        return _settings(training, [*before, *training.changes, *after])

    def _shares_run(self, training: Training) -> bool:
        """Whether both halves of the validation split select among the epochs of one run."""
        from deixis.models.registry import get_spec

        return training.repeated and self.select_on in HALVES and get_spec(training.model).selectable_epochs

    def _validation(self, training: Training) -> dict[str, Photos] | None:
        """The validation sets of a run; None for the usual one."""
        split = validation_split(self.dataset)
        if not training.repeated or self.select_on not in HALVES or split is None:
            return None
        photos = self.dataset.split(split)
        halves = dict(zip(HALVES, (photos[::2], photos[1::2]), strict=True))
        return halves if self._shares_run(training) else {self.select_on: halves[self.select_on]}

    def alternatives(self, training: Training) -> list[Training]:
        """The models that the validation split chooses from; only one if a change names their setting."""
        changed = {_setting_name(change) for change in (*self.inputs, *self.changes)}
        choices = (
            tuple(change for change in choice.split() if _setting_name(change) not in changed)
            for choice in training.choose
        )
        distinct = list(dict.fromkeys(choices)) or [()]
        return [replace(training, choose=(), changes=(*training.changes, *choice)) for choice in distinct]

    def for_regions(self, training: Training) -> Training:
        """Return the same model with vectors of photos that have the size of those of regions, to score both."""
        change = "photo_vector=region"
        if not _changes_for(training, [change]) or not self._sizes_differ(training):
            return training
        return replace(training, changes=(*training.changes, change))

    def _sizes_differ(self, training: Training) -> bool:
        """Whether the vectors of photos and of regions have different sizes."""
        from deixis.vision import encoders
        from deixis.vision.feature_store import FeatureStore

        if self.feature_dirs:
            contents = FeatureStore(self.feature_dirs[-1]).contents
            return contents.dimension != contents.channels
        encoder = encoders.open_encoder(str(self.settings(training, 0).to_json()["encoder"]))
        return encoder.dimension != encoder.channels

    def about(self, training: Training, seed: int) -> dict[str, Any]:
        """Return everything that affects the trained model."""
        settings = self.settings(training, seed).to_json()
        auxiliary = hash_settings(self.about(training.auxiliary, seed)) if training.auxiliary else ""
        return {
            "deixis": __version__,
            "data": self.dataset.manifest.hash,
            "model": training.model,
            "settings": {name: value for name, value in settings.items() if name not in _WITHOUT_EFFECT},
            "validation": list(self._validation(training) or ()),
            "auxiliary": auxiliary,
        }

    def pipeline(self, training: Training, seed: int) -> Pipeline:
        """Return a model on the device that it is trained on, trained now if it has not been trained before."""
        from deixis.models.pipeline import load

        device = self.settings(training, seed).to_json().get("device")
        return load(self.model_path(training, seed), device=device)

    def describe(self, training: Training, seed: int, pipeline: Pipeline) -> dict[str, str]:
        """Return the encoder, the text features and the region proposals of a model, for the notes below a table."""
        encoder, about = pipeline.encoder, pipeline.provenance
        crops = ", ten crops" if encoder.crops else ""
        notes = {"encoder": f"{encoder.name}{crops} ({encoder.fingerprint})"}
        if "captions" not in pipeline.tasks:
            text = self.settings(training, seed).to_json().get("text_features", "none")
            notes["text"] = "read word by word" if pipeline.text is None else str(text)
        if about.train_on != "sentences":
            notes["proposals"] = f"{about.proposals}, {about.max_proposals} a photo"
        return notes

    def model_path(self, training: Training, seed: int) -> Path:
        """Return the directory of a model, trained now if it has not been trained before."""
        from deixis.models.training.runner import train
        from deixis.models.training.trainer import RUN

        path, shared = self.runs.model(training.model, self.about(training, seed)), self._shares_run(training)
        if not (path / DONE).exists():
            settings = self.settings(training, seed)
            if training.auxiliary:
                settings = settings.with_values({"auxiliary_model": str(self.model_path(training.auxiliary, seed))})
            result = train(
                training.model,
                self.dataset,
                out=path,
                settings=settings,
                resume=(path / RUN).is_file(),
                validation=self._validation(training),
                keep_epochs=shared,
                on_progress=self.on_progress,
            )
            outcome = result.outcome if result else None
            chosen = {"": outcome.best} if outcome else {}
            if outcome and shared:
                chosen = select_epochs(path, outcome.evaluations, settings[TrainSettings].patience)
            kept = {name: f"epoch {best.epoch} ({best.step:,} steps)" for name, best in chosen.items()}
            with new_file(path / DONE) as unfinished:
                unfinished.write_text(json.dumps({"kept": kept}) + "\n", encoding="utf-8")
        return path / self.select_on if shared else path

    def kept_epoch(self, training: Training, seed: int) -> tuple[str, ...]:
        """The epoch whose weights a trained network has, in words; empty for a model with a closed form."""
        self.model_path(training, seed)
        path = self.runs.model(training.model, self.about(training, seed))
        kept = json.loads((path / DONE).read_text(encoding="utf-8"))["kept"]
        words = kept.get(self.select_on if self._shares_run(training) else "")
        return (words,) if words else ()


def select_epochs(run: Path, evaluations: Mapping[str, Sequence[DevScores]], patience: int) -> dict[str, DevScores]:
    """Save the model of the best epoch on each validation set into a folder of its name; remove the other epochs."""
    from deixis.models.pipeline import load
    from deixis.models.training.checkpoints import WEIGHTS, best_epoch, load_weights, read_checkpoint, with_prefix
    from deixis.models.training.trainer import epoch_path

    chosen = {}
    for name, scores in evaluations.items():
        best, _ = best_epoch(scores, patience)
        if best is None:
            raise DeixisError(f"{run}: no epoch was scored on {name}")
        chosen[name] = best
        pipeline, weights = load(run), epoch_path(run, best.epoch)
        load_weights(pipeline.model.network, with_prefix(WEIGHTS, read_checkpoint(weights)[0]), weights)
        card = f"# {pipeline.kind}: epoch {best.epoch} of {run.name}, the best on {name} by `{best.monitor}`\n"
        with new_directory(run / name, replace=True) as folder:
            pipeline.write(folder, card)
    shutil.rmtree(epoch_path(run, 1).parent, ignore_errors=True)
    return chosen


_SCHEDULE_AND_SIZES = frozenset(
    [
        *("train_split", "features_dir", "encoder", "crops", "proposals", "max_proposals", "text_features"),
        *("word_vectors", "text_components", "text_dim", "hidden_size", "embedding_dim", "dropout"),
        *("neighbour_start_epoch", "rounds", "round_epochs", "round_lr_factor", "photo_vector", "monitor"),
        *(field.name for field in fields(TrainSettings)),
    ]
)
"""Settings of a row that can be changed without changing what the row compares."""


def refuse_defining_changes(table: Table, changes: Sequence[str]) -> None:
    """Raise an error for a change of a setting that a table sets itself: those that define a row, and seeds."""
    for change in changes:
        if _setting_name(change) == "seed":
            raise DeixisError(f"--set {change}: a table sets it itself, for each of its --seeds")
    for row in table.rows:
        for training in (row.recipe.model, row.recipe.parts) if row.recipe else ():
            for change in changes:
                name = _setting_name(change)
                if training and name in _defining(training) - _SCHEDULE_AND_SIZES:
                    raise DeixisError(
                        f"--set {change}: {name} defines the row {row.key} of table {table.name}, so it cannot be "
                        f"changed; use deixis train {training.model} --set {change}, or a table of your own"
                    )


def _defining(training: Training) -> set[str]:
    """Names of the settings that make a model of a table what its label says.

    They are those that it sets itself. If it is a network of a paper, they include every choice between kinds, such as
    the loss, also where the paper's kind is the default; sizes and numbers may differ.
    """
    from deixis.models.registry import get_spec

    preset = get_spec(training.model).preset_values.get(training.settings, {})
    auxiliary = _defining(training.auxiliary) if training.auxiliary else set()
    kinds: set[str] = set()
    if training.settings.startswith("papers/"):
        values = _settings(training, training.changes).to_json()
        kinds = {name for name, value in values.items() if isinstance(value, bool | str)}
    return {*preset, *map(_setting_name, training.changes)} | auxiliary | kinds


def imported_regions(changes: Sequence[str]) -> list[str]:
    """Return proposals=imported if the last features_dir of some changes holds imported regions, unless they say it."""
    from deixis.vision.feature_store import FeatureStore
    from deixis.vision.feature_store.files import IMPORTED

    values = dict(change.replace(" ", "").split("=", 1) for change in changes if "=" in change)
    folder = values.get("features_dir")
    if not folder or "proposals" in values or FeatureStore(Path(folder)).contents.proposer != IMPORTED:
        return []
    return [f"proposals={IMPORTED}"]


def check_inputs(models: TableModels, trainings: Sequence[Training]) -> None:
    """Open what the models of a table are trained on, before the first is trained: word vectors and stores of features.

    What is missing then raises its error at once, and not when the row is reached.
    """
    from deixis.language.vectors import PACKAGE, named_vectors
    from deixis.models.training.data import MatchingDataSettings, PhotoDataSettings, read_photos

    seen: set[object] = set()
    for training in trainings:
        if training.auxiliary:
            check_inputs(models, [training.auxiliary])
        settings = models.settings(training, 0)
        data, values = settings.get(PhotoDataSettings), settings.to_json()
        reads_words = values.get("text_encoder", "none") != "none"
        words = values.get("word_vectors", "none") or ("none" if reads_words else PACKAGE)
        if isinstance(data, MatchingDataSettings) and not reads_words and data.text_features == "tfidf":
            words = "none"
        if words != "none" and words not in seen:
            named_vectors(words)
        if data and data.features_dir and data.feature_source not in seen:
            read_photos(models.dataset, models.dataset.split(data.train_split), data.feature_source)
        seen |= {words, data and data.feature_source}


def sweep(table: Table, sweeps: Sequence[str]) -> Table:
    """Let the validation split choose among values of a setting of a row: ``hm-lstm:learning_rate=8e-3,2e-3``."""
    for each in sweeps:
        key, _, change = each.partition(":")
        name, _, values = change.partition("=")
        row = table.row(key.strip())
        if not (name and values) or row.recipe is None or row.recipe.model is None or row.recipe.task == "captions":
            raise DeixisError(
                f"--sweep {each}: must be ROW:SETTING=VALUE,VALUE of a row whose model is ranked by recall"
            )
        choose = tuple(f"{name.strip()}={value.strip()}" for value in values.split(","))
        check_changes(choose[:1], [row.recipe.model])
        model = replace(row.recipe.model, choose=choose)
        swept = replace(row, recipe=replace(row.recipe, model=model))
        table = replace(table, rows=tuple(swept if other.key == row.key else other for other in table.rows))
    return table


def check_changes(changes: Sequence[str], trainings: Sequence[Training]) -> None:
    """Raise an error for a setting that no model of the table has."""
    used: set[str] = set()
    for training in trainings:
        own = _changes_for(training, changes)
        _settings(training, [*training.changes, *own])  # together, because they may depend on each other
        used.update(own)
    unknown = [change for change in changes if change not in used]
    if unknown and trainings:
        _settings(trainings[-1], [*trainings[-1].changes, unknown[0]])


def _settings(training: Training, changes: Sequence[str]) -> Settings:
    from deixis.models.registry import get_spec

    spec = get_spec(training.model)
    settings = spec.choose_settings(training.settings or None, changes)
    if spec.check:
        spec.check(settings)
    return settings


def _changes_for(training: Training, changes: Sequence[str]) -> list[str]:
    """Return the changes of settings that a model has."""
    names = set(_settings(training, training.changes).names)
    return [change for change in changes if _setting_name(change) in names]


def _setting_name(change: str) -> str:
    return change.partition("=")[0].strip()
