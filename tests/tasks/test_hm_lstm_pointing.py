"""An HM-LSTM points: from stored features, and in a photo that is looked at now."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.data.dataset import Dataset
from deixis.data.images import open_photo
from deixis.evaluation.localization_items import localization_items
from deixis.evaluation.of_data import regions_of
from deixis.language.sentence import Sentence
from deixis.language.vectors import WordVectors
from deixis.models.hm_lstm import HMLSTM, HMLSTMSettings
from deixis.models.trees import Forest
from deixis.tasks import grounding
from deixis.tasks.bundle import Bundle, EncoderOfBundle, LearnedFrom
from deixis.tasks.grounding import Pointer
from deixis.tasks.hm_lstm_pointing import hm_lstm_predictions, point_in_photo
from deixis.tasks.pointing import gold_region_scores, predictions_of
from deixis.tasks.scores.scoring import retrieval_scores, seen_photos, sentence_scores
from tests.tasks.coloured import COLOURS
from tests.tasks.quarters import QUARTERS, make_quarters, use_small_encoders
from tests.vision.store.small import Corners

WORDS = [*COLOURS, "a", "the", "square", "one"]


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path, 9)


@pytest.fixture(params=["none", "photo"])
def bundle(request: pytest.FixtureRequest) -> Bundle:
    torch.manual_seed(0)
    vectors = WordVectors(np.random.default_rng(0).normal(size=(len(WORDS), 5)).astype(np.float32), WORDS)
    model = HMLSTM(3 + 7, vectors, HMLSTMSettings(hidden=8, dimension=6, centre=request.param))
    model.note_phrases(Forest.of(Sentence(f"A {colour} square and the one.").tree for colour in COLOURS))
    learned = LearnedFrom("both", 2.0, "corners", 3, "corners-1")
    return Bundle(EncoderOfBundle("colours", "colours-1"), None, model, learned)


def model_of(bundle: Bundle) -> HMLSTM:
    assert isinstance(bundle.model, HMLSTM)
    return bundle.model


def test_each_phrase_is_its_node_and_scores_the_whole_photo_and_its_proposals(bundle: Bundle, dataset: Dataset) -> None:
    seen = seen_photos(bundle, dataset, dataset.split("dev"), regions=True)
    items, model = localization_items(dataset.split("dev")), model_of(bundle)
    found = predictions_of(bundle, seen, items)
    assert [each.key for each in found] == [(item.photo, item.caption, item.span) for item in items]
    for item, each in zip(items, found, strict=True):
        caption = dataset.photo(item.photo).captions[item.caption]
        node = model.prepare_text([Sentence.of_caption(caption).phrase(*item.span)])
        photo = seen.store.map(item.photo)
        place = seen.photos.ids.index(item.photo)
        visual = model.prepare_visual(
            np.vstack([seen.vectors(place, place + 1), seen.region_vectors(item.photo, np.array(QUARTERS[:3]))])
        )
        assert each.boxes.tolist() == [[0, 0, *photo.size], *map(list, QUARTERS[:3])]
        np.testing.assert_allclose(each.scores, model.scores_in_photo(visual, node)[:, 0], atol=0.02)


def test_a_photo_that_is_looked_at_now_gives_what_stored_features_give(bundle: Bundle, dataset: Dataset) -> None:
    seen = seen_photos(bundle, dataset, dataset.split("dev"), regions=True)
    items, model = localization_items(dataset.split("dev"))[:2], model_of(bundle)
    stored = hm_lstm_predictions(model, seen, items)
    photo = dataset.photo(items[0].photo)
    sentence = Sentence.of_caption(photo.captions[0])
    looked = bundle.image_encoder.encode([open_photo(dataset.path_of(photo))])[0]
    phrases = [sentence.phrase(*item.span) for item in items]
    scores, boxes = point_in_photo(model, looked, QUARTERS[:3], phrases, place=2.0)
    assert boxes.tolist() == stored[0].boxes.tolist()
    np.testing.assert_allclose(scores, [each.scores for each in stored], atol=0.02)


def test_deixis_ground_points_with_it(bundle: Bundle, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grounding, "open_proposer", lambda name, encoder=None: Corners())
    photo = dataset.path_of(dataset.split("dev")[0])
    found = Pointer(bundle).ground(photo, "A man in a red hat pets his dog.")
    candidates = [(0, 0, 16, 16), *QUARTERS[:3]]
    assert [phrase.text for phrase in found.phrases] == ["A man", "a red hat", "his dog"]
    assert all(phrase.box in candidates for phrase in found.phrases)
    assert found.drawn(open_photo(photo)).width >= 16


def test_photos_sentences_and_regions_are_compared_as_by_other_models(bundle: Bundle, dataset: Dataset) -> None:
    photos = dataset.split("dev")
    seen = seen_photos(bundle, dataset, photos)
    texts = ["A red square.", "A blue corner."]
    assert retrieval_scores(bundle, seen, texts).rows(0, 1).shape == (1, 2)
    np.testing.assert_allclose(np.diag(sentence_scores(bundle, texts).rows(0, 2)), 1, atol=1e-5)
    gold = regions_of(photos)
    assert gold_region_scores(bundle, seen, gold).shape == (len(gold.boxes), len(gold.phrases))
