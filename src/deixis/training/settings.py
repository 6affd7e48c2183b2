"""Settings that people write: frozen dataclasses, whose fields are the only source of what ``--set`` takes."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from deixis.errors import DeixisError

S = TypeVar("S")

_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_IN_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


@dataclass(frozen=True)
class TrainSettings:
    """How a model is trained, whichever it is.

    Attributes
    ----------
    epochs
        How often the sampler is gone through, at most.
    batch_size
        Examples in a batch, over all processes together.
    learning_rate
        The highest, reached after `warmup`.
    optimiser
        adam, whose weight decay is added to the gradient, or adamw, whose weight decay is not.
    betas
        How slowly Adam forgets the gradient and its square.
    weight_decay
        Pulls weights towards 0.
    schedule
        What happens to the learning rate after `warmup`: constant, cosine (down to 0) or step.
    decay_epochs
        With the schedule step: the learning rate is multiplied by `decay` each time so many epochs have passed.
    decay
        With the schedule step: the factor.
    warmup
        Steps in which the learning rate rises from 0.
    clip
        The greatest length of the gradient; 0 leaves it as it is.
    accumulate
        Batches whose gradients are averaged for one step.
    average
        Evaluate and keep a moving average of the weights, of which each step keeps this share; 0 for the weights.
    precision
        float32, or bfloat16 where torch finds it safe.
    evaluate_every
        Epochs from one look at dev to the next.
    patience
        Stop after so many looks at dev without a better score; 0 never stops early.
    save_every
        Steps from one checkpoint to the next, besides the one at the end of each epoch; 0 for no others.
    log_every
        Steps from one line of the log to the next.
    seed
        All that is random follows from it.
    device
        cpu, cuda, …; auto takes a GPU where there is one.
    threads
        Processor threads; 0 leaves them as torch chooses. Another number rounds otherwise.

    Examples
    --------
    >>> TrainSettings(epochs=3).batch_size
    128
    """

    epochs: int = 30
    batch_size: int = 128
    learning_rate: float = 1e-3
    optimiser: Literal["adam", "adamw"] = "adam"
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    schedule: Literal["constant", "cosine", "step"] = "constant"
    decay_epochs: int = 10
    decay: float = 0.1
    warmup: int = 0
    clip: float = 0.0
    accumulate: int = 1
    average: float = 0.0
    precision: Literal["float32", "bfloat16"] = "float32"
    evaluate_every: int = 1
    patience: int = 0
    save_every: int = 0
    log_every: int = 50
    seed: int = 0
    device: str = "auto"
    threads: int = 0

    def __post_init__(self) -> None:
        at_least_one = ("epochs", "batch_size", "decay_epochs", "accumulate", "evaluate_every", "log_every")
        at_least_zero = ("weight_decay", "decay", "warmup", "clip", "patience", "save_every", "seed", "threads")
        for name in at_least_one:
            _require(getattr(self, name) >= 1, name, getattr(self, name), "must be 1 or more")
        for name in at_least_zero:
            _require(getattr(self, name) >= 0, name, getattr(self, name), "must not be negative")
        _require(self.learning_rate > 0, "learning_rate", self.learning_rate, "must be greater than 0")
        _require(0 <= self.average < 1, "average", self.average, "must be at least 0 and less than 1")
        _require(all(0 <= beta < 1 for beta in self.betas), "betas", self.betas, "must be at least 0 and less than 1")


def _require(right: bool, name: str, value: object, rule: str) -> None:
    if not right:
        raise DeixisError(f"{name}={value}: {rule}")


def settings_from(defaults: S, assignments: Iterable[str]) -> S:
    """Settings with some of them changed, as ``--set key=value`` writes it.

    Examples
    --------
    >>> settings_from(TrainSettings(), ["epochs=3", "betas=0.9,0.99"]).betas
    (0.9, 0.99)
    >>> settings_from(TrainSettings(), ["epoch=3"])
    Traceback (most recent call last):
    deixis.errors.DeixisError: --set epoch=3: no setting is called 'epoch'; did you mean 'epochs'?
    """
    changed: S = settings_from_all([defaults], assignments)[0]
    return changed


def settings_from_all(several: Sequence[Any], assignments: Iterable[str]) -> list[Any]:
    """As `settings_from`, for several dataclasses at once: a name goes to the first that has it.

    ``deixis train`` hands over a model's settings and the loop's.
    """
    changes: list[dict[str, Any]] = [{} for _ in several]
    for assignment in (" ".join(each.split()) for each in assignments):
        name, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise DeixisError(f"--set {assignment}: write it as key=value")
        owner = _owner(several, name, f"--set {assignment}")
        kind = get_type_hints(type(several[owner]))[name]
        changes[owner][name] = _from_text(kind, text, f"--set {assignment}")
    return [replace(settings, **changed) for settings, changed in zip(several, changes, strict=True)]


def settings_from_file(several: Sequence[Any], path: Path) -> list[Any]:
    """As `settings_from_all`, from a JSON file with one object: ``{"epochs": 3, "betas": [0.9, 0.99]}``."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeixisError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise DeixisError(f"{path}: not JSON ({error})") from error
    if not isinstance(document, dict):
        raise DeixisError(f"{path}: must hold one JSON object of settings")
    changes: list[dict[str, Any]] = [{} for _ in several]
    for name, value in document.items():
        owner = _owner(several, name, str(path))
        changes[owner][name] = _from_json(get_type_hints(type(several[owner]))[name], value, f"{path}: {name}")
    return [replace(settings, **changed) for settings, changed in zip(several, changes, strict=True)]


def settings_from_json(kind: type[S], document: Mapping[str, Any], where: str) -> S:
    """Settings that `settings_to_json` gave; what is missing takes its default.

    Examples
    --------
    >>> settings_from_json(TrainSettings, settings_to_json(TrainSettings(seed=4)), "run.json").seed
    4
    """
    hints = get_type_hints(kind)
    for name in document:
        _check_name([f.name for f in fields(kind)], name, where)  # type: ignore[arg-type]
    return kind(**{name: _from_json(hints[name], value, f"{where}: {name}") for name, value in document.items()})


def settings_to_json(settings: Any) -> dict[str, Any]:
    """Settings as JSON holds them: tuples become lists.

    Examples
    --------
    >>> settings_to_json(TrainSettings())["betas"]
    [0.9, 0.999]
    """
    document: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return document


def described(kind: type) -> dict[str, str]:
    """What each setting means, from the ``Attributes`` of the dataclass' docstring and of those it extends.

    Examples
    --------
    >>> described(TrainSettings)["clip"]
    'The greatest length of the gradient; 0 leaves it as it is.'
    """
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


def _owner(several: Sequence[Any], name: str, where: str) -> int:
    names = [[f.name for f in fields(settings)] for settings in several]
    _check_name([name for some in names for name in some], name, where)
    return next(index for index, some in enumerate(names) if name in some)


def _check_name(known: Sequence[str], name: str, where: str) -> None:
    if name in known:
        return
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
    raise DeixisError(f"{where}: no setting is called {name!r}; {hint}")


def _from_text(kind: Any, text: str, where: str) -> Any:
    """A value of some type, from what a person typed."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if NoneType in inner and text.lower() == "none":
            return None
        return _from_text(next(one for one in inner if one is not NoneType), text, where)
    if origin is tuple:
        parts = [part.strip() for part in text.split(",")] if text else []
        kinds = _kinds_of(inner, len(parts), where)
        return tuple(_from_text(one, part, where) for one, part in zip(kinds, parts, strict=True))
    if kind is bool:
        return _from_json(bool, _TRUTHS.get(text.lower(), text), where)
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            return _from_json(kind, text, where)
    return _from_json(kind, text, where)


def _from_json(kind: Any, value: Any, where: str) -> Any:
    """A value of some type, from what JSON held."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if NoneType in inner and value is None:
            return None
        return _from_json(next(one for one in inner if one is not NoneType), value, where)
    if origin is Literal:
        if value not in inner:
            raise DeixisError(f"{where}: {value!r} is none of {', '.join(map(str, inner))}")
        return value
    if origin is tuple and isinstance(value, list | tuple):
        kinds = _kinds_of(inner, len(value), where)
        return tuple(_from_json(one, part, where) for one, part in zip(kinds, value, strict=True))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind not in _IN_WORDS or not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise DeixisError(f"{where}: {value!r} is not {_IN_WORDS.get(kind, 'a list')}")
    return value


def _kinds_of(inner: tuple[Any, ...], count: int, where: str) -> list[Any]:
    """The types of a tuple's values, be their number fixed or not."""
    if len(inner) == 2 and inner[1] is Ellipsis:
        return [inner[0]] * count
    if count != len(inner):
        raise DeixisError(f"{where}: {count} values, {len(inner)} are needed")
    return list(inner)
