"""Compute the tables of the papers on one machine, several models at a time, and write their pages.

python scripts/tables.py DATA … --out docs/scores [--tables NAME …] [--minutes 15]
python scripts/tables.py --out docs/scores --page docs/results/*.md --results docs/results.md \
    --claims docs/claims.md --comparisons docs/comparisons.md

The first form computes what is missing: features first, then the models, --jobs of them at a time on one GPU. Rows that
a claim of a paper needs come first, then those of our own comparisons, then the others, each in the order of --tables.
Scores are saved as they are computed (--runs, by default DATA/experiments, with the seconds of each in log.jsonl), and
the next run continues, on another machine too if --runs is copied. After --minutes, trainings that are not done are
stopped. Each table is computed on the first DATA that it can be computed on and on those whose figures it has; --test
names the tables that are scored on their split test, with choices on dev. --ranks FILE keeps what verdicts need: scores
and ranks, without models; a file that is there is read first. OUT has one JSON document per table and data set, which
is replaced once all rows that it has are computed again.

The second form only writes pages from the documents in OUT: the tables of each paper into the page that is named after
it, the table that the page of results opens with, and each claim of the papers and each comparison of our own with its
verdict into the pages of these. The first form writes them too if they are named.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from deixis.data.dataset import Dataset, Photos
from deixis.errors import DeixisError
from deixis.papers.datasets import check_requirements, choose_split, identify_dataset
from deixis.papers.results import ModelScores
from deixis.papers.runner import (
    SEARCH_SEED,
    TableRunner,
    is_repeated,
    required_models,
    row_applies,
    values_in_words,
)
from deixis.papers.tables import NOT_OURS, Claim, Column, Row, RowRecipe, Table, Training, find_table, published_tables
from deixis.papers.training import FOLDER, SCORE_FOLDER, ExperimentFolder, MissingScoresError, TableModels
from deixis.storage.atomic import new_directory, new_file

STANDS_FOR = {"MS-COCO-region": ("MS COCO",)}
"""Data sets that a table is also computed on, because the paper's cannot be had: regions by scripts/coco_regions.py."""

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
CLAIMS_BEGIN, CLAIMS_END = "<!-- claims: begin -->", "<!-- claims: end -->"
"""The parts of the two pages that are written: what lies between these lines."""

UNTESTED = Path(__file__).with_name("untested_claims.toml")

HEADLINES_BEGIN, HEADLINES_END = "<!-- headlines: begin -->", "<!-- headlines: end -->"
HEADLINES = (
    ("Flickr30k Entities", "annotations", "entities-1", "total", ("chains", "mentions_per_chain", "boxes_per_chain")),
    ("", "CCA, weighted distance", "entities-3", "weighted", ("i2t_r1", "t2i_r1")),
    ("", "CCA, phrases", "entities-4", "overall", ("r1",)),
    ("two-branch", "embedding network, phrases", "two-branch-1", "constraints", ("r1",)),
    ("", "similarity network, phrases", "two-branch-1", "sim", ("r1",)),
    ("", "embedding network, sentences", "two-branch-2", "constraints", ("i2t_r1", "t2i_r1")),
    ("", "sentences by sentences", "two-branch-4", "constraints", ("s2s_r1",)),
    ("m-RNN", "retrieval", "m-rnn-3", "m-rnn", ("i2t_r1", "t2i_r1")),
    ("", "captions", "m-rnn-5", "flickr8k-m-rnn", ("perplexity", "bleu4")),
    ("", "captions, reranked by CIDEr", "m-rnn-8", "cider", ("bleu4", "cider_d")),
    ("", "captions", "m-rnn-1", "m-rnn", ("perplexity", "bleu4")),
    ("HM-LSTM", "retrieval", "hm-lstm-1", "hm-lstm", ("i2t_r1", "t2i_r1")),
    ("", "region–phrase", "hm-lstm-4", "hm-lstm", ("r1", "medr")),
)
"""The rows that the page of results opens with: paper, task, table, row and scores."""


@dataclass(frozen=True)
class Options:
    """What is computed."""

    data: tuple[Path, ...]
    tables: tuple[str, ...]
    inputs: str
    seeds: int
    changes: tuple[str, ...]
    test: tuple[str, ...]
    runs: Path
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScoringUnit:
    """The scores of one model of a table."""

    runner: TableRunner
    recipe: RowRecipe
    seed: int

    @property
    def models(self) -> tuple[Path, ...]:
        """Directories of the models that are trained for it."""
        if self.recipe.counts_only:
            return ()
        models = self.runner.models
        return tuple(models.runs.model(each.model, models.about(each, self.seed)) for each in self.trainings)

    @property
    def trainings(self) -> tuple[Training, ...]:
        """The models whose inputs are read."""
        if self.recipe.task == "recurrent-layer":
            return ()
        named = [self.recipe.model, self.recipe.parts, self.recipe.model.auxiliary if self.recipe.model else None]
        return tuple(each for each in named if each)

    @property
    def folder(self) -> Path:
        """Directory of the scores."""
        return self.runner.models.runs.score_folder(self.recipe.task, self.runner.about(self.recipe, self.seed))

    def compute(self) -> ModelScores:
        """Train the model and score it, unless that was done before."""
        return self.runner.scores(self.recipe, self.seed, "")


def units_of(runner: TableRunner, table: Table) -> Iterator[ScoringUnit]:
    """Yield what has to be computed for a table: the scores that choose, then those of all seeds with the choice.

    The latter are left out where scores that choose are not computed yet.
    """
    recipes = (
        replace(runner.prepare(row.recipe), group="")
        for row in table.rows
        if row.recipe and row_applies(row, table, runner.dataset)
    )
    for recipe in dict.fromkeys(recipes):
        for choice in runner.choices(recipe):
            for each in choice.searched:
                yield ScoringUnit(choice.chooser, each, SEARCH_SEED)
            try:
                best = replace(choice, chooser=saved_only(choice.chooser)).best("")
            except MissingScoresError:
                continue
            for seed in range(runner.seeds if is_repeated(recipe) else 1):
                yield ScoringUnit(choice.scorer, best, seed)


def saved_only(runner: TableRunner) -> TableRunner:
    """Return a runner that computes no scores."""
    runs = ExperimentFolder(runner.models.runs.folder, saved_only=True)
    return replace(runner, models=replace(runner.models, runs=runs))


def importance(table: Table, key: str) -> int:
    """Return 0 for a row that a claim of the paper needs or the page of results opens with, 1 for our comparisons."""
    if any(key in (claim.better, claim.worse) and not claim.is_ours for claim in table.claims):
        return 0
    if any(key in (claim.better, claim.worse) for claim in table.claims):
        return 1
    return 0 if (table.name, key) in {(name, row) for _, _, name, row, _ in HEADLINES} else 2


@dataclass(frozen=True)
class Job:
    """Units that share models, by the directories of their scores, so that no model is trained twice at a time."""

    units: tuple[Path, ...]
    names: tuple[str, ...]


def data_of(table: Table, options: Options) -> list[Dataset]:
    """The first data set that a table can be computed on, and those that the paper has figures of."""
    found: list[Dataset] = []
    for path in options.data:
        dataset = Dataset(path)
        try:
            check_requirements(table, dataset, split=_split(table, options))
        except DeixisError:
            continue
        name = identify_dataset(dataset)
        is_new = name not in map(identify_dataset, found)
        if not found or (is_new and name in (*table.data, *STANDS_FOR.get(table.data[0], ()))):
            found.append(dataset)
    return found


def _split(table: Table, options: Options) -> str | None:
    return "test" if table.name in options.test else None


def inputs_of(table: Table, options: Options) -> list[tuple[str, tuple[str, ...]]]:
    """The inputs of a table by name, with the changes of settings that make them."""
    found = [("paper", table.paper_inputs)] if table.paper_inputs and options.inputs != "ours" else []
    return found + ([("ours", ())] if options.inputs != "paper" else [])


def all_units(options: Options) -> list[tuple[str, ScoringUnit]]:
    """Everything that can be computed now, with a name; each score once, the most important first."""
    found: dict[Path, tuple[str, ScoringUnit]] = {}
    for level in range(3):
        for name in options.tables:
            table = find_table(name)
            rows = (row for row in table.rows if not options.only or row.key in options.only)
            few = replace(table, rows=tuple(row for row in rows if importance(table, row.key) == level))
            for dataset in data_of(table, options) if few.rows else ():
                for label, unit in _units_on(few, dataset, options):
                    found.setdefault(unit.folder, (label, unit))
    return list(found.values())


def _units_on(table: Table, dataset: Dataset, options: Options) -> Iterator[tuple[str, ScoringUnit]]:
    scored = choose_split(dataset, _split(table, options)) if "dev" in table.needs else ""
    runs = ExperimentFolder(options.runs)
    for kind, before in inputs_of(table, options):
        changes = tuple(_changes_of(table, dataset, options.changes))
        models = TableModels(dataset, runs, changes, inputs=before)
        for unit in units_of(TableRunner(models, scored, options.seeds), table):
            half = unit.runner.models.select_on
            training = unit.recipe.model
            model = f"{training.model} {training.settings} {' '.join(training.changes)}" if training else ""
            yield f"{table.name} {kind} {unit.recipe.task} {model} seed {unit.seed} {half}", unit


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
    return [Job(tuple(units[n][1].folder for n in each), tuple(units[n][0] for n in each)) for each in jobs]


@cache
def _units_by_folder(options: Options) -> dict[Path, ScoringUnit]:
    return {unit.folder: unit for _, unit in all_units(options)}


def run_job(options: Options, job: Job) -> list[tuple[str, float, str]]:
    """Compute the units of a job in this process; return the name, the seconds and the error of each."""
    units = _units_by_folder(options)
    done = []
    for folder, name in zip(job.units, job.names, strict=True):
        started, error = time.monotonic(), ""
        try:
            units[folder].compute()
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
        from deixis.models.hm_lstm.correspondence import TREES_DIR
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

    log.parent.mkdir(parents=True, exist_ok=True)
    complete, failed = True, set[Path]()
    while True:  # the scores that choose, then those of the chosen settings
        units = [unit for unit in all_units(options) if unit[1].folder not in failed]
        todo = [unit for unit in units if not unit[1].folder.is_dir()]
        print(f"{len(units)} scores, {len(todo)} to compute", file=sys.stderr)
        if not todo:
            return complete and not failed
        # Image features lock their stores, so a preparation that shares a folder with another waits for the next round.
        needed = preparations(todo)
        complete = _in_processes(_prepare, needed, min(4, len(needed)), left, log) and complete
        work = [(options, job) for job in make_jobs(units)]
        complete = _in_processes(_run_job, work, min(jobs, len(work)), left, log) and complete
        if not left():
            return False
        failed |= {unit.folder for _, unit in todo if not unit.folder.is_dir()}


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
    for name, number in ((name, number) for name in options.tables for number in range(len(options.data))):
        table = find_table(name)
        datasets = data_of(table, options)
        if number >= len(datasets):
            continue
        dataset, inputs = datasets[number], options.inputs if table.paper_inputs else "ours"
        command = [sys.executable, "-m", "deixis", "table", name, "--data", str(dataset.path), "--saved", "--json"]
        command += ["--seeds", str(options.seeds), "--inputs", inputs]
        command += [word for change in _changes_of(table, dataset, options.changes) for word in ("--set", change)]
        command += ["--split", "test"] if name in options.test else []
        command += ["--runs", str(options.runs)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
        if found.returncode:
            print(f"{name}: {found.stderr.strip()}", file=sys.stderr)
            continue
        document = json.loads(found.stdout)
        document["data"] = dataset.path.name  # where it was on this machine does not matter
        document["command"] = (
            document["command"].replace(f" --runs {options.runs}", "").replace(str(dataset.path), dataset.path.name)
        )
        document["further"] = number > 0  # whether the table is computed on another data set too, which comes first
        on = document["data_name"].replace(" ", "-").lower()
        path = out / (f"{name}@{on}.json" if number else f"{name}.json")
        missing = measured_rows(path) - _measured_rows(document)
        if missing:
            print(
                f"{path.name}: kept; not computed again yet: {', '.join(sorted(map(' '.join, missing)))}",
                file=sys.stderr,
            )
        elif _measured_rows(document):
            path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def measured_rows(path: Path) -> set[tuple[str, str]]:
    """Return the rows of a saved document, by their inputs, that claims of the paper need and that have scores."""
    if not path.is_file():
        return set()
    document = json.loads(path.read_text(encoding="utf-8"))
    table = find_table(document["table"])
    needed = {row.key for row in table.rows if importance(table, row.key) == 0}
    return {(key, kind) for key, kind in _measured_rows(document) if key in needed}


def _measured_rows(document: Document) -> set[tuple[str, str]]:
    return {(row["key"], kind) for row in document["rows"] for kind, _ in _measured(row)}


def _changes_of(table: Table, dataset: Dataset, changes: Sequence[str]) -> list[str]:
    """The changes of settings that a model of the table has; `deixis table` refuses others."""
    models = TableModels(dataset, ExperimentFolder(dataset.path))
    names = {name for each in required_models(table.rows) for name in models.settings(each, 0).to_json()}
    return [change for change in changes if change.partition("=")[0].strip() in names]


def read_ranks(file: Path, runs: Path) -> None:
    """Unpack the scores of another machine; those that are there stay."""
    with zipfile.ZipFile(file) as archive:
        folders = {name.partition("/")[0] for name in archive.namelist()}
        for folder in sorted(folders):
            if not (runs / SCORE_FOLDER / folder).exists():
                with new_directory(runs / SCORE_FOLDER / folder) as unfinished:
                    for name in archive.namelist():
                        if name.startswith(f"{folder}/"):
                            (unfinished / Path(name).name).write_bytes(archive.read(name))


def write_ranks(file: Path, runs: Path) -> None:
    """Pack all scores with their ranks, without the models."""
    with new_file(file) as unfinished, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((runs / SCORE_FOLDER).glob("*/*")):
            archive.write(path, path.relative_to(runs / SCORE_FOLDER))


# The pages.


def write_page(page: Path, out: Path) -> None:
    """Write the tables whose names begin with that of the page, between the two marks: entities-1 into entities.md."""
    found = {name: table for name, table in published_tables().items() if name.startswith(page.stem)}
    lines = []
    for table in found.values():
        documents = _documents(out, table)
        for number, document in enumerate(documents or [None]):
            lines += _table_lines(table, document, [] if number else documents[1:])
    _replace_between(page, BEGIN, END, lines)


def write_headlines(page: Path, out: Path) -> None:
    """Write the main row of each task of the papers into the page of results, between the two marks."""
    lines = ["| paper | task | score | published | recipe | ours | on | command |", "|---" * 8 + "|"]
    for paper, task, name, key, scores in HEADLINES:
        table = find_table(name)
        document = _document_of(_documents(out, table), table, key)
        row, saved = table.row(key), dict(_measured(_saved_row(document, key)))
        columns = [column for column in table.columns if column.name in scores]
        figures = [row.figures[table.columns.index(column)] for column in columns]
        cells = [" · ".join(_number(figure, c.decimals) for figure, c in zip(figures, columns, strict=True))]
        for kind in ("recipe", "ours"):
            ours = saved[kind]["ours"] if kind in saved else {}
            cells.append(" · ".join(_number(ours.get(c.name), c.decimals) for c in columns if ours) or "–")
        published_on, scored_on = row.data or table.data[0], (document or {}).get("data_name", "")
        on = scored_on if scored_on == published_on else f"{scored_on}; the paper {published_on}"
        page_of = name.rpartition("-")[0]
        command = f"[`deixis table {name} --rows {key}`](results/{page_of}.md)"
        headings = " · ".join(column.heading for column in columns)
        lines.append(f"| {paper} | {task} | {headings} | {' | '.join(cells)} | {on} | {command} |")
    _replace_between(page, HEADLINES_BEGIN, HEADLINES_END, lines)


def write_claims(page: Path, out: Path, *, ours: bool = False) -> None:
    """Write the claims of the papers, or our own comparisons, with their verdicts between the two marks of a page."""
    papers: dict[str, list[tuple[Table, list[ClaimVerdicts]]]] = {}
    for table in published_tables().values():
        found = [each for each in claim_verdicts(table, _documents(out, table)) if each.claim.is_ours == ours]
        if found:
            papers.setdefault(table.paper.rpartition(", ")[0], []).append((table, found))
    lines = list(_summary_lines([each for tables in papers.values() for _, found in tables for each in found]))
    untested = {} if ours else tomllib.loads(UNTESTED.read_text(encoding="utf-8"))
    for paper, tables in papers.items():
        lines += _paper_lines(paper, tables, out)
        lines += _untested_lines(next((claims for name, claims in untested.items() if name in paper), ()))
    _replace_between(page, CLAIMS_BEGIN, CLAIMS_END, lines)


def _replace_between(page: Path, begin: str, end: str, lines: Iterable[str]) -> None:
    text = page.read_text(encoding="utf-8")
    before, first, rest = text.partition(begin + "\n")
    _, last, after = rest.partition(end)
    if not first or not last:
        raise DeixisError(f"{page}: the lines {begin} and {end} are missing")
    page.write_text(before + first + "\n".join(lines) + "\n" + last + after, encoding="utf-8")


Document = Mapping[str, Any]


def _documents(out: Path, table: Table) -> list[Document]:
    """The saved scores of a table, one document for each data set."""
    paths = [out / f"{table.name}.json", *sorted(out.glob(f"{table.name}@*.json"))]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]


def _document_of(documents: Sequence[Document], table: Table, *keys: str) -> Document | None:
    """The document that has scores of these rows, that of the paper's data set if it has; else the first."""
    found = [each for each in documents if all(_measured(_saved_row(each, key)) for key in keys)]
    data = {table.row(key).data for key in keys if table.row(key).data} or table.data
    return next((each for each in found if each.get("data_name") in data), next(iter([*found, *documents]), None))


def _table_lines(table: Table, document: Document | None, others: Sequence[Document]) -> Iterator[str]:
    """Yield a table in Markdown: its rows, measured or with the reason why not, and the claims.

    Rows of the data sets of `others` stand in the tables of these, which have no rows that are not measured.
    """
    first = document is None or not document.get("further")
    yield f"## {table.name}: {table.title}" + ("" if first else f", on {document['data_name']}")
    if document:
        yield from _about_lines(table, document)
    columns = [column.heading for column in table.columns]
    yield ""
    yield f"| | | {' | '.join(columns)} | chosen |"
    yield "|---" * (len(columns) + 3) + "|"
    part = ""
    elsewhere = {each["data_name"] for each in others}
    for row in (*table.rows, *_further_rows(table, document)):
        if row.data in elsewhere or not (first or _measured(_saved_row(document, row.key))):
            continue
        if row.part != part:
            part = row.part
            yield f"| **{part}** |" + " |" * (len(columns) + 2)
        yield from _row_lines(table, row, document)
    if document and (document.get("claims") or document.get("recipe", {}).get("claims")):
        yield ""
        yield from _verdict_rows(each for each in claim_verdicts(table, [document]) if not each.claim.is_ours)
    yield ""


def _further_rows(table: Table, document: Document | None) -> Iterator[Row]:
    """Yield rows that only the saved scores have: the most common phrases of the data itself."""
    known = {row.key for row in table.rows}
    for saved in document["rows"] if document else ():
        if saved["key"] not in known:
            yield Row(saved["key"], saved["label"], (), saved["part"])


def _about_lines(table: Table, document: Document) -> Iterator[str]:
    yield _where(document) + "."
    yield from _budget_lines(document)
    for label, about in (("Recipe", document.get("recipe", {}).get("about")), ("Ours", document.get("about"))):
        if about:
            words = (f"{name} {values_in_words(values)}" for name, values in about.items())
            yield f"{label}: {'; '.join(words)}."
        elif label == "Recipe" and table.paper_inputs:
            yield f"Recipe: not computed (`deixis table {table.name} --inputs paper`)."
    yield from table.notes


def _budget_lines(document: Document) -> Iterator[str]:
    """Yield how many trainings each row was chosen from, with the settings that were tried."""
    budgets: dict[tuple[str, ...], list[str]] = {}
    for row in document["rows"]:
        if _measured(row) and "budget" in row:
            budgets.setdefault(tuple(row["budget"]), []).append(row["key"])
    for tried, keys in budgets.items():
        rows = "Each row" if len(budgets) == 1 else ", ".join(keys)
        if tried:
            yield f"{rows}: the best of {len(tried)} trainings ({'; '.join(tried)}), chosen with the first seed."
        elif len(budgets) > 1:
            yield f"{rows}: one training."


def _where(document: Document) -> str:
    """The photos that were scored, the number of models, and how their epochs and settings were chosen."""
    where = document.get("data_name") or document["data"]
    if not document["split"]:
        return f"{where} (`{document['data_hash'][:19]}…`)"
    seeds = f"{document['seeds']} seeds" if document["seeds"] > 1 else "one model each"
    if not any(scores["chosen"] for row in document["rows"] for _, scores in _measured(row)):
        choice = "nothing had to be chosen"
    elif document["halves"]:
        choice = "epochs and settings chosen on one half and scored on the other, and the reverse"
    else:
        choice = "epochs and settings chosen on dev"
    count = f"{document['photos']:,} photos, " if "photos" in document else ""
    searches = any(training.choose for training in required_models(find_table(document["table"]).rows))
    if searches and not any("budget" in row for row in document["rows"]):
        choice += "; computed before each row had a search, with one training each"
    return f"{where} {document['split']} ({count}`{document['split_hash'][:19]}…`), {seeds}; {choice}"


def _saved_row(document: Document | None, key: str) -> Mapping[str, Any]:
    return next((row for row in document["rows"] if row["key"] == key), {}) if document else {}


def _measured(saved: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The scores of a saved row by their inputs."""
    found = [("recipe", saved["recipe"])] if saved.get("recipe") else []
    return [*found, ("ours", saved)] if saved.get("ours") else found


def _row_lines(table: Table, row: Row, document: Document | None) -> Iterator[str]:
    measured = dict(_measured(_saved_row(document, row.key)))
    published = [
        "?" if column.name in row.lost else _number(figure, column.decimals)
        for column, figure in zip(table.columns, row.figures or (None,) * len(table.columns), strict=True)
    ]
    label = row.label.replace("|", "\\|")
    if any(published) or not measured:
        reason = "" if measured else _reason(table, row, document)
        yield f"| {label} | {'paper' if any(published) else ''} | {' | '.join(published)} | {reason} |"
        label = ""
    if not measured:
        return
    for kind in ("recipe", "ours") if "recipe" in (document or {}) else ("ours",):
        cells, chosen = [""] * len(table.columns), "not computed"
        if kind in measured:
            cells = [_score(measured[kind], column) for column in table.columns]
            chosen = ", ".join(" / ".join(each) for each in measured[kind]["chosen"]).replace("epoch ", "")
        yield f"| {label} | {kind} | {' | '.join(cells)} | {chosen} |"
        label = ""


def _score(scores: Mapping[str, Any], column: Column) -> str:
    score, interval = scores["ours"][column.name], scores["interval"][column.name]
    half = f" ± {(interval[1] - interval[0]) / 2:.{column.decimals}f}" if interval else ""
    return _number(score, column.decimals) + half


def _number(figure: float | None, decimals: int) -> str:
    return "" if figure is None else f"{figure:,.{decimals}f}"


def _reason(table: Table, row: Row, document: Document | None) -> str:
    """Why a row has no figures of ours: the data or the computation that it lacks, in one line."""
    if row.why_not or row.recipe is None:
        return "another group's system" if row.why_not == NOT_OURS else row.why_not
    if any(
        each.recipe and replace(each.recipe, group="") == replace(row.recipe, group="") and each.recipe != row.recipe
        for each in table.rows
        if _measured(_saved_row(document, each.key))
    ):
        return "not in this data"
    scored_on = document.get("data_name") if document else None
    first = table.any_data and row.data == table.data[0]  # computed on other data too
    if row.data and row.data != scored_on and not first:
        return f"needs {row.data}"
    if not table.any_data and scored_on not in table.data:
        return f"needs {' or '.join(table.data)}"
    return f"not computed: `deixis table {table.name} --rows {row.key}`"


# The claims.


@dataclass(frozen=True)
class ClaimVerdicts:
    """A claim with the verdict on the paper's recipe and on our inputs, each in words."""

    claim: Claim
    recipe: str
    ours: str

    @property
    def is_measured(self) -> bool:
        return any(word.startswith(VERDICTS) for word in (self.recipe, self.ours))


def claim_verdicts(table: Table, documents: Sequence[Document]) -> Iterator[ClaimVerdicts]:
    """Yield the claims of a table. A verdict that is missing is replaced by what it lacks."""
    for claim in table.claims:
        document = _document_of(documents, table, claim.better, claim.worse)
        recipe = _verdict(table, claim, document, "recipe") if table.paper_inputs else "no recipe"
        yield ClaimVerdicts(claim, recipe, _verdict(table, claim, document, "ours"))


def _verdict(table: Table, claim: Claim, document: Document | None, kind: str) -> str:
    if kind == "ours" and claim.needs:
        return f"needs {claim.needs}"
    tested = (document or {}) if kind == "ours" else (document or {}).get("recipe", {})
    for each in tested.get("claims", ()):
        if (each["better"], each["worse"], each["score"]) == (claim.better, claim.worse, claim.score):
            low, high = each["interval"]
            return f"{each['verdict']}, {each['difference']:+.1f} [{low:+.1f}, {high:+.1f}]"
    for key in (claim.better, claim.worse):
        measured = dict(_measured(_saved_row(document, key)))
        if measured.get(kind, {}).get("diverged"):
            return f"not measured: row {key} diverged"
        if kind not in measured:
            reason = _reason(table, table.row(key), document)
            return f"not measured: row {key} not computed" if reason.startswith("not computed") else reason
    return "not tested yet"


def _paper_lines(paper: str, tables: Sequence[tuple[Table, list[ClaimVerdicts]]], out: Path) -> Iterator[str]:
    """Yield the claims of a paper in one table; those of tables that were not computed are only counted."""
    yield f"## {paper}"
    measured = [(table, found) for table, found in tables if any(each.is_measured for each in found)]
    for table, _ in measured:
        yield f"`{table.name}`: {'; '.join(map(_where, _documents(out, table)))}."
    yield ""
    yield from _verdict_rows(each for _, found in measured for each in found)
    yield ""
    for table, found in tables:
        if (table, found) not in measured:
            yield f"`{table.name}`, {len(found)} test{'s' * (len(found) > 1)}: {found[0].ours}."
    if len(measured) < len(tables):
        yield ""


def _verdict_rows(found: Iterable[ClaimVerdicts]) -> Iterator[str]:
    yield "| claim | score | published | recipe | ours |"
    yield "|---|---|---|---|---|"
    for each in found:
        claim = each.claim
        published = "" if claim.published is None else f"{claim.published:+.1f}"
        equal = "" if claim.margin is None else f", equal within ±{claim.margin:g}"
        yield f"| {claim.says} | {claim.score}{equal} | {published} | {each.recipe} | {each.ours} |"


VERDICTS = ("holds", "does not hold", "cannot tell", "no verdict")


def _summary_lines(found: Sequence[ClaimVerdicts]) -> Iterator[str]:
    """Yield the number of claims by verdict."""
    yield f"| {len(found)} tests | {' | '.join(VERDICTS)} | not measured |"
    yield "|---" * (len(VERDICTS) + 2) + "|"
    for label, words in (
        ("the paper's recipe", [each.recipe for each in found]),
        ("ours", [each.ours for each in found]),
    ):
        counts = [sum(word.startswith(f"{verdict},") for word in words) for verdict in VERDICTS]
        yield f"| {label} | {' | '.join(map(str, [*counts, len(words) - sum(counts)]))} |"
    yield ""


def _untested_lines(claims: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield the claims of a paper that no two rows of a table can test, with what they lack."""
    if claims:
        yield "| claim that no table tests | what it lacks |"
        yield "|---|---|"
        for each in claims:
            yield f"| {each['says']} | {each['lacks']} |"
        yield ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--page", nargs="+", default=[], type=Path, help="pages to write the tables of a paper into")
    parser.add_argument("--results", type=Path, help="page of results to write the table into that it opens with")
    parser.add_argument("--claims", type=Path, help="page of claims to write the verdicts into")
    parser.add_argument("--comparisons", type=Path, help="page of our own comparisons to write the verdicts into")
    parser.add_argument("--tables", nargs="+", default=list(published_tables()))
    parser.add_argument("--rows", nargs="+", default=[], help="compute only rows with these keys")
    parser.add_argument("--inputs", choices=["ours", "paper", "both"], default="both")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    parser.add_argument("--test", nargs="+", default=["m-rnn-1", "m-rnn-2"], metavar="NAME")
    parser.add_argument("--runs", type=Path)
    parser.add_argument(
        "--ranks", type=Path, metavar="FILE", help="a zip of scores and ranks, read first and written last"
    )
    parser.add_argument("--jobs", type=int, default=max((os.cpu_count() or 2) // 2, 1))
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--plan", action="store_true", help="print what would be computed")
    given = parser.parse_args(arguments)
    data = tuple(path.absolute() for path in given.data)
    runs = given.runs or (data[0] if data else Path()) / FOLDER
    options = Options(
        data, tuple(given.tables), given.inputs, given.seeds, tuple(given.changes), tuple(given.test), runs.absolute(),
        tuple(given.rows),
    )  # fmt: skip
    try:
        if given.ranks and given.ranks.is_file():
            read_ranks(given.ranks, options.runs)
        if given.plan:
            for job in make_jobs(all_units(options)):
                print(*job.names, sep="\n  ")
            return 0
        complete = True
        if data:
            seconds = min(given.minutes * 60, 10 * 365 * 86400)
            complete = compute(options, given.jobs, seconds, options.runs / "log.jsonl")
            if given.ranks:
                write_ranks(given.ranks, options.runs)
            save_documents(replace(options, only=()), given.out)
        for page in given.page:
            write_page(page, given.out)
        if given.results:
            write_headlines(given.results, given.out)
        if given.claims:
            write_claims(given.claims, given.out)
        if given.comparisons:
            write_claims(given.comparisons, given.out, ours=True)
    except DeixisError as error:
        print(f"tables: {error}", file=sys.stderr)
        return 2
    return 0 if complete else 3


if __name__ == "__main__":
    sys.exit(main())
