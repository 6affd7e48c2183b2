"""Published tables: their structure; files of tables that users write."""

from __future__ import annotations

from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.models.registry import get_spec
from deixis.papers.tables import (
    NOT_OURS,
    CaptionOptions,
    Claim,
    RowRecipe,
    Table,
    Training,
    find_table,
    published_tables,
    read_tables,
)

TABLES = published_tables()

EACH = pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)


@EACH
def test_keys_are_unique_and_claims_name_existing_rows_and_scores(table: Table) -> None:
    keys = [row.key for row in table.rows]
    assert len(set(keys)) == len(keys)
    for claim in table.claims:
        assert {claim.better, claim.worse} <= set(keys)
        assert claim.score in [column.name for column in table.columns]
    for row in table.rows:
        assert len(row.figures) == len(table.columns)
        assert (row.recipe is None) == bool(row.why_not)
        assert not row.data or row.data in table.data


@EACH
def test_published_recalls_increase_with_k(table: Table) -> None:
    names = [column.name for column in table.columns]
    for row in table.rows:
        for side in ("i2t_", "t2i_", "s2s_", ""):
            found = [row.figures[names.index(f"{side}{k}")] for k in ("r1", "r5", "r10") if f"{side}{k}" in names]
            known = [figure for figure in found if figure is not None]
            assert known == sorted(known), row.key


@EACH
def test_every_recipe_names_settings_of_its_model(table: Table) -> None:
    for row in table.rows:
        for training in (row.recipe.model, row.recipe.parts) if row.recipe else ():
            if training:
                get_spec(training.model).choose_settings(training.settings or None, training.changes)


@EACH
def test_a_claim_says_what_the_published_figures_show(table: Table) -> None:
    for claim in table.claims:
        assert claim.is_ours or "(§" in claim.says or "(Table" in claim.says, "where the paper says it"
        if claim.published is not None:
            assert claim.published > 0 if claim.margin is None else abs(claim.published) <= claim.margin, claim


@pytest.mark.parametrize("table", ["hm-lstm-1", "hm-lstm-2", "hm-lstm-3", "hm-lstm-4"])
def test_claims_of_hm_lstm_are_tested_on_rows_with_the_papers_loss_and_schedule(table: str) -> None:
    found = find_table(table)
    for claim in found.claims:
        assert claim.says.startswith("our settings") == claim.better.startswith("ours")
        for row in (found.row(claim.better), found.row(claim.worse)):
            assert row.recipe is not None
            assert row.recipe.model is not None
            if row.recipe.model.model == "m-rnn" or row.key.startswith("ours"):
                continue
            settings = get_spec("hm-lstm").choose_settings(row.recipe.model.settings, row.recipe.model.changes)
            values = settings.to_json()
            assert (values["loss"], values["centering"], values["correspondence"]) == ("triplet", "none", "learned")
            assert (values["optimizer"], values["learning_rate"], values["batch_size"]) == ("adam", 8e-3, 64)
    readings = {(claim.better, claim.worse[:5]) for claim in found.claims if not claim.is_ours}
    assert readings == {("hm-lstm", "m-rnn"), ("batch", "m-rnn")}, "both readings of eq. 9"


@EACH
def test_rows_of_a_claim_have_the_same_budget_and_networks_the_same_search(table: Table) -> None:
    for claim in table.claims:
        first, second = (row.recipe.model for key in (claim.better, claim.worse) if (row := table.row(key)).recipe)
        assert first is not None
        assert second is not None
        assert len(first.choose) == len(second.choose) > 1, claim.says
        if "cca" not in (first.model, second.model):
            assert first.choose == second.choose, claim.says


def test_the_types_of_table_4_add_up_to_its_overall_row() -> None:
    table = find_table("entities-4")
    mentions, correct = zip(*((row.figures[0], row.figures[1]) for row in table.rows[:-1]), strict=True)
    assert sum(mentions) == table.row("overall").figures[0]
    assert sum(n * r for n, r in zip(mentions, correct, strict=True)) / sum(mentions) == pytest.approx(22.76, abs=0.01)


def test_an_unknown_name_suggests_the_nearest_or_lists_all() -> None:
    with pytest.raises(DeixisError, match="m-rnn-5"):
        find_table("mrnn-5")
    with pytest.raises(DeixisError, match="entities-1, .*hm-lstm-4"):
        find_table("x")


MINE = """
paper = "Author (2026)"

[grids]
sizes = ["size=1", "size=2"]

[models.parts]
model = "cca"
repeated = false

[models.wholes]
model = "toy"
settings = "papers/toy"
changes = ["size=3"]
choose = "sizes"
keeps = ["size"]
auxiliary = "parts"

[tables.mine-1]
title = "Toys"
source = "Table 1"
data = ["Flickr8k"]
columns = [
    { name = "bleu1", heading = "B-1", factor = 100 },
    { name = "perplexity", heading = "perplexity", decimals = 2 },
]
claims = [{ says = "toys help", better = "a", worse = "b", scores = ["bleu1", "perplexity"] }]
comparisons = [{ says = "as good", better = "b", worse = "a", scores = ["bleu1"], margin = 1.5, needs = "size=3" }]

[[tables.mine-1.parts]]
name = "(a)"
data = "Flickr8k"
rows = [
    { key = "a", label = "A toy", figures = [0.29, 24.39], recipe = { task = "captions", model = "wholes", beam = 5 } },
    { key = "b", label = "Theirs", figures = ["?", "-"] },
]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    return path


def test_a_file_of_tables_is_read(file: Path) -> None:
    table = find_table(f"{file}:mine-1")
    ours, theirs = table.rows
    model = Training(
        "toy", "papers/toy", ("size=3",), True, ("size=1", "size=2"), ("size",), Training("cca", repeated=False)
    )
    assert (ours.recipe, ours.why_not) == (RowRecipe("captions", model, caption_options=CaptionOptions(beam=5)), "")
    assert (theirs.recipe, theirs.why_not) == (None, NOT_OURS)
    assert (ours.part, ours.data) == ("(a)", "Flickr8k")
    assert ours.figures == (29.0, 24.39), "in our units"
    assert (theirs.figures, theirs.lost) == ((None, None), ("bleu1",)), "missing figures differ from lost ones"
    assert [claim.score for claim in table.claims] == ["bleu1", "perplexity", "bleu1"]
    assert table.claims[-1] == Claim("as good", "b", "a", "bleu1", 1.5, None, is_ours=True, needs="size=3")
    assert find_table(str(file)) == table


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[0.29, 24.39]", "[0.29]"),
        ('model = "wholes"', 'model = "nobody"'),
        ('label = "A toy", ', ""),
        ("beam = 5", "beem = 5"),
        ("title", "="),
        ('"captions"', '"captions'),
    ],
)
def test_a_malformed_file_is_named(file: Path, old: str, new: str) -> None:
    file.write_text(MINE.replace(old, new, 1))
    with pytest.raises(DeixisError, match=r"mine\.toml"):
        read_tables(file)


def test_unknown_rows_tables_and_files_are_named(file: Path, tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="'c'"):
        find_table(str(file)).row("c")
    with pytest.raises(DeixisError, match="mine-2"):
        find_table(f"{file}:mine-2")
    with pytest.raises(DeixisError, match=r"none\.toml"):
        find_table(str(tmp_path / "none.toml"))
