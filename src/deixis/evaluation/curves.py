"""Write recall as a function of the inspected percentage of the ranking (m-RNN, Figure 6), as a table or a plot."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from deixis.errors import DeixisError
from deixis.evaluation.retrieval import Ranking, RecallCurve, recall_curve
from deixis.storage.atomic import new_file

DIRECTIONS = {"i2t": "a photo looks for its sentences", "t2i": "a sentence looks for its photo"}
_PLOTS = (".png", ".svg", ".pdf")
_COLOURS = ("#0072B2", "#D55E00")
_REPORTED = (1, 5, 10, 20, 50)


def check_curve_path(path: Path) -> None:
    """Check the file name and the folder before the scores are computed."""
    if path.suffix.lower() not in (".csv", *_PLOTS):
        raise DeixisError(f"--curve {path}: must end in .csv for a table, or in {', '.join(_PLOTS)} for a plot")
    if not path.absolute().parent.is_dir():
        raise DeixisError(f"--curve {path}: the folder {path.parent} does not exist")


def write_curves(path: Path, rankings: Mapping[str, Ranking]) -> str:
    """Write the recall curve of each direction with 95 % intervals, and return a one-line summary.

    The suffix selects a table or a plot.
    """
    check_curve_path(path)
    curves = {name: recall_curve(ranking) for name, ranking in rankings.items()}
    with new_file(path) as temporary:
        if path.suffix.lower() == ".csv":
            _write_table(temporary, curves)
        else:
            _plot(temporary, curves)
    summary = (f"{name} {', '.join(_figures(curve))}" for name, curve in curves.items())
    return f"{path}: recall by percentage of the ranking; {'; '.join(summary)}"


def _figures(curve: RecallCurve) -> list[str]:
    return [f"{curve.recall[curve.percentages.index(at)]:.1f} at {at} %" for at in _REPORTED]


def _write_table(path: Path, curves: Mapping[str, RecallCurve]) -> None:
    heading = [column for name in curves for column in (name, f"{name}_low", f"{name}_high")]
    percentages = next(iter(curves.values())).percentages
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["percentage", *heading])
        for index, percentage in enumerate(percentages):
            cells = []
            for curve in curves.values():
                bounds = curve.interval[index]
                cells += [round(value, 3) for value in (curve.recall[index], bounds.low, bounds.high)]
            rows.writerow([percentage, *cells])


def _plot(path: Path, curves: Mapping[str, RecallCurve]) -> None:
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
