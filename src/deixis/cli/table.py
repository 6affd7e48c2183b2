"""`deixis table`: a table of a paper, our figures beside the published ones."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deixis.cli.output import Images, Json, argument, flag, hint, option, plural, print_json, print_table, progress
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from rich.table import Table as Drawn

    from deixis.data.dataset import Dataset
    from deixis.papers.claims import ClaimTest
    from deixis.papers.results import RowResult
    from deixis.papers.runner import TableResult
    from deixis.papers.tables import Column, Row, Table
    from deixis.storage.progress import OnProgress

_WIDTH = 120
_LOST = "?"
_CROSSED = (
    "Epochs and settings are chosen on one half of {split}, the other half is scored among all of it, and the reverse."
)
_MAX_LISTED = 6


class Inputs(Enum):
    """Encoder, region proposals and text features of the models of a table."""

    OURS = "ours"
    PAPER = "paper"
    BOTH = "both"


def table(
    name: Annotated[
        str,
        argument(
            "NAME", "entities-1 … 5, two-branch-1 … 5, two-branch-batches, m-rnn-1 … 9, hm-lstm-1 … 4, or a TOML file."
        ),
    ],
    data: Annotated[
        Path | None, option("DATA", "Data set directory. Without it, only published figures are printed.", "--data")
    ] = None,
    seeds: Annotated[int, option("N", "Number of models per row, with different seeds.", min=1)] = 3,
    set_: Annotated[
        list[str] | None, option("KEY=VALUE", "Change a setting of all models that have it. Repeatable.", "--set")
    ] = None,
    sweep: Annotated[
        list[str] | None,
        option("ROW:KEY=V,V", "Let dev choose among values of a setting of one row, as of those it names. Repeatable."),
    ] = None,
    rows: Annotated[list[str] | None, option("KEY,…", "Only these rows, by the keys in --json. Repeatable.")] = None,
    split: Annotated[str | None, option("NAME", "Split to score on (default: the first of dev, val and test).")] = None,
    runs: Annotated[Path | None, option("DIR", "Directory of models and scores (default: DATA/experiments).")] = None,
    images: Images = None,
    inputs: Annotated[
        Inputs, typer.Option(help="Encoder, proposals and text features: ours; those of the paper's recipe; or both.")
    ] = Inputs.OURS,
    saved: Annotated[bool, flag("--saved", "Print what was computed before, and compute nothing.")] = False,
    json: Json = False,
) -> None:
    """Compute a table of a paper.

    Prints published figures, our figures, and whether the paper's claims hold. Missing models are trained first. An
    interrupted command continues where it stopped.
    """
    from deixis.papers.tables import find_table

    published = find_table(name)
    wanted = _select_rows(published, rows or [])
    if inputs is not Inputs.OURS and not published.paper_inputs:
        raise DeixisError(f"--inputs {inputs.value}: table {published.name} has no recipe of the paper's inputs")
    if data is None:
        _print_result(wanted, None, json)
        return
    from deixis.data.dataset import Dataset
    from deixis.papers.training import imported_regions, refuse_defining_changes
    from deixis.papers.training import sweep as swept

    for each in sweep or []:
        refuse_defining_changes(_select_rows(published, [each.partition(":")[0]]), [each.partition(":")[2]])
    refuse_defining_changes(published, set_ or [])
    wanted, set_ = swept(wanted, sweep or []), [*imported_regions(set_ or []), *(set_ or [])]
    dataset = Dataset(data, images=images)
    found = {
        kind: _compute(wanted, dataset, seeds, before, tuple(set_), split, runs, saved=saved)
        for kind, before in ((Inputs.PAPER, published.paper_inputs), (Inputs.OURS, ()))
        if inputs in (kind, Inputs.BOTH)
    }
    options: dict[str, Sequence[object]] = {
        "--data": [data],
        "--seeds": [seeds],
        "--set": set_,
        "--sweep": sweep or [],
        "--rows": rows or [],
        "--split": [split],
        "--runs": [runs],
        "--images": [images],
        "--inputs": [] if inputs is Inputs.OURS else [inputs.value],
    }
    words = [(option, str(value)) for option, values in options.items() for value in values if value is not None]
    command = shlex.join(["deixis", "table", name, *chain.from_iterable(words)])
    # The most common phrases of the data are added to the table of the paper's.
    shown = max((each.table for each in found.values()), key=lambda table: len(table.rows))
    _print_result(shown, _Ours(found, dataset, command), json)


@dataclass(frozen=True)
class _Ours:
    """Our results by their inputs, their data set, and the command that repeats them."""

    results: Mapping[Inputs, TableResult]
    dataset: Dataset
    command: str


def _select_rows(table: Table, requested: Sequence[str]) -> Table:
    """Return the table with the requested rows only."""
    keys = [key.strip() for keys in requested for key in keys.split(",") if key.strip()]
    if not keys:
        return table
    for key in keys:
        table.row(key)
    kept = tuple(row for row in table.rows if row.key in keys)
    return replace(table, rows=kept)


def _compute(
    table: Table,
    dataset: Dataset,
    seeds: int,
    inputs: tuple[str, ...],
    changes: tuple[str, ...],
    split: str | None,
    runs: Path | None,
    *,
    saved: bool,
) -> TableResult:
    from deixis.papers.datasets import check_requirements, choose_split
    from deixis.papers.runner import TableRunner, required_models
    from deixis.papers.training import FOLDER, ExperimentFolder, TableModels, check_changes, check_inputs

    folder = ExperimentFolder(runs or dataset.path / FOLDER, saved_only=saved)
    models = TableModels(dataset, folder, changes, inputs=inputs)
    check_requirements(table, dataset, split=split, features=bool(models.feature_dirs))
    trainings = required_models(table.rows)
    if changes and not trainings:
        raise DeixisError(f"--set {changes[0]}: table {table.name} trains no model")
    check_changes(changes, trainings)
    if not saved:
        check_inputs(models, trainings)
    scored = choose_split(dataset, split) if "dev" in table.needs else ""
    return TableRunner(models, scored, seeds, _show_progress).run(table)


@contextmanager
def _show_progress(label: str) -> Iterator[OnProgress]:
    hint(f"{label} …")
    with progress() as on_progress:
        yield on_progress


def _print_result(table: Table, ours: _Ours | None, json: bool) -> None:
    if json:
        print_json(_document(table, ours))
        return
    results = ours.results if ours else {}
    print(table.title)
    crossed = [found.split for found in results.values() if found.crossed]
    if crossed:
        print(_CROSSED.format(split=crossed[0]))
    print_table(_draw(table, results))
    for kind, found in results.items():
        inputs = ", with inputs like the paper’s" if kind is Inputs.PAPER else ""
        for heading, is_ours in (("What the paper claims", False), ("Our own comparisons", True)):
            claims = [each for each in found.claims if each.claim.is_ours == is_ours]
            if claims:
                print(f"\n{heading}{inputs}")
                print_table(_draw_claims(claims))
    print()
    for line in _footer(table, ours):
        print(line)


def _draw(table: Table, results: Mapping[Inputs, TableResult]) -> Drawn:
    """Draw the table: for each row the paper's figures, then ours, first with inputs like the paper's."""
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
        rows = {kind: found.ours[row.key] for kind, found in results.items() if row.key in found.ours}
        drawn.add_row(*_cells(table, row, rows))
    return drawn


def _cells(table: Table, row: Row, results: Mapping[Inputs, RowResult]) -> Iterator[str]:
    from rich.markup import escape

    published = [_published(row, index, column) for index, column in enumerate(table.columns)]
    lines = [("paper", published)] if any(published) or not results else []
    labels = {Inputs.PAPER: "recipe", Inputs.OURS: "ours"}
    lines += [(labels[kind], [_ours(found, column) for column in table.columns]) for kind, found in results.items()]
    yield escape(row.label)
    yield "\n".join(origin for origin, _ in lines)
    for index in range(len(table.columns)):
        yield "\n".join(figures[index] for _, figures in lines)


def _published(row: Row, index: int, column: Column) -> str:
    if column.name in row.lost:
        return _LOST
    figure = row.figures[index] if row.figures else None
    return "" if figure is None else f"{figure:,.{column.decimals}f}"


def _ours(result: RowResult, column: Column) -> str:
    """Format the mean over seeds and half the width of its interval."""
    score = result.score(column.name)
    if score is None:
        return "diverged" if result.diverged else ""
    bounds = result.interval(column.name)
    return f"{score:,.{column.decimals}f}" + (f" ±{(bounds.high - bounds.low) / 2:.1f}" if bounds else "")


def _draw_claims(claims: Sequence[ClaimTest]) -> Drawn:
    from rich import box
    from rich.table import Table as Drawn

    drawn = Drawn(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in ("claim", "score", "difference", "95 % interval", "by seed", "p", "verdict"):
        drawn.add_column(heading, justify="left" if heading in ("claim", "verdict") else "right")
    for each in claims:
        found = each.difference
        seeds = " ".join(f"{difference:+.1f}" for difference in each.by_seed)
        interval = f"{found.low:+.2f} – {found.high:+.2f}"
        equal = "" if each.claim.margin is None else f" (equal within ±{each.claim.margin:g})"
        says, p = each.claim.says + equal, f"{each.p:.3f}"
        drawn.add_row(says, each.claim.score, f"{found.difference:+.2f}", interval, seeds, p, each.verdict)
    return drawn


def _footer(table: Table, ours: _Ours | None) -> Iterator[str]:
    """Yield lines about the origin of the figures and how to repeat them."""
    yield f"paper: {table.paper}, on {' and '.join(table.data)}"
    yield from table.notes
    if ours is None:
        return
    from deixis.papers.datasets import identify_dataset

    data = ours.dataset
    yield f"ours: {data.path} ({identify_dataset(data) or 'none of the papers’ data sets'}; {data.manifest.hash[:19]}…)"
    for kind, found in ours.results.items():
        if kind is Inputs.PAPER:
            yield f"recipe: the same models with inputs like the paper’s ({' '.join(table.paper_inputs)})"
        elif len(ours.results) > 1:
            yield "ours: with our own inputs"
        yield from _about_scores(table, found, data)
    if any(found.claims for found in ours.results.values()):
        yield "a claim is decided if p, corrected for the number of claims, is below 0.05 and all seeds agree"
    yield from _left_out(table, {key for found in ours.results.values() for key in found.ours})
    yield f"repeat with: {ours.command}"


def _about_scores(table: Table, found: TableResult, data: Dataset) -> Iterator[str]:
    from deixis.papers.runner import required_models, values_in_words

    if not found.split:
        return
    photos = plural(data.manifest.splits[found.split], "photo")
    models = f"mean of {found.seeds} seeds" if found.seeds > 1 else "one model each"
    yield f"scored on {found.split}: {photos}, {found.split_hash[:19]}…; {models}"
    yield "± is half of the 95 % interval over photos"
    if not found.crossed and any(training.repeated for training in required_models(table.rows)):
        yield "networks use the epoch that scored best on dev or val"
    kept = {key: result.kept for key, result in found.ours.items() if result.kept}
    if kept:
        halves = " (of the first half / of the second)" if found.crossed else ""
        rows = (f"{key} {', '.join(' / '.join(seed) for seed in seeds)}" for key, seeds in kept.items())
        yield f"chosen for each seed{halves}: {'; '.join(rows)}"
    diverged = [key for key, result in found.ours.items() if result.diverged]
    if diverged:
        yield f"not measured, because the training of a seed diverged: {', '.join(diverged)}"
    tried: dict[tuple[str, ...], list[str]] = {}
    for key in found.ours:
        tried.setdefault(found.budgets.get(key, ()), []).append(key)
    if any(tried):
        for settings, keys in tried.items():
            models = f"the best of {len(settings)} trainings: {', '.join(settings)}" if settings else "one training"
            yield f"budget of {', '.join(keys[:_MAX_LISTED])}{' …' * (len(keys) > _MAX_LISTED)}: {models}"
    yield "; ".join(f"{name}: {values_in_words(words)}" for name, words in found.about.items())


def _left_out(table: Table, computed: Collection[str]) -> Iterator[str]:
    """Yield why rows have no figures of ours, grouped by reason. Other groups' systems need no reason."""
    from deixis.papers.tables import NOT_OURS

    reasons: dict[str, list[str]] = {}
    for row in table.rows:
        if row.key not in computed and row.why_not != NOT_OURS:
            reasons.setdefault(row.why_not or "not in this data, or not computed", []).append(row.key)
    for reason, keys in reasons.items():
        more = f" and {len(keys) - _MAX_LISTED} more" if len(keys) > _MAX_LISTED else ""
        yield f"no figures of ours for {', '.join(keys[:_MAX_LISTED])}{more}: {reason}"


def _document(table: Table, ours: _Ours | None) -> dict[str, Any]:
    """Return the table as a JSON document."""
    document: dict[str, Any] = {
        "table": table.name,
        "title": table.title,
        "paper": table.paper,
        "published_on": list(table.data),
        "notes": list(table.notes),
        "columns": [column.name for column in table.columns],
        "rows": [_row_document(table, row, ours.results if ours else {}) for row in table.rows],
    }
    if ours is None:
        return document
    from deixis.papers.datasets import identify_dataset

    dataset, results = ours.dataset, ours.results
    found = next((each for each in results.values() if each.split), next(iter(results.values())))
    document |= {
        "data": str(dataset.path),
        "data_name": identify_dataset(dataset),
        "data_hash": dataset.manifest.hash,
        "split": found.split or None,
        "split_hash": found.split_hash or None,
        "photos": dataset.manifest.splits.get(found.split),
        "seeds": found.seeds,
        "halves": found.crossed,
        "command": ours.command,
    }
    for kind, each in results.items():
        about = {
            "about": {name: list(words) for name, words in each.about.items()},
            "claims": [_claim_document(claim) for claim in each.claims],
        }
        document |= about if kind is Inputs.OURS else {"recipe": about}
    return document


def _row_document(table: Table, row: Row, results: Mapping[Inputs, TableResult]) -> dict[str, Any]:
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
    for kind, found in results.items():
        if row.key in found.ours:
            scores = _score_document(names, found.ours[row.key])
            document |= scores if kind is Inputs.OURS else {"recipe": scores}
            document["budget"] = list(found.budgets.get(row.key, ()))
    return document


def _score_document(names: Sequence[str], result: RowResult) -> dict[str, Any]:
    bounds = {name: result.interval(name) for name in names}
    return {
        "ours": {name: result.score(name) for name in names},
        "interval": {name: [found.low, found.high] if found else None for name, found in bounds.items()},
        "by_seed": {name: list(result.by_seed(name)) for name in names},
        "chosen": [list(seed) for seed in result.kept],
        "diverged": result.diverged,
    }


def _claim_document(test: ClaimTest) -> dict[str, Any]:
    claim, found = test.claim, test.difference
    return {
        "claim": claim.says,
        "better": claim.better,
        "worse": claim.worse,
        "score": claim.score,
        "margin": claim.margin,
        "is_ours": claim.is_ours,
        "difference": found.difference,
        "interval": [found.low, found.high],
        "p": found.p,
        "p_corrected": test.p,
        "by_seed": list(test.by_seed),
        "verdict": test.verdict,
    }
