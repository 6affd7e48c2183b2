"""Training runs of the m-RNN on a data set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import deixis
from deixis.data.dataset import Dataset, make_dataset
from deixis.errors import DatasetError, DeixisError
from deixis.evaluation.captions import caption_scores
from deixis.models.m_rnn.consensus import Candidates, Neighbours, RerankSettings, load_neighbours, tune
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.m_rnn.pipeline import load_captioner
from deixis.models.m_rnn.spec import CaptionDataSettings, ConsensusSettings
from deixis.models.photo_features import find_or_compute_features
from deixis.models.training.runner import TrainResult, train
from tests.models.small_captioner import BRIEF, SMALL_M_RNN, Train, brief_runs, train_small_m_rnn
from tests.models.small_captioner import SMALL_M_RNN as SMALL

pytestmark = pytest.mark.usefixtures("small_encoder")


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


@pytest.fixture
def captioned(captioner_folder: Path) -> Dataset:
    return Dataset(captioner_folder / "data", images=captioner_folder / "images")


def train_consensus(
    captioned: Dataset, captioner_folder: Path, out: Path, **changes: object
) -> tuple[TrainResult, Neighbours]:
    result = train("consensus", captioned, out=out, **{"captioner": str(captioner_folder / "run")} | changes)  # type: ignore[arg-type]
    assert result
    return result, load_neighbours(out)


def test_k_and_m_are_chosen_on_dev_and_neighbours_come_from_train(
    captioner_folder: Path, captioned: Dataset, tmp_path: Path
) -> None:
    result, neighbours = train_consensus(captioned, captioner_folder, tmp_path / "consensus", beam=4)
    assert (result.photos, result.sentences, result.phrases) == (16, 32, 0)
    assert neighbours.photos == tuple(captioned.split("train").ids)
    assert not set(neighbours.photos) & set(captioned.split("dev").ids)

    captioner, dev = load_captioner(captioner_folder / "run"), captioned.split("dev")
    features = find_or_compute_features(captioner.encoder, captioned, dev)
    generated = captioner.model.generate(captioner.model_inputs(features), Decoding(beam=4, top=4))
    sentences = [[each.words for each in some] for some in generated]
    references = [[caption.text for caption in photo.sentences] for photo in dev]
    candidates = Candidates(captioner.model.refine(features.vectors()), sentences, references)
    consensus = neighbours.consensus(captioner.model)
    assert neighbours.config.bleu == tune(consensus, candidates, "bleu")
    assert neighbours.config.cider == tune(consensus, candidates, "cider")

    assert result.dev
    first = {photo: " ".join(some[0]) for photo, some in zip(dev.ids, sentences, strict=True)}
    expected = caption_scores(first, dict(zip(dev.ids, references, strict=True)))
    assert result.dev.scores["bleu4"] == pytest.approx(expected.bleu4)
    assert result.dev.scores["k_cider"] == neighbours.config.cider.neighbours


def test_without_tuning_the_settings_are_kept(captioner_folder: Path, captioned: Dataset, tmp_path: Path) -> None:
    changes = {"tune": False, "neighbours": 3, "top_captions_bleu": 4, "top_captions_cider": 5}
    result, neighbours = train_consensus(
        captioned, captioner_folder, tmp_path / "consensus", neighbour_feature="photo", **changes
    )
    config = neighbours.config
    assert result.dev is None
    assert config.neighbour_feature == "photo"
    assert (config.bleu, config.cider) == (RerankSettings("bleu", 3, 4), RerankSettings("cider", 3, 5))


def test_the_saved_model_is_a_pipeline_that_reranks(captioner_folder: Path, captioned: Dataset, tmp_path: Path) -> None:
    train_consensus(captioned, captioner_folder, tmp_path / "consensus", beam=4)
    pipeline = deixis.load(tmp_path / "consensus")
    photo = captioner_folder / "images" / "0008.png"
    result = pipeline.caption(photo)
    assert "red" in result.text
    assert len(result.consensus) == 1
    assert pipeline.caption(photo, rerank="none").consensus == ()
    pipeline.save_pretrained(tmp_path / "copy")
    assert deixis.load(tmp_path / "copy").caption(photo) == result


def test_impossible_settings_are_refused_before_the_work(
    captioner_folder: Path, captioned: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(DatasetError, match="'holiday'"):
        train_consensus(captioned, captioner_folder, tmp_path / "consensus", train_split="holiday")
    with pytest.raises(DeixisError, match="elsewhere"):
        train_consensus(captioned, captioner_folder, tmp_path / "consensus", captioner="elsewhere")
    for name in ("neighbours", "top_captions_bleu", "top_captions_cider", "beam"):
        with pytest.raises(DeixisError, match=f"{name}=0"):
            ConsensusSettings(**{name: 0})  # type: ignore[arg-type]
    train_small_m_rnn(captioned, tmp_path / "blind", settings=replace(SMALL_M_RNN, image_input="nowhere"))
    with pytest.raises(DeixisError, match="neighbour_feature=refined"):
        train_consensus(captioned, captioner_folder, tmp_path / "consensus", captioner=str(tmp_path / "blind"))
    assert not (tmp_path / "consensus").exists()
