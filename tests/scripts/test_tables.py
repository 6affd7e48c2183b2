"""scripts/tables.py: models of tables in several processes, saved scores, and the page that is written from them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tables

from deixis.data.dataset import Dataset
from deixis.models.training import runner as training_runner
from deixis.papers.runner import TableRunner
from deixis.papers.tables import Table, find_table, published_tables
from deixis.papers.training import ExperimentFolder, TableModels
from tests.models.quarters import make_quarters, make_store, use_small_encoders

ROOT = Path(__file__).parents[2]
SMALL = ("embedding_dim=2", "max_proposals=4", "proposals=corners", "device=cpu", "threads=1")
MARKS = f"# Results\n\n{tables.BEGIN}\nreplaced text\n{tables.END}\n\nThe end.\n"


def make_options(dataset: Dataset, *names: str, **changes: object) -> tables.Options:
    own = tables.Options((dataset.path,), names, "ours", 2, SMALL, (), dataset.path / "runs")
    return replace(own, **changes)  # type: ignore[arg-type]


@pytest.fixture
def quarters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path, 12)


def only(table: Table, *keys: str) -> Table:
    return replace(table, rows=tuple(row for row in table.rows if row.key in keys))


def test_the_units_of_a_table_are_all_that_it_computes(quarters: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    models = TableModels(quarters, ExperimentFolder(quarters.path / "runs"), (*SMALL, "epochs=1", "hidden_size=4"))
    runner = TableRunner(models, "dev", 2)
    for table in (only(find_table("entities-3"), "cca", "chunks"), only(find_table("two-branch-2"), "linear")):
        for unit in runner.units(table):
            unit.compute()
            assert unit.folder.is_dir()
        monkeypatch.setattr(training_runner, "train", None)  # nothing is left to train
        found = replace(runner, models=replace(models, runs=ExperimentFolder(models.runs.folder, saved_only=True)))
        assert set(found.run(table).ours) == {row.key for row in table.rows}
        monkeypatch.undo()
        use_small_encoders(monkeypatch)


def test_models_that_rows_share_are_computed_in_one_process(quarters: Dataset) -> None:
    options = make_options(quarters, "entities-3", "entities-4")
    units = tables.all_units(options)
    assert len({unit.folder for _, unit in units}) == len(units)
    jobs = tables.make_jobs(units)
    assert sorted(number for job in jobs for number in job.units) == list(range(len(units)))
    job_of = {path: n for n, job in enumerate(jobs) for number in job.units for path in units[number][1].models}
    for n, job in enumerate(jobs):
        assert {job_of[path] for number in job.units for path in units[number][1].models} <= {n}
    [shared] = [job for job in jobs if any("detection" in name for name in job.names)]
    assert len(shared.units) > 10, "augmented-10, its AP, SAE and the weighted distance with five regularizations each"


def test_features_are_prepared_once_with_the_most_proposals(quarters: Dataset) -> None:
    options = make_options(quarters, "entities-3", "two-branch-1", "hm-lstm-1", inputs="both", changes=())
    options = replace(options, tables=("entities-3", "two-branch-1"))
    needed = tables.preparations(tables.all_units(options))
    images = [each.settings for each in needed if each.kind == "images"]
    assert [(each.encoder, each.proposal_source.name, each.proposal_source.max_proposals) for each in images] == [
        ("efficientnet-lite2", "edge-boxes", 200), ("deixis", "head", 200)
    ]  # fmt: skip
    assert [each.settings.text_features for each in needed if each.kind == "text"] == ["hglmm", "tfidf"]


def test_tables_are_computed_in_other_processes_and_written_to_the_page(tmp_path: Path) -> None:
    dataset = make_quarters(tmp_path, 12)
    make_store(dataset, tmp_path / "features")
    (tmp_path / "page.md").write_text(MARKS)
    arguments = [str(dataset.path), "--tables", "entities-1", "entities-3", "--rows", "cca", "chunks", "total"]
    arguments += [
        "--inputs",
        "ours",
        "--jobs",
        "1",
        "--out",
        str(tmp_path / "scores"),
        "--page",
        str(tmp_path / "page.md"),
    ]
    for change in (*SMALL, f"features_dir={tmp_path / 'features'}"):
        arguments += ["--set", change]
    assert tables.main([*arguments, "--minutes", "0"]) == 3, "the time is over at once"
    assert not (tmp_path / "scores" / "entities-3.json").exists()
    assert tables.main(arguments) == 0
    log = [json.loads(line) for line in (dataset.path / "experiments" / "log.jsonl").read_text().splitlines()]
    assert {line["error"] for line in log} == {""}
    document = json.loads((tmp_path / "scores" / "entities-3.json").read_text())
    measured = {row["key"]: row["ours"] for row in document["rows"] if row["ours"]}
    assert set(measured) == {"cca", "chunks"}
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("# Results\n")
    assert page.endswith("\n\nThe end.\n")
    assert "replaced text" not in page
    [line] = [line for line in page.splitlines() if line.startswith("|  | ours |") and "regularization=" in line]
    assert f"{measured['cca']['i2t_r1']:.1f} ±" in line
    assert document["split_hash"][:19] in page
    assert "| BRNN | paper | 22.2 | 48.2 | 61.4 | 15.2 | 37.7 | 50.5 | another group's system |" in page


def test_an_error_of_a_model_is_logged_and_the_others_are_computed(
    quarters: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = make_options(quarters, "entities-3", changes=("embedding_dim=200", *SMALL[1:]), only=("cca", "chunks"))
    [first, *_] = tables.make_jobs(tables.all_units(options))
    [(name, _, error)] = tables.run_job(options, first)
    assert "entities-3 ours retrieval cca" in name
    assert "embedding_dim=200" in error
    assert tables._in_processes(tables._run_job, [], 0, None, tmp_path / "log"), "nothing to do is done"


def test_a_row_that_was_not_computed_says_what_it_lacks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(MARKS)
    tables.write_page(page, tmp_path / "nothing")
    lines = page.read_text().splitlines()
    for table in published_tables().values():
        for row in table.rows:
            label = f"| {row.label} |"
            assert any(line.startswith(label) and line.split("|")[-2].strip() for line in lines), (table.name, row.key)
    assert any("needs IAPR TC-12" in line for line in lines)
    assert any("needs 40 captions of each photo" in line for line in lines)


def test_the_page_of_results_is_that_of_the_saved_scores(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    page.write_text((ROOT / "docs" / "results.md").read_text())
    tables.write_page(page, ROOT / "docs" / "scores")
    assert page.read_text() == (ROOT / "docs" / "results.md").read_text(), "run scripts/tables.py --page"
