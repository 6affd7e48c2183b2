"""The tables of the papers, read from TOML files: published figures, and recipes for ours.

`published/*.toml` hold one paper each. Other files of the same form can be used too: `find_table("mine.toml")`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from deixis.errors import DeixisError

Requirement = Literal["boxes", "train", "dev", "photos"]
Count = Literal["statistics", "set-sizes", "batch-sizes", "recurrent-layer"]
"""Counts that need neither a trained model nor the scores of a split."""
RowTask = Literal[Count, "retrieval", "sentences", "grounding", "detection", "regions", "captions"]
Weights = Literal["entities", "parts-alone", "two-branch"]
"""How the distances of two models are added: eq. 2 of Flickr30k Entities, its eq. 1 alone, or eq. 8 of two-branch
networks."""

NOT_OURS = "another group's system, figures as published"

_PUBLISHED = Path(__file__).parent / "published"
_PAPERS = ("entities", "two-branch", "m-rnn", "hm-lstm")


@dataclass(frozen=True)
class Column:
    """One score of a table."""

    name: str  # in ``deixis evaluate``
    heading: str
    decimals: int = 1
    factor: float = 1.0  # to our unit: 100 where the paper prints a fraction and we print percent


@dataclass(frozen=True)
class Training:
    """A model to train, as ``deixis train`` takes it."""

    model: str
    settings: str = ""  # a preset; empty for the defaults
    changes: tuple[str, ...] = ()  # on top of it, each as ``key=value``
    repeated: bool = True  # whether seeds differ; CCA has a closed form
    choose: tuple[str, ...] = ()  # alternatives that the validation split chooses from, each ``key=value key=value …``
    keeps: tuple[str, ...] = ()  # settings that the inputs of the paper's recipe leave as they are
    auxiliary: Training | None = None  # a region–phrase model on whose output this one is trained


@dataclass(frozen=True)
class CaptionOptions:
    """Options of generated captions."""

    beam: int = 1  # 1 is greedy; 0 samples every word
    rerank: Literal["none", "bleu", "cider", "bleu-oracle", "cider-oracle"] = "none"
    feature: Literal["refined", "photo"] = "refined"  # chooses the nearest training photos
    distance: Literal["cosine", "euclidean"] = "cosine"  # of photos
    bleu: Literal["smoothed", "mean-f"] = "smoothed"  # of two sentences


@dataclass(frozen=True)
class RowRecipe:
    """Recipe of the figures of a row on a data set."""

    task: RowTask
    model: Training | None = None
    parts: Training | None = None  # a region–phrase model whose distances are added to those of `model`
    weights: Weights = "entities"  # how they are added
    group: str = ""  # the type or phrase of the row, if one model scores all rows
    caption_options: CaptionOptions = CaptionOptions()

    @property
    def counts_only(self) -> bool:
        """Whether no model is trained and no split is scored."""
        return self.task in get_args(Count)


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    key: str  # for ``--rows`` and claims
    label: str
    figures: tuple[float | None, ...]  # in our units, one per column; None where the paper has none
    part: str = ""  # the part of the table that the row belongs to
    lost: tuple[str, ...] = ()  # columns whose figure is missing from our copy of the paper's text
    recipe: RowRecipe | None = None
    why_not: str = ""  # why there is no recipe
    data: str = ""  # the data set of the figures, where a table has several


@dataclass(frozen=True)
class Claim:
    """A conclusion of a paper: row `better` is above row `worse` by `score`, or equal to it within a margin."""

    says: str
    better: str
    worse: str
    score: str
    margin: float | None = None  # of a claim that the two are equal: the largest difference that counts as none
    published: float | None = None  # the difference in the paper; None where it has no figures
    is_ours: bool = False  # a comparison of our own, which is not in the paper
    needs: str = ""  # an input that the claim is about, as a change of settings: key=value


@dataclass(frozen=True)
class Table:
    """A table of a paper."""

    name: str
    title: str
    paper: str  # where it was published
    data: tuple[str, ...]  # data sets of the published figures
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    needs: tuple[Requirement, ...] = ()  # requirements on the data set
    any_data: bool = True  # False for benchmarks of one data set, True for comparisons of variants
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    paper_inputs: tuple[str, ...] = ()  # changes, each as key=value, to inputs like the paper's; empty if it has none

    def row(self, key: str) -> Row:
        for row in self.rows:
            if row.key == key:
                return row
        known = ", ".join(row.key for row in self.rows)
        raise DeixisError(f"table {self.name} has no row {key!r}; it has: {known}")


@cache
def published_tables() -> Mapping[str, Table]:
    return {name: table for paper in _PAPERS for name, table in read_tables(_PUBLISHED / f"{paper}.toml").items()}


def find_table(name: str) -> Table:
    """Return a table by its name, or the only table of a TOML file, or ``FILE.toml:NAME``."""
    file, ending, wanted = name.partition(".toml")
    if ending:
        tables: Mapping[str, Table] = read_tables(Path(file + ending))
        wanted = wanted.removeprefix(":") or (next(iter(tables)) if len(tables) == 1 else "")
    else:
        tables, wanted = published_tables(), name
    if wanted in tables:
        return tables[wanted]
    near = get_close_matches(wanted, tables, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(tables)}"
    raise DeixisError(f"no table is called {name!r}; {hint}")


def read_tables(path: Path) -> dict[str, Table]:
    """Read the tables of a TOML file; one that is not well-formed raises `DeixisError`."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeixisError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise DeixisError(f"{path}: not TOML ({error})") from None
    try:
        models = _read_models(document.get("models", {}), document.get("grids", {}))
        return {name: _read_table(name, document["paper"], entry, models) for name, entry in document["tables"].items()}
    except KeyError as error:
        raise DeixisError(f"{path}: {error.args[0]!r} is missing") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise DeixisError(f"{path}: not a file of tables ({error})") from None


def _read_models(entries: Mapping[str, Any], grids: Mapping[str, Sequence[str]]) -> dict[str, Training]:
    models: dict[str, Training] = {}
    for name, entry in entries.items():  # an auxiliary model comes before the model that uses it
        choose = entry.get("choose", ())  # a list, or the name of a grid
        lists = {key: tuple(entry.get(key, ())) for key in ("changes", "keeps")}
        lists["choose"] = tuple(grids[choose] if isinstance(choose, str) else choose)
        auxiliary = models[entry["auxiliary"]] if "auxiliary" in entry else None
        models[name] = Training(**{**entry, **lists, "auxiliary": auxiliary})
    return models


def _read_table(name: str, paper: str, entry: Mapping[str, Any], models: Mapping[str, Training]) -> Table:
    columns = tuple(Column(**column) for column in entry["columns"])
    rows = tuple(row for part in entry["parts"] for row in _read_rows(part, columns, models))
    return Table(
        name,
        entry["title"],
        f"{paper}, {entry['source']}",
        tuple(entry["data"]),
        columns,
        rows,
        tuple(entry.get("needs", ())),
        entry.get("any_data", True),
        tuple(_read_claims(entry, columns, rows)),
        tuple(entry.get("notes", ())),
        tuple(entry.get("paper_inputs", ())),
    )


def _read_claims(entry: Mapping[str, Any], columns: Sequence[Column], rows: Sequence[Row]) -> Iterator[Claim]:
    """The claims of the paper, then our own comparisons, once for each of their scores."""
    figures = {row.key: dict(zip((column.name for column in columns), row.figures, strict=True)) for row in rows}
    for kind in ("claims", "comparisons"):
        for claim in entry.get(kind, ()):
            pair = claim["better"], claim["worse"]
            for score in claim["scores"]:
                first, second = (figures[key][score] for key in pair)
                published = None if first is None or second is None else round(first - second, 6)
                margin, needs = claim.get("margin"), claim.get("needs", "")
                yield Claim(claim["says"], *pair, score, margin, published, kind == "comparisons", needs)


def _read_rows(part: Mapping[str, Any], columns: tuple[Column, ...], models: Mapping[str, Training]) -> Iterator[Row]:
    for entry in part["rows"]:
        cells = list(zip(entry["figures"], columns, strict=True))
        recipe = _read_recipe(entry["recipe"], models) if "recipe" in entry else None
        yield Row(
            entry["key"],
            entry["label"],
            # Rounded because 0.29 · 100 is not 29.
            tuple(None if cell in ("-", "?") else round(cell * column.factor, 6) for cell, column in cells),
            part.get("name", ""),
            tuple(column.name for cell, column in cells if cell == "?"),
            recipe,
            "" if recipe else entry.get("why_not", NOT_OURS),
            part.get("data", ""),
        )


def _read_recipe(entry: Mapping[str, Any], models: Mapping[str, Training]) -> RowRecipe:
    options = {name: entry[name] for name in ("beam", "rerank", "feature", "distance", "bleu") if name in entry}
    others = {name: value for name, value in entry.items() if name not in options}
    for name in ("model", "parts"):
        if name in others:
            others[name] = models[others[name]]
    return RowRecipe(**others, caption_options=CaptionOptions(**options))
