"""How `deixis evaluate` shows scores: tables for people, one JSON document for programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deixis.cli.output import print_json, print_table

if TYPE_CHECKING:
    from deixis.evaluation.intervals import Comparison

About = tuple[Path | None, str | None, bool]
"""The data, its split, and whether the answer is JSON."""

_PRECISIONS = ("ap", "ap_nms", "macro_ap", "macro_ap_nms")


def answer(task: str, model: Path, about: About, result: Mapping[str, Any], compared: Mapping[str, Comparison]) -> None:
    """Print the scores of a system, as a table or as JSON, with what sets it apart from another where there is one."""
    data, split, json = about
    if json:
        document = {"task": task, "model": str(model), "data": str(data) if data else None, "split": split, **result}
        if compared:
            document["difference"] = {
                name: {"difference": found.difference, "interval": [found.low, found.high], "p": found.p}
                for name, found in compared.items()
            }
        print_json(document)
    else:
        _print_scores(task, result, compared)


def with_all_photos(
    result: Mapping[str, Any], precision: Mapping[str, Any], presence: Mapping[str, Any]
) -> dict[str, Any]:
    """The scores of localisation with the average precisions of rankings over all photos, and with presence.

    Parameters
    ----------
    result
        As `LocalizationResult` gives it.
    precision, presence
        As `PhrasePrecision` and `PresenceResult` give them.

    Examples
    --------
    >>> plain = {"r1": 60.0, "ap": 30.0, "interval": {"r1": [58, 62], "ap": [28, 32]}, "by_type": {}, "by_phrase": {}}
    >>> wide = {"ap": 3.0, "photos": 1000, "interval": {"ap": [2, 4]}, "by_type": {}, "by_phrase": {}}
    >>> found = with_all_photos(plain, wide, {"roc": 85.0})
    >>> found["r1"], found["ap"], found["interval"]["ap"], found["ranked_photos"], found["presence"]["roc"]
    (60.0, 3.0, [2, 4], 1000.0, 85.0)
    """
    groups = {
        heading: {name: _with_precisions(scores, precision[heading][name]) for name, scores in result[heading].items()}
        for heading in ("by_type", "by_phrase")
    }
    found = _with_precisions(result, precision)
    return {**found, **groups, "ranked_photos": float(precision["photos"]), "presence": presence}


def _with_precisions(scores: Mapping[str, Any], precision: Mapping[str, Any]) -> dict[str, Any]:
    replaced = {name: precision[name] for name in _PRECISIONS if name in precision}
    return {**scores, **replaced, "interval": {**scores["interval"], **precision["interval"]}}


def _print_scores(task: str, result: Mapping[str, Any], compared: Mapping[str, Comparison]) -> None:
    _print_totals(task, result, compared)
    if "presence" in result:
        _print_totals("presence in all photos", result["presence"], {})
    _print_groups(result)
    print(f"n = {result['n']:,}; {result['protocol']}" + (f"; ties: {result['ties']}" if "ties" in result else ""))


def _print_totals(title: str, result: Mapping[str, Any], compared: Mapping[str, Comparison]) -> None:
    from rich.table import Table

    table = Table(title)
    for heading in ("score", "95 % interval", *(["difference", "95 % interval", "p"] if compared else [])):
        table.add_column(heading, justify="right")
    for name, value in result.items():
        if isinstance(value, float):
            row = [name, f"{value:.2f}", _bounds(result["interval"].get(name))]
            if found := compared.get(name):
                row += [f"{found.difference:+.2f}", _bounds((found.low, found.high)), f"{found.p:.4f}"]
            table.add_row(*row)
    print_table(table)


def _print_groups(result: Mapping[str, Any]) -> None:
    """The tables by type and by phrase, where a result has them."""
    from rich.markup import escape
    from rich.table import Table

    for heading in ("by_type", "by_phrase"):
        groups: Mapping[str, Mapping[str, Any]] = result.get(heading) or {}
        if groups:
            table = Table()
            table.add_column(heading.replace("_", " "), max_width=28)  # the whole stays within 120 columns
            for column in ("n", "photos", "r1 [95 %]", "r5", "r10", "upper_bound", "ap", "ap_nms"):
                table.add_column(column, justify="right")
            for name, scores in groups.items():
                table.add_row(escape(name), *_group_cells(scores))
            print_table(table)
            for reason in dict.fromkeys(scores["no_interval"] for scores in groups.values() if scores["no_interval"]):
                print(f"[–] no interval: {reason}")


def _group_cells(scores: Mapping[str, Any]) -> list[str]:
    """A row of a group's scores; there is room for one interval."""
    bounds = scores["interval"]["r1"]
    between = f"[{bounds[0]:.1f}, {bounds[1]:.1f}]" if bounds else "[–]"
    others = (f"{scores[name]:.1f}" for name in ("r5", "r10", "upper_bound", "ap", "ap_nms"))
    return [str(scores["n"]), str(scores["photos"]), f"{scores['r1']:.1f} {between}", *others]


def _bounds(interval: Any) -> str:
    return f"{interval[0]:.2f} – {interval[1]:.2f}" if interval else ""
