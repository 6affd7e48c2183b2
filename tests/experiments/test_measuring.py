"""Tables measured on photos whose quarters have colours: recipes, seeds, and going on after a stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.evaluation.grounding import localization
from deixis.evaluation.localization_items import localization_items
from deixis.evaluation.of_data import sentences_of
from deixis.evaluation.retrieval import recall_at_k
from deixis.experiments import measuring
from deixis.experiments.measuring import OWN_PHRASES, Measuring, applies, trainings_of
from deixis.experiments.outcomes import Outcome
from deixis.experiments.records import Recipe, Table, Training, Weights
from deixis.experiments.runs import Runs
from deixis.experiments.scored import Scored
from deixis.experiments.tables import find_table
from deixis.experiments.trained import Workshop, refuse_unknown
from deixis.files.progress import OnProgress, silent
from deixis.tasks.bundle import Bundle
from deixis.tasks.pointing import predictions_of
from deixis.tasks.scores.scoring import retrieval_scores, seen_photos
from tests.tasks.quarters import make_quarters, make_store, use_small_encoders

SMALL_CCA = ("components=2", "regularisation=0.01", "top=4")
SMALL_NETWORK = (
    *("epochs=2", "batch_size=16", "learning_rate=0.05", "hidden=12", "dimension=6", "top=4"),
    *("device=cpu", "threads=1", "word_size=4", "text_hidden=5"),
)


@pytest.fixture
def quarters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path, 18)


class Told:
    """Notes what had to be measured."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextmanager
    def __call__(self, what: str) -> Iterator[OnProgress]:
        self.lines.append(what)
        yield silent


def measuring_of(dataset: Dataset, changes: tuple[str, ...], seeds: int = 2, told: Told | None = None) -> Measuring:
    return Measuring(Workshop(dataset, Runs(dataset.path / "experiments"), changes), "dev", seeds, told or Told())


def only(name: str, *keys: str) -> Table:
    table = find_table(name)
    return replace(table, rows=tuple(row for row in table.rows if row.key in keys))


def test_retrieval_is_what_train_and_evaluate_give(quarters: Dataset) -> None:
    how = measuring_of(quarters, SMALL_CCA)
    found = how.table(only("entities-3", "cca"))
    bundle = how.workshop.bundle(Training("cca", "papers/cca-sentences"), 0)
    gold = sentences_of(quarters.split("dev"))
    seen = seen_photos(bundle, quarters, quarters.split("dev"))
    plain = recall_at_k(retrieval_scores(bundle, seen, gold.texts), gold.photo_of_sentence)
    assert {name: found.ours["cca"].score(name) for name in ("i2t_r1", "t2i_r10")} == {
        "i2t_r1": plain.i2t_r1,
        "t2i_r10": plain.t2i_r10,
    }
    assert (found.split, found.seeds) == ("dev", 1)
    assert found.about == {"encoder": ("colours (colours-1)",), "text": ("tfidf",)}


def test_localisation_is_what_train_and_evaluate_give(quarters: Dataset) -> None:
    how = measuring_of(quarters, SMALL_CCA)
    found = how.table(only("entities-4", "overall")).ours["overall"]
    bundle = how.workshop.bundle(Training("cca", "papers/cca-augmented-10"), 0)
    photos = quarters.split("dev")
    items = localization_items(photos)
    seen = seen_photos(bundle, quarters, photos, regions=True)
    plain = localization(predictions_of(bundle, seen, items), items, rounds=10)
    assert found.score("n") == plain.n == 12
    assert found.score("r1") == pytest.approx(plain.r1)
    assert found.score("upper_bound") == pytest.approx(plain.upper_bound)


def test_the_commonest_phrases_of_the_data_follow_those_of_the_paper(quarters: Dataset) -> None:
    found = measuring_of(quarters, SMALL_CCA).table(find_table("entities-5"))
    more = [row for row in found.table.rows if row.part == OWN_PHRASES]
    assert list(found.ours) == [row.key for row in more], "no photo shows a man"
    counts = [found.ours[row.key].score("n") for row in more]
    assert counts == sorted(counts, key=lambda count: -(count or 0))
    assert sum(count or 0 for count in counts) == 12
    assert {"red square", "red one"} & {row.label for row in more}


def test_rows_that_share_a_recipe_train_one_model(quarters: Dataset) -> None:
    told = Told()
    measuring_of(quarters, SMALL_CCA, told=told).table(find_table("entities-5"))
    assert told.lines == ["entities-5: man"]


def test_stacked_and_weighted_models_stand_on_the_model_of_regions(quarters: Dataset) -> None:
    how = measuring_of(quarters, SMALL_CCA)
    found = how.table(only("entities-3", "augmented-10", "sae", "weighted"))
    assert list(found.ours) == ["augmented-10", "sae", "weighted"]
    assert len(list((quarters.path / "experiments" / "models").glob("cca-*"))) == 2
    assert [each.claim.says for each in found.claims] == ["weighted distance over SAE"] * 2
    assert found.about["proposals"] == ("corners, 4 a photo",)


def test_two_models_are_weighted_as_their_paper_does(quarters: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    original = measuring.score_weighted

    def noted(wholes: Bundle, parts: Bundle, weights: Weights, on: Scored) -> Outcome:
        asked.append((wholes.learned.learn, parts.learned.learn, weights))
        return original(wholes, parts, weights, on)

    monkeypatch.setattr(measuring, "score_weighted", noted)
    measuring_of(quarters, SMALL_CCA).table(only("entities-3", "sae", "weighted"))
    measuring_of(quarters, SMALL_NETWORK, seeds=1).table(only("two-branch-5", "weighted"))
    assert asked == [("sentences", "phrases", "entities"), ("sentences", "phrases", "two-branch")]


def test_a_table_goes_on_where_it_was(quarters: Dataset) -> None:
    first, second, third = Told(), Told(), Told()
    table = only("entities-3", "cca", "chunks")
    measuring_of(quarters, SMALL_CCA, told=first).table(only("entities-3", "cca"))
    before = measuring_of(quarters, SMALL_CCA, told=second).table(table)
    after = measuring_of(quarters, SMALL_CCA, told=third).table(table)
    assert (first.lines, second.lines, third.lines) == (["entities-3: cca"], ["entities-3: chunks"], [])
    for key in ("cca", "chunks"):
        assert after.ours[key].by_seed("t2i_r5") == before.ours[key].by_seed("t2i_r5")


def test_other_settings_or_other_data_are_measured_anew(quarters: Dataset, tmp_path: Path) -> None:
    told = Told()
    table = only("entities-3", "cca")
    measuring_of(quarters, SMALL_CCA, told=told).table(table)
    measuring_of(quarters, (*SMALL_CCA, "power=2"), told=told).table(table)
    other = make_quarters(tmp_path / "other", 21)
    Measuring(Workshop(other, Runs(quarters.path / "experiments"), SMALL_CCA), "dev", 2, told).table(table)
    assert len(told.lines) == 3


def test_models_of_other_data_and_of_other_auxiliary_models_are_others(quarters: Dataset, tmp_path: Path) -> None:
    other = make_quarters(tmp_path / "other", 21)
    runs = Runs(tmp_path / "runs")
    one, two = Workshop(quarters, runs), Workshop(other, runs)
    plain, helper = Training("cca", "papers/cca-sentences"), Training("cca", "papers/cca-chunks")
    abouts = [
        one.about(plain, 0),
        two.about(plain, 0),
        one.about(replace(plain, auxiliary=helper), 0),
        one.about(replace(plain, auxiliary=Training("cca", "papers/cca-chunks-1")), 0),
    ]
    assert len({runs.model("cca", about) for about in abouts}) == 4
    assert one.about(plain, 0) == one.about(plain, 1), "no seed changes a CCA"


def test_networks_are_trained_once_for_each_seed(quarters: Dataset) -> None:
    told = Told()
    how = measuring_of(quarters, SMALL_NETWORK, told=told)
    found = how.table(only("two-branch-2", "both-ways", "one-way"))
    assert told.lines == [
        f"two-branch-2: {key}, seed {seed} of 2" for key in ("one-way", "both-ways") for seed in (1, 2)
    ]
    assert found.seeds == 2
    assert len(found.ours["one-way"].by_seed("i2t_r1")) == 2
    ranks = [outcome.rankings["t2i"].ranks for outcome in found.ours["one-way"].outcomes]
    assert not np.array_equal(*ranks), "two seeds, two models"
    assert [each.claim.says for each in found.claims] == ["both directions over one"] * 2


def test_sentences_of_one_photo_look_for_each_other(quarters: Dataset) -> None:
    found = measuring_of(quarters, SMALL_NETWORK, seeds=1).table(only("two-branch-4", "neither", "coco-neither"))
    assert list(found.ours) == ["neither"], "the data is neither, so it stands in the first part"
    assert found.ours["neither"].score("s2s_r1") is not None


def test_phrases_are_localised_by_networks(quarters: Dataset) -> None:
    found = measuring_of(quarters, SMALL_NETWORK, seeds=1).table(only("two-branch-1", "sampling", "sim"))
    for key in ("sampling", "sim"):
        assert 0 <= (found.ours[key].score("r1") or -1) <= 100
        assert found.ours[key].score("r10") == 100, "there are four proposals"


def test_a_stopped_training_goes_on(quarters: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    how = measuring_of(quarters, SMALL_NETWORK, seeds=1)
    training = Training("two-branch", "papers/two-branch-sentences")
    resumed = []
    from deixis.tasks.fit import fitting

    original = fitting.fit

    def noted(*arguments: object, resume: bool = False, **named: object) -> object:
        resumed.append(resume)
        done = original(*arguments, resume=resume, **named)  # type: ignore[arg-type]
        if len(resumed) == 1:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(fitting, "fit", noted)
    with pytest.raises(KeyboardInterrupt):
        how.workshop.place(training, 0)
    how.workshop.bundle(training, 0)
    how.workshop.bundle(training, 0)
    assert resumed == [False, True]


def test_people_choose_the_text_features_and_tfidf_is_the_default(quarters: Dataset) -> None:
    training = Training("two-branch", "papers/two-branch-sentences")
    plain = Workshop(quarters, Runs(quarters.path), ()).chosen(training, seed=4)
    assert (plain.learning.text, plain.training.seed if plain.training else None) == ("tfidf", 4)
    chosen = Workshop(quarters, Runs(quarters.path), ("text=hglmm", "components=3")).chosen(training, seed=0)
    assert chosen.learning.text == "hglmm", "and a setting that only other models have is left to them"


def test_a_setting_that_no_model_of_the_table_has_is_refused() -> None:
    trainings = trainings_of(find_table("two-branch-2").rows)
    refuse_unknown(["components=3", "epochs=2"], trainings)
    with pytest.raises(DeixisError, match="no setting is called 'epoch'; did you mean 'epochs'"):
        refuse_unknown(["epoch=2"], trainings)


def test_rows_of_another_data_set_are_left_alone(quarters: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    table = find_table("two-branch-4")
    coco = table.row("coco-neither")
    assert not applies(coco, table, quarters)
    monkeypatch.setattr(measuring, "known_data", lambda dataset: "MS COCO")
    assert applies(coco, table, quarters)
    assert not applies(table.row("neither"), table, quarters)


def test_a_recipe_without_a_model_is_a_mistake_of_ours(quarters: Dataset) -> None:
    table = find_table("two-branch-5")
    [first, _] = table.rows
    broken = replace(table, rows=(replace(first, recipe=Recipe("retrieval")),))
    with pytest.raises(DeixisError, match="retrieval: no model is named"):
        measuring_of(quarters, ()).table(broken)


def test_features_that_lie_elsewhere_are_taken(quarters: Dataset, tmp_path: Path) -> None:
    make_store(quarters, tmp_path / "elsewhere")
    changes = (*SMALL_CCA, "proposals=corners", f"features={tmp_path / 'elsewhere'}")
    found = measuring_of(quarters, changes).table(only("entities-3", "weighted", "chunks"))
    assert list(found.ours) == ["chunks", "weighted"]
    assert [path.name for path in (quarters.path / "features").iterdir()] == ["text-tfidf"], "no photo was encoded"
