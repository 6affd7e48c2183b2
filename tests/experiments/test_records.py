"""Tables as they are written down: lines of text become rows."""

from __future__ import annotations

import pytest

from deixis.errors import DeixisError
from deixis.experiments.records import NOT_OURS, Column, Part, Recipe, Table, recalls, rows_of

COLUMNS = (Column("bleu1", "B-1", factor=100), Column("perplexity", "perplexity"))


def test_a_line_is_a_row_in_our_units() -> None:
    [row] = rows_of(COLUMNS, Part("(a)", data="Flickr8k"), "  mine | My model, the first | 0.29 24.39 ")
    assert (row.key, row.label, row.part, row.data) == ("mine", "My model, the first", "(a)", "Flickr8k")
    assert row.figures == (29.0, 24.39)


def test_figures_that_are_not_there_differ_from_figures_that_were_lost() -> None:
    [row] = rows_of(COLUMNS, Part(), "mine | My model | ? -")
    assert row.figures == (None, None)
    assert row.lost == ("bleu1",)


def test_a_row_has_a_recipe_or_a_reason() -> None:
    ours, theirs = rows_of(COLUMNS, Part(recipes={"b": Recipe("retrieval")}), "b | B | 1 1\na | A | 1 1")
    assert (ours.recipe, ours.why_not) == (Recipe("retrieval"), "")
    assert (theirs.recipe, theirs.why_not) == (None, NOT_OURS)


@pytest.mark.parametrize(
    ("part", "line"),
    [(Part(), "a | A | 1"), (Part(), "a | A | 1 2 3"), (Part(recipes={"b": Recipe("retrieval")}), "a | A | 1 2")],
    ids=["too few", "too many", "recipe of no row"],
)
def test_slips_in_writing_a_table_down_are_found_at_once(part: Part, line: str) -> None:
    with pytest.raises(ValueError, match="a:|recipes of no row: b"):
        rows_of(COLUMNS, part, line)


def test_a_row_that_is_not_there_is_named_with_those_that_are() -> None:
    table = Table("t", "T", "P", (), COLUMNS, rows_of(COLUMNS, Part(), "a | A | 1 1\nb | B | 1 1"))
    assert table.row("b").label == "B"
    with pytest.raises(DeixisError, match="table t has no row 'c'; it has: a, b"):
        table.row("c")


def test_columns_of_retrieval_carry_the_names_that_evaluate_gives() -> None:
    both = recalls({"i2t": "i→s", "": ""}, ["r1", "medr"], decimals=2)
    assert [column.name for column in both] == ["i2t_r1", "i2t_medr", "r1", "medr"]
    assert [column.heading for column in both] == ["i→s R@1", "i→s med r", "R@1", "med r"]
    assert {column.decimals for column in both} == {2}
