"""The tables of HM-LSTM: what their rows train, and a table measured on photos whose quarters have colours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DatasetError
from deixis.experiments.data_sets import refuse_without
from deixis.experiments.measuring import Measuring
from deixis.experiments.papers.hm_lstm import TABLES
from deixis.experiments.records import Table
from deixis.experiments.runs import Runs
from deixis.experiments.tables import find_table
from deixis.experiments.trained import Workshop
from deixis.language.vectors import WordVectors
from tests.tasks.coloured import COLOURS, make_coloured
from tests.tasks.quarters import make_quarters, use_small_encoders

SMALL = (
    *("epochs=1", "round_epochs=1", "rounds=1", "batch_size=16", "hidden=8", "dimension=6", "top=4"),
    *("device=cpu", "threads=1"),
)


@pytest.fixture
def how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measuring:
    use_small_encoders(monkeypatch)
    words = [*COLOURS, "a", "the", "square", "one"]
    WordVectors(np.eye(len(words), dtype=np.float32), words).save(tmp_path / "vectors")
    dataset = make_quarters(tmp_path, 18)
    changes = (*SMALL, f"vectors={tmp_path / 'vectors'}")
    return Measuring(Workshop(dataset, Runs(tmp_path / "experiments"), changes), "dev", 2)


def only(name: str, *keys: str) -> Table:
    table = find_table(name)
    return replace(table, rows=tuple(row for row in table.rows if row.key in keys))


def settings_of(how: Measuring, key: str) -> dict[str, object]:
    recipe = find_table("hm-lstm-1").row(key).recipe
    assert recipe
    assert recipe.model
    return replace(how.workshop, changes=()).chosen(recipe.model, 0).to_json()


@pytest.mark.parametrize(
    ("key", "name", "value"), [("chain", "reader", "chain"), ("tree", "reader", "tree-lstm"),
                               ("root-only", "phrase_weight", 0.0)]
)  # fmt: skip
def test_a_variant_differs_from_the_model_in_one_setting(how: Measuring, key: str, name: str, value: object) -> None:
    ours, theirs = settings_of(how, "hm-lstm"), settings_of(how, key)
    assert {name: value for name, value in theirs.items() if ours[name] != value} == {name: value}


def test_regions_and_pointing_are_measured_with_the_same_models(how: Measuring, tmp_path: Path) -> None:
    table = only("hm-lstm-4", "hm-lstm", "root-only", "points-hm-lstm", "points-root-only")
    found = how.table(table)
    assert set(found.ours) == {"hm-lstm", "root-only", "points-hm-lstm", "points-root-only"}
    assert all(len(measured.by_seed("r1")) == 2 for measured in found.ours.values())
    assert len(list((tmp_path / "experiments" / "models").iterdir())) == 4  # two variants, two seeds
    assert found.ours["points-hm-lstm"].score("upper_bound") == 100
    assert {(each.claim.better, each.claim.score) for each in found.claims} == {
        ("hm-lstm", "r1"), ("hm-lstm", "r10"), ("points-hm-lstm", "r1")
    }  # fmt: skip
    assert found.about["text"] == ("read word by word",)


def test_a_finished_table_is_read_and_not_measured_again(how: Measuring, monkeypatch: pytest.MonkeyPatch) -> None:
    table = only("hm-lstm-4", "hm-lstm")
    first = how.table(table)
    monkeypatch.setattr(Workshop, "place", lambda *_: pytest.fail("trained again"))
    assert how.table(table).ours["hm-lstm"].by_seed("r10") == first.ours["hm-lstm"].by_seed("r10")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_benchmark_of_other_data_is_refused_in_one_line(how: Measuring, number: int) -> None:
    with pytest.raises(DatasetError, match=f"table hm-lstm-{number} is of"):
        refuse_without(TABLES[number - 1], how.dataset)


def test_regions_need_boxes(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="table hm-lstm-4 needs boxes of phrases"):
        refuse_without(TABLES[3], make_coloured(tmp_path))


def test_every_row_of_ours_has_a_recipe() -> None:
    ours = [row for table in TABLES for row in table.rows if row.recipe]
    assert len(ours) == 3 * 4 + 2 * 6 + 1
