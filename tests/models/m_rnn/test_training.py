"""Training runs of the m-RNN on a data set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deixis.data.dataset import Dataset, make_dataset
from deixis.errors import DatasetError, DeixisError
from deixis.models.m_rnn.pipeline import load_captioner
from deixis.models.m_rnn.spec import CaptionDataSettings
from tests.models.small_captioner import BRIEF, Train, brief_runs
from tests.models.small_captioner import SMALL_M_RNN as SMALL


@pytest.fixture
def dataset(coloured_store: Path) -> Dataset:
    return Dataset(coloured_store / "data")


@pytest.fixture
def data(coloured_store: Path) -> CaptionDataSettings:
    return CaptionDataSettings(features_dir=str(coloured_store / "features"))


@pytest.fixture
def train_captioner(dataset: Dataset, data: CaptionDataSettings, tmp_path: Path) -> Train:
    return brief_runs("m-rnn", dataset, tmp_path, data, SMALL)


def test_a_run_saves_a_captioner_and_its_card(train_captioner: Train, tmp_path: Path) -> None:
    training = replace(BRIEF, epochs=30, learning_rate=0.02)
    found = train_captioner(training=training)
    assert (found.photos, found.sentences, found.phrases, found.left_out) == (16, 32, 0, ())
    assert found.outcome.best.monitor == "minus_perplexity"
    assert found.dev
    assert found.dev.scores["perplexity"] == -found.outcome.best.value
    assert found.dev.scores["perplexity"] < 2  # of seven words and an end token
    assert found.dev.scores["oov"] == 0
    captioner = load_captioner(tmp_path / "run")
    assert (captioner.encoder.name, captioner.encoder.crops, captioner.encoder.feature_grid) == ("colours", 0, 0)
    card = (found.outcome.model / "README.md").read_text()
    for words in ("16, with 32 captions", "colours", "deixis train m-rnn", "perplexity", "photos of dev"):
        assert words in card


def test_rare_training_words_are_unknown_on_dev(train_captioner: Train) -> None:
    # Each colour is in eight captions, "a" and "wall" in sixteen.
    found = train_captioner(settings=replace(SMALL, min_count=9))
    assert found.dev
    assert found.dev.scores["oov"] == pytest.approx(100 * 2 / 7)  # of "a red wall", "everything here is red"


def test_without_dev_the_last_epoch_is_kept(train_captioner: Train, dataset: Dataset, tmp_path: Path) -> None:
    make_dataset(tmp_path / "data", list(dataset.split("train")))
    found = train_captioner(on=Dataset(tmp_path / "data"))
    assert found.dev is None
    assert found.outcome.best.scores == {}


def test_photos_without_features_are_left_out_and_named(
    train_captioner: Train, dataset: Dataset, data: CaptionDataSettings, tmp_path: Path
) -> None:
    make_dataset(tmp_path / "data", [*dataset.photos, replace(dataset.photos[0], id="9999")])
    assert train_captioner(on=Dataset(tmp_path / "data")).left_out == (f"9999: not in {data.features_dir}",)


def test_unusable_training_data_is_an_error(train_captioner: Train, dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no split 'training'"):
        train_captioner(data=CaptionDataSettings(train_split="training"))
    with pytest.raises(DeixisError, match="min_count=99"):
        train_captioner(settings=replace(SMALL, min_count=99))
    make_dataset(tmp_path / "mute", [replace(photo, captions=()) for photo in dataset.photos])
    with pytest.raises(DatasetError, match="'train'"):
        train_captioner(on=Dataset(tmp_path / "mute"))
    with pytest.raises(DeixisError, match="crops=5"):
        CaptionDataSettings(crops=5)
