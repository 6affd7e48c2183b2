"""Recall against the share of the ranking that is looked at (m-RNN, Figure 6), as a table or a drawing."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from deixis.errors import DeixisError
from deixis.evaluation.retrieval_result import Ranking, RecallCurve, recall_curve
from deixis.files.atomic import new_file

DIRECTIONS = {"i2t": "a photo looks for its sentences", "t2i": "a sentence looks for its photo"}
_DRAWINGS = (".png", ".svg", ".pdf")
_COLOURS = ("#0072B2", "#D55E00")
_SHOWN = (1, 5, 10, 20, 50)


def refuse_other_endings(path: Path) -> None:
    """Say at once, and not after an hour of scoring, that a curve cannot be written so."""
    if path.suffix.lower() not in (".csv", *_DRAWINGS):
        raise DeixisError(f"--curve {path}: ends in .csv for a table, or in {', '.join(_DRAWINGS)} for a drawing")
    if not path.absolute().parent.is_dir():
        raise DeixisError(f"--curve {path}: the folder {path.parent} does not exist")


def write_curves(path: Path, rankings: Mapping[str, Ranking]) -> str:
    """Write recall by percentage for each direction, with 95 % intervals; the ending chooses a table or a drawing.

    Returns
    -------
    str
        A few of the figures, in a line.
    """
    refuse_other_endings(path)
    curves = {name: recall_curve(ranking) for name, ranking in rankings.items()}
    with new_file(path) as unfinished:
        if path.suffix.lower() == ".csv":
            _write_table(unfinished, curves)
        else:
            _draw(unfinished, curves)
    shown = (f"{name} {', '.join(_figures(curve))}" for name, curve in curves.items())
    return f"{path}: recall by percentage of the ranking; {'; '.join(shown)}"


def _figures(curve: RecallCurve) -> list[str]:
    return [f"{curve.recall[curve.percentages.index(at)]:.1f} at {at} %" for at in _SHOWN]


def _write_table(path: Path, curves: Mapping[str, RecallCurve]) -> None:
    heading = [column for name in curves for column in (name, f"{name}_low", f"{name}_high")]
    percentages = next(iter(curves.values())).percentages
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["percentage", *heading])
        for place, percentage in enumerate(percentages):
            cells = []
            for curve in curves.values():
                bounds = curve.interval[place]
                cells += [round(value, 3) for value in (curve.recall[place], bounds.low, bounds.high)]
            rows.writerow([percentage, *cells])


def _draw(path: Path, curves: Mapping[str, RecallCurve]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    for axes, colour, (name, curve) in zip(figure.subplots(1, len(curves)), _COLOURS, curves.items(), strict=False):
        low, high = zip(*((bounds.low, bounds.high) for bounds in curve.interval), strict=True)
        axes.fill_between(curve.percentages, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(curve.percentages, curve.recall, color=colour)
        axes.set_title(DIRECTIONS.get(name, name), loc="left", fontsize=10)
        axes.set_xlabel("share of the ranking looked at, %")
        axes.set_ylabel("found, %")
        axes.set_xlim(0, 100)
        axes.set_ylim(0, 101)
        axes.grid(color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
