"""What a table of a paper is: columns, rows with their published figures, and how ours are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from deixis.errors import DeixisError

Need = Literal["boxes", "train", "dev", "photos"]
"""What a data set must have for a table: boxes of phrases, a split to learn from, one to score on, photos."""

Task = Literal["statistics", "set-sizes", "retrieval", "sentences", "grounding", "regions", "captions"]

Weights = Literal["entities", "two-branch"]
"""How the distances of a model of wholes and a model of parts are added: eq. 2 of one paper, eq. 8 of the other."""

NOT_OURS = "another group's system, figures as published"


@dataclass(frozen=True)
class Column:
    """One score of a table.

    Attributes
    ----------
    name
        As ``deixis evaluate`` calls the score.
    heading
        As people read it.
    decimals
        Shown.
    factor
        From what the paper prints to our units: 100 where it gives a share and we give percent.
    """

    name: str
    heading: str
    decimals: int = 1
    factor: float = 1.0


@dataclass(frozen=True)
class Training:
    """A model as ``deixis train`` makes it.

    Attributes
    ----------
    model
        Its name there.
    settings
        A name to go after ``--settings``; none for the defaults.
    changes
        What goes after ``--set``, each as key=value.
    repeated
        Whether another seed gives another model, so that several are worth their time.
    auxiliary
        A model of regions and phrases that is trained before and stacked upon.
    """

    model: str
    settings: str = ""
    changes: tuple[str, ...] = ()
    repeated: bool = True
    auxiliary: Training | None = None


@dataclass(frozen=True)
class Writing:
    """How a model writes the captions that are scored.

    Attributes
    ----------
    beam
        1 takes the likeliest word each time.
    rerank
        By what the sentences of the beam are put in another order: the captions of like training photos, or, for the
        oracles, the photo's own.
    feature
        By which vectors photos are alike: refined by the model, or their own.
    """

    beam: int = 1
    rerank: Literal["none", "bleu", "cider", "bleu-oracle", "cider-oracle"] = "none"
    feature: Literal["refined", "photo"] = "refined"


@dataclass(frozen=True)
class Recipe:
    """How the figures of a row are made on a data set.

    Attributes
    ----------
    task
        What is scored.
    model
        What is trained for it; None for figures that need no model.
    parts, weights
        A model of regions and phrases whose distances are added to those of `model`, and how.
    group
        The rows of some tables are types or phrases, all scored by one model: which of them this row is.
    writing
        Of the task captions: how they are written.
    """

    task: Task
    model: Training | None = None
    parts: Training | None = None
    weights: Weights = "entities"
    group: str = ""
    writing: Writing = Writing()


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes
    ----------
    key
        What ``--rows`` and claims call it; unlike all others of its table.
    label
        As people read it.
    part
        The part of the table that it stands in.
    figures
        As published, in our units, one for each column; None where the paper has none.
    lost
        Columns whose figures the paper has but our copy of its text has not.
    recipe
        How ours is made.
    why_not
        Why there is no recipe.
    data
        The data set that the figures are of, where a table has several.
    """

    key: str
    label: str
    figures: tuple[float | None, ...]
    part: str = ""
    lost: tuple[str, ...] = ()
    recipe: Recipe | None = None
    why_not: str = ""
    data: str = ""


@dataclass(frozen=True)
class Claim:
    """What a paper says of two rows.

    Attributes
    ----------
    says
        In words.
    better, worse
        The keys of the rows.
    score
        By which one is better; higher is better.
    """

    says: str
    better: str
    worse: str
    score: str


@dataclass(frozen=True)
class Table:
    """A table of a paper.

    Attributes
    ----------
    name
        What people type: entities-3.
    title
        What it shows.
    paper
        Where it stands.
    data
        The data sets that the published figures are of.
    columns, rows
        What is in it.
    needs
        What a data set must have to be measured.
    any_data
        Whether measuring it on another data set than the paper's says something; where it compares variants of one
        model it does, where it is a benchmark of one data set it does not.
    claims
        What the paper concludes from it.
    notes
        What readers should know of the figures.
    """

    name: str
    title: str
    paper: str
    data: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    needs: tuple[Need, ...] = ()
    any_data: bool = True
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()

    def row(self, key: str) -> Row:
        """A row by its key."""
        for row in self.rows:
            if row.key == key:
                return row
        known = ", ".join(row.key for row in self.rows)
        raise DeixisError(f"table {self.name} has no row {key!r}; it has: {known}")


@dataclass(frozen=True)
class Part:
    """What the rows of a part have in common; `rows_of` reads them.

    Attributes
    ----------
    name
        Of the part.
    recipes
        By the keys of rows.
    why_not
        Why the other rows have none.
    data
        The data set of the part, where a table has several.
    """

    name: str = ""
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    why_not: str = NOT_OURS
    data: str = ""


def rows_of(columns: Sequence[Column], part: Part, lines: str) -> tuple[Row, ...]:
    """Read rows that are written one a line: ``key | label | a figure for each column``.

    ``-`` stands where the paper has no figure, ``?`` where our copy of its text has lost it.

    Examples
    --------
    >>> two = (Column("r1", "R@1"), Column("r5", "R@5"))
    >>> [row] = rows_of(two, Part(), "mine | My model | 22.5 -")
    >>> row.label, row.figures
    ('My model', (22.5, None))
    """
    rows = tuple(_row(columns, part, line) for line in lines.strip().splitlines())
    unknown = set(part.recipes) - {row.key for row in rows}
    if unknown:
        raise ValueError(f"recipes of no row: {', '.join(sorted(unknown))}")
    return rows


def _row(columns: Sequence[Column], part: Part, line: str) -> Row:
    key, label, written = (cell.strip() for cell in line.split("|"))
    cells = written.split()
    if len(cells) != len(columns):
        raise ValueError(f"{key}: {len(cells)} figures for {len(columns)} columns")
    figures = tuple(_figure(cell, column) for cell, column in zip(cells, columns, strict=True))
    lost = tuple(column.name for cell, column in zip(cells, columns, strict=True) if cell == "?")
    recipe = part.recipes.get(key)
    return Row(key, label, figures, part.name, lost, recipe, "" if recipe else part.why_not, part.data)


def _figure(cell: str, column: Column) -> float | None:
    # Rounded because 0.29 · 100 is not 29.
    return None if cell in ("-", "?") else round(float(cell) * column.factor, 6)


def recalls(directions: Mapping[str, str], ranks: Iterable[str], decimals: int = 1) -> tuple[Column, ...]:
    """The columns of a retrieval table: for each direction (its name and how it reads) the same scores.

    Examples
    --------
    >>> [column.heading for column in recalls({"i2t": "i→s", "t2i": "s→i"}, ["r1", "medr"])]
    ['i→s R@1', 'i→s med r', 's→i R@1', 's→i med r']
    """
    read = {"medr": "med r"}
    return tuple(
        Column(f"{name}_{rank}" if name else rank, f"{shown} {read.get(rank) or 'R@' + rank[1:]}".strip(), decimals)
        for name, shown in directions.items()
        for rank in ranks
    )
