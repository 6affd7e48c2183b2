"""The tables of HM-LSTM: the settings of their rows, and a table computed on photos with coloured quarters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DatasetError
from deixis.language.vectors import WordVectors
from deixis.papers.datasets import check_requirements
from deixis.papers.runner import TableRunner
from deixis.papers.tables import Table, find_table, published_tables
from deixis.papers.training import ExperimentFolder, TableModels
from tests.models.coloured import COLOURS, make_coloured
from tests.models.quarters import make_quarters, use_small_encoders

SMALL = (
    *("epochs=1", "round_epochs=1", "rounds=1", "batch_size=16", "hidden_size=8", "embedding_dim=6", "max_proposals=4"),
    *("device=cpu", "threads=1"),
)

TABLES = [table for name, table in published_tables().items() if name.startswith("hm-lstm")]


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableRunner:
    use_small_encoders(monkeypatch)
    words = [*COLOURS, "a", "the", "square", "one"]
    WordVectors(np.eye(len(words), dtype=np.float32), words).save(tmp_path / "vectors")
    dataset = make_quarters(tmp_path, 18)
    changes = (*SMALL, f"word_vectors={tmp_path / 'vectors'}")
    return TableRunner(TableModels(dataset, ExperimentFolder(tmp_path / "experiments"), changes), "dev", 2)


def only(name: str, *keys: str) -> Table:
    table = find_table(name)
    return replace(table, rows=tuple(row for row in table.rows if row.key in keys))


def settings_of(runner: TableRunner, key: str) -> dict[str, object]:
    recipe = find_table("hm-lstm-1").row(key).recipe
    assert recipe
    assert recipe.model
    return replace(runner.models, changes=()).settings(recipe.model, 0).to_json()


@pytest.mark.parametrize(
    ("key", "name", "value"), [("chain", "text_encoder", "chain"), ("tree", "text_encoder", "tree-lstm"),
                               ("root-only", "phrase_weight", 0.0)]
)  # fmt: skip
def test_a_variant_differs_from_the_model_in_one_setting(
    runner: TableRunner, key: str, name: str, value: object
) -> None:
    ours, theirs = settings_of(runner, "hm-lstm"), settings_of(runner, key)
    assert {name: value for name, value in theirs.items() if ours[name] != value} == {name: value}


def test_region_retrieval_and_localization_use_the_same_models(runner: TableRunner, tmp_path: Path) -> None:
    table = only("hm-lstm-4", "hm-lstm", "root-only", "points-hm-lstm", "points-root-only")
    found = runner.run(table)
    assert set(found.ours) == {"hm-lstm", "root-only", "points-hm-lstm", "points-root-only"}
    assert all(len(result.by_seed("r1")) == 2 for result in found.ours.values())
    assert len(list((tmp_path / "experiments" / "models").iterdir())) == 4  # two variants, two seeds
    assert found.ours["points-hm-lstm"].score("upper_bound") == 100
    assert {(each.claim.better, each.claim.score) for each in found.claims} == {
        ("hm-lstm", "r1"), ("hm-lstm", "r10"), ("points-hm-lstm", "r1")
    }  # fmt: skip
    assert found.about["text"] == ("read word by word",)


def test_a_finished_table_is_not_computed_again(runner: TableRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    table = only("hm-lstm-4", "hm-lstm")
    first = runner.run(table)
    monkeypatch.setattr(TableModels, "model_path", lambda *_: pytest.fail("trained again"))
    assert runner.run(table).ours["hm-lstm"].by_seed("r10") == first.ours["hm-lstm"].by_seed("r10")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_benchmark_of_another_data_set_is_an_error(runner: TableRunner, number: int) -> None:
    with pytest.raises(DatasetError, match=f"hm-lstm-{number}"):
        check_requirements(TABLES[number - 1], runner.dataset)


def test_regions_need_boxes(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="hm-lstm-4 needs boxes"):
        check_requirements(TABLES[3], make_coloured(tmp_path))


def test_every_row_of_ours_has_a_recipe() -> None:
    ours = [row for table in TABLES for row in table.rows if row.recipe]
    assert len(ours) == 3 * 4 + 2 * 6 + 1
