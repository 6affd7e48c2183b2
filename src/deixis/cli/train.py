"""`deixis train`: a model from a data set directory."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deixis.cli.output import Json, note, plural, print_json, print_table, progress
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.tasks.fit.cca import Fitted
    from deixis.tasks.fit.chosen import Chosen
    from deixis.tasks.fit.consensus import FittedNeighbours
    from deixis.tasks.fit.runs import Trained
    from deixis.tasks.scores.scoring import DevScores

_LEFT_OUT_SHOWN = 10

Model = Literal["cca", "two-branch", "similarity", "grounder", "m-rnn", "consensus", "hm-lstm"]


def train(
    model: Annotated[
        Model,
        typer.Argument(metavar="MODEL", help="cca, two-branch, similarity, grounder, m-rnn, consensus or hm-lstm."),
    ],
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DATA", help="A data set directory.", show_default=False)
    ] = None,
    settings: Annotated[
        str | None, typer.Option(metavar="FILE|NAME", help="Settings in a JSON file, or by a name.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to put the model; MODEL.model unless given.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
    images: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the photos are now.")] = None,
    list_settings: Annotated[
        bool, typer.Option("--list-settings", help="Print all settings of MODEL, and the names, and stop.")
    ] = False,
    json: Json = False,
) -> None:
    """Train a model on the split train, and score it on the split dev or val where there is one."""
    from deixis.data.dataset import Dataset
    from deixis.tasks.fit.chosen import choose

    if list_settings:
        _list_settings(model, json)
        return
    if data is None:
        raise DeixisError("give --data DATA, a data set directory (--list-settings needs none)")
    chosen = choose(model, settings, set_ or [])
    dataset = Dataset(data, images=images)
    place = out or Path(f"{model}.model")
    if model in ("cca", "consensus") and resume:
        raise DeixisError(f"--resume: {model} learns in one pass; there is nothing to go on with, run it again")
    done: Fitted | FittedNeighbours | Trained | None
    if model == "cca":
        done, dev = _train_cca(dataset, chosen, place)
    elif model == "consensus":
        done = _gather(dataset, chosen, place)
        dev = done.dev
    else:
        done = _train_network(model, dataset, chosen, place, resume)
        dev = done.dev if done else None
    if done and json:
        _answer_json(model, place, chosen, done, dev)
    elif done:
        _answer(model, place, data, done, dev)
    if "LOCAL_RANK" in os.environ:  # set by torchrun
        from deixis.training.distributed import leave

        leave()


def _train_network(model: Model, dataset: Any, chosen: Chosen, place: Path, resume: bool) -> Trained | None:
    from deixis.tasks.fit.fitting import fit

    with progress() as told:
        return fit(model, dataset, chosen, place, resume=resume, on_progress=told)


def _train_cca(dataset: Any, chosen: Chosen, place: Path) -> tuple[Fitted, DevScores | None]:
    from deixis.tasks.bundle import new_bundle
    from deixis.tasks.fit.cca import CCATraining, card_of, fit_cca
    from deixis.tasks.learning import Learning
    from deixis.tasks.scores.scoring import score_on_dev

    assert isinstance(chosen.model, CCATraining) and isinstance(chosen.learning, Learning)  # noqa: S101, PT018
    stores = [Path(chosen.learning.features)] if chosen.learning.features else []
    begun = time.monotonic()
    with new_bundle(place) as unfinished, progress() as on_progress:
        fitted = fit_cca(dataset, chosen.model, chosen.learning, on_progress=on_progress)
        dev = score_on_dev(fitted.bundle, dataset, learned=chosen.learning.train, also=stores, on_progress=on_progress)
        seconds = time.monotonic() - begun
        fitted.bundle.write(unfinished, card_of(dataset, chosen.model, chosen.learning, fitted, dev, seconds))
    return fitted, dev


def _gather(dataset: Any, chosen: Chosen, place: Path) -> FittedNeighbours:
    from deixis.tasks.fit.consensus import ConsensusTraining, NeighbourData, fit_consensus

    own, data = chosen.model, chosen.learning
    assert isinstance(own, ConsensusTraining) and isinstance(data, NeighbourData)  # noqa: S101, PT018
    with progress() as on_progress:
        fitted = fit_consensus(dataset, data, own, on_progress=on_progress)
    fitted.neighbours.save(place)
    return fitted


def _list_settings(model: Model, json: bool) -> None:
    from deixis.tasks.fit.chosen import in_words, named

    found, names = in_words(model), list(named(model))
    if json:
        print_json({"settings": [vars(setting) for setting in found], "names": names})
        return
    from rich.table import Table

    table = Table("--set", "default", "what")
    for setting in found:
        choices = f" [{', '.join(setting.choices)}]" if setting.choices else ""
        table.add_row(setting.name, setting.default, _escaped(setting.meaning + choices))
    print_table(table)
    print("--settings takes a JSON file or one of:")
    for name in names:
        print(f"  {name}")


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _answer_json(
    model: str, place: Path, chosen: Chosen, done: Fitted | FittedNeighbours | Trained, dev: DevScores | None
) -> None:
    document: dict[str, Any] = {
        "model": model,
        "out": str(place),
        "settings": chosen.to_json(),
        "photos": done.photos,
        "sentences": done.sentences,
        "phrases": done.phrases,
        "left_out": list(done.left_out),
        "dev": None,
    }
    if dev:
        document["dev"] = {"split": dev.split, "n": dev.photos, "left_out": list(dev.left_out), **dev.scores}
    print_json(document)


def _answer(
    model: str, place: Path, data: Path, done: Fitted | FittedNeighbours | Trained, dev: DevScores | None
) -> None:
    _name_left_out([*done.left_out, *(dev.left_out if dev else ())])
    texts = [plural(count, noun) for count, noun in ((done.sentences, "sentence"), (done.phrases, "phrase")) if count]
    learned_from = ", ".join([plural(done.photos, "photo"), *texts[:-1]]) + f" and {texts[-1]} of {data}"
    print(f"{place}: {model}, learned from {learned_from}")
    if dev:
        shares = (f"{name} {value:.1f}" for name, value in dev.scores.items() if not name.endswith(("medr", "meanr")))
        print(f"{dev.split} ({plural(dev.photos, 'photo')}): {', '.join(shares)}")
    if model == "consensus":
        note(f"next: deixis caption PHOTO --model DIR --rerank cider --neighbours {place}")
        return
    retrieves = "captions" if model == "m-rnn" else "retrieval"
    task = "grounding" if done.phrases and not done.sentences else retrieves
    split = f" --split {dev.split}" if dev else ""
    note(f"next: deixis evaluate {task} --model {place} --data {data}{split}")


def _name_left_out(lines: Sequence[str]) -> None:
    for line in lines[:_LEFT_OUT_SHOWN]:
        note(f"left out: {line}")
    if len(lines) > _LEFT_OUT_SHOWN:
        note(f"left out: … and {len(lines) - _LEFT_OUT_SHOWN:,} more (--json lists all)")
