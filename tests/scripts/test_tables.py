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
CLAIM_MARKS = f"# Claims\n\n{tables.CLAIMS_BEGIN}\nreplaced text\n{tables.CLAIMS_END}\n\nThe end.\n"


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
        for unit in tables.units_of(runner, table):
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
    jobs, unit_of = tables.make_jobs(units), {unit.folder: unit for _, unit in units}
    assert sorted(folder for job in jobs for folder in job.units) == sorted(unit_of)
    job_of = {path: n for n, job in enumerate(jobs) for folder in job.units for path in unit_of[folder].models}
    for n, job in enumerate(jobs):
        assert {job_of[path] for folder in job.units for path in unit_of[folder].models} <= {n}
    assert max(len(job.units) for job in jobs) == 14, "augmented-10, AP, and four times SAE and both distances"


def test_features_are_prepared_once_with_the_most_proposals(quarters: Dataset) -> None:
    options = make_options(quarters, "entities-3", "two-branch-1", "hm-lstm-1", inputs="both", changes=())
    options = replace(options, tables=("entities-3", "two-branch-1"))
    needed = tables.preparations(tables.all_units(options))
    images = [each.settings for each in needed if each.kind == "images"]
    assert [(each.encoder, each.proposal_source.name, each.proposal_source.max_proposals) for each in images] == [
        ("efficientnet-lite2", "edge-boxes-dense", 200), ("deixis", "head", 200)
    ]  # fmt: skip
    assert [each.settings.text_features for each in needed if each.kind == "text"] == ["hglmm", "tfidf"]


@pytest.mark.slow
def test_tables_are_computed_in_other_processes_and_written_to_the_page(tmp_path: Path) -> None:
    dataset = make_quarters(tmp_path, 12)
    make_store(dataset, tmp_path / "features")
    (tmp_path / "entities.md").write_text(MARKS)
    arguments = [str(dataset.path), "--tables", "entities-1", "entities-3", "--rows", "cca", "chunks", "total"]
    arguments += [
        "--inputs",
        "ours",
        "--jobs",
        "1",
        "--out",
        str(tmp_path / "scores"),
        "--page",
        str(tmp_path / "entities.md"),
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
    page = (tmp_path / "entities.md").read_text()
    assert page.startswith("# Results\n")
    assert page.endswith("\n\nThe end.\n")
    assert "replaced text" not in page
    line = next(line for line in page.splitlines() if line.startswith("|  | ours |") and "regularization=" in line)
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
    lines = []
    for name in ("entities", "two-branch", "m-rnn", "hm-lstm"):
        page = tmp_path / f"{name}.md"
        page.write_text(MARKS)
        tables.write_page(page, tmp_path / "nothing")
        lines += page.read_text().splitlines()
    for table in published_tables().values():
        for row in table.rows:
            label = f"| {row.label} |"
            assert any(line.startswith(label) and line.split("|")[-2].strip() for line in lines), (table.name, row.key)
    assert any("needs IAPR TC-12" in line for line in lines)
    assert any("needs 40 captions of each photo" in line for line in lines)


def scores(table: Table, value: float, chosen: list[list[str]]) -> dict[str, object]:
    names = [column.name for column in table.columns]
    return {
        "ours": dict.fromkeys(names, value),
        "interval": {name: [value - 1, value + 1] for name in names},
        "by_seed": {name: [value] for name in names},
        "chosen": chosen,
    }


def saved_claim(better: str, worse: str, score: str, verdict: str, difference: float) -> dict[str, object]:
    return {
        "claim": "as published", "better": better, "worse": worse, "score": score, "verdict": verdict,
        "difference": difference, "interval": [difference - 1, difference + 1],
    }  # fmt: skip


def save_document(out: Path, table: Table, rows: list[dict[str, object]], **more: object) -> None:
    document = {
        "table": table.name, "data": "flickr8k.data", "data_name": "Flickr8k", "data_hash": "sha256:0", "seeds": 3,
        "split": "dev", "split_hash": "sha256:0123456789abcdef", "halves": True, "rows": rows, "claims": [], **more,
    }  # fmt: skip
    out.mkdir(exist_ok=True)
    (out / f"{table.name}.json").write_text(json.dumps(document))


def lines_of(page: Path, heading: str) -> list[str]:
    """The lines of a page below a heading that contains some words."""
    lines = page.read_text().splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("##") and heading in line)
    end = next((n for n in range(begin + 1, len(lines)) if lines[n].startswith("##")), len(lines))
    return lines[begin + 1 : end]


def test_a_claim_has_a_verdict_for_the_recipe_and_for_ours_or_what_it_lacks(tmp_path: Path) -> None:
    table, out, page = find_table("two-branch-1"), tmp_path / "scores", tmp_path / "claims.md"
    page.write_text(CLAIM_MARKS)
    keys = ("one-way", "linear", "single")
    rows = [{"key": key, **scores(table, 50.0, [["epoch 7", "epoch 5"]])} for key in keys]
    rows[1]["recipe"] = scores(table, 40.0, [["epoch 3", "epoch 4"]])
    rows[0]["recipe"] = scores(table, 40.0, [["epoch 3", "epoch 4"]])
    claims = [
        saved_claim("one-way", "linear", "r1", "holds", 2.0),
        saved_claim("single", "one-way", "r1", "cannot tell", 0.25),
    ]
    recipe = {"claims": [saved_claim("one-way", "linear", "r1", "does not hold", -2.0)], "about": {}}
    save_document(out, table, rows, claims=claims, recipe=recipe)
    tables.write_claims(page, out)
    text = page.read_text()
    assert text.startswith("# Claims\n")
    assert text.endswith("\n\nThe end.\n")
    assert "replaced text" not in text
    assert "| the paper's recipe | 0 | 1 | 0 | 0 |" in text
    assert "| ours | 1 | 0 | 1 | 0 |" in text
    below = lines_of(page, "two-branch networks")
    found = {line.split(" | ")[0].strip("| "): line for line in below}
    assert found["a nonlinearity in each branch helps the embedding network (§4.4)"].endswith(
        "| r1 | +3.5 | does not hold, -2.0 [-3.0, -1.0] | holds, +2.0 [+1.0, +3.0] |"
    )
    assert found["a loss in both directions is better than in one (§4.4)"].endswith(
        "| not measured: row single not computed | cannot tell, +0.2 [-0.8, +1.2] |"
    )
    assert found["augmented positives improve R@1 (§4.4)"].endswith("| not measured: row augmented not computed |")
    assert "| r1, equal within ±2 | +1.7 |" in found["two layers are almost on par with three (§4.4)"]
    assert any("`two-branch-1`: Flickr8k dev (`sha256:0123456789ab…`), 3 seeds" in line for line in below)
    assert "`m-rnn-1`, 2 tests: needs IAPR TC-12." in text
    assert "`two-branch-3`, 8 tests: needs MS COCO." in below


def test_every_claim_is_counted_on_the_page_of_claims_or_of_comparisons(tmp_path: Path) -> None:
    every = [claim for table in published_tables().values() for claim in table.claims]
    for ours in (False, True):
        page = tmp_path / f"{ours}.md"
        page.write_text(CLAIM_MARKS)
        tables.write_claims(page, tmp_path / "nothing", ours=ours)
        text = page.read_text()
        assert f"| {sum(claim.is_ours == ours for claim in every)} tests |" in text
        for table in published_tables().values():
            assert (f"`{table.name}`" in text) >= any(claim.is_ours == ours for claim in table.claims)
        assert text.count("| claim that no table tests | what it lacks |") == (0 if ours else 4)


def test_a_claim_about_an_input_has_no_verdict_on_others(tmp_path: Path) -> None:
    found = [each for each in tables.claim_verdicts(find_table("two-branch-2"), []) if each.claim.worse == "lstm"]
    assert [each.ours for each in found] == ["needs text_features=hglmm"] * 2
    assert [each.recipe.startswith("not measured") for each in found] == [True] * 2


def test_the_page_of_results_opens_with_published_figures_beside_ours(tmp_path: Path) -> None:
    table, page = find_table("m-rnn-3"), tmp_path / "results.md"
    page.write_text(f"{tables.HEADLINES_BEGIN}\nreplaced text\n{tables.HEADLINES_END}\n")
    save_document(tmp_path / "scores", table, [{"key": "m-rnn", **scores(table, 50.0, [])}])
    tables.write_headlines(page, tmp_path / "scores")
    lines = page.read_text().splitlines()
    assert len(lines) == len(tables.HEADLINES) + 4
    assert "| 14.5 · 11.5 | – | 50.0 · 50.0 | Flickr8k | [`deixis table m-rnn-3 --rows m-rnn`](results/m-rnn.md) |" in (
        next(line for line in lines if "retrieval" in line)
    )


def test_the_head_of_a_table_says_how_epochs_were_chosen(tmp_path: Path) -> None:
    table, page = find_table("two-branch-1"), tmp_path / "two-branch.md"
    row = {"key": "linear", **scores(table, 50.0, [["epoch 7", "epoch 5"]])}
    for changes, words in (
        ({}, "epochs and settings chosen on one half and scored on the other, and the reverse"),
        ({"halves": False, "split": "test"}, "epochs and settings chosen on dev"),
        ({"rows": [{**row, "chosen": []}]}, "nothing had to be chosen"),
    ):
        page.write_text(MARKS)
        save_document(tmp_path / "scores", table, **{"rows": [row], **changes})  # type: ignore[arg-type]
        tables.write_page(page, tmp_path / "scores")
        split = "test" if "split" in changes else "dev"
        line = f"Flickr8k {split} (`sha256:0123456789ab…`), 3 seeds; {words}; computed before each row had a search, "
        assert f"{line}with one training each." in lines_of(page, "two-branch-1:")


def test_a_measured_row_names_its_epochs_and_its_budget_and_says_if_the_recipe_was_not_computed(tmp_path: Path) -> None:
    table, page = find_table("two-branch-1"), tmp_path / "two-branch.md"
    page.write_text(MARKS)
    rows = [
        {
            "key": "linear",
            **scores(table, 50.0, [["epoch 7", "epoch 5"], ["epoch 6", "epoch 6"]]),
            "budget": ["a=1", "a=2"],
        }
    ]
    save_document(tmp_path / "scores", table, rows, recipe={"about": {}, "claims": []})
    tables.write_page(page, tmp_path / "scores")
    found = lines_of(page, "two-branch-1:")
    at = next(
        n for n, line in enumerate(found) if line.startswith("| linear, single positive, one direction | paper |")
    )
    assert found[at].endswith("|  |")
    assert found[at + 1] == "|  | recipe |  |  |  |  | not computed |"
    assert found[at + 2].endswith("| 50.00 ± 1.00 | 7 / 5, 6 / 6 |")
    assert "Each row: the best of 2 trainings (a=1; a=2), chosen with the first seed." in found


def test_phrases_of_the_data_stand_below_those_of_the_paper(tmp_path: Path) -> None:
    table, page = find_table("entities-5"), tmp_path / "entities.md"
    page.write_text(MARKS)
    rows = [
        {"key": "man", **scores(table, 50.0, [])},
        {"key": "“ball”", "label": "ball", "part": "common in this data", **scores(table, 30.0, [])},
    ]
    save_document(tmp_path / "scores", table, rows)
    tables.write_page(page, tmp_path / "scores")
    found = lines_of(page, "entities-5")
    assert any(line.startswith("| **common in this data** |") for line in found)
    assert any(line.startswith("| ball | ours | 30 ± 1 |") for line in found)
    [absent] = [line for line in found if line.startswith("| woman |")]
    assert absent.endswith("| not in this data |")


@pytest.mark.parametrize("name", ["entities", "two-branch", "m-rnn", "hm-lstm"])
def test_the_tables_of_a_paper_are_those_of_the_saved_scores(tmp_path: Path, name: str) -> None:
    written, page = ROOT / "docs" / "results" / f"{name}.md", tmp_path / f"{name}.md"
    page.write_text(written.read_text())
    tables.write_page(page, ROOT / "docs" / "scores")
    assert page.read_text() == written.read_text(), "run scripts/tables.py --page"


@pytest.mark.parametrize("name", ["claims", "comparisons", "results"])
def test_a_written_page_is_that_of_the_saved_scores(tmp_path: Path, name: str) -> None:
    written, page = ROOT / "docs" / f"{name}.md", tmp_path / f"{name}.md"
    page.write_text(written.read_text())
    if name == "results":
        tables.write_headlines(page, ROOT / "docs" / "scores")
    else:
        tables.write_claims(page, ROOT / "docs" / "scores", ours=name == "comparisons")
    assert page.read_text() == written.read_text(), f"run scripts/tables.py --{name}"


def test_a_table_of_two_data_sets_has_two_parts_and_claims_are_tested_on_that_of_the_paper(tmp_path: Path) -> None:
    table, out, page = find_table("m-rnn-8"), tmp_path / "scores", tmp_path / "m-rnn.md"
    page.write_text(MARKS)
    for name, value in (("Flickr8k", 40.0), ("MS COCO", 30.0)):
        rows = [{"key": key, **scores(table, value, [])} for key in ("bleu", "shared")]
        further = name != "Flickr8k"
        claims = [saved_claim("bleu", "shared", "bleu4", "holds", value)]
        save_document(out, table, rows, claims=claims, data_name=name, further=further)
        if further:
            (out / "m-rnn-8.json").rename(out / "m-rnn-8@ms-coco.json")
        else:
            kept = (out / "m-rnn-8.json").read_text()
    (out / "m-rnn-8.json").write_text(kept)
    tables.write_page(page, out)
    first, second = (lines_of(page, heading) for heading in ("m-rnn-8: Consensus", "on MS COCO"))
    assert sum("| 40.0 ± 1.0" in line for line in first) == sum("| 30.0 ± 1.0" in line for line in second) == 2
    assert any("reranked by CIDEr" in line for line in first), "it says what is missing"
    assert not any("reranked by CIDEr" in line for line in second)
    [verdict] = [
        each.ours
        for each in tables.claim_verdicts(table, tables._documents(out, table))
        if each.claim.better == "bleu" and not each.claim.is_ours
    ]
    assert verdict.startswith("holds, +30.0")


def test_scores_travel_to_another_machine_and_an_unfinished_table_keeps_its_document(
    quarters: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_store(quarters, tmp_path / "features")
    changes = [word for change in (*SMALL, f"features_dir={tmp_path / 'features'}") for word in ("--set", change)]
    out, packed = tmp_path / "scores", tmp_path / "ranks.zip"
    common = [str(quarters.path), "--inputs", "ours", "--out", str(out), "--ranks", str(packed), *changes]
    monkeypatch.setattr(tables, "_in_processes", in_this_process)
    monkeypatch.setattr(tables, "save_documents", lambda *_: None)
    assert tables.main([*common, "--tables", "entities-3", "--rows", "cca", "--runs", str(tmp_path / "first")]) == 0
    monkeypatch.setattr(training_runner, "train", None)  # nothing is left to train
    assert tables.main([*common, "--tables", "entities-3", "--rows", "cca", "--runs", str(tmp_path / "second")]) == 0
    names = [{each.name for each in (tmp_path / run / "scores").iterdir()} for run in ("first", "second")]
    assert names[0] == names[1] != set()


def in_this_process(function: object, work: list[object], jobs: int, left: object, log: Path) -> bool:
    for each in work:
        function(each)  # type: ignore[operator]
    return True


def test_rows_that_claims_need_come_first(quarters: Dataset) -> None:
    options = make_options(quarters, "entities-5", "entities-3", changes=())
    names = [name.split()[0] for name, _ in tables.all_units(options)]
    assert names[0] == "entities-3"
    assert names.index("entities-5") > names.count("entities-3") / 2
