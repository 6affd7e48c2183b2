"""`deixis train`: a model from a data set directory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deixis.cli.output import Json, note, plural, print_json, progress

if TYPE_CHECKING:
    from deixis.tasks.fit_cca import CCATraining, Fitted
    from deixis.tasks.scoring import DevScores

_LEFT_OUT_SHOWN = 10


def train(
    model: Annotated[Literal["cca"], typer.Argument(metavar="MODEL", help="cca.", show_default=False)],
    data: Annotated[Path, typer.Option("--data", metavar="DATA", help="A data set directory.", show_default=False)],
    settings: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings in a JSON file.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to put the model; MODEL.model unless given.")
    ] = None,
    images: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the photos are now.")] = None,
    json: Json = False,
) -> None:
    """Train a model on the split train, and score it on the split dev or val where there is one."""
    from deixis.data.dataset import Dataset
    from deixis.tasks.bundle import new_bundle
    from deixis.tasks.fit_cca import card_of, fit_cca
    from deixis.tasks.scoring import score_on_dev

    chosen = _chosen(settings, set_ or [])
    place = out or Path(f"{model}.model")
    dataset = Dataset(data, images=images)
    stores = [Path(chosen.features)] if chosen.features else []
    begun = time.monotonic()
    with new_bundle(place) as unfinished, progress() as on_progress:
        fitted = fit_cca(dataset, chosen, on_progress)
        dev = score_on_dev(fitted.bundle, dataset, also=stores, on_progress=on_progress)
        fitted.bundle.write(unfinished, card_of(dataset, chosen, fitted, dev, time.monotonic() - begun))
    if json:
        _answer_json(model, place, chosen, fitted, dev)
    else:
        _answer(model, place, data, fitted, dev)


def _chosen(file: Path | None, assignments: Sequence[str]) -> CCATraining:
    """The settings: defaults, then the file's, then what was typed."""
    from deixis.tasks.fit_cca import CCATraining
    from deixis.training.settings import settings_from, settings_from_file

    chosen = CCATraining()
    if file is not None:
        chosen = settings_from_file([chosen], file)[0]
    return settings_from(chosen, assignments)


def _answer_json(model: str, place: Path, chosen: CCATraining, fitted: Fitted, dev: DevScores | None) -> None:
    from deixis.training.settings import settings_to_json

    document: dict[str, Any] = {
        "model": model,
        "out": str(place),
        "settings": settings_to_json(chosen),
        "photos": fitted.photos,
        "sentences": fitted.sentences,
        "left_out": list(fitted.left_out),
        "dev": None,
    }
    if dev:
        document["dev"] = {"split": dev.split, "n": dev.photos, "left_out": list(dev.left_out), **dev.scores}
    print_json(document)


def _answer(model: str, place: Path, data: Path, fitted: Fitted, dev: DevScores | None) -> None:
    left_out = [*fitted.left_out, *(dev.left_out if dev else ())]
    for line in left_out[:_LEFT_OUT_SHOWN]:
        note(f"left out: {line}")
    if len(left_out) > _LEFT_OUT_SHOWN:
        note(f"left out: … and {len(left_out) - _LEFT_OUT_SHOWN:,} more (--json lists all)")
    learned_from = f"{plural(fitted.photos, 'photo')} and {plural(fitted.sentences, 'sentence')} of {data}"
    print(f"{place}: {model}, learned from {learned_from}")
    if dev:
        recalls = (f"{name} {value:.1f}" for name, value in dev.scores.items() if "_r" in name)
        print(f"{dev.split} ({plural(dev.photos, 'photo')}): {', '.join(recalls)}")
    split = f" --split {dev.split}" if dev else ""
    note(f"next: deixis evaluate retrieval --model {place} --data {data}{split}")
