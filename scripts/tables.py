"""Compute the tables of the papers on one machine, several models at a time, and write docs/results.md.

python scripts/tables.py DATA … --out docs/scores --page docs/results.md [--tables NAME …] [--minutes 15]
python scripts/tables.py --out docs/scores --page docs/results.md

The first form computes what is missing: features first, then the models, --jobs of them at a time on one GPU, in the
order of --tables. Scores are saved as they are computed (--runs, by default DATA/experiments, with the seconds of each
in log.jsonl), and the next run continues. After --minutes, trainings that are not done are stopped. Each table is
computed on the first DATA that it can be computed on; --test names those that are scored on their split test, with
choices on dev. What is complete is written to OUT, one JSON document per table, and the section of tables in the page
is written again.

The second form only writes the page from the documents in OUT.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from deixis.data.dataset import Dataset, Photos
from deixis.errors import DeixisError
from deixis.papers.datasets import check_requirements, choose_split
from deixis.papers.runner import ScoringUnit, TableRunner, required_models
from deixis.papers.tables import NOT_OURS, Row, Table, find_table, published_tables
from deixis.papers.training import FOLDER, ExperimentFolder, TableModels

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
"""The part of the page that is written: what lies between these two lines."""


@dataclass(frozen=True)
class Options:
    """What is computed."""

    data: tuple[Path, ...]
    tables: tuple[str, ...]
    inputs: str
    seeds: int
    changes: tuple[str, ...]
    test: tuple[str, ...]
    runs: Path | None
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """Units that share models, as positions in the list of all units, so that no model is trained twice at a time."""

    units: tuple[int, ...]
    names: tuple[str, ...]


def data_of(table: Table, options: Options) -> Dataset | None:
    """The first data set that a table can be computed on."""
    for path in options.data:
        dataset = Dataset(path)
        try:
            check_requirements(table, dataset, split=_split(table, options))
        except DeixisError:
            continue
        return dataset
    return None


def _split(table: Table, options: Options) -> str | None:
    return "test" if table.name in options.test else None


def inputs_of(table: Table, options: Options) -> list[tuple[str, tuple[str, ...]]]:
    """The inputs of a table by name, with the changes of settings that make them."""
    found = [("paper", table.paper_inputs)] if table.paper_inputs and options.inputs != "ours" else []
    return found + ([("ours", ())] if options.inputs != "paper" else [])


@cache
def all_units(options: Options) -> list[tuple[str, ScoringUnit]]:
    """Everything that has to be computed, with a name; each score once."""
    found: dict[Path, tuple[str, ScoringUnit]] = {}
    for name in options.tables:
        table = find_table(name)
        if options.only:
            table = replace(table, rows=tuple(row for row in table.rows if row.key in options.only))
        dataset = data_of(table, options)
        if dataset is None:
            continue
        scored = choose_split(dataset, _split(table, options)) if "dev" in table.needs else ""
        runs = ExperimentFolder(options.runs or dataset.path / FOLDER)
        for kind, before in inputs_of(table, options):
            models = TableModels(dataset, runs, (*before, *options.changes))
            for unit in TableRunner(models, scored, options.seeds).units(table):
                half = unit.runner.models.select_on
                model = f"{unit.recipe.model.model} {unit.recipe.model.settings}" if unit.recipe.model else ""
                label = f"{name} {kind} {unit.recipe.task} {model} seed {unit.seed} {half}"
                found.setdefault(unit.folder, (label, unit))
    return list(found.values())


def make_jobs(units: Sequence[tuple[str, ScoringUnit]]) -> list[Job]:
    """Put units that share a model into one job; jobs are in the order of their first unit."""
    group: dict[Path, list[int]] = {}
    jobs: list[list[int]] = []
    for number, (_, unit) in enumerate(units):
        if unit.folder.is_dir():
            continue
        near = {id(group[path]): group[path] for path in unit.models if path in group}
        merged = sorted([number, *(other for each in near.values() for other in each)])
        jobs = [each for each in jobs if id(each) not in near] + [merged]
        for other in merged:
            group.update(dict.fromkeys(units[other][1].models, merged))
    jobs.sort(key=lambda each: each[0])
    return [Job(tuple(each), tuple(units[number][0] for number in each)) for each in jobs]


def run_job(options: Options, job: Job) -> list[tuple[str, float, str]]:
    """Compute the units of a job in this process; return the name, the seconds and the error of each."""
    units = all_units(options)
    done = []
    for number, name in zip(job.units, job.names, strict=True):
        started, error = time.monotonic(), ""
        try:
            units[number][1].compute()
        except DeixisError as problem:
            error = str(problem)
        done.append((name, time.monotonic() - started, error))
    return done


def _run_job(arguments: tuple[Options, Job]) -> list[tuple[str, float, str]]:
    return run_job(*arguments)


@dataclass(frozen=True)
class Preparation:
    """Features that several models take: image features, text features, or the trees of sentences."""

    kind: str
    data: Path
    settings: Any = None

    def run(self) -> None:
        from deixis.language.sentence import Sentence
        from deixis.models.hm_lstm.data import TREES_DIR
        from deixis.models.hm_lstm.trees import parse_forest
        from deixis.models.photo_features import sentence_vectors
        from deixis.models.training.data import read_photos

        dataset = Dataset(self.data)
        if self.kind == "images":
            rows = np.unique(np.concatenate([dataset.split(name).rows for name in dataset.manifest.splits]))
            read_photos(dataset, Photos(dataset, rows), self.settings)
        elif self.kind == "text":
            data = self.settings
            sentence_vectors(dataset, dataset.split(data.train_split), data.text_recipe(), train=data.train_split)
        else:
            photos = dataset.split(self.settings)
            sentences = [Sentence.from_caption(caption) for photo in photos for caption in photo.sentences]
            parse_forest(sentences, dataset.path / TREES_DIR)


def _prepare(preparation: Preparation) -> tuple[str, float, str]:
    started, error = time.monotonic(), ""
    try:
        preparation.run()
    except DeixisError as problem:
        error = str(problem)
    return f"{preparation.kind} {preparation.data.name}", time.monotonic() - started, error


def preparations(units: Iterable[tuple[str, ScoringUnit]]) -> list[Preparation]:
    """What models share, each once; of the region proposals the largest number."""
    from deixis.models.training.data import DataSettings, MatchingDataSettings

    images: dict[tuple[Any, ...], Preparation] = {}
    others: dict[tuple[Any, ...], Preparation] = {}
    for _, unit in units:
        dataset = unit.runner.dataset
        for training in unit.trainings:
            settings = unit.runner.models.settings(training, unit.seed)
            data = settings.get(DataSettings)
            source = getattr(data, "feature_source", None)
            if data is None or source is None:
                continue
            proposals = source.proposal_source
            key = (dataset.path, source.encoder, source.features_dir, source.crops, proposals and proposals.name)
            known = images.get(key)
            most = known.settings.proposal_source.max_proposals if known and proposals else 0
            if known is None or (proposals and proposals.max_proposals > most):
                images[key] = Preparation("images", dataset.path, source)
            if isinstance(data, MatchingDataSettings) and settings.to_json().get("text_encoder", "none") == "none":
                recipe = data.text_recipe()
                text = ("text", recipe.folder(dataset.path), recipe.vectors)
                others.setdefault(text, Preparation("text", dataset.path, data))
            if training.model == "hm-lstm":
                others.setdefault(("trees", dataset.path), Preparation("trees", dataset.path, data.train_split))
    # A store with proposals serves models without regions too.
    with_regions = {key[:4] for key in images if key[4]}
    needed = [each for key, each in images.items() if key[4] or key[:4] not in with_regions]
    return [*needed, *others.values()]


def compute(options: Options, jobs: int, seconds: float, log: Path) -> bool:
    """Compute what is missing in `jobs` processes; return whether all of it was done in time."""
    started = time.monotonic()

    def left() -> float:
        return max(started + seconds - time.monotonic(), 0.0)

    units = all_units(options)
    todo = [unit for unit in units if not unit[1].folder.is_dir()]
    print(f"{len(units)} scores, {len(todo)} to compute", file=sys.stderr)
    if not todo:
        return True
    # Image features lock their stores, so a preparation that shares a folder with another waits for the next round.
    log.parent.mkdir(parents=True, exist_ok=True)
    needed = preparations(todo)
    prepared = _in_processes(_prepare, needed, min(4, len(needed)), left, log)
    work = [(options, job) for job in make_jobs(units)]
    return _in_processes(_run_job, work, min(jobs, len(work)), left, log) and prepared


def _in_processes(function: Any, work: Sequence[Any], jobs: int, left: Any, log: Path) -> bool:
    """Run work in processes until it is done or the time is over; log each result; whether all of it was done."""
    if not work:
        return True
    threads = str(max((os.cpu_count() or 1) // jobs, 1))
    environment = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)  # read by the processes when they start
    started, complete = time.monotonic(), True
    try:
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            results = pool.imap_unordered(function, work)
            for done in range(len(work)):
                try:
                    found = results.next(timeout=left())
                except multiprocessing.TimeoutError:
                    print(f"time is over: {len(work) - done} of {len(work)} not done", file=sys.stderr)
                    return False  # leaving the block stops the processes
                for name, seconds, error in found if isinstance(found, list) else [found]:
                    complete = complete and not error
                    at = time.monotonic() - started
                    line = f"{done + 1}/{len(work)} at {at:.0f} s: {name}: {error or f'{seconds:.1f} s'}"
                    print(line, file=sys.stderr, flush=True)
                    with log.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({"name": name, "seconds": round(seconds, 2), "error": error}) + "\n")
        return complete
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def save_documents(options: Options, out: Path) -> None:
    """Write the saved scores of each table as one JSON document, as `deixis table --json` prints them."""
    out.mkdir(parents=True, exist_ok=True)
    for name in options.tables:
        table = find_table(name)
        dataset = data_of(table, options)
        if dataset is None:
            continue
        inputs = options.inputs if table.paper_inputs else "ours"
        command = [sys.executable, "-m", "deixis", "table", name, "--data", str(dataset.path), "--saved", "--json"]
        command += ["--seeds", str(options.seeds), "--inputs", inputs]
        command += [word for change in _changes_of(table, dataset, options.changes) for word in ("--set", change)]
        command += ["--split", "test"] if name in options.test else []
        command += ["--runs", str(options.runs)] if options.runs else []
        found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
        if found.returncode:
            print(f"{name}: {found.stderr.strip()}", file=sys.stderr)
            continue
        document = json.loads(found.stdout)
        document["data"] = dataset.path.name  # where it was on this machine does not matter
        document["command"] = document["command"].replace(str(dataset.path), dataset.path.name)
        if any(row["ours"] or row.get("recipe") for row in document["rows"]):
            text = json.dumps(document, indent=1, ensure_ascii=False)
            (out / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def _changes_of(table: Table, dataset: Dataset, changes: Sequence[str]) -> list[str]:
    """The changes of settings that a model of the table has; `deixis table` refuses others."""
    models = TableModels(dataset, ExperimentFolder(dataset.path))
    names = {name for each in required_models(table.rows) for name in models.settings(each, 0).to_json()}
    return [change for change in changes if change.partition("=")[0].strip() in names]


# The page.


def write_page(page: Path, out: Path) -> None:
    """Write the tables into the page, between the two marks."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN + "\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise DeixisError(f"{page}: the lines {BEGIN} and {END} are missing")
    lines = [line for name, table in published_tables().items() for line in _table_lines(table, _read(out, name))]
    page.write_text(before + begin + "\n".join(lines) + "\n" + end + after, encoding="utf-8")


def _read(out: Path, name: str) -> dict[str, Any] | None:
    path = out / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _table_lines(table: Table, document: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield a table in Markdown: its rows, measured or with the reason why not, and the claims."""
    yield f"### {table.name}: {table.title}"
    if document:
        yield from _about_lines(document)
    columns = [column.heading for column in table.columns]
    yield ""
    yield f"| | | {' | '.join(columns)} | chosen |"
    yield "|---" * (len(columns) + 3) + "|"
    known = {row["key"]: row for row in document["rows"]} if document else {}
    part = ""
    for row in table.rows:
        if row.part != part:
            part = row.part
            yield f"| **{part}** |" + " |" * (len(columns) + 2)
        yield from _row_lines(table, row, known.get(row.key, {}))
    yield from _claim_lines(document)
    yield ""


def _about_lines(document: Mapping[str, Any]) -> Iterator[str]:
    where = document.get("data_name") or document["data"]
    if document["split"]:
        seeds = f"{document['seeds']} seeds" if document["seeds"] > 1 else "one model each"
        halves = ", chosen on one half and scored on the other" if document["halves"] else ", chosen on dev"
        yield f"{where} {document['split']} (`{document['split_hash'][:19]}…`), {seeds}{halves}."
    else:
        yield f"{where} (`{document['data_hash'][:19]}…`)."
    for label, about in (("Recipe", document.get("recipe", {}).get("about")), ("Ours", document.get("about"))):
        if about:
            words = (f"{name} {' or '.join(values)}" for name, values in about.items())
            yield f"{label}: {'; '.join(words)}."


def _row_lines(table: Table, row: Row, saved: Mapping[str, Any]) -> Iterator[str]:
    published = [
        "?" if column.name in row.lost else _number(figure, column.decimals)
        for column, figure in zip(table.columns, row.figures or (None,) * len(table.columns), strict=True)
    ]
    measured = [("recipe", saved["recipe"])] if saved.get("recipe") else []
    measured += [("ours", saved)] if saved.get("ours") else []
    label = row.label.replace("|", "\\|")
    if any(published):
        reason = "" if measured else _reason(table, row)
        yield f"| {label} | paper | {' | '.join(published)} | {reason} |"
        label = ""
    elif not measured:
        yield f"| {label} | | {' | '.join(published)} | {_reason(table, row)} |"
    for kind, scores in measured:
        cells = []
        for column in table.columns:
            score, interval = scores["ours"][column.name], scores["interval"][column.name]
            half = f" ± {(interval[1] - interval[0]) / 2:.{column.decimals}f}" if interval else ""
            cells.append(_number(score, column.decimals) + half)
        chosen = ", ".join(" / ".join(each) for each in scores["chosen"]).replace("epoch ", "")
        yield f"| {label} | {kind} | {' | '.join(cells)} | {chosen} |"
        label = ""


def _number(figure: float | None, decimals: int) -> str:
    return "" if figure is None else f"{figure:,.{decimals}f}"


def _reason(table: Table, row: Row) -> str:
    """Why a row has no figures of ours: what it lacks, in one line."""
    if row.why_not:
        return row.why_not if row.why_not != NOT_OURS else "another group's system"
    if row.data:
        return f"not computed: needs {row.data}"
    return "not computed" if table.any_data else f"not computed: needs {' or '.join(table.data)}"


def _claim_lines(document: Mapping[str, Any] | None) -> Iterator[str]:
    if document is None:
        return
    kinds = {"recipe": document.get("recipe", {}).get("claims", []), "ours": document.get("claims", [])}
    found: dict[tuple[str, str], dict[str, str]] = {}
    for kind, claims in kinds.items():
        for each in claims:
            low, high = each["interval"]
            verdict = f"{each['verdict']}, {each['difference']:+.1f} [{low:+.1f}, {high:+.1f}]"
            found.setdefault((each["claim"], each["score"]), {})[kind] = verdict
    if not found:
        return
    yield ""
    yield "| claim | score | recipe | ours |"
    yield "|---|---|---|---|"
    for (claim, score), verdicts in found.items():
        yield f"| {claim} | {score} | {verdicts.get('recipe', '')} | {verdicts.get('ours', '')} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--tables", nargs="+", default=list(published_tables()))
    parser.add_argument("--rows", nargs="+", default=[], help="compute only rows with these keys")
    parser.add_argument("--inputs", choices=["ours", "paper", "both"], default="both")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    parser.add_argument("--test", nargs="+", default=["m-rnn-1", "m-rnn-2"], metavar="NAME")
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--jobs", type=int, default=max((os.cpu_count() or 2) // 2, 1))
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--plan", action="store_true", help="print what would be computed")
    given = parser.parse_args(arguments)
    data = tuple(path.absolute() for path in given.data)
    options = Options(
        data, tuple(given.tables), given.inputs, given.seeds, tuple(given.changes), tuple(given.test), given.runs,
        tuple(given.rows),
    )  # fmt: skip
    try:
        if given.plan:
            for job in make_jobs(all_units(options)):
                print(*job.names, sep="\n  ")
            return 0
        complete = True
        if data:
            seconds = min(given.minutes * 60, 10 * 365 * 86400)
            complete = compute(options, given.jobs, seconds, (given.runs or data[0] / FOLDER) / "log.jsonl")
            save_documents(replace(options, only=()), given.out)
        if given.page:
            write_page(given.page, given.out)
    except DeixisError as error:
        print(f"tables: {error}", file=sys.stderr)
        return 2
    return 0 if complete else 3


if __name__ == "__main__":
    sys.exit(main())
