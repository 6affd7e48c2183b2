"""The pipeline of the HM-LSTM: grounding from stored features and in a photo."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.data.dataset import Dataset
from deixis.data.images import open_photo
from deixis.evaluation.items import localization_items
from deixis.language.sentence import Sentence
from deixis.language.vectors import WordVectors
from deixis.models.grounding import PhotoProposals
from deixis.models.hm_lstm.model import HMLSTM
from deixis.models.hm_lstm.pipeline import HMLSTMPipeline
from deixis.models.hm_lstm.spec import HMLSTMSettings
from deixis.models.hm_lstm.trees import Forest
from deixis.models.provenance import EncoderInfo, Provenance
from deixis.vision.proposals import Proposals
from tests.models.coloured import COLOURS
from tests.models.quarters import QUARTERS, make_quarters, use_small_encoders

WORDS = [*COLOURS, "a", "the", "square", "one"]


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path, 9)


@pytest.fixture(params=["none", "photo"])
def pipeline(request: pytest.FixtureRequest) -> HMLSTMPipeline:
    torch.manual_seed(0)
    vectors = WordVectors(np.random.default_rng(0).normal(size=(len(WORDS), 5)).astype(np.float32), WORDS)
    model = HMLSTM(3 + 7, vectors, HMLSTMSettings(hidden_size=8, embedding_dim=6, centering=request.param))
    model.fit_phrase_mean(Forest.from_trees(Sentence(f"A {colour} square and the one.").tree for colour in COLOURS))
    about = Provenance(EncoderInfo("colours", "colours-1"), "both", 2.0, "corners", 3, "corners-1")
    return HMLSTMPipeline(model, about)


def test_phrases_are_nodes_and_the_whole_photo_is_a_candidate(pipeline: HMLSTMPipeline, dataset: Dataset) -> None:
    stored = pipeline.features(dataset, dataset.split("dev"), regions=True)
    items, model = localization_items(dataset.split("dev")), pipeline.model
    found = pipeline.predict_boxes(stored, items)
    assert [each.key for each in found] == [(item.photo, item.caption, item.span) for item in items]
    for item, each in zip(items, found, strict=True):
        caption = dataset.photo(item.photo).captions[item.caption]
        node = model.prepare_text([Sentence.from_caption(caption).phrase(*item.span)])
        row = stored.photos.ids.index(item.photo)
        regions = stored.region_vectors(item.photo, np.array(QUARTERS[:3]))
        visual = model.prepare_visual(np.vstack([stored.vectors(row, row + 1), regions]))
        assert each.boxes.tolist() == [[0, 0, *stored.store.map(item.photo).size], *map(list, QUARTERS[:3])]
        np.testing.assert_allclose(each.scores, model.scores_in_photo(visual, node)[:, 0], atol=0.02)


def test_a_photo_gives_the_scores_of_its_stored_features(pipeline: HMLSTMPipeline, dataset: Dataset) -> None:
    features = pipeline.features(dataset, dataset.split("dev"), regions=True)
    items = localization_items(dataset.split("dev"))[:2]
    stored = pipeline.predict_boxes(features, items)
    photo = dataset.photo(items[0].photo)
    sentence = Sentence.from_caption(photo.captions[0])
    feature_map = pipeline.image_encoder.encode([open_photo(dataset.path_of(photo))])[0]
    encoded = PhotoProposals(feature_map, Proposals(np.array(QUARTERS[:3], dtype=np.float64), np.ones(3)))
    found = pipeline.score_phrases(encoded, sentence, [sentence.phrase(*item.span) for item in items])
    assert found.boxes[0].tolist() == stored[0].boxes.tolist()
    assert found.are_cosines
    np.testing.assert_allclose(found.scores, [each.scores for each in stored], atol=0.02)
