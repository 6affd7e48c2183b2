"""Settings of a training run: frozen dataclasses whose fields form one flat namespace.

The dataclasses are the only source of what ``--set``, ``--settings`` and presets accept.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from deixis.errors import DeixisError

S = TypeVar("S")

_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_TYPE_NAMES = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}


@dataclass(frozen=True)
class TrainSettings:
    """Settings of the training loop, the same for all models.

    Attributes
    ----------
    epochs
        Maximum number of passes over the sampler.
    batch_size
        Examples per batch.
    learning_rate
        Peak learning rate, reached after `warmup_steps`.
    optimizer
        adam (L2 penalty) or adamw (decoupled weight decay).
    betas
        Adam betas.
    weight_decay
        Weight decay.
    lr_schedule
        Learning rate after the warm-up: constant, or cosine (down to 0).
    warmup_steps
        Steps of linear warm-up from 0.
    max_grad_norm
        Gradient clipping: maximum norm; 0 does not clip.
    gradient_accumulation
        Batches whose gradients are averaged for one step.
    ema_decay
        Decay of the exponential moving average of the weights that is evaluated and saved; 0 uses the weights.
    precision
        float32, or bfloat16 autocast.
    evaluate_every
        Epochs between two evaluations on the validation split.
    patience
        Stop after this many evaluations without improvement; 0 never stops early.
    save_every
        Steps between two checkpoints, besides the one at the end of each epoch; 0 for no others.
    log_every
        Steps between two lines of the log.
    tensorboard
        After each epoch, write the numbers of the log as curves for TensorBoard too.
    seed
        Random seed.
    device
        cpu, cuda, …; auto uses a GPU if there is one.
    threads
        CPU threads; 0 leaves the choice to torch. Results depend on it in the last bits.
    """

    epochs: int = 30
    batch_size: int = 128
    learning_rate: float = 1e-3
    optimizer: Literal["adam", "adamw"] = "adam"
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    lr_schedule: Literal["constant", "cosine"] = "constant"
    warmup_steps: int = 0
    max_grad_norm: float = 0.0
    gradient_accumulation: int = 1
    ema_decay: float = 0.0
    precision: Literal["float32", "bfloat16"] = "float32"
    evaluate_every: int = 1
    patience: int = 0
    save_every: int = 0
    log_every: int = 50
    tensorboard: bool = False
    seed: int = 0
    device: str = "auto"
    threads: int = 0

    def __post_init__(self) -> None:
        require_at_least(self, 1, "epochs", "batch_size", "gradient_accumulation", "evaluate_every", "log_every")
        require_at_least(
            self, 0, "weight_decay", "warmup_steps", "max_grad_norm", "patience", "save_every", "seed",
            "threads",
        )  # fmt: skip
        require_positive(self, "learning_rate")
        require_below_one(self, "ema_decay")
        require(self, {"betas": all(0 <= beta < 1 for beta in self.betas)}, "must be at least 0 and less than 1")


def require(settings: Any, valid: Mapping[str, bool], rule: str) -> None:
    """Refuse settings that are not valid; `valid` says for each setting whether it keeps the rule."""
    for name, kept in valid.items():
        if not kept:
            raise DeixisError(f"{name}={format_value(getattr(settings, name))}: {rule}")


def require_at_least(settings: Any, minimum: int, *names: str) -> None:
    """Refuse settings that are smaller, infinite or not a number."""
    valid = {name: minimum <= getattr(settings, name) < math.inf for name in names}
    require(settings, valid, f"must be {minimum} or more")


def require_positive(settings: Any, *names: str) -> None:
    require(settings, {name: 0 < getattr(settings, name) < math.inf for name in names}, "must be greater than 0")


def require_below_one(settings: Any, *names: str) -> None:
    """Refuse probabilities, rates and decays outside [0, 1)."""
    valid = {name: 0 <= getattr(settings, name) < 1 for name in names}
    require(settings, valid, "must be at least 0 and less than 1")


_LARGEST = {"_size": 2**16, "_dim": 2**16, "_layers": 2**10}
"""Sizes that no computer has the memory for, by the end of the name of a setting."""


def _check_size(name: str, value: Any) -> None:
    largest = next((size for end, size in _LARGEST.items() if name.endswith(end)), None)
    if name != "batch_size" and largest is not None and isinstance(value, int) and value > largest:
        raise DeixisError(f"{name}={value}: must be at most {largest:,}")


@dataclass(frozen=True)
class Settings:
    """All settings of one run: the dataclasses of data, model and training."""

    parts: tuple[Any, ...]

    def __getitem__(self, kind: type[S]) -> S:
        found = self.get(kind)
        if found is None:
            raise KeyError(kind.__name__)
        return found

    def get(self, kind: type[S]) -> S | None:
        """Return the part of this class or of a subclass of it, if there is one."""
        return next((part for part in self.parts if isinstance(part, kind)), None)

    @property
    def names(self) -> list[str]:
        return [field.name for part in self.parts for field in fields(part)]

    def to_json(self) -> dict[str, Any]:
        return {name: value for part in self.parts for name, value in settings_to_json(part).items()}

    def with_assignments(self, assignments: Iterable[str]) -> Settings:
        """Change settings as ``--set key=value`` writes them; the last assignment to a name wins."""
        values: dict[str, tuple[Any, str]] = {}
        for assignment in (" ".join(each.split()) for each in assignments):
            name, equals, text = (part.strip() for part in assignment.partition("="))
            if not equals:
                raise DeixisError(f"--set {assignment}: write it as key=value")
            values[name] = text, f"--set {assignment}"
        return self._changed(values, lambda kind, text, source: _check_value(kind, _read_text(kind, text), source))

    def with_values(self, values: Mapping[str, Any], source: str = "") -> Settings:
        """Change settings to values as JSON or TOML holds them; `source` is named in errors."""
        prefix = f"{source}: " if source else ""
        return self._changed({name: (value, f"{prefix}{name}") for name, value in values.items()}, _check_value)

    def with_file(self, path: Path) -> Settings:
        """Change settings to those of a JSON file with one object: ``{"epochs": 3, "betas": [0.9, 0.99]}``."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise DeixisError(f"{path}: cannot be read ({error.strerror})") from error
        except (ValueError, RecursionError) as error:
            raise DeixisError(f"{path}: not JSON ({error})") from error
        if not isinstance(document, dict):
            raise DeixisError(f"{path}: must hold one JSON object of settings")
        return self.with_values(document, str(path))

    def _changed(self, values: Mapping[str, tuple[Any, str]], convert: Callable[[Any, Any, str], Any]) -> Settings:
        changes: list[dict[str, Any]] = [{} for _ in self.parts]
        owners = {field.name: number for number, part in enumerate(self.parts) for field in fields(part)}
        for name, (value, source) in values.items():
            if name not in owners:
                near = get_close_matches(name, owners, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"the settings are: {', '.join(owners)}"
                where = source.removesuffix(f": {name}")
                raise DeixisError(f"{where}: no setting is called {name!r}; {hint}")
            owner = owners[name]
            changes[owner][name] = convert(get_type_hints(type(self.parts[owner]))[name], value, source)
            _check_size(name, changes[owner][name])
        return Settings(tuple(replace(part, **change) for part, change in zip(self.parts, changes, strict=True)))


def settings_to_json(settings: Any) -> dict[str, Any]:
    """Return one settings dataclass as JSON values: tuples become lists."""
    document: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return document


def read_presets(path: Path) -> dict[str, dict[str, Any]]:
    """Read a TOML file of presets: a flat table of settings for each name, which may extend an earlier preset."""
    import tomllib

    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeixisError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise DeixisError(f"{path}: not TOML ({error})") from error
    presets: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise DeixisError(f"{path}: {name} must be a table of settings")
        base = table.pop("extends", None)
        if base is not None and base not in presets:
            raise DeixisError(f"{path}: {name} extends {base!r}, which must come before it")
        presets[name] = {**presets.get(base, {}), **table}
    return presets


@dataclass(frozen=True)
class SettingDescription:
    """A setting as ``--list-settings`` shows it: default and choices as users type them."""

    name: str
    default: str
    choices: tuple[str, ...]
    meaning: str


def describe_settings(settings: Settings) -> list[SettingDescription]:
    """Describe all settings, in the order of their dataclasses."""
    found = []
    for part in settings.parts:
        meanings, hints = describe_fields(type(part)), get_type_hints(type(part))
        for field in fields(part):
            hint = hints[field.name]
            choices = tuple(map(str, get_args(hint))) if get_origin(hint) is Literal else ()
            default = format_value(getattr(part, field.name))
            found.append(SettingDescription(field.name, default, choices, meanings[field.name]))
    return found


def describe_fields(kind: type) -> dict[str, str]:
    """Return what each field of a dataclass means, from the ``Attributes`` of its docstring and its bases'."""
    docs = [inspect.getdoc(each) or "" for each in reversed(kind.__mro__) if is_dataclass(each)]
    lines = "\n".join(docs).splitlines()
    words: dict[str, list[str]] = {}
    current: list[str] = []
    inside = False
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if following.startswith("---"):
            inside, current = line == "Attributes", []
        elif inside and re.match(r"\w", line):
            current = []
            words |= dict.fromkeys((name.strip() for name in line.split(":")[0].split(",")), current)
        elif line.startswith("    "):
            current.append(line.strip())
    return {f.name: " ".join(words.get(f.name, [])) for f in fields(kind)}


def train_command(model: str, data: Path, settings: Settings, defaults: Settings) -> str:
    """Return the command that trains the same model again: all settings that differ from the defaults."""
    words = ["deixis", "train", model, "--data", str(data)]
    usual = defaults.to_json()
    for name, value in settings.to_json().items():
        if value != usual[name]:
            words += ["--set", f"{name}={format_value(value)}"]
    return shlex.join(words)


def format_value(value: Any) -> str:
    """Return a value as ``--set`` accepts it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _read_text(kind: Any, text: str) -> Any:
    """Return what a user typed as JSON would hold it, or as it is if it is of another type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if NoneType in inner and text.lower() == "none":
            return None
        return _read_text(next(one for one in inner if one is not NoneType), text)
    if origin is tuple:
        return [_read_text(inner[0], part.strip()) for part in text.split(",")] if text else []
    if kind is bool:
        return _BOOLEANS.get(text.lower(), text)
    try:
        return kind(text) if kind in (int, float) else text
    except ValueError:
        return text


def _check_value(kind: Any, value: Any, source: str) -> Any:
    """Check a value of JSON or TOML against a type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if NoneType in inner and value is None:
            return None
        return _check_value(next(one for one in inner if one is not NoneType), value, source)
    if origin is Literal:
        if value not in inner:
            raise DeixisError(f"{source}: {value!r} is none of {', '.join(map(str, inner))}")
        return value
    if origin is tuple and isinstance(value, list | tuple):
        kinds = _item_types(inner, len(value), source)
        return tuple(_check_value(one, part, source) for one, part in zip(kinds, value, strict=True))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < 2**1023 else math.inf
    if kind not in _TYPE_NAMES or not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise DeixisError(f"{source}: {value!r} is not {_TYPE_NAMES.get(kind, 'a list')}")
    if isinstance(value, float) and not math.isfinite(value):
        raise DeixisError(f"{source}: {value!r} is not a finite number")
    return value


def _item_types(inner: tuple[Any, ...], count: int, source: str) -> list[Any]:
    """Return the type of each item of a tuple of fixed or variable length."""
    if len(inner) == 2 and inner[1] is Ellipsis:
        return [inner[0]] * count
    if count != len(inner):
        raise DeixisError(f"{source}: {count} values, {len(inner)} are needed")
    return list(inner)
