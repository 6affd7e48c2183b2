"""The models that ``deixis train`` knows: built-in ones, and those that other packages register.

A package registers a model by an entry point of the group ``deixis.models``, whose name is the model's name and whose
value is a `ModelSpec`. In its ``pyproject.toml``::

    [project.entry-points."deixis.models"]
    my-model = "my_package.spec:SPEC"

Specifications are imported when they are first used, so listing names is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deixis.errors import DeixisError, missing_package
from deixis.models.training.settings import Settings, read_presets

if TYPE_CHECKING:
    from deixis.data.dataset import Photos
    from deixis.models.pipeline import Pipeline
    from deixis.models.training.objective import Stage, Validation
    from deixis.models.training.runner import Run, TrainingData, TrainResult
    from deixis.storage.artifacts import Artifact

ENTRY_POINTS = "deixis.models"

_BUILT_IN = {
    "cca": "deixis.models.cca.spec:SPEC",
    "two-branch": "deixis.models.matching.spec:TWO_BRANCH",
    "similarity": "deixis.models.matching.spec:SIMILARITY",
    "grounder": "deixis.models.grounder.spec:SPEC",
    "captioner": "deixis.models.captioner.spec:SPEC",
    "m-rnn": "deixis.models.m_rnn.spec:SPEC",
    "consensus": "deixis.models.m_rnn.spec:CONSENSUS",
    "hm-lstm": "deixis.models.hm_lstm.spec:SPEC",
}


@dataclass(frozen=True)
class ModelSpec:
    """Everything that training, evaluation and loading need to know of a model.

    The functions of a specification are called in this order: `prepare_data`, `validation`, `build` and `objective`.
    `lazy` names a function without importing its module.

    Attributes
    ----------
    name
        Name of the model for ``deixis train``.
    summary
        Its purpose, in a few words.
    settings
        The default settings: frozen dataclasses of data (a `DataSettings`), model and, unless the model has a closed
        form, training (a `TrainSettings`). Their fields form one flat namespace.
    prepare_data
        Reads features and sentences of the training split.
    build
        Makes the `Pipeline` of the untrained model, or of the fitted one where it has a closed form.
    objective
        Gives the network, sampler and loss to train it with; several stages, made one after the other, where the
        model is trained in stages; None where it has a closed form.
    validation
        Reads features and sentences of validation photos, and returns them with the function that scores the pipeline
        on them, after each epoch or once at the end; None if they lack what is scored.
    load
        Opens the artifact of a saved model, whose kind is `name`, as a `Pipeline`.
    presets
        A TOML file of named settings.
    check
        Raises `DeixisError` for settings that do not fit together, before anything is read.
    finish
        Writes additional files into the run directory at the end of a run.
    selectable_epochs
        Whether the weights of any epoch make a complete model; not if stages or `finish` continue from the best epoch.
    internal_scores
        Names of scores that only choose the best epoch and are not reported.
    evaluation_task
        The task of ``deixis evaluate`` that is suggested after training; by default grounding for a model of phrases
        and retrieval for others.
    next_command
        Gives the command that is suggested instead.
    """

    name: str
    summary: str
    settings: tuple[Any, ...]
    prepare_data: Callable[[Run], TrainingData]
    build: Callable[[Run, Any], Pipeline]
    objective: Callable[[Run, Any, Any], Stage | Iterator[Stage] | None]
    validation: Callable[[Run, Any, Photos], Validation | None]
    load: Callable[[Artifact], Pipeline]
    presets: Path | None = None
    check: Callable[[Settings], None] | None = None
    finish: Callable[[Run, Any, Any], None] | None = None
    selectable_epochs: bool = True
    internal_scores: tuple[str, ...] = ()
    evaluation_task: str = ""
    next_command: Callable[[TrainResult], str] | None = None

    @property
    def defaults(self) -> Settings:
        """The default settings."""
        return Settings(self.settings)

    @cached_property
    def preset_values(self) -> Mapping[str, Mapping[str, Any]]:
        """The settings of each preset that differ from the defaults."""
        return read_presets(self.presets) if self.presets else {}

    def preset(self, name: str) -> Settings:
        """Return the settings of a preset."""
        return self.defaults.with_values(self.preset_values[name], f"{self.presets}: {name}")

    def choose_settings(self, source: str | Path | None = None, assignments: Sequence[str] = ()) -> Settings:
        """Return the defaults, changed by a preset or a JSON file, then by assignments."""
        settings = self.defaults
        if source is not None and str(source) in self.preset_values:
            settings = self.preset(str(source))
        elif source is not None:
            if str(source).startswith(("papers/", "deixis/")) and not Path(source).exists():
                names = list(self.preset_values)
                near = get_close_matches(str(source), names, n=1)
                others = [model for model in _BUILT_IN if str(source) in get_spec(model).preset_values]
                hint = f"did you mean {near[0]!r}?" if near else f"the presets are: {', '.join(names) or 'none'}"
                if others:
                    hint = f"it is one of {others[0]}: deixis train {others[0]} --settings {source}"
                raise DeixisError(f"--settings {source}: {self.name} has no preset of this name; {hint}")
            settings = settings.with_file(Path(source))
        for assignment in assignments:
            setting = assignment.partition("=")[0].strip()
            others = [] if setting in settings.names else _models_with(setting)
            if others:
                raise DeixisError(f"--set {assignment}: a setting of {', '.join(others)}, not of {self.name}")
        return settings.with_assignments(assignments)


def lazy(target: str) -> Callable[..., Any]:
    """Return a function that imports another one, named ``module:function``, when it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return _imported(target)(*args, **kwargs)

    return call


def model_names() -> list[str]:
    """Return the names of all models that can be trained, without importing them."""
    return [*_BUILT_IN, *(name for name in sorted(_registered()) if name not in _BUILT_IN)]


def _models_with(setting: str) -> list[str]:
    """Return the built-in models that have a setting."""
    return [model for model in _BUILT_IN if setting in get_spec(model).defaults.names]


def has_model(name: str) -> bool:
    """Return whether a model of this name can be trained; entry points are read only if it is not a built-in one."""
    return name in _BUILT_IN or name in _registered()


def get_spec(name: str) -> ModelSpec:
    """Return the specification of a model."""
    spec = _load(name)
    if not isinstance(spec, ModelSpec) or spec.name != name:
        raise DeixisError(f"{name}: the entry point {_registered()[name].value} is not a ModelSpec of this name")
    return spec


@cache
def _load(name: str) -> Any:
    if name in _BUILT_IN:
        return _imported(_BUILT_IN[name])
    registered = _registered()
    if name not in registered:
        names = model_names()
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the models are: {', '.join(names)}"
        raise DeixisError(f"{name}: no such model; {hint}")
    try:
        return registered[name].load()
    except (ImportError, AttributeError) as error:
        raise DeixisError(f"{name}: the entry point {registered[name].value} cannot be imported ({error})") from error


def _registered() -> dict[str, Any]:
    from importlib.metadata import entry_points  # slow import

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _imported(target: str) -> Any:
    module, _, name = target.partition(":")
    try:
        return attrgetter(name)(import_module(module))
    except ModuleNotFoundError as error:
        raise missing_package(error) or error from None
