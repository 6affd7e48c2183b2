"""From a data set directory and features to a run directory with a grounder in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.data.dataset import Dataset
from deixis.data.making import make_dataset
from deixis.errors import DatasetError, DeixisError
from deixis.language import vectors
from deixis.language.vectors import WordVectors
from deixis.models.grounder import Grounder, GrounderSettings
from deixis.tasks.bundle import Bundle
from deixis.tasks.fit.chosen import Chosen
from deixis.tasks.fit.fitting import fit
from deixis.tasks.fit.grounder import GroundingData
from deixis.tasks.fit.runs import Trained
from deixis.training.checkpoints import read_checkpoint
from deixis.training.settings import TrainSettings
from tests.tasks.quarters import make_quarters, make_store

SMALL = GrounderSettings(dimension=16, word_size=12, hidden=8, dropout=0.0, word_dropout=0.0, min_count=1)
BRIEF = TrainSettings(epochs=2, batch_size=4, learning_rate=0.01, device="cpu", threads=1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set, and a store of its features."""
    folder = tmp_path_factory.mktemp("quarters")
    make_store(make_quarters(folder, 24), folder / "features")
    return folder


@pytest.fixture
def dataset(made: Path) -> Dataset:
    return Dataset(made / "data")


def stored(made: Path) -> GroundingData:
    return GroundingData(features=str(made / "features"), proposals="corners", top=4, vectors="none")


def fitted(dataset: Dataset, made: Path, out: Path, **others: object) -> Trained:
    chosen = {"data": stored(made), "settings": SMALL, "training": BRIEF} | others
    parts = Chosen(*(chosen.pop(name) for name in ("data", "settings", "training")))  # type: ignore[arg-type]
    found = fit("grounder", dataset, parts, out, **chosen)  # type: ignore[arg-type]
    assert found
    return found


def model_of(found: Trained) -> Grounder:
    model = Bundle.load(found.outcome.model).model
    assert isinstance(model, Grounder)
    return model


def test_a_run_leaves_a_model_that_points_and_a_card(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    training = replace(BRIEF, epochs=12, learning_rate=0.02)
    found = fitted(dataset, made, tmp_path / "run", training=training)
    assert found.phrases == 32
    assert found.left_out == ()
    assert found.outcome.best.watched == "refined_r1"
    assert found.outcome.best.scores["r1"] > 60  # one of four corners
    bundle = Bundle.load(found.outcome.model)
    assert isinstance(bundle.model, Grounder)
    assert (bundle.learned.learn, bundle.learned.proposals, bundle.learned.top) == ("phrases", "corners", 4)
    card = (found.outcome.model / "README.md").read_text()
    for words in ("encoder", "colours", "4 of corners", "word vectors", "deixis train grounder", "photos of dev"):
        assert words in card


def test_the_same_seed_gives_the_same_model(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    torch.manual_seed(5)  # what was drawn before does not matter
    first = fitted(dataset, made, tmp_path / "first")
    torch.manual_seed(6)
    again = fitted(dataset, made, tmp_path / "again")
    other = fitted(dataset, made, tmp_path / "other", training=replace(BRIEF, seed=1))
    weights = [model_of(one).network.matching.phrase.weight for one in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_run_that_was_stopped_goes_on(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    class EnoughError(Exception):
        pass

    def stop(doing: str, done: int, total: int | None) -> None:
        if done == 6 and "loss" in doing:
            raise EnoughError

    training = replace(BRIEF, log_every=1)
    fitted(dataset, made, tmp_path / "unbroken", training=training)
    with pytest.raises(EnoughError):
        fitted(dataset, made, tmp_path / "run", training=training, on_progress=stop)
    fitted(dataset, made, tmp_path / "run", training=training, resume=True)
    ours, theirs = (read_checkpoint(tmp_path / name / "last.safetensors")[0] for name in ("run", "unbroken"))
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())


def test_word_vectors_are_what_words_begin_with(
    dataset: Dataset, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    WordVectors(np.full((1, 12), 0.25, np.float32), ["square"], source="by hand").save(tmp_path / "vectors")
    data = replace(stored(made), vectors=str(tmp_path / "vectors"))
    slow = replace(BRIEF, epochs=1, learning_rate=1e-9)
    model = model_of(fitted(dataset, made, tmp_path / "run", data=data, training=slow))
    row = model.vocabulary.id_of("square")
    torch.testing.assert_close(model.network.reader.words.weight[row], torch.full((12,), 0.25))
    assert "by hand" in (tmp_path / "run" / "model" / "README.md").read_text()
    monkeypatch.setattr(vectors, "find_spec", lambda name: None)
    nothing = fitted(dataset, made, tmp_path / "bare", data=replace(data, vectors=""), training=slow)
    assert nothing.phrases == 32


def test_photos_without_features_are_left_out_and_named(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    photos = [*dataset.photos, replace(dataset.photos[0], id="9999")]
    make_dataset(tmp_path / "data", photos)
    assert fitted(Dataset(tmp_path / "data"), made, tmp_path / "run").left_out == (f"9999: not in {made / 'features'}",)


def test_without_dev_the_last_epoch_is_kept(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    make_dataset(tmp_path / "data", list(dataset.split("train")))
    assert fitted(Dataset(tmp_path / "data"), made, tmp_path / "run").outcome.best.scores == {}


def test_what_cannot_be_learned_from_is_one_clear_line(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    store = stored(made)
    with pytest.raises(DatasetError, match="no split 'training'"):
        fitted(dataset, made, tmp_path / "run", data=replace(store, train="training"))
    with pytest.raises(DeixisError, match="word_size=12: the word vectors have 1 numbers"):
        WordVectors(np.ones((1, 1), np.float32), ["a"]).save(tmp_path / "vectors")
        fitted(dataset, made, tmp_path / "run", data=replace(store, vectors=str(tmp_path / "vectors")))
    make_dataset(tmp_path / "others", [replace(photo, id=f"x{photo.id}") for photo in dataset.photos])
    with pytest.raises(DatasetError, match="no photo of split 'train' has features"):
        fitted(Dataset(tmp_path / "others"), made, tmp_path / "run")
    with pytest.raises(DeixisError, match="top=0: must be 1 or more"):
        GroundingData(top=0)
