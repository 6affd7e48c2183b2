"""`deixis train`: train a model on a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deixis.cli.output import (
    Images,
    Json,
    argument,
    flag,
    hint,
    note_first,
    option,
    plural,
    print_json,
    print_table,
    progress,
)
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.models.training.runner import TrainResult


def train(
    model: Annotated[
        str,
        argument(
            "MODEL",
            "cca, two-branch, similarity, grounder, captioner, m-rnn, consensus, hm-lstm, or a model of another "
            "package.",
        ),
    ],
    data: Annotated[
        Path | None,
        option("DATA", "Data set directory; required unless --list-settings.", "--data", show_default=False),
    ] = None,
    settings: Annotated[str | None, option("FILE|NAME", "JSON file of settings, or name of a preset.")] = None,
    set_: Annotated[list[str] | None, option("KEY=VALUE", "Change a setting. Repeatable.", "--set")] = None,
    out: Annotated[Path | None, option("DIR", "Output directory (default: MODEL.model).")] = None,
    resume: Annotated[bool, flag("--resume", "Continue an interrupted run.")] = False,
    images: Images = None,
    list_settings: Annotated[
        bool, flag("--list-settings", "Print all settings and presets of MODEL and exit.")
    ] = False,
    json: Json = False,
) -> None:
    """Train a model.

    The model is trained on the split train and scored on the split dev or val, if there is one.
    """
    from deixis.models.registry import get_spec

    if list_settings:
        _list_settings(model, json)
        return
    if data is None:
        raise DeixisError("give --data DATA, a data set directory (--list-settings needs none)")
    chosen = get_spec(model).choose_settings(settings, set_ or [])

    from deixis.data.dataset import Dataset
    from deixis.models.training import runner

    dataset = Dataset(data, images=images)
    with progress() as on_progress:
        result = runner.train(model, dataset, out=out, settings=chosen, resume=resume, on_progress=on_progress)
    if json:
        print_json(_document(result))
    else:
        _print_result(result)


def _list_settings(model: str, json: bool) -> None:
    from deixis.models.registry import get_spec
    from deixis.models.training.settings import describe_settings

    spec = get_spec(model)
    found, names = describe_settings(spec.defaults), list(spec.preset_values)
    if json:
        print_json({"settings": [vars(setting) for setting in found], "names": names})
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table("--set", "default", "meaning")
    for setting in found:
        choices = f" [{', '.join(setting.choices)}]" if setting.choices else ""
        table.add_row(setting.name, setting.default, escape(setting.meaning + choices))
    print_table(table)
    if names:
        print("--settings takes a JSON file or one of:")
    for name in names:
        print(f"  {name}")


def _document(result: TrainResult) -> dict[str, Any]:
    document: dict[str, Any] = {
        "model": result.model,
        "out": str(result.path),
        "settings": result.settings,
        "photos": result.photos,
        "sentences": result.sentences,
        "phrases": result.phrases,
        "left_out": list(result.left_out),
        "dev": None,
    }
    if result.dev:
        dev = result.dev
        document["dev"] = {"split": dev.split, "n": dev.photos, "left_out": list(dev.left_out), **dev.scores}
    return document


def _print_result(result: TrainResult) -> None:
    dev = result.dev
    note_first("left out", [*result.left_out, *(dev.left_out if dev else ())])
    counts = [(result.photos, "photo"), (result.sentences, "sentence"), (result.phrases, "phrase")]
    *first, last = [plural(count, noun) for count, noun in counts if count]
    trained_on = f"{', '.join(first)} and {last}" if first else last
    print(f"{result.path}: {result.model}, learned from {trained_on} of {result.data}")
    if dev:
        shares = (f"{name} {value:.1f}" for name, value in dev.scores.items() if not name.endswith(("medr", "meanr")))
        print(f"{dev.split} ({plural(dev.photos, 'photo')}): {', '.join(shares)}")
    hint(f"next: {result.next_command}")
