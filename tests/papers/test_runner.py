"""Tables computed on small photos with coloured quarters: recipes, seeds, resuming, scores and tests of claims."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deixis.cli import table as command
from deixis.data.dataset import Dataset, Photos
from deixis.errors import DatasetError, DeixisError, DivergedError
from deixis.evaluation.captions import caption_scores
from deixis.evaluation.intervals import values_of
from deixis.evaluation.items import Item, localization_items, regions_of, sentences_of
from deixis.evaluation.phrase_localization import RankedPredictions, localization
from deixis.evaluation.phrase_precision import photo_precisions
from deixis.evaluation.predictions import Prediction
from deixis.evaluation.retrieval import Ranking, recall_at_k, region_retrieval
from deixis.language.vectors import WordVectors
from deixis.models.evaluation import EvaluationData, phrase_scores, search_phrases
from deixis.models.m_rnn.consensus import (
    Candidates,
    Neighbours,
    RerankConfig,
    best_first,
    cross_validated_order,
    neighbour_vectors,
    oracle_scores,
)
from deixis.models.m_rnn.decoding import Decoding, GeneratedSentence
from deixis.models.m_rnn.evaluation import caption_perplexity
from deixis.models.m_rnn.pipeline import CaptionPipeline
from deixis.models.photo_features import find_or_compute_features
from deixis.models.pipeline import Pipeline
from deixis.models.training import runner as training_runner
from deixis.papers import runner
from deixis.papers import scores as row_scores
from deixis.papers.results import ModelScores, RowResult, score_caption_texts
from deixis.papers.runner import COMMON_PHRASES, TableRunner, add_common_phrases, required_models, row_applies
from deixis.papers.scores import combined_scores, score_captions, score_grounding, score_task, scores_from_predictions
from deixis.papers.tables import CaptionOptions, RowRecipe, Table, Training, Weights, find_table
from deixis.papers.training import ExperimentFolder, TableModels, check_changes
from deixis.storage.progress import OnProgress, no_progress
from tests.models.coloured import COLOURS
from tests.models.quarters import make_quarters, make_store, use_small_encoders

SMALL_CCA = ("embedding_dim=2", "regularization=0.01", "max_proposals=4")
SMALL_NETWORK = (
    *("epochs=2", "batch_size=16", "learning_rate=0.05", "hidden_size=12", "max_proposals=4"),
    *("device=cpu", "threads=1", "word_dim=4", "text_hidden_size=5", "lr_schedule=constant"),
)
SMALL_CAPTIONER = (
    *("epochs=8", "batch_size=16", "learning_rate=0.03", "min_count=2", "device=cpu", "threads=1"),
    *("first_embedding_dim=8", "second_embedding_dim=12", "multimodal_dim=16", "lr_schedule=cosine"),
)
SMALL_HM_LSTM = (
    *("epochs=1", "round_epochs=1", "rounds=1", "batch_size=16", "hidden_size=8", "embedding_dim=6", "max_proposals=4"),
    *("device=cpu", "threads=1", "learning_rate=8e-3", "lr_schedule=constant"),
)
CAPTIONER = Training("m-rnn", "papers/m-rnn")


@pytest.fixture(autouse=True)
def small_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_encoders(monkeypatch)


@pytest.fixture
def quarters(tmp_path: Path) -> Dataset:
    return make_quarters(tmp_path, 18)


@pytest.fixture
def dev(quarters: Dataset) -> EvaluationData:
    return EvaluationData(quarters, quarters.split("dev"))


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


def test_average_precision_ranks_the_regions_of_all_photos_by_three_protocols(quarters: Dataset) -> None:
    table_runner = make_runner(quarters, SMALL_CCA)
    found = table_runner.run(find_table("entities-5"))
    pipeline: Any = table_runner.models.pipeline(Training("cca", "papers/cca-augmented-10"), 0)
    photos = quarters.split("dev")
    items, features = localization_items(photos), pipeline.features(quarters, photos, regions=True)
    by_mention, _ = search_phrases(pipeline, features, items)
    regions, scores = phrase_scores(pipeline, features, items)
    by_photo = photo_precisions(scores, items, regions)
    own = localization(pipeline.predict_boxes(features, items), items, rounds=10)
    assert len(found.ours) == len(by_mention.by_phrase) > 1
    for key, result in found.ours.items():
        phrase = key.strip("“”")
        for name in ("ap", "ap_nms"):
            assert result.score(name) == pytest.approx(by_photo[phrase][name])
            assert result.score(f"{name}_mentions") == pytest.approx(getattr(by_mention.by_phrase[phrase], name))
            assert result.score(f"{name}_within") == pytest.approx(getattr(own.by_phrase[phrase], name))


def test_the_overall_average_precision_is_the_mean_over_types_as_that_of_the_paper(
    quarters: Dataset, dev: EvaluationData, monkeypatch: pytest.MonkeyPatch
) -> None:
    def typed(photos: Photos) -> list[Item]:
        return [
            replace(item, types=("people",) if "red" in item.phrase else ("animals",))
            for item in localization_items(photos)
        ]

    monkeypatch.setattr(row_scores, "localization_items", typed)
    found = row_scores.score_detection(cca(quarters, "augmented-10"), dev).scores  # type: ignore[arg-type]
    for name in ("ap", "ap_nms", "ap_mentions"):
        people, animals = found[f"people_{name}"], found[f"animals_{name}"]
        assert found[f"overall_{name}"] == pytest.approx((people + animals) / 2)
        phrases = [value for key, value in found.items() if key.startswith("“red") and key.endswith(f"”_{name}")]
        assert people == pytest.approx(np.mean(phrases))
    assert found["people_ap"] != pytest.approx(found["animals_ap"])


def test_the_most_common_phrases_of_the_data_follow_those_of_the_paper(quarters: Dataset) -> None:
    log = ProgressLog()
    found = make_runner(quarters, SMALL_CCA, log=log).run(find_table("entities-5"))
    assert log.labels == ["entities-5: man"], "rows that share a recipe share a model"
    more = [row for row in found.table.rows if row.part == COMMON_PHRASES]
    assert list(found.ours) == [row.key for row in more], "no photo shows a man"
    counts = [found.ours[row.key].score("n") for row in more]
    assert counts == sorted(counts, key=lambda count: -(count or 0))
    assert sum(count or 0 for count in counts) == 12
    assert {"red square", "red one"} & {row.label for row in more}


def test_stacked_and_weighted_models_share_the_region_model(quarters: Dataset) -> None:
    table_runner = make_runner(quarters, SMALL_CCA)
    found = table_runner.run(only("entities-3", "augmented-10", "sae", "weighted"))
    assert list(found.ours) == ["augmented-10", "sae", "weighted"]
    assert len(list((quarters.path / "experiments" / "models").glob("cca-*"))) == 2
    assert [(each.claim.better, each.claim.worse) for each in found.claims] == [("weighted", "sae")] * 2
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
    found = make_runner(quarters, SMALL_NETWORK, seeds=1).run(only("two-branch-5", "weighted"))
    assert calls == [
        ("sentences", "phrases", "entities"),
        *[("sentences", "phrases", "two-branch")] * 2,  # chosen on each half
    ]
    [[first, second]] = found.ours["weighted"].kept
    assert all(re.fullmatch(r"epoch [12] \(\d+ steps\) \+ epoch [12] \(\d+ steps\)", each) for each in (first, second))


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


def test_the_model_directory_does_not_depend_on_what_training_writes_besides(quarters: Dataset, tmp_path: Path) -> None:
    runs, training = ExperimentFolder(tmp_path / "runs"), Training("two-branch", "papers/two-branch-phrases")
    plain = TableModels(quarters, runs).about(training, 0)
    for change in ("tensorboard=true", "log_every=7", "save_every=9", "device=cpu", "threads=3"):
        assert TableModels(quarters, runs, (change,)).about(training, 0) == plain
    assert TableModels(quarters, runs, ("epochs=17",)).about(training, 0) != plain


def test_a_network_is_scored_on_the_device_that_trains_it(
    quarters: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str | None] = []
    monkeypatch.setattr(TableModels, "model_path", lambda *_: tmp_path)
    monkeypatch.setattr("deixis.models.pipeline.load", lambda path, *, device=None: loaded.append(device))
    for changes in ((), ("device=cpu",)):
        models = TableModels(quarters, ExperimentFolder(tmp_path / "runs"), changes)
        models.pipeline(Training("two-branch", "papers/two-branch-sentences"), 0)
        models.pipeline(Training("cca", "papers/cca-sentences"), 0)
    assert loaded == ["auto", None, "cpu", None], "CCA has no network and no device"


def test_networks_are_trained_for_each_seed_and_each_half_that_chooses(quarters: Dataset) -> None:
    log = ProgressLog()
    table_runner = make_runner(quarters, SMALL_NETWORK, log=log)
    found = table_runner.run(only("two-branch-2", "both-ways", "one-way"))
    assert log.labels == [
        f"two-branch-2: {key}, seed {seed} of 2, chosen on the {half} half"
        for key in ("one-way", "both-ways")
        for seed in (1, 2)
        for half in ("first", "second")
    ]
    assert found.seeds == 2
    assert len(found.ours["one-way"].by_seed("i2t_r1")) == 2
    ranks = [scores.rankings["t2i"].ranks for scores in found.ours["one-way"].models]
    assert not np.array_equal(*ranks), "two seeds, two models"
    assert [(each.claim.better, each.claim.score) for each in found.claims] == [("both-ways", "t2i_r1")]


def test_each_half_is_scored_by_the_model_that_the_other_half_chose(quarters: Dataset) -> None:
    table_runner = make_runner(quarters, SMALL_NETWORK, seeds=1)
    found = table_runner.run(only("two-branch-2", "one-way")).ours["one-way"].models[0]
    photos, gold = quarters.split("dev"), sentences_of(quarters.split("dev"))
    training = find_table("two-branch-2").row("one-way").recipe.model  # type: ignore[union-attr]
    expected: dict[int, float] = {}
    for half, scored in (("first-half", 1), ("second-half", 0)):
        pipeline = replace(table_runner.models, select_on=half).pipeline(training, 0)  # type: ignore[arg-type]
        scores = pipeline.retrieval_scores(pipeline.features(quarters, photos), gold.texts)
        ranks = recall_at_k(scores, gold.photo_of_sentence).rankings["i2t"].ranks
        expected |= {photo: ranks[photo] for photo in range(scored, len(photos), 2)}
    assert len(list((table_runner.models.runs.folder / "models").iterdir())) == 1, "one run chooses for both halves"
    ranking = found.rankings["i2t"]
    assert dict(zip(ranking.units.tolist(), ranking.ranks.tolist(), strict=True)) == expected
    assert found.scores["i2t_r1"] == pytest.approx(100 * np.mean([rank == 1 for rank in expected.values()]))


def test_the_other_split_is_scored_by_the_choice_of_all_of_dev(quarters: Dataset) -> None:
    log = ProgressLog()
    table_runner = replace(make_runner(quarters, SMALL_NETWORK, seeds=1, log=log), split="train")
    found = table_runner.run(only("two-branch-2", "one-way"))
    assert log.labels == ["two-branch-2: one-way"]
    assert not found.crossed
    assert len(found.ours["one-way"].kept[0]) == 1


def test_dev_chooses_a_setting_half_by_half(quarters: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    table = only("entities-3", "cca")
    [row] = table.rows
    assert row.recipe is not None
    assert row.recipe.model is not None
    assert {choice.partition("=")[0] for choice in row.recipe.model.choose} == {"regularization"}
    few = replace(row.recipe.model, choose=("regularization=0.01", "regularization=1000"))
    table = replace(table, rows=(replace(row, recipe=replace(row.recipe, model=few)),))
    better = {False: 0.01, True: 1000.0}  # first half, second half

    def criterion(scores: ModelScores, second_half: bool | None = None) -> float:
        assert second_half is not None
        return float(scores.about["regularization"] == str(better[second_half]))

    original = TableModels.describe

    def describe(models: TableModels, training: Training, seed: int, pipeline: Pipeline) -> dict[str, str]:
        regularization = models.settings(training, seed).to_json()["regularization"]
        return {**original(models, training, seed, pipeline), "regularization": str(regularization)}

    monkeypatch.setattr(TableModels, "describe", describe)
    monkeypatch.setattr(ModelScores, "criterion", criterion)
    found = make_runner(quarters, ("embedding_dim=2",)).run(table).ours["cca"]
    assert found.kept == (("regularization=0.01", "regularization=1000"),)
    fixed = make_runner(quarters, SMALL_CCA).run(table).ours["cca"]
    assert fixed.kept == (), "--set takes the choice away"


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
    plain = make_runner(quarters, ()).models.settings(training, seed=4).to_json()
    assert (plain["text_features"], plain["seed"]) == ("tfidf", 4)
    changes = ("text_features=hglmm", "correlation_power=3")  # a setting that only other models have is ignored
    assert make_runner(quarters, changes).models.settings(training, seed=0).to_json()["text_features"] == "hglmm"


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
    broken = replace(table, rows=(replace(first, recipe=RowRecipe("retrieval")),))
    with pytest.raises(DeixisError, match="retrieval"):
        make_runner(quarters, ()).run(broken)


def test_features_of_another_directory_are_used(quarters: Dataset, tmp_path: Path) -> None:
    make_store(quarters, tmp_path / "elsewhere")
    changes = (*SMALL_CCA, "proposals=corners", f"features_dir={tmp_path / 'elsewhere'}")
    found = make_runner(quarters, changes).run(only("entities-3", "weighted", "chunks"))
    assert list(found.ours) == ["chunks", "weighted"]
    assert [path.name for path in (quarters.path / "features").iterdir()] == ["text-tfidf"], "no photo was encoded"


@pytest.fixture
def hm_lstm(quarters: Dataset, tmp_path: Path) -> TableRunner:
    words = [*COLOURS, "a", "the", "square", "one"]
    WordVectors(np.eye(len(words), dtype=np.float32), words).save(tmp_path / "vectors")
    return make_runner(quarters, (*SMALL_HM_LSTM, f"word_vectors={tmp_path / 'vectors'}"))


@pytest.mark.parametrize(
    ("key", "name", "value"),
    [("chain", "text_encoder", "chain"), ("tree", "text_encoder", "tree-lstm"), ("root-only", "phrase_weight", 0.0)],
)
def test_a_variant_of_hm_lstm_differs_in_one_setting(hm_lstm: TableRunner, key: str, name: str, value: object) -> None:
    recipes = [find_table("hm-lstm-1").row(row).recipe for row in ("hm-lstm", key)]
    models = replace(hm_lstm.models, changes=())
    ours, theirs = (models.settings(each.model, 0).to_json() for each in recipes)  # type: ignore[union-attr, arg-type]
    assert {name: value for name, value in theirs.items() if ours[name] != value} == {name: value}


def test_region_retrieval_and_localization_use_the_same_models(hm_lstm: TableRunner, quarters: Dataset) -> None:
    table = only("hm-lstm-4", "hm-lstm", "root-only", "points-hm-lstm", "points-root-only")
    found = hm_lstm.run(table)
    assert set(found.ours) == {"hm-lstm", "root-only", "points-hm-lstm", "points-root-only"}
    assert all(len(result.by_seed("r1")) == 2 for result in found.ours.values())
    assert len(list((quarters.path / "experiments" / "models").iterdir())) == 8  # two variants, two seeds, two halves
    assert found.ours["points-hm-lstm"].score("upper_bound") == 100
    assert {each.verdict for each in found.claims} == {"no verdict"}, "there are six photos"
    assert {(each.claim.better, each.claim.score) for each in found.claims} == {
        ("hm-lstm", "r1"), ("hm-lstm", "r10"), ("points-hm-lstm", "r1")
    }  # fmt: skip
    assert found.about["text"] == ("read word by word",)


class Captioner:
    """Photos with coloured quarters, and a captioner trained on them for a few epochs."""

    def __init__(self, folder: Path) -> None:
        self.dataset: Dataset = make_quarters(folder, 18)
        self.runner = make_runner(self.dataset, SMALL_CAPTIONER, seeds=1)
        self.pipeline: CaptionPipeline = self.runner.models.pipeline(CAPTIONER, 0)
        self.on = EvaluationData(self.dataset, self.dataset.split("dev"))
        self.train = self.dataset.split("train")
        self.references = {photo.id: [caption.text for caption in photo.sentences] for photo in self.on.photos}

    def generate(self, decoding: Decoding) -> list[list[GeneratedSentence]]:
        return self.pipeline.model.generate(self.on.features(self.pipeline).vectors(), decoding)

    def score(self, options: CaptionOptions) -> ModelScores:
        return score_captions(self.pipeline, self.on, options, self.train)


@pytest.fixture(scope="module")
def captioner(tmp_path_factory: pytest.TempPathFactory) -> Captioner:
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_small_encoders(monkeypatch)
        return Captioner(tmp_path_factory.mktemp("written"))


@pytest.mark.parametrize("beam", [0, 1, 3])
def test_captions_are_generated_by_the_model_and_scored_by_the_evaluation(captioner: Captioner, beam: int) -> None:
    found = captioner.score(CaptionOptions(beam))
    photos = captioner.on.features(captioner.pipeline)
    decoding = Decoding(["sample", "greedy"][beam]) if beam < 2 else Decoding(beam=beam)
    made = captioner.generate(decoding)
    written = {photo: some[0].text for photo, some in zip(photos.photos.ids, made, strict=True)}
    assert {photo: text for photo, (text, _) in found.captions.items()} == written
    expected = caption_scores(written, captioner.references, training=sentences_of(captioner.train).texts)
    assert found.scores["bleu1"] == pytest.approx(expected.bleu1)
    assert found.scores["novel"] == expected.novel
    gold = sentences_of(captioner.on.photos)
    expected_perplexity = caption_perplexity(
        captioner.pipeline.model, photos.vectors(), gold.texts, np.array(gold.photo_of_sentence)
    )
    assert found.scores["perplexity"] == expected_perplexity.perplexity
    assert "known, 0.0 % of those scored unknown" in found.about["words"]


@pytest.mark.parametrize("similarity", ["bleu", "cider"])
@pytest.mark.parametrize(
    ("feature", "forms"),
    [("refined", ("cosine", "smoothed")), ("photo", ("cosine", "smoothed")), ("photo", ("euclidean", "mean-f"))],
)
def test_reranking_tunes_k_and_m_on_the_other_half_of_the_photos(
    captioner: Captioner, similarity: str, feature: str, forms: tuple[str, str]
) -> None:
    found = captioner.score(CaptionOptions(4, similarity, feature, *forms))  # type: ignore[arg-type]
    pipeline, vectors = captioner.pipeline, captioner.on.features(captioner.pipeline).vectors()
    made = captioner.generate(Decoding(beam=4, top=4))
    train_features = find_or_compute_features(pipeline.encoder, captioner.dataset, captioner.train)
    distance, bleu = forms
    config = RerankConfig(feature, neighbour_distance=distance, bleu_form=bleu)  # type: ignore[arg-type]
    near = Neighbours.from_features(train_features, pipeline.encoder, config)
    sentences = [[each.words for each in some] for some in made]
    written = Candidates(
        neighbour_vectors(pipeline.model, vectors, feature), sentences, list(captioner.references.values())
    )  # type: ignore[arg-type]
    order, settings = cross_validated_order(near.consensus(pipeline.model), written, similarity)  # type: ignore[arg-type]
    expected = [some[ranked[0]].text for some, ranked in zip(made, order, strict=True)]
    assert [text for text, _ in found.captions.values()] == expected
    assert found.about[f"k and m of {similarity}, each from the other half"].startswith(
        f"{settings[0].neighbours} and {settings[0].m}, "
    )


@pytest.mark.parametrize("similarity", ["bleu", "cider"])
def test_the_oracle_chooses_the_caption_most_similar_to_the_references(captioner: Captioner, similarity: str) -> None:
    found = captioner.score(CaptionOptions(4, f"{similarity}-oracle"))  # type: ignore[arg-type]
    made = captioner.generate(Decoding(beam=4, top=4))
    scores = oracle_scores(
        [[each.words for each in some] for some in made], list(captioner.references.values()), similarity
    )  # type: ignore[arg-type]
    expected = [some[best_first(each)[0]].text for some, each in zip(made, scores, strict=True)]
    assert [text for text, _ in found.captions.values()] == expected


def test_a_captioner_ranks_photos_and_regions_by_its_own_scores(captioner: Captioner) -> None:
    pipeline, on = captioner.pipeline, captioner.on
    features, sentences, regions = on.features(pipeline), sentences_of(on.photos), regions_of(on.photos)
    plain = recall_at_k(pipeline.retrieval_scores(features, sentences.texts), sentences.photo_of_sentence)
    assert score_task("retrieval", pipeline, on).scores == plain.scores
    plain = region_retrieval(
        pipeline.region_scores(features, regions),
        regions.positives,
        phrases=regions.phrases,
        photo_of_region=regions.photo_of_region,
    )
    assert score_task("regions", pipeline, on).scores == plain.scores


def test_tables_score_each_caption_option_once(captioner: Captioner) -> None:
    keys = ("shared", "cider", "cider-oracle", "bleu-photo")
    found = captioner.runner.run(only("m-rnn-8", *keys))
    assert tuple(found.ours) == keys
    assert [(each.claim.better, each.claim.is_ours) for each in found.claims] == [("cider", False)]
    assert len(list((captioner.runner.models.runs.folder / "scores").glob("captions-*"))) == 8  # for each half
    oracle, reranked = (found.ours[key].score("cider_d") or 0 for key in ("cider-oracle", "cider"))
    assert oracle >= reranked


def test_each_caption_option_has_its_own_stored_scores(captioner: Captioner) -> None:
    runner = captioner.runner
    options = [(1,), (5,), (10, "bleu"), (10, "cider"), (10, "cider", "photo")]
    recipes = [RowRecipe("captions", CAPTIONER, caption_options=CaptionOptions(*each)) for each in options]
    abouts = [str(runner.about(recipe, 0)) for recipe in recipes]
    assert len(set(abouts)) == 5
    assert "writing" not in runner.about(RowRecipe("retrieval", CAPTIONER), 0), (
        "stored scores of other tasks stay valid"
    )


WORDS = ("a man", "A man", "the man", "a red hat", "two dogs")
TYPES = (("people",), ("people",), ("people", "other"), ("clothing",), ("animals",))


def make_predictions(seed: int = 0) -> tuple[list[Prediction], list[Item]]:
    """Mentions of five phrases in twelve photos, and boxes of which some are correct."""
    rng = np.random.default_rng(seed)
    items, predictions = [], []
    for number in range(60):
        kind = number % 5
        items.append(Item(str(number // 5), kind, (0, len(WORDS[kind])), WORDS[kind], TYPES[kind], ((0, 0, 9, 9),)))
        starts = rng.integers(0, 8, (6, 1))
        boxes = np.hstack([starts, starts, starts + 9, starts + 9]).astype(float)
        predictions.append(Prediction(items[-1].photo, kind, items[-1].span, boxes, rng.random(6)))
    return predictions, items


def test_localization_scores_equal_those_of_the_evaluation() -> None:
    predictions, items = make_predictions()
    result = scores_from_predictions(RankedPredictions.from_predictions(predictions, items))
    found, plain = result.scores, localization(predictions, items)
    for name in ("r1", "r5", "r10", "upper_bound"):
        assert found[name] == found[f"overall_{name}"] == pytest.approx(getattr(plain, name))
        for type_, scores in plain.by_type.items():
            assert found[f"{type_}_{name}"] == pytest.approx(getattr(scores, name))
    for name in ("ap", "ap_nms"):
        assert found[f"“man”_{name}"] == pytest.approx(getattr(plain.by_phrase["man"], name))
        assert found[f"people_{name}"] == pytest.approx(getattr(plain.by_type["people"], name))
        assert found[f"overall_{name}"] == pytest.approx(getattr(plain, f"macro_{name}"))
    assert (found["“man”_n"], found["“two dogs”_n"], found["people_n"], found["overall_n"]) == (36, 12, 36, 60)
    interval, expected = RowResult([result], "people").interval("r1"), plain.by_type["people"].interval["r1"]
    assert interval is not None
    assert expected is not None
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def cca(dataset: Dataset, preset: str) -> Pipeline:
    return make_runner(dataset, SMALL_CCA).models.pipeline(Training("cca", f"papers/cca-{preset}"), 0)


def test_a_split_without_boxes_is_an_error(quarters: Dataset) -> None:
    with pytest.raises(DatasetError, match="data"):
        score_grounding(None, EvaluationData(quarters, quarters.photos[:0]))  # type: ignore[arg-type]


REFERENCES = {str(number): ("a dog runs in the snow", "the dog is running") for number in range(30)}


def scores_with_mistakes(caption: str, wrong: int) -> ModelScores:
    made = {photo: caption if int(photo) >= wrong else "a cat" for photo in REFERENCES}
    captions = {photo: (made[photo], REFERENCES[photo]) for photo in REFERENCES}
    found = score_caption_texts(captions, ["a cat"])
    return ModelScores(values_of(found.statistics, found.n), captions=captions)


def test_caption_scores_equal_those_of_the_evaluation_and_can_be_saved(tmp_path: Path) -> None:
    scores = scores_with_mistakes("a dog runs in snow", wrong=10)
    plain = caption_scores(
        {photo: made for photo, (made, _) in scores.captions.items()}, REFERENCES, training=["a cat"]
    )
    assert {name: scores.scores[name] for name in ("bleu4", "cider", "novel")} == pytest.approx(
        {"bleu4": plain.bleu4, "cider": plain.cider, "novel": plain.novel}
    )
    scores.save(tmp_path)
    loaded = ModelScores.load(tmp_path)
    assert (loaded.scores, loaded.captions, loaded.photos) == (scores.scores, scores.captions, 30)


def loop_scores(
    photo_model: Pipeline, region_model: Pipeline, weights: Weights, on: EvaluationData, count: int
) -> np.ndarray:
    """Photo by photo, sentence by sentence, phrase by phrase."""
    photo_features, region_features = on.features(photo_model), on.features(region_model, regions=True)
    forms = {"entities": (True, 0.7, 1.5), "parts-alone": (True, 0.0, 1.5), "two-branch": (False, 0.8, 1.0)}
    squared, share, exponent = forms[weights]
    rows = []
    for index, photo in enumerate(on.photos):
        regions = region_features.proposal_vectors(photo.id)[:count]
        if weights != "two-branch":
            regions = np.concatenate([regions, region_features.vectors(index, index + 1)])
        vectors = region_model.model.prepare_visual(regions)
        whole = photo_model.model.prepare_visual(photo_features.vectors(index, index + 1))[0]
        row = []
        for caption in (caption for each in on.photos for caption in each.sentences):
            apart = np.linalg.norm(whole - photo_model.encode_sentences([caption.text])[0])
            phrases = [caption.phrase(mention) for mention in caption.mentions]
            nearest = [
                min(np.linalg.norm(vector - region_model.encode_sentences([phrase])[0]) for vector in vectors)
                for phrase in phrases
            ]
            power = 2 if squared else 1
            local = sum(each**power for each in nearest) / len(phrases) ** exponent if phrases else apart**power
            row.append(-(share * apart**power + (1 - share) * local))
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize(("weights", "count"), [("entities", 2), ("parts-alone", 2), ("two-branch", 3)])
def test_combined_scores_add_the_distance_of_each_phrase_to_its_nearest_region(
    quarters: Dataset, dev: EvaluationData, monkeypatch: pytest.MonkeyPatch, weights: Weights, count: int
) -> None:
    monkeypatch.setitem(row_scores._PROPOSALS, weights, count)
    models = cca(quarters, "sentences"), cca(quarters, "chunks")
    found = combined_scores(*models, weights, dev)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, loop_scores(*models, weights, dev, count), atol=1e-4)


def test_common_phrases_of_equal_number_are_in_the_order_of_their_names() -> None:
    names = ["zebra crossing", "apron", "meadow", "kayak", "unicycle", "barn", "quilt", "harbour"]
    counts = {f"“{name}”_n": 3.0 for name in names} | {"“often”_n": 5.0}
    found = add_common_phrases(find_table("entities-5"), [ModelScores(counts)])
    assert [row.label for row in found.rows if row.part == COMMON_PHRASES] == ["often", *sorted(names)]


def test_the_first_seed_chooses_for_all_and_a_diverged_training_is_not_chosen(
    quarters: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    [row] = only("two-branch-2", "one-way").rows
    assert row.recipe is not None
    assert row.recipe.model is not None
    rates = ("learning_rate=9", "learning_rate=0.05 epochs=1", "learning_rate=0.05 epochs=2")
    model = replace(row.recipe.model, choose=rates)
    table = replace(find_table("two-branch-2"), rows=(replace(row, recipe=replace(row.recipe, model=model)),))
    trained: list[tuple[float, int, int]] = []
    original = TableRunner._compute

    def compute(self: TableRunner, recipe: RowRecipe, seed: int, on_progress: OnProgress) -> ModelScores:
        values = self.models.settings(recipe.model, seed).to_json()  # type: ignore[arg-type]
        trained.append((values["learning_rate"], values["epochs"], seed))
        if values["learning_rate"] == 9:
            raise DivergedError("not finite")
        return original(self, recipe, seed, on_progress)

    monkeypatch.setattr(TableRunner, "_compute", compute)
    small = tuple(change for change in SMALL_NETWORK if not change.startswith(("learning_rate", "epochs")))
    found = make_runner(quarters, small).run(table)
    assert {seed for rate, _, seed in trained if rate == 9} == {0}
    assert len([each for each in trained if each[2] == 1]) == 2, "one setting for each half"
    for seed in found.ours["one-way"].kept:
        assert all(re.match(r"learning_rate=0.05 epochs=[12] epoch [12] ", each) for each in seed)
    assert found.budgets["one-way"] == rates


@pytest.mark.parametrize("bad", [{1}, {0, 1}])
@pytest.mark.parametrize("half", ["first-half", "second-half"])
def test_a_row_of_which_a_seed_diverged_is_listed_without_score_interval_or_verdict(
    quarters: Dataset, monkeypatch: pytest.MonkeyPatch, bad: set[int], half: str
) -> None:
    def compute(self: TableRunner, recipe: RowRecipe, seed: int, on_progress: OnProgress) -> ModelScores:
        assert recipe.model is not None
        if recipe.model.settings.endswith("-one-way") and seed in bad and self.models.select_on == half:
            raise DivergedError("not finite")
        photos = np.arange(6)
        ranking = Ranking(ranks=1.0 + photos, candidates=np.full(6, 6), units=photos, photos=6)
        rankings = {"i2t": ranking, "t2i": ranking}
        scores = {f"{name}_r{k}": 0.0 for name in rankings for k in (1, 5, 10)}
        return ModelScores(scores, rankings, second_half=photos % 2 == 1, kept=("epoch 1",))

    monkeypatch.setattr(TableRunner, "_compute", compute)
    table = only("two-branch-2", "one-way", "both-ways", "sampling")
    found = make_runner(quarters, SMALL_NETWORK).run(table)
    row = found.ours["one-way"]
    assert row.diverged
    assert [any(word.endswith("diverged") for word in seed) for seed in row.kept] == [seed in bad for seed in (0, 1)]
    assert (row.score("t2i_r1"), row.interval("t2i_r1")) == (None, None)
    assert found.ours["sampling"].interval("t2i_r1") is not None
    compared = {(test.claim.better, test.claim.worse) for test in found.claims}
    assert ("sampling", "both-ways") in compared
    assert not any("one-way" in rows for rows in compared)
    lines = list(command._footer(table, command._Ours({command.Inputs.OURS: found}, quarters, "")))
    assert "not measured, because the training of a seed diverged: one-way" in lines
    assert command._ours(row, table.columns[0]) == "diverged"


def test_a_row_that_only_counts_is_not_searched(quarters: Dataset) -> None:
    tables = [find_table("two-branch-batches"), find_table("m-rnn-6")]
    recipes = [row.recipe for table in tables for row in table.rows if row.recipe and row.recipe.counts_only]
    assert any(recipe.model and recipe.model.choose for recipe in recipes)
    assert all(make_runner(quarters, ()).alternatives(recipe) == [recipe] for recipe in recipes)


def test_a_row_keeps_settings_that_the_recipe_would_change(quarters: Dataset) -> None:
    table = find_table("two-branch-2")
    models = replace(make_runner(quarters, ()).models, inputs=table.paper_inputs)
    for key, words in (("lstm", ""), ("both-ways", "shipped")):
        recipe = table.row(key).recipe
        assert recipe is not None
        assert recipe.model is not None
        values = models.settings(recipe.model, 0).to_json()
        assert (values["word_vectors"], values["word_dim"]) == (words, 256)
    lstm = table.row("lstm").recipe
    assert lstm is not None
    assert lstm.model is not None
    changed = replace(models, changes=("word_dim=32",)).settings(lstm.model, 0).to_json()
    assert (changed["word_vectors"], changed["word_dim"]) == ("", 32), "a change of the user is not left out"
