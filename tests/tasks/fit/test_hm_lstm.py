"""From a data set directory and features to a run directory with an HM-LSTM in it."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.data.dataset import Dataset
from deixis.data.making import make_dataset
from deixis.errors import DatasetError, DeixisError
from deixis.evaluation.grounding import localization
from deixis.evaluation.localization_items import localization_items
from deixis.language.vectors import WordVectors
from deixis.models import trees_cache
from deixis.models.hm_lstm import HMLSTM, HMLSTMSettings
from deixis.tasks.bundle import Bundle
from deixis.tasks.fit.chosen import Chosen, choose
from deixis.tasks.fit.fitting import fit
from deixis.tasks.fit.hm_lstm import PhraseData
from deixis.tasks.fit.runs import Trained
from deixis.tasks.pointing import predictions_of
from deixis.tasks.scores.scoring import seen_photos
from deixis.training.settings import TrainSettings
from tests.tasks.coloured import COLOURS, make_coloured
from tests.tasks.quarters import QUARTERS, make_quarters, make_store
from tests.vision.store.small import colour_encoder

WORDS = [*COLOURS, "a", "the", "one", "square", "beside", "corner"]
SMALL = HMLSTMSettings(hidden=8, dimension=6, contrast="batch", centre="photo", rounds=2, round_epochs=2)
BRIEF = TrainSettings(epochs=2, batch_size=8, learning_rate=0.02, device="cpu", threads=1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of photos in four quarters, a store of their features, and word vectors."""
    folder = tmp_path_factory.mktemp("quarters")
    make_store(make_quarters(folder, 24), folder / "features")
    WordVectors(np.eye(len(WORDS), dtype=np.float32), WORDS, source="one for each").save(folder / "vectors")
    return folder


@pytest.fixture
def dataset(made: Path) -> Dataset:
    return Dataset(made / "data")


def from_store(made: Path) -> PhraseData:
    return PhraseData(features=str(made / "features"), proposals="corners", top=4, vectors=str(made / "vectors"))


def fitted(dataset: Dataset, made: Path, out: Path, **others: object) -> Trained:
    chosen = {"data": from_store(made), "settings": SMALL, "training": BRIEF} | others
    parts = Chosen(*(chosen.pop(name) for name in ("data", "settings", "training")))  # type: ignore[arg-type]
    found = fit("hm-lstm", dataset, parts, out, **chosen)  # type: ignore[arg-type]
    assert found
    return found


def model_of(folder: Path) -> HMLSTM:
    model = Bundle.load(folder).model
    assert isinstance(model, HMLSTM)
    return model


def test_a_run_leaves_a_model_that_compares_and_points_and_a_card(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    found = fitted(dataset, made, tmp_path / "run")
    assert (found.photos, found.sentences, found.left_out) == (16, 32, ())
    assert found.phrases > 32
    assert found.dev
    assert found.dev.scores["mean_recall"] == found.outcome.best.value
    bundle = Bundle.load(tmp_path / "run")
    assert (bundle.learned.learn, bundle.learned.proposals, bundle.learned.top) == ("both", "corners", 4)
    assert bundle.encode_sentences(["A red square."]).shape == (1, 6)
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    for words in ("16, with 32 sentences", "4 of corners", "one for each", "correspondences of round 2, right"):
        assert words in card


def test_every_stage_leaves_a_model_and_what_was_found_with_its_scores(
    dataset: Dataset, made: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    fitted(dataset, made, out)
    for stage in ("0-roots", "1-phrases", "2-phrases"):
        assert Bundle.load(out / stage).model.KIND == "hm-lstm"
    scores = json.loads((out / "2-correspondences.json").read_text())
    assert scores["round"] == 2
    assert scores["phrases"] == 32  # two mentions in each of 16 photos
    assert scores["random"] == pytest.approx(20)  # one of four corners and the whole photo
    assert (scores["whole"], scores["bound"]) == (0, 100)
    _, first, *_ = (out / "1-correspondences.jsonl").read_text().splitlines()
    assert set(json.loads(first)["phrases"][0]) == {"sentence", "node", "text", "region", "box", "confidence"}


def test_told_which_squares_are_named_it_points_at_those_of_other_photos(
    dataset: Dataset, made: Path, tmp_path: Path
) -> None:
    settings = replace(
        SMALL, hidden=24, negatives="softmax", temperature=0.1, correspondences="gold", rounds=1, round_epochs=25
    )
    fitted(dataset, made, tmp_path / "run", settings=settings, training=replace(BRIEF, epochs=1))
    bundle = Bundle.load(tmp_path / "run")
    seen = seen_photos(bundle, dataset, dataset.split("dev"), regions=True, also=[made / "features"])
    items = localization_items(dataset.split("dev"))
    predictions = predictions_of(bundle, seen, items)
    assert predictions[0].boxes.tolist() == [[0, 0, 16, 16], *map(list, QUARTERS)]
    assert localization(predictions, items, rounds=1).r1 > 60  # at random it would be 20


def test_the_card_has_the_command_that_does_the_same_again(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    fitted(dataset, made, tmp_path / "run")
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    command = next(line for line in card.splitlines() if line.startswith("deixis train hm-lstm"))
    typed = [word for word in shlex.split(command)[5:] if word != "--set"]
    assert choose("hm-lstm", None, typed) == Chosen(from_store(made), SMALL, BRIEF)


def test_the_same_seed_gives_the_same_model(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    settings = replace(SMALL, rounds=0)
    torch.manual_seed(5)  # what was drawn before does not matter
    fitted(dataset, made, tmp_path / "first", settings=settings)
    torch.manual_seed(6)
    fitted(dataset, made, tmp_path / "again", settings=settings)
    fitted(dataset, made, tmp_path / "other", settings=settings, training=replace(BRIEF, seed=1))
    weights = [model_of(tmp_path / name).network.text.connected.weight for name in ("first", "again", "other")]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("stop", ["0-roots", "round 1: finding", "2-phrases"])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(
    dataset: Dataset, made: Path, tmp_path: Path, stop: str
) -> None:
    class EnoughError(Exception):
        pass

    def stopping(doing: str, done: int, total: int | None) -> None:
        if doing.startswith(stop) and done >= 5:
            raise EnoughError

    fitted(dataset, made, tmp_path / "unbroken")
    with pytest.raises(EnoughError):
        fitted(dataset, made, tmp_path / "run", on_progress=stopping)
    fitted(dataset, made, tmp_path / "run", resume=True)
    ours, theirs = (model_of(tmp_path / name) for name in ("run", "unbroken"))
    for (name, one), other in zip(ours.network.state_dict().items(), theirs.network.state_dict().values(), strict=True):
        assert torch.equal(one, other), name
    np.testing.assert_array_equal(ours.common_, theirs.common_)
    for name in ("1-correspondences.jsonl", "2-correspondences.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "unbroken" / name).read_bytes()


def test_sentences_are_parsed_once_for_all_runs(
    dataset: Dataset, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(SMALL, rounds=0)
    fitted(dataset, made, tmp_path / "first", settings=settings)
    monkeypatch.setattr(trees_cache, "parse_together", lambda *_: pytest.fail("parsed again"))
    fitted(dataset, made, tmp_path / "second", settings=settings)


def test_gold_pairs_are_learned_from_where_they_are_asked_for(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    settings = replace(SMALL, correspondences="gold", rounds=1)
    found = fitted(dataset, made, tmp_path / "run", settings=settings)
    assert found.phrases == 32
    assert not (tmp_path / "run" / "1-correspondences.jsonl").exists()


def test_phrases_that_weigh_nothing_are_not_looked_for(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    found = fitted(dataset, made, tmp_path / "run", settings=replace(SMALL, phrase_weight=0.0))
    assert found.phrases == 0
    assert not (tmp_path / "run" / "1-correspondences.jsonl").exists()
    assert (tmp_path / "run" / "2-phrases").is_dir()


def test_gold_pairs_without_boxes_are_refused_in_one_line(made: Path, tmp_path: Path) -> None:
    plain = make_coloured(tmp_path)
    with pytest.raises(DatasetError, match="has no boxes of phrases to learn from; import data with --entities"):
        fitted(plain, made, tmp_path / "run", settings=replace(SMALL, correspondences="gold"))


def test_photos_without_captions_are_refused_in_one_line(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    silent = [replace(photo, captions=()) for photo in dataset.photos]
    make_dataset(tmp_path / "silent", silent, images=made / "images")
    with pytest.raises(DatasetError, match="no photo to learn from has a caption"):
        fitted(Dataset(tmp_path / "silent"), made, tmp_path / "run")


def test_a_store_without_proposals_is_refused_in_one_line(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    from deixis.vision.store import fill_store

    fill_store(tmp_path / "features", dataset, colour_encoder())
    data = replace(from_store(made), features=str(tmp_path / "features"))
    with pytest.raises(DeixisError, match="holds no proposals"):
        fitted(dataset, made, tmp_path / "run", data=data)


def test_a_directory_in_use_is_refused_before_anything_is_parsed(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    with pytest.raises(DeixisError, match="not empty"):
        fitted(dataset, made, tmp_path / "run")
    with pytest.raises(DeixisError, match="no run to go on with"):
        fitted(dataset, made, tmp_path / "none", resume=True)


def test_going_on_as_something_else_is_refused(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    fitted(dataset, made, tmp_path / "run", settings=replace(SMALL, rounds=0))
    shutil.rmtree(tmp_path / "run" / "0-roots")  # as if it had been stopped before the first stage
    with pytest.raises(DeixisError, match="margin"):
        fitted(dataset, made, tmp_path / "run", settings=replace(SMALL, rounds=0, margin=0.5), resume=True)
