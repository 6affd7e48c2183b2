"""`deixis table`: a whole table of a paper, ours beside the published figures."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deixis.cli.output import Json, note, plural, print_json, print_table, progress
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from rich.table import Table as Drawn

    from deixis.data.dataset import Dataset
    from deixis.experiments.claims import Judged
    from deixis.experiments.measuring import MeasuredTable
    from deixis.experiments.outcomes import Measured
    from deixis.experiments.records import Column, Row, Table
    from deixis.files.progress import OnProgress

_WIDTH = 120
_LOST = "?"
_NAMED = 6


def table(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="entities-1 … 5, two-branch-1 … 5, m-rnn-1 … 5, 7, 8, 9 or hm-lstm-1 … 4.",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DATA", help="A data set directory; without one, the published figures alone."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Models of each recipe, where a seed makes a difference.")] = 3,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting for all models that have it; may be repeated."),
    ] = None,
    rows: Annotated[
        list[str] | None, typer.Option(metavar="KEY,…", help="Only these rows, by the keys that --json shows.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(metavar="NAME", help="The split to score on: dev, val or test, the first there is.")
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where models and scores are kept; DATA/experiments unless given."),
    ] = None,
    images: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the photos are now.")] = None,
    json: Json = False,
) -> None:
    """Print a table of a paper: what was published, what we measure, and whether the paper's claims hold.

    Models are trained where they are not there yet. A table that was stopped goes on where it was.
    """
    from deixis.experiments.tables import find_table

    wanted = _only(find_table(name), rows or [])
    if data is None:
        _answer(wanted, None, json)
        return
    from deixis.data.dataset import Dataset

    dataset = Dataset(data, images=images)
    found = _measured(wanted, dataset, seeds, tuple(set_ or []), split, runs)
    given: dict[str, Sequence[str | None] | None] = {
        "--data": [str(data)],
        "--seeds": [str(seeds)],
        "--set": set_,
        "--rows": rows,
        "--split": [split],
        "--runs": [str(runs) if runs else None],
        "--images": [str(images) if images else None],
    }
    _answer(found.table, _Ours(found, dataset, _command(name, given)), json)


@dataclass(frozen=True)
class _Ours:
    """What was measured, on what, and the command that does it again."""

    found: MeasuredTable
    dataset: Dataset
    command: str


def _command(name: str, given: Mapping[str, Sequence[str | None] | None]) -> str:
    words = ["deixis", "table", name]
    for option, values in given.items():
        words += [word for value in values or [] if value is not None for word in (option, value)]
    return shlex.join(words)


def _only(table: Table, asked: Sequence[str]) -> Table:
    """The table with the rows that were asked for, and the claims about them."""
    keys = [key.strip() for keys in asked for key in keys.split(",") if key.strip()]
    if not keys:
        return table
    for key in keys:
        table.row(key)
    kept = tuple(row for row in table.rows if row.key in keys)
    return replace(table, rows=kept)


def _measured(
    table: Table, dataset: Dataset, seeds: int, changes: tuple[str, ...], split: str | None, runs: Path | None
) -> MeasuredTable:
    from deixis.experiments.data_sets import refuse_without, scored_split
    from deixis.experiments.measuring import Measuring, trainings_of
    from deixis.experiments.runs import FOLDER, Runs
    from deixis.experiments.trained import Workshop, refuse_unknown

    features = any(change.startswith("features=") for change in changes)
    refuse_without(table, dataset, split=split, features=features)
    trainings = trainings_of(table.rows)
    if changes and not trainings:
        raise DeixisError(f"--set {changes[0]}: table {table.name} trains no model")
    refuse_unknown(changes, trainings)
    scored = scored_split(dataset, split) if "dev" in table.needs else ""
    workshop = Workshop(dataset, Runs(runs or dataset.path / FOLDER), changes)
    return Measuring(workshop, scored, seeds, _showing).table(table)


@contextmanager
def _showing(what: str) -> Iterator[OnProgress]:
    note(f"{what} …")
    with progress() as on_progress:
        yield on_progress


def _answer(table: Table, ours: _Ours | None, json: bool) -> None:
    if json:
        print_json(_document(table, ours))
        return
    found = ours.found if ours else None
    print(table.title)
    print_table(_drawn(table, found))
    if found and found.claims:
        print("\nWhat the paper claims")
        print_table(_claims(found.claims))
    print()
    for line in _footer(table, ours):
        print(line)


def _drawn(table: Table, found: MeasuredTable | None) -> Drawn:
    """Two lines for each row that was measured: the paper's figures, and ours below them."""
    from rich import box
    from rich.table import Table as Drawn

    drawn = Drawn(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    drawn.add_column(table.name, max_width=max(24, _WIDTH - 9 - 12 * len(table.columns)))
    drawn.add_column("")
    for column in table.columns:
        drawn.add_column(column.heading, justify="right")
    part = ""
    for row in table.rows:
        if row.part != part:
            part = row.part
            drawn.add_row(f"[bold]{part}[/bold]", "", *("" for _ in table.columns))
        drawn.add_row(*_cells(table, row, found.ours.get(row.key) if found else None))
    return drawn


def _cells(table: Table, row: Row, measured: Measured | None) -> Iterator[str]:
    from rich.markup import escape

    published = [_published(row, place, column) for place, column in enumerate(table.columns)]
    ours = [_ours(measured, column) for column in table.columns] if measured else []
    lines = [("paper", published)] if any(published) or not ours else []
    lines += [("ours", ours)] if ours else []
    yield escape(row.label)
    yield "\n".join(who for who, _ in lines)
    for place in range(len(table.columns)):
        yield "\n".join(figures[place] for _, figures in lines)


def _published(row: Row, place: int, column: Column) -> str:
    if column.name in row.lost:
        return _LOST
    figure = row.figures[place] if row.figures else None
    return "" if figure is None else f"{figure:,.{column.decimals}f}"


def _ours(measured: Measured, column: Column) -> str:
    """The mean over seeds, and half of the width of its interval where it has one."""
    score = measured.score(column.name)
    if score is None:
        return ""
    bounds = measured.interval(column.name)
    return f"{score:,.{column.decimals}f}" + (f" ±{(bounds.high - bounds.low) / 2:.1f}" if bounds else "")


def _claims(claims: Sequence[Judged]) -> Drawn:
    from rich import box
    from rich.table import Table as Drawn

    drawn = Drawn(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in ("claim", "score", "difference", "95 % interval", "by seed", "verdict"):
        drawn.add_column(heading, justify="left" if heading in ("claim", "verdict") else "right")
    for each in claims:
        found = each.found
        seeds = " ".join(f"{difference:+.1f}" for difference in each.by_seed)
        interval = f"{found.low:+.2f} – {found.high:+.2f}"
        drawn.add_row(each.claim.says, each.claim.score, f"{found.difference:+.2f}", interval, seeds, each.verdict)
    return drawn


def _footer(table: Table, ours: _Ours | None) -> Iterator[str]:
    """What readers must know to trust the figures, and to make them again."""
    yield f"paper: {table.paper}, on {' and '.join(table.data)}"
    yield from table.notes
    if ours is None:
        return
    from deixis.experiments.data_sets import known_data
    from deixis.experiments.measuring import trainings_of

    found, data = ours.found, ours.dataset
    yield f"ours: {data.path} ({known_data(data) or 'none of the papers’ data sets'}; {data.manifest.hash[:19]}…)"
    if found.split:
        photos = plural(data.manifest.splits[found.split], "photo")
        models = f"mean of {found.seeds} seeds" if found.seeds > 1 else "one model each"
        yield f"scored on {found.split}: {photos}, {found.split_hash[:19]}…; {models}"
        yield "± is half of the 95 % interval over photos"
        if any(training.model != "cca" for training in trainings_of(table.rows)):
            yield "networks keep the epoch that was best on dev or val"
        yield "; ".join(f"{name}: {' | '.join(words)}" for name, words in found.about.items())
    if found.claims:
        yield "a claim is decided where its interval leaves out 0 and all seeds agree; each at 95 %, by itself"
    yield from _left_out(table, found)
    yield f"again: {ours.command}"


def _left_out(table: Table, found: MeasuredTable) -> Iterator[str]:
    """Why rows have no figures of ours, the rows of each reason together; other groups' systems need no reason."""
    from deixis.experiments.records import NOT_OURS

    reasons: dict[str, list[str]] = {}
    for row in table.rows:
        if row.key not in found.ours and row.why_not != NOT_OURS:
            reasons.setdefault(row.why_not or "not in this data", []).append(row.key)
    for reason, keys in reasons.items():
        more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
        yield f"no figures of ours for {', '.join(keys[:_NAMED])}{more}: {reason}"


def _document(table: Table, ours: _Ours | None) -> dict[str, Any]:
    """The table as JSON."""
    document: dict[str, Any] = {
        "table": table.name,
        "title": table.title,
        "paper": table.paper,
        "published_on": list(table.data),
        "notes": list(table.notes),
        "columns": [column.name for column in table.columns],
        "rows": [_row_document(table, row, ours.found.ours.get(row.key) if ours else None) for row in table.rows],
    }
    if ours is None:
        return document
    found, dataset = ours.found, ours.dataset
    return {
        **document,
        "data": str(dataset.path),
        "data_hash": dataset.manifest.hash,
        "split": found.split or None,
        "split_hash": found.split_hash or None,
        "seeds": found.seeds,
        "about": {name: list(words) for name, words in found.about.items()},
        "claims": [_claim_document(each) for each in found.claims],
        "command": ours.command,
    }


def _row_document(table: Table, row: Row, measured: Measured | None) -> dict[str, Any]:
    names = [column.name for column in table.columns]
    document: dict[str, Any] = {
        "key": row.key,
        "label": row.label,
        "part": row.part,
        "published": dict(zip(names, row.figures, strict=True)) if row.figures else dict.fromkeys(names),
        "lost": list(row.lost),
        "ours": None,
        "why_not": row.why_not or None,
    }
    if measured is None:
        return document
    bounds = {name: measured.interval(name) for name in names}
    return {
        **document,
        "ours": {name: measured.score(name) for name in names},
        "interval": {name: [found.low, found.high] if found else None for name, found in bounds.items()},
        "by_seed": {name: list(measured.by_seed(name)) for name in names},
    }


def _claim_document(judged: Judged) -> dict[str, Any]:
    claim, found = judged.claim, judged.found
    return {
        "claim": claim.says,
        "better": claim.better,
        "worse": claim.worse,
        "score": claim.score,
        "difference": found.difference,
        "interval": [found.low, found.high],
        "p": found.p,
        "by_seed": list(judged.by_seed),
        "verdict": judged.verdict,
    }
