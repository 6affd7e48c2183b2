"""Region–phrase pairs with their features, and localization during training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.pairs import RegionPhrasePairs
from deixis.data.records import Caption
from deixis.errors import DatasetError
from deixis.evaluation.items import localization_items
from deixis.evaluation.phrase_localization import localization
from deixis.evaluation.predictions import Prediction
from deixis.language.features import TfIdf
from deixis.language.sentence import Sentence
from deixis.models import CCA
from deixis.models.photo_features import PhotoFeatures
from deixis.models.training.data import MatchingDataSettings, read_photos
from deixis.models.training.regions import localization_scores, phrase_vectors, region_set
from deixis.vision import proposals
from deixis.vision.proposals import Proposals
from tests.models.quarters import make_quarters, quarter_photo, use_small_encoders
from tests.vision.feature_store.small import Corners

PHRASES = MatchingDataSettings(train_on="phrases", max_proposals=4)


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path, 9)


@pytest.fixture
def features(dataset: Dataset) -> PhotoFeatures:
    return read_photos(dataset, dataset.photos, PHRASES.feature_source)


def test_rows_are_the_regions_of_the_pairs(features: PhotoFeatures) -> None:
    found = region_set(features, PHRASES)
    pairs = found.pairs
    assert found.vectors.dtype == np.float16
    assert len(found.vectors) == len(pairs.boxes) == 9 * (2 + 4)
    for row, (photo, box) in enumerate(zip(pairs.region_photo, pairs.boxes, strict=True)):
        plain = features.store.map(pairs.photos[photo]).regions([box])[0]
        np.testing.assert_allclose(found.vectors[row], plain, atol=2e-3)


def test_gold_boxes_alone_need_no_proposals(features: PhotoFeatures) -> None:
    gold, everything = region_set(features, PHRASES, gold_only=True), region_set(features, PHRASES)
    assert len(gold.vectors) == 18
    np.testing.assert_array_equal(gold.vectors, everything.vectors[everything.pairs.gold])
    assert gold.pairs.phrases == everything.pairs.phrases


def test_relations_equal_those_of_single_sentences(features: PhotoFeatures) -> None:
    found = region_set(features, replace(PHRASES, relation_phrases=True)).pairs
    plain = RegionPhrasePairs.from_photos(
        features.photos,
        features.proposals,
        more_phrases=lambda caption, mentions: Sentence.from_caption(caption).relations(mentions),
    )
    assert found.phrases == plain.phrases
    np.testing.assert_array_equal(found.boxes, plain.boxes)
    assert len(found) > len(region_set(features, PHRASES).pairs)


def test_the_number_of_regions_per_phrase_is_limited(features: PhotoFeatures) -> None:
    pairs = region_set(features, replace(PHRASES, max_regions_per_phrase=1)).pairs
    assert len(pairs) == len(pairs.phrases) < 18


def test_data_without_a_boxed_phrase_is_refused_by_name(tmp_path: Path, dataset: Dataset) -> None:
    images = tmp_path / "images"
    photos = [replace(quarter_photo(images, 0), boxes=(), captions=(Caption.from_text("A photo."),))]
    make_dataset(tmp_path / "silent", photos, images=images)
    silent = Dataset(tmp_path / "silent")
    with pytest.raises(DatasetError, match="^silent: "):
        region_set(read_photos(silent, silent.photos, PHRASES.feature_source), PHRASES, where="silent")


def test_phrases_encoded_in_chunks_keep_their_order() -> None:
    text = TfIdf(minimum=1).fit(["a red one", "a blue one"])
    many = [f"the {colour} one" for colour in ("red", "blue", "green")] * 700
    np.testing.assert_allclose(phrase_vectors(text, many), text.transform(many), atol=1e-3)


class Overlapping(Corners):
    """Proposes boxes that overlap the quarters in every way, exactly by half too."""

    name = "overlapping"
    # Each comes again, so that many are equally good.
    BOXES = 6 * ((4, 8, 12, 16), (0, 0, 16, 16), (8, 0, 16, 8), (0, 0, 8, 16), (0, 8, 3, 16), (0, 2, 8, 8))

    def propose(self, photo: object, features: object, top: int) -> Proposals:
        return Proposals(np.array(self.BOXES[:top], dtype=np.float64), np.linspace(1, 0.5, 36)[:top])


@pytest.mark.parametrize("flat", [False, True], ids=["scores", "equal scores"])
@pytest.mark.parametrize("top", [3, 36])
def test_localization_equals_the_evaluation_of_the_same_boxes(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, flat: bool, top: int
) -> None:
    monkeypatch.setattr(proposals, "open_proposer", lambda name, encoder=None: Overlapping())
    features = read_photos(dataset, dataset.photos, replace(PHRASES, max_proposals=top).feature_source)
    regions = region_set(features, PHRASES)
    pairs = regions.pairs
    text = TfIdf(minimum=1).fit(pairs.phrases)
    model = CCA(2, 0.1).fit(regions.vectors[pairs.gold[pairs.chain]], text.transform(pairs.phrases)[pairs.phrase])
    if flat:
        model.correlations_ = np.zeros_like(model.correlations_)
    found = localization_scores(model, regions, text.transform(pairs.phrases))
    predictions = []
    for item in localization_items(features.photos):
        vectors = model.prepare_visual(features.proposal_vectors(item.photo))
        scores = model.scores(vectors, model.prepare_text(text.transform([item.phrase])))[:, 0]
        predictions.append(Prediction(item.photo, item.caption, item.span, features.proposals(item.photo), scores))
    plain = localization(predictions, localization_items(features.photos), rounds=2)
    assert found == pytest.approx({name: getattr(plain, name) for name in ("r1", "r5", "r10", "upper_bound")})
    assert found["upper_bound"] == (0 if top == 3 else 100)
    if flat and top == 36:
        assert (found["r1"], found["r5"]) == (0, 100)
