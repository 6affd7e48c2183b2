"""`deixis train grounder` as a whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.data.dataset import Dataset, make_dataset
from deixis.evaluation.items import localization_items
from deixis.language.vectors import WordVectors
from deixis.models.grounder.model import BoxSetSettings, Grounder, GrounderPipeline
from deixis.models.grounder.spec import GrounderSettings
from deixis.models.grounder.training import GrounderDataSettings
from deixis.models.pipeline import load
from deixis.models.training.runner import TrainResult, train
from deixis.models.training.settings import Settings, TrainSettings

SMALL = GrounderSettings(embedding_dim=16, word_dim=12, hidden_size=8, dropout=0.0, word_dropout=0.0, min_count=1)
BRIEF = TrainSettings(epochs=2, batch_size=4, learning_rate=0.01, device="cpu", threads=1)


@pytest.fixture
def dataset(quarters_store: Path) -> Dataset:
    return Dataset(quarters_store / "data")


def stored(quarters_store: Path) -> GrounderDataSettings:
    return GrounderDataSettings(
        features_dir=str(quarters_store / "features"), proposals="corners", max_proposals=4, word_vectors="none"
    )


def fitted(dataset: Dataset, quarters_store: Path, out: Path, **others: object) -> TrainResult:
    chosen = {"data": stored(quarters_store), "settings": SMALL, "training": BRIEF} | others
    parts = Settings(tuple(chosen.pop(name) for name in ("data", "settings", "training")))  # type: ignore[arg-type]
    found = train("grounder", dataset, out=out, settings=parts, **chosen)  # type: ignore[arg-type]
    assert found
    return found


def model_of(found: TrainResult) -> Grounder:
    model = load(found.outcome.model).model
    assert isinstance(model, Grounder)
    return model


def test_a_run_writes_a_trained_model_with_a_card(dataset: Dataset, quarters_store: Path, tmp_path: Path) -> None:
    training = replace(BRIEF, epochs=12, learning_rate=0.02)
    found = fitted(dataset, quarters_store, tmp_path / "run", training=training)
    assert found.phrases == 32
    assert found.left_out == ()
    assert found.outcome.best.monitor == "refined_r1"
    assert found.outcome.best.scores["r1"] > 60  # one of four corners
    pipeline = load(found.outcome.model)
    assert isinstance(pipeline.model, Grounder)
    about = pipeline.provenance
    assert (about.train_on, about.proposals, about.max_proposals) == ("phrases", "corners", 4)
    card = (found.outcome.model / "README.md").read_text()
    for words in ("encoder", "colours", "4 of corners", "word vectors", "deixis train grounder", "photos of dev"):
        assert words in card


def test_the_selection_of_boxes_is_fitted_to_the_training_photos(
    dataset: Dataset, quarters_store: Path, tmp_path: Path
) -> None:
    found = fitted(dataset, quarters_store, tmp_path / "run", settings=replace(SMALL, sets_weight=1.0))
    assert {"set_f1", "set_f1_1"} < set(found.outcome.best.scores)
    assert "deixis train grounder" in (found.outcome.model / "README.md").read_text()
    pipeline = load(found.outcome.model)
    assert isinstance(pipeline, GrounderPipeline)
    saved = pipeline.model.box_sets
    pipeline.model.box_sets = BoxSetSettings(0.77, 0.77, 0.77)
    train_photos = dataset.split("train")
    features = pipeline.features(dataset, train_photos, regions=True, also=(quarters_store / "features",))
    pipeline.fit_selection(features)
    assert pipeline.model.box_sets == saved
    pipeline.save_pretrained(tmp_path / "again")
    again = load(tmp_path / "again").model
    assert isinstance(again, Grounder)
    assert again.box_sets == saved
    items = localization_items(train_photos)
    for prediction in pipeline.predict_boxes(features, items):
        assert prediction.selected is not None
        best = prediction.boxes[np.argmax(prediction.scores)]
        assert len(prediction.selected) > 1 or np.allclose(prediction.selected, best)


def test_word_vectors_initialize_word_embeddings(dataset: Dataset, quarters_store: Path, tmp_path: Path) -> None:
    WordVectors(np.full((1, 12), 0.25, np.float32), ["square"], source="by hand").save(tmp_path / "vectors")
    data = replace(stored(quarters_store), word_vectors=str(tmp_path / "vectors"))
    slow = replace(BRIEF, epochs=1, learning_rate=1e-9)
    model = model_of(fitted(dataset, quarters_store, tmp_path / "run", data=data, training=slow))
    (row,) = model.vocabulary.encode(["square"])
    torch.testing.assert_close(model.network.text_encoder.words.weight[row], torch.full((12,), 0.25))
    assert "by hand" in (tmp_path / "run" / "model" / "README.md").read_text()


@pytest.mark.parametrize("split", ["missing", "without boxes"])
def test_without_a_usable_dev_split_the_last_epoch_is_kept(
    dataset: Dataset, quarters_store: Path, tmp_path: Path, split: str
) -> None:
    dev = [] if split == "missing" else [replace(photo, boxes=()) for photo in dataset.split("dev")]
    make_dataset(tmp_path / "data", [*dataset.split("train"), *dev])
    assert fitted(Dataset(tmp_path / "data"), quarters_store, tmp_path / "run").outcome.best.scores == {}
