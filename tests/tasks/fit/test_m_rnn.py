"""From a data set directory and features to a run directory with a model in it that writes captions."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from deixis.data.dataset import Dataset
from deixis.data.making import make_dataset
from deixis.errors import DatasetError, DeixisError
from deixis.models.m_rnn_model import MRNN
from deixis.tasks.captions.captioning import CaptionBundle
from deixis.tasks.fit.chosen import Chosen, choose
from deixis.tasks.fit.fitting import fit
from deixis.tasks.fit.m_rnn import CaptionData
from deixis.tasks.fit.runs import Trained
from deixis.training.checkpoints import read_checkpoint
from deixis.training.settings import TrainSettings
from deixis.vision.store import fill_store
from tests.tasks.coloured import make_coloured
from tests.tasks.writing import SMALL
from tests.vision.store.small import colour_encoder

BRIEF = TrainSettings(epochs=2, batch_size=8, learning_rate=0.01, device="cpu", threads=1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of photos in four colours, and a store of their features."""
    folder = tmp_path_factory.mktemp("coloured")
    fill_store(folder / "features", make_coloured(folder), colour_encoder())
    return folder


@pytest.fixture
def dataset(made: Path) -> Dataset:
    return Dataset(made / "data")


def fitted(dataset: Dataset, made: Path, out: Path, **others: object) -> Trained:
    chosen = {
        "data": CaptionData(features=str(made / "features"), cells=2),
        "settings": SMALL,
        "training": BRIEF,
    } | others
    parts = Chosen(*(chosen.pop(name) for name in ("data", "settings", "training")))  # type: ignore[arg-type]
    found = fit("m-rnn", dataset, parts, out, **chosen)  # type: ignore[arg-type]
    assert found
    return found


def model_of(found: Trained) -> MRNN:
    return CaptionBundle.load(found.outcome.model).model


def test_a_run_leaves_a_model_that_writes_and_a_card(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    training = replace(BRIEF, epochs=30, learning_rate=0.02)
    found = fitted(dataset, made, tmp_path / "run", training=training)
    assert (found.photos, found.sentences, found.phrases, found.left_out) == (16, 32, 0, ())
    assert found.outcome.best.watched == "minus_perplexity"
    assert found.dev
    assert found.dev.scores["perplexity"] == -found.outcome.best.value
    assert found.dev.scores["perplexity"] < 2  # of seven words and an end sign
    assert found.dev.scores["oov"] == 0
    bundle = CaptionBundle.load(tmp_path / "run")
    assert (bundle.encoder.name, bundle.encoder.crops, bundle.cells) == ("colours", 0, 0)
    card = (found.outcome.model / "README.md").read_text()
    for words in ("16, with 32 captions", "colours", "deixis train m-rnn", "perplexity", "photos of dev"):
        assert words in card


def test_the_card_has_the_command_that_does_the_same_again(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    found = fitted(dataset, made, tmp_path / "run")
    card = (found.outcome.model / "README.md").read_text()
    command = next(line for line in card.splitlines() if line.startswith("deixis train m-rnn"))
    typed = [word for word in shlex.split(command)[5:] if word != "--set"]
    data = CaptionData(features=str(made / "features"), cells=2)
    assert choose("m-rnn", None, typed) == Chosen(data, SMALL, BRIEF)


def test_words_that_training_has_too_seldom_are_unknown_on_dev(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    # Each colour is in eight captions, "a" and "wall" in sixteen.
    found = fitted(dataset, made, tmp_path / "run", settings=replace(SMALL, min_count=9))
    assert found.dev
    assert found.dev.scores["oov"] == pytest.approx(100 * 2 / 7)  # of "a red wall", "everything here is red"


def test_the_same_seed_gives_the_same_model(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    torch.manual_seed(5)  # what was drawn before does not matter
    first = fitted(dataset, made, tmp_path / "first")
    torch.manual_seed(6)
    again = fitted(dataset, made, tmp_path / "again")
    other = fitted(dataset, made, tmp_path / "other", training=replace(BRIEF, seed=1))
    weights = [model_of(one).network.word_bias for one in (first, again, other)]
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


def test_attention_looks_at_as_many_cells_as_are_asked_for(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    found = fitted(dataset, made, tmp_path / "run", settings=replace(SMALL, attention=True))
    bundle = CaptionBundle.load(found.outcome.model)
    assert (bundle.cells, bundle.model.cell_size) == (2, 3)
    assert bundle.model.references_.cells.shape[1:] == (4, 3)  # type: ignore[union-attr]


def test_a_trained_model_goes_on_from_its_own_captions(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    data = CaptionData(features=str(made / "features"), cells=2, watch="cider")
    settings = replace(SMALL, attention=True, dropout=0.1)
    first = fitted(dataset, made, tmp_path / "words", data=data, settings=settings)
    on = replace(data, aim="cider", begin_with=str(tmp_path / "words"), samples=3)
    training = replace(BRIEF, epochs=40, learning_rate=0.02, evaluate_every=10)
    then = fitted(
        dataset, made, tmp_path / "cider", data=on, settings=replace(settings, dropout=0.0), training=training
    )
    assert first.outcome.best.watched == then.outcome.best.watched == "cider_d"
    assert then.outcome.best.scores["cider_d"] > first.outcome.best.scores["cider_d"]
    assert model_of(then).settings.dropout == 0


def test_only_the_same_network_goes_on(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    first = fitted(dataset, made, tmp_path / "first", training=replace(BRIEF, epochs=1))
    data = CaptionData(features=str(made / "features"), begin_with=str(tmp_path / "first"))
    still = replace(BRIEF, epochs=1, learning_rate=1e-12, seed=5)
    again = fitted(dataset, made, tmp_path / "again", data=data, training=still)
    torch.testing.assert_close(model_of(again).network.state_dict(), model_of(first).network.state_dict())
    with pytest.raises(DeixisError, match="its network has multimodal_size=16, and multimodal_size=20 is asked for"):
        fitted(dataset, made, tmp_path / "run", data=data, settings=replace(SMALL, multimodal_size=20))
    with pytest.raises(DeixisError, match="it has learned from other features"):
        fitted(dataset, made, tmp_path / "run", data=data, settings=replace(SMALL, attention=True))
    with pytest.raises(DeixisError, match="nowhere: no such directory"):
        fitted(dataset, made, tmp_path / "run", data=replace(data, begin_with="nowhere"))
    with pytest.raises(DeixisError, match="samples=1: must be 2 or more"):
        CaptionData(samples=1)


def test_without_dev_the_last_epoch_is_kept(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    make_dataset(tmp_path / "data", list(dataset.split("train")))
    found = fitted(Dataset(tmp_path / "data"), made, tmp_path / "run")
    assert found.dev is None
    assert found.outcome.best.scores == {}


def test_photos_without_features_are_left_out_and_named(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    make_dataset(tmp_path / "data", [*dataset.photos, replace(dataset.photos[0], id="9999")])
    assert fitted(Dataset(tmp_path / "data"), made, tmp_path / "run").left_out == (f"9999: not in {made / 'features'}",)


def test_what_cannot_be_learned_from_is_one_clear_line(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no split 'training'"):
        fitted(dataset, made, tmp_path / "run", data=CaptionData(train="training"))
    with pytest.raises(DeixisError, match="min_count=99: no word is in the captions so often"):
        fitted(dataset, made, tmp_path / "run", settings=replace(SMALL, min_count=99))
    make_dataset(tmp_path / "mute", [replace(photo, captions=()) for photo in dataset.photos])
    with pytest.raises(DatasetError, match="no photo of split 'train' has a caption to learn from"):
        fitted(Dataset(tmp_path / "mute"), made, tmp_path / "run")
    with pytest.raises(DeixisError, match="crops=5: must be 0 or 10"):
        CaptionData(crops=5)
