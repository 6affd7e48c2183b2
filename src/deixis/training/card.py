"""The card of a model: what it is, what it learnt from, how, how good it is, and how to make it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deixis.training.about import About, versions
from deixis.training.checkpoints import Best
from deixis.training.pace import in_words
from deixis.training.settings import TrainSettings, settings_to_json


def model_card(about: About, settings: TrainSettings | None, best: Best, seconds: float) -> str:
    """A model's card in Markdown.

    Parameters
    ----------
    about, settings
        What was trained, and how; no settings for a model that is solved and not trained step by step.
    best
        The look at dev by which the weights were chosen; one that watched nothing has chosen nothing.
    seconds
        How long training has taken.

    Examples
    --------
    >>> from deixis.training.about import DataFacts
    >>> data = DataFacts("flickr8k", "0a1b", {"train": "2c3d"}, "research only")
    >>> card = model_card(About("two-branch", {"margin": 0.05}, data), TrainSettings(), Best(10, 1, "", {}), 3.0)
    >>> card.splitlines()[0]
    '# two-branch, trained on flickr8k'
    """
    sections = [
        f"# {about.model}, trained on {about.data.name}",
        f"A `{about.model}` model of deixis. This card was written by the program that trained it.",
        _table("Data", _data_rows(about)),
        _scores(best),
        _table(f"Settings of {about.model}", about.model_settings),
        _table("Settings of training", settings_to_json(settings) if settings else {}),
        _again(about, best, seconds),
        "## Licence",
        f"The data: {about.data.licence}. The weights were learnt from it; whoever passes them on should keep to that. "
        "The program is under the Apache License 2.0.",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _data_rows(about: About) -> dict[str, Any]:
    hashes = {f"photos of {name}": value for name, value in about.data.splits.items()}
    return {"data set": about.data.name, "hash": about.data.hash, **hashes, **about.features}


def _scores(best: Best) -> str:
    if not best.scores:
        which = ": these are the weights after the last epoch" if best.step else ""
        return f"## Scores\n\nNot measured on dev{which}."
    table = _table("Scores on dev", {name: f"{value:.4g}" for name, value in best.scores.items()})
    if not best.watched:
        return table
    return f"{table}\n\nThe weights were chosen by the best `{best.watched}`, so these scores flatter a little."


def _again(about: About, best: Best, seconds: float) -> str:
    made_with = ", ".join(f"{name} {number}" for name, number in versions().items())
    command = f"\n\n```\n{about.command}\n```" if about.command else ""
    steps = f"{best.step:,} steps, to epoch {best.epoch:,}, after" if best.step else "in"
    return f"## Made\n\nBy {made_with}; {steps} {in_words(seconds)}.{command}"


def _table(title: str, rows: Mapping[str, Any]) -> str:
    if not rows:
        return ""
    lines = [f"| {_cell(name)} | {_cell(value)} |" for name, value in rows.items()]
    return "\n".join([f"## {title}", "", "| | |", "|---|---|", *lines])


def _cell(value: Any) -> str:
    """What a cell of a table can hold: one line without bars."""
    return " ".join(str(value).split()).replace("|", "\\|")
