"""The records of a run: its description, log, pace, and the card of the model."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deixis.errors import DeixisError
from deixis.models.training.objective import DevScores
from deixis.models.training.settings import TrainSettings, settings_to_json
from deixis.storage.artifacts import damaged
from deixis.storage.atomic import explain_os_errors, new_file

if TYPE_CHECKING:
    from deixis.data.dataset import Dataset, Photos


FORMAT = "deixis-run"
VERSION = 1
_SHOWN = 60


@dataclass(frozen=True)
class DataDescription:
    """The data of a run: hashes of the whole data set, and of the photos of each split that is used."""

    name: str
    hash: str
    splits: Mapping[str, str]
    licence: str


@dataclass(frozen=True)
class RunDescription:
    """Description of a run."""

    model: str
    model_settings: Mapping[str, Any]  # of data and model, as JSON values
    data: DataDescription
    command: str = ""  # repeats the run
    features: Mapping[str, str] = field(default_factory=dict)  # encoder, proposals, word vectors


def describe_data(dataset: Dataset, splits: Mapping[str, Photos]) -> DataDescription:
    hashes = {name: photo_hash(photos) for name, photos in splits.items()}
    return DataDescription(dataset.path.name, dataset.manifest.hash, hashes, dataset.manifest.licence)


def photo_hash(photos: Photos) -> str:
    """Return a hash of the ids of photos."""
    return "sha256:" + hashlib.sha256("\n".join(photos.ids).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of the software that training depends on."""
    found = {"python": platform.python_version()}
    for package in ("deixis", "torch", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # not installed, run from source
            continue
    return found


def write_description(path: Path, about: RunDescription, settings: TrainSettings) -> None:
    document = {
        "format": FORMAT,
        "version": VERSION,
        **asdict(about),
        "settings": settings_to_json(settings),
        "versions": versions(),
    }
    with new_file(path) as unfinished:
        unfinished.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def refuse_other_run(path: Path, about: RunDescription, settings: TrainSettings) -> None:
    """Refuse to resume a run with other settings or data, naming what differs.

    The name of the data and the command may change: hashes tell whether the data is the same.
    """
    own = settings_to_json(settings)  # an earlier version may have had others
    with damaged(path):
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT or document["version"] != VERSION:
            raise DeixisError(f"{path}: {document['format']} {document['version']} is not {FORMAT} {VERSION}")
        document["settings"] = {name: value for name, value in document["settings"].items() if name in own}
        before = _fixed_values(document)
    now = _fixed_values(json.loads(json.dumps(asdict(about))) | {"settings": own})
    for name, old, new in _differences(before, now):
        raise DeixisError(
            f"{path}: the run was started with {name} = {_short(old)}, now it is {_short(new)}; "
            "resume it with the same settings and data, or start another run in another directory"
        )


def _fixed_values(document: Mapping[str, Any]) -> dict[str, Any]:
    data = document["data"]
    return {
        "model": document["model"],
        **{f"{name} of the model": value for name, value in document["model_settings"].items()},
        **document["settings"],
        "the hash of the data": data["hash"],
        **{f"the hash of split {name}": value for name, value in data["splits"].items()},
        **{f"features {name}": value for name, value in document["features"].items()},
    }


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in [*before, *(name for name in after if name not in before)]:
        if before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


class Log:
    """A log of JSON lines."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def append(self, record: Mapping[str, Any]) -> None:
        """Append a line and sync it to disk: a checkpoint must never be ahead of the log."""
        line = json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
        with explain_os_errors(self.path), self.path.open("ab", buffering=0) as file:
            file.write(line.encode())
            os.fsync(file.fileno())

    def cut(self, size: int) -> None:
        """Remove what was written after the log had this size."""
        with explain_os_errors(self.path):
            if self.size > size:
                os.truncate(self.path, size)


class Pace:
    """Measures the speed of a run.

    `step` and `seconds` are those at which the run starts or is resumed.
    """

    def __init__(self, step: int, steps: int, seconds: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._steps = steps
        self._first, self._began = step, clock()
        self._before = seconds
        self._step, self._then = step, self._began

    def steps_per_s(self, step: int) -> float:
        """Return the steps per second since the last call; `step` is the current step."""
        now = self._clock()
        rate = (step - self._step) / max(now - self._then, 1e-9)
        self._step, self._then = step, now
        return rate

    def skip_pause(self) -> None:
        """Do not count the time since the last call of `steps_per_s`, which was spent on something else."""
        self._then = self._clock()

    @property
    def seconds(self) -> float:
        """Duration of the run, including interrupted ones that were resumed."""
        return self._before + self._clock() - self._began

    @property
    def left(self) -> float:
        """Estimated seconds left, at the mean speed so far."""
        taken = self._then - self._began
        return taken / max(self._step - self._first, 1) * max(self._steps - self._step, 0)


def format_duration(seconds: float) -> str:
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def model_card(about: RunDescription, settings: TrainSettings | None, best: DevScores, seconds: float) -> str:
    """Return the card of a model in Markdown.

    `settings` is None for a model with a closed form.
    """
    sections = [
        f"# {about.model}, trained on {about.data.name}",
        f"A `{about.model}` model of deixis. This card was written by deixis.",
        _table("Data", _data_rows(about)),
        _scores(best),
        _table(f"Settings of {about.model}", about.model_settings),
        _table("Settings of training", settings_to_json(settings) if settings else {}),
        _again(about, best, seconds),
        "## Licence",
        f"The data: {about.data.licence}. The weights were trained on it; keep to its licence when you share them. "
        "deixis is under the Apache License 2.0.",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _data_rows(about: RunDescription) -> dict[str, Any]:
    hashes = {f"photos of {name}": value for name, value in about.data.splits.items()}
    return {"data set": about.data.name, "hash": about.data.hash, **hashes, **about.features}


def _scores(best: DevScores) -> str:
    if not best.scores:
        which = ": these are the weights of the last epoch" if best.step else ""
        return f"## Scores\n\nNot measured on dev{which}."
    table = _table("Scores on dev", {name: f"{value:.4g}" for name, value in best.scores.items()})
    if not best.monitor:
        return table
    return f"{table}\n\nThe weights were chosen by the best `{best.monitor}`, so these scores are slightly optimistic."


def _again(about: RunDescription, best: DevScores, seconds: float) -> str:
    made_with = ", ".join(f"{name} {number}" for name, number in versions().items())
    command = f"\n\n```\n{about.command}\n```" if about.command else ""
    steps = f"{best.step:,} steps, to epoch {best.epoch:,}, after" if best.step else "in"
    return f"## Made\n\nBy {made_with}; {steps} {format_duration(seconds)}.{command}"


def _table(title: str, rows: Mapping[str, Any]) -> str:
    if not rows:
        return ""
    lines = [f"| {_cell(name)} | {_cell(value)} |" for name, value in rows.items()]
    return "\n".join([f"## {title}", "", "| | |", "|---|---|", *lines])


def _cell(value: Any) -> str:
    """Format a table cell: one line, with escaped bars."""
    return " ".join(str(value).split()).replace("|", "\\|")
