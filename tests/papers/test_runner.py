"""Computing tables on small photos with coloured quarters: recipes, seeds, resuming, and tests of claims."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.evaluation.intervals import Comparison
from deixis.evaluation.items import localization_items, sentences_of
from deixis.evaluation.phrase_localization import localization
from deixis.evaluation.retrieval import Ranking, recall_at_k
from deixis.models.evaluation import EvaluationData
from deixis.models.pipeline import Pipeline
from deixis.models.training import runner as training_runner
from deixis.papers import runner
from deixis.papers.results import ModelScores, RowResult
from deixis.papers.runner import (
    COMMON_PHRASES,
    ClaimTest,
    TableRunner,
    check_claim,
    decide,
    required_models,
    row_applies,
)
from deixis.papers.tables import Claim, Recipe, Table, Training, Weights, find_table
from deixis.papers.training import ExperimentFolder, TableModels, check_changes
from deixis.storage.progress import OnProgress, no_progress
from tests.models.quarters import make_quarters, make_store, use_small_encoders

SMALL_CCA = ("embedding_dim=2", "regularization=0.01", "max_proposals=4")
SMALL_NETWORK = (
    *("epochs=2", "batch_size=16", "learning_rate=0.05", "hidden_size=12", "max_proposals=4"),
    *("device=cpu", "threads=1", "word_dim=4", "text_hidden_size=5"),
)


@pytest.fixture
def quarters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path, 18)


class ProgressLog:
    """Records the label of each model that is computed."""

    def __init__(self) -> None:
        self.labels: list[str] = []

    @contextmanager
    def __call__(self, label: str) -> Iterator[OnProgress]:
        self.labels.append(label)
        yield no_progress


def make_runner(
    dataset: Dataset, changes: tuple[str, ...], seeds: int = 2, log: ProgressLog | None = None
) -> TableRunner:
    models = TableModels(dataset, ExperimentFolder(dataset.path / "experiments"), changes)
    return TableRunner(models, "dev", seeds, log or ProgressLog())


def only(name: str, *keys: str) -> Table:
    table = find_table(name)
    return replace(table, rows=tuple(row for row in table.rows if row.key in keys))


def test_retrieval_scores_equal_those_of_train_and_evaluate(quarters: Dataset) -> None:
    table_runner = make_runner(quarters, SMALL_CCA)
    found = table_runner.run(only("entities-3", "cca"))
    pipeline = table_runner.models.pipeline(Training("cca", "papers/cca-sentences"), 0)
    gold = sentences_of(quarters.split("dev"))
    features = pipeline.features(quarters, quarters.split("dev"))
    plain = recall_at_k(pipeline.retrieval_scores(features, gold.texts), gold.photo_of_sentence)
    assert {name: found.ours["cca"].score(name) for name in ("i2t_r1", "t2i_r10")} == {
        "i2t_r1": plain.i2t_r1,
        "t2i_r10": plain.t2i_r10,
    }
    assert (found.split, found.seeds) == ("dev", 1)
    assert found.about == {"encoder": ("colours (colours-1)",), "text": ("tfidf",)}


def test_localization_scores_equal_those_of_train_and_evaluate(quarters: Dataset) -> None:
    table_runner = make_runner(quarters, SMALL_CCA)
    found = table_runner.run(only("entities-4", "overall")).ours["overall"]
    pipeline = table_runner.models.pipeline(Training("cca", "papers/cca-augmented-10"), 0)
    photos = quarters.split("dev")
    items = localization_items(photos)
    features = pipeline.features(quarters, photos, regions=True)
    plain = localization(pipeline.predict_boxes(features, items), items, rounds=10)
    assert found.score("n") == plain.n == 12
    assert found.score("r1") == pytest.approx(plain.r1)
    assert found.score("upper_bound") == pytest.approx(plain.upper_bound)


def test_the_most_common_phrases_of_the_data_follow_those_of_the_paper(quarters: Dataset) -> None:
    found = make_runner(quarters, SMALL_CCA).run(find_table("entities-5"))
    more = [row for row in found.table.rows if row.part == COMMON_PHRASES]
    assert list(found.ours) == [row.key for row in more], "no photo shows a man"
    counts = [found.ours[row.key].score("n") for row in more]
    assert counts == sorted(counts, key=lambda count: -(count or 0))
    assert sum(count or 0 for count in counts) == 12
    assert {"red square", "red one"} & {row.label for row in more}


def test_rows_that_share_a_recipe_train_one_model(quarters: Dataset) -> None:
    log = ProgressLog()
    make_runner(quarters, SMALL_CCA, log=log).run(find_table("entities-5"))
    assert log.labels == ["entities-5: man"]


def test_stacked_and_weighted_models_share_the_region_model(quarters: Dataset) -> None:
    table_runner = make_runner(quarters, SMALL_CCA)
    found = table_runner.run(only("entities-3", "augmented-10", "sae", "weighted"))
    assert list(found.ours) == ["augmented-10", "sae", "weighted"]
    assert len(list((quarters.path / "experiments" / "models").glob("cca-*"))) == 2
    assert [each.claim.says for each in found.claims] == ["weighted distance over SAE"] * 2
    assert found.about["proposals"] == ("corners, 4 a photo",)


def test_distances_are_combined_as_in_the_paper_of_the_table(
    quarters: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    original = runner.score_combined

    def recording(photos: Pipeline, regions: Pipeline, weights: Weights, on: EvaluationData) -> ModelScores:
        calls.append((photos.provenance.train_on, regions.provenance.train_on, weights))
        return original(photos, regions, weights, on)

    monkeypatch.setattr(runner, "score_combined", recording)
    make_runner(quarters, SMALL_CCA).run(only("entities-3", "sae", "weighted"))
    make_runner(quarters, SMALL_NETWORK, seeds=1).run(only("two-branch-5", "weighted"))
    assert calls == [("sentences", "phrases", "entities"), ("sentences", "phrases", "two-branch")]


def test_an_interrupted_table_continues(quarters: Dataset) -> None:
    first, second, third = ProgressLog(), ProgressLog(), ProgressLog()
    table = only("entities-3", "cca", "chunks")
    make_runner(quarters, SMALL_CCA, log=first).run(only("entities-3", "cca"))
    before = make_runner(quarters, SMALL_CCA, log=second).run(table)
    after = make_runner(quarters, SMALL_CCA, log=third).run(table)
    assert (first.labels, second.labels, third.labels) == (["entities-3: cca"], ["entities-3: chunks"], [])
    for key in ("cca", "chunks"):
        assert after.ours[key].by_seed("t2i_r5") == before.ours[key].by_seed("t2i_r5")


def test_other_settings_or_other_data_are_computed_again(quarters: Dataset, tmp_path: Path) -> None:
    log = ProgressLog()
    table = only("entities-3", "cca")
    make_runner(quarters, SMALL_CCA, log=log).run(table)
    make_runner(quarters, (*SMALL_CCA, "correlation_power=2"), log=log).run(table)
    other = make_quarters(tmp_path / "other", 21)
    models = TableModels(other, ExperimentFolder(quarters.path / "experiments"), SMALL_CCA)
    TableRunner(models, "dev", 2, log).run(table)
    assert len(log.labels) == 3


def test_the_model_directory_depends_on_data_and_auxiliary_model(quarters: Dataset, tmp_path: Path) -> None:
    other = make_quarters(tmp_path / "other", 21)
    runs = ExperimentFolder(tmp_path / "runs")
    one, two = TableModels(quarters, runs), TableModels(other, runs)
    plain, auxiliary = Training("cca", "papers/cca-sentences"), Training("cca", "papers/cca-chunks")
    abouts = [
        one.about(plain, 0),
        two.about(plain, 0),
        one.about(replace(plain, auxiliary=auxiliary), 0),
        one.about(replace(plain, auxiliary=Training("cca", "papers/cca-chunks-1")), 0),
    ]
    assert len({runs.model("cca", about) for about in abouts}) == 4
    assert one.about(plain, 0) == one.about(plain, 1), "CCA does not depend on the seed"


def test_networks_are_trained_once_for_each_seed(quarters: Dataset) -> None:
    log = ProgressLog()
    table_runner = make_runner(quarters, SMALL_NETWORK, log=log)
    found = table_runner.run(only("two-branch-2", "both-ways", "one-way"))
    assert log.labels == [
        f"two-branch-2: {key}, seed {seed} of 2" for key in ("one-way", "both-ways") for seed in (1, 2)
    ]
    assert found.seeds == 2
    assert len(found.ours["one-way"].by_seed("i2t_r1")) == 2
    ranks = [scores.rankings["t2i"].ranks for scores in found.ours["one-way"].models]
    assert not np.array_equal(*ranks), "two seeds, two models"
    assert [each.claim.says for each in found.claims] == ["both directions over one"] * 2


def test_sentence_retrieval_uses_the_first_part_for_unknown_data(quarters: Dataset) -> None:
    found = make_runner(quarters, SMALL_NETWORK, seeds=1).run(only("two-branch-4", "neither", "coco-neither"))
    assert list(found.ours) == ["neither"], "unknown data uses the first part"
    assert found.ours["neither"].score("s2s_r1") is not None


def test_networks_localize_phrases(quarters: Dataset) -> None:
    found = make_runner(quarters, SMALL_NETWORK, seeds=1).run(only("two-branch-1", "sampling", "sim"))
    for key in ("sampling", "sim"):
        assert 0 <= (found.ours[key].score("r1") or -1) <= 100
        assert found.ours[key].score("r10") == 100, "there are four proposals"


def test_an_interrupted_training_is_resumed(quarters: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    table_runner = make_runner(quarters, SMALL_NETWORK, seeds=1)
    training = Training("two-branch", "papers/two-branch-sentences")
    resumed = []
    original = training_runner.train

    def recording(*arguments: object, resume: bool = False, **named: object) -> object:
        resumed.append(resume)
        done = original(*arguments, resume=resume, **named)  # type: ignore[arg-type]
        if len(resumed) == 1:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(training_runner, "train", recording)
    with pytest.raises(KeyboardInterrupt):
        table_runner.models.model_path(training, 0)
    table_runner.models.pipeline(training, 0)
    table_runner.models.pipeline(training, 0)
    assert resumed == [False, True]


def test_text_features_default_to_tfidf_and_can_be_changed(quarters: Dataset) -> None:
    training = Training("two-branch", "papers/two-branch-sentences")
    plain = TableModels(quarters, ExperimentFolder(quarters.path), ()).settings(training, seed=4).to_json()
    assert (plain["text_features"], plain["seed"]) == ("tfidf", 4)
    chosen = (
        TableModels(quarters, ExperimentFolder(quarters.path), ("text_features=hglmm", "correlation_power=3"))
        .settings(training, seed=0)
        .to_json()
    )
    assert chosen["text_features"] == "hglmm", "a setting that only other models have is ignored"


def test_a_setting_that_no_model_of_the_table_has_is_refused() -> None:
    trainings = required_models(find_table("two-branch-2").rows)
    check_changes(["embedding_dim=3", "epochs=2"], trainings)
    with pytest.raises(DeixisError, match="epoch"):
        check_changes(["epoch=2"], trainings)


def test_rows_of_another_data_set_are_not_computed(quarters: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    table = find_table("two-branch-4")
    coco = table.row("coco-neither")
    assert not row_applies(coco, table, quarters)
    monkeypatch.setattr(runner, "identify_dataset", lambda dataset: "MS COCO")
    assert row_applies(coco, table, quarters)
    assert not row_applies(table.row("neither"), table, quarters)


def test_a_recipe_without_a_model_is_an_error(quarters: Dataset) -> None:
    table = find_table("two-branch-5")
    [first, _] = table.rows
    broken = replace(table, rows=(replace(first, recipe=Recipe("retrieval")),))
    with pytest.raises(DeixisError, match="retrieval"):
        make_runner(quarters, ()).run(broken)


def test_features_of_another_directory_are_used(quarters: Dataset, tmp_path: Path) -> None:
    make_store(quarters, tmp_path / "elsewhere")
    changes = (*SMALL_CCA, "proposals=corners", f"features_dir={tmp_path / 'elsewhere'}")
    found = make_runner(quarters, changes).run(only("entities-3", "weighted", "chunks"))
    assert list(found.ours) == ["chunks", "weighted"]
    assert [path.name for path in (quarters.path / "features").iterdir()] == ["text-tfidf"], "no photo was encoded"


CLAIM = Claim("a over b", "a", "b", "r1")
PHOTOS = 200


def scores(correct: np.ndarray) -> ModelScores:
    ranks = np.where(correct, 1.0, 9.0)
    ranking = Ranking(ranks, np.full(len(ranks), 10), np.arange(len(ranks)), len(ranks))
    return ModelScores({"r1": 100 * float(correct.mean())}, {"": ranking})


def sample_correct(share: float, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(PHOTOS) < share


def run_test(better: list[np.ndarray], worse: list[np.ndarray]) -> ClaimTest:
    found = check_claim(CLAIM, RowResult([*map(scores, better)]), RowResult([*map(scores, worse)]), rounds=500)
    assert found is not None
    return found


def test_a_clear_difference_holds() -> None:
    found = run_test(
        [sample_correct(0.8, seed) for seed in range(3)], [sample_correct(0.4, 10 + seed) for seed in range(3)]
    )
    assert found.verdict == "holds"
    assert len(found.by_seed) == 3
    assert found.difference.difference == pytest.approx(np.mean(found.by_seed))


def test_a_clear_difference_in_the_other_direction_does_not_hold() -> None:
    found = run_test(
        [sample_correct(0.4, seed) for seed in range(3)], [sample_correct(0.8, 10 + seed) for seed in range(3)]
    )
    assert found.verdict == "does not hold"


def test_equal_models_cannot_be_distinguished() -> None:
    found = run_test(
        [sample_correct(0.5, seed) for seed in range(3)], [sample_correct(0.5, 20 + seed) for seed in range(3)]
    )
    assert found.verdict == "cannot tell"
    assert found.difference.low < 0 < found.difference.high


def test_seeds_that_disagree_leave_a_claim_undecided() -> None:
    base = sample_correct(0.5, 1)
    better, worse = base.copy(), base.copy()
    better[np.flatnonzero(~base)[:60]] = True
    worse[np.flatnonzero(base)[:5]] = False
    found = run_test([better, better, worse], [base, base, base])
    assert found.difference.low > 0
    assert found.by_seed[2] < 0
    assert found.verdict == "cannot tell"


def test_a_deterministic_model_is_compared_with_every_seed_of_the_other() -> None:
    found = run_test([sample_correct(0.8, seed) for seed in range(3)], [sample_correct(0.4, 10)])
    assert len(found.by_seed) == 3
    assert found.verdict == "holds"


def test_pairing_makes_the_interval_narrow() -> None:
    base = sample_correct(0.5, 1)
    slightly = base.copy()
    slightly[np.flatnonzero(~base)[:8]] = True
    assert run_test([slightly], [base]).verdict == "holds", "all of 8 changed photos improved"


def test_rows_must_be_scored_on_the_same_photos_and_have_ranks() -> None:
    with pytest.raises(DeixisError, match="a over b"):
        check_claim(
            CLAIM, RowResult([scores(sample_correct(0.5, 1))]), RowResult([scores(sample_correct(0.5, 1)[:50])])
        )
    assert check_claim(CLAIM, RowResult([ModelScores({"r1": 5.0})]), RowResult([ModelScores({"r1": 4.0})])) is None


def test_an_interval_around_0_decides_nothing_even_if_all_seeds_agree() -> None:
    for difference, seeds in ((0.5, (0.4, 0.6)), (-0.5, (-0.4, -0.6))):
        assert decide(Comparison(difference, -2.0, 2.0, p=0.6), seeds) == "cannot tell"
