"""Training of consensus reranking: photos and captions of a data set, and k and m chosen on dev."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import deixis
from deixis.data.dataset import Dataset
from deixis.errors import DatasetError, DeixisError
from deixis.evaluation.captions import caption_scores
from deixis.models.m_rnn.consensus import Candidates, RerankSettings, tune
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.m_rnn.pipeline import load_captioner
from deixis.models.m_rnn.reranking import Neighbours, load_neighbours
from deixis.models.m_rnn.spec import ConsensusSettings
from deixis.models.photo_features import find_or_compute_features
from deixis.models.training.runner import TrainResult, train
from tests.models.small_captioner import SMALL_M_RNN, train_small_m_rnn

pytestmark = pytest.mark.usefixtures("small_encoder")


@pytest.fixture
def dataset(captioner_folder: Path) -> Dataset:
    return Dataset(captioner_folder / "data", images=captioner_folder / "images")


def train_consensus(
    dataset: Dataset, captioner_folder: Path, out: Path, **changes: object
) -> tuple[TrainResult, Neighbours]:
    result = train("consensus", dataset, out=out, **{"captioner": str(captioner_folder / "run")} | changes)  # type: ignore[arg-type]
    assert result
    return result, load_neighbours(out)


def test_k_and_m_are_chosen_on_dev_and_neighbours_come_from_train(
    captioner_folder: Path, dataset: Dataset, tmp_path: Path
) -> None:
    result, neighbours = train_consensus(dataset, captioner_folder, tmp_path / "consensus", beam=4)
    assert (result.photos, result.sentences, result.phrases) == (16, 32, 0)
    assert neighbours.photos == tuple(dataset.split("train").ids)
    assert not set(neighbours.photos) & set(dataset.split("dev").ids)

    captioner, dev = load_captioner(captioner_folder / "run"), dataset.split("dev")
    features = find_or_compute_features(captioner.encoder, dataset, dev)
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


def test_without_tuning_the_settings_are_kept(captioner_folder: Path, dataset: Dataset, tmp_path: Path) -> None:
    changes = {"tune": False, "neighbours": 3, "top_captions_bleu": 4, "top_captions_cider": 5}
    result, neighbours = train_consensus(
        dataset, captioner_folder, tmp_path / "consensus", neighbour_feature="photo", **changes
    )
    config = neighbours.config
    assert result.dev is None
    assert config.neighbour_feature == "photo"
    assert (config.bleu, config.cider) == (RerankSettings("bleu", 3, 4), RerankSettings("cider", 3, 5))


def test_the_saved_model_is_a_pipeline_that_reranks(captioner_folder: Path, dataset: Dataset, tmp_path: Path) -> None:
    train_consensus(dataset, captioner_folder, tmp_path / "consensus", beam=4)
    pipeline = deixis.load(tmp_path / "consensus")
    photo = captioner_folder / "images" / "0008.png"
    result = pipeline.caption(photo)
    assert "red" in result.text
    assert len(result.consensus) == 1
    assert pipeline.caption(photo, rerank="none").consensus == ()
    pipeline.save_pretrained(tmp_path / "copy")
    assert deixis.load(tmp_path / "copy").caption(photo) == result


def test_impossible_settings_are_refused_before_the_work(
    captioner_folder: Path, dataset: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(DatasetError, match="'holiday'"):
        train_consensus(dataset, captioner_folder, tmp_path / "consensus", train_split="holiday")
    with pytest.raises(DeixisError, match="elsewhere"):
        train_consensus(dataset, captioner_folder, tmp_path / "consensus", captioner="elsewhere")
    for name in ("neighbours", "top_captions_bleu", "top_captions_cider", "beam"):
        with pytest.raises(DeixisError, match=f"{name}=0"):
            ConsensusSettings(**{name: 0})  # type: ignore[arg-type]
    train_small_m_rnn(dataset, tmp_path / "blind", settings=replace(SMALL_M_RNN, image_input="nowhere"))
    with pytest.raises(DeixisError, match="neighbour_feature=refined"):
        train_consensus(dataset, captioner_folder, tmp_path / "consensus", captioner=str(tmp_path / "blind"))
    assert not (tmp_path / "consensus").exists()
