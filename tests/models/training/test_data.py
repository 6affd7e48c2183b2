"""Data settings, features of photos, and pairs of regions and phrases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.models.training.data import MatchingDataSettings, read_photos, training_photos
from deixis.vision import proposals
from deixis.vision.feature_store import FeatureOptions, update_store
from tests.models.quarters import make_quarters, use_small_encoders
from tests.vision.feature_store.small import Corners, colour_encoder


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path, 9)


THREE_PROPOSALS = MatchingDataSettings(train_on="phrases", max_proposals=3)
PHRASES = MatchingDataSettings(train_on="phrases", max_proposals=4)


def test_a_missing_split_is_refused(dataset: Dataset) -> None:
    with pytest.raises(DeixisError, match="'all'.*dev, train"):
        training_photos(dataset, "all")


def test_regions_are_computed_and_stored_in_the_data_set(dataset: Dataset) -> None:
    features = read_photos(dataset, dataset.photos, THREE_PROPOSALS.feature_source)
    assert features.store.path == dataset.path / "features" / "colours,corners=3"
    photo_id = dataset.photos.ids[0]
    assert features.proposals(photo_id).tolist() == [[0, 0, 8, 8], [0, 8, 8, 16], [8, 0, 16, 8]]
    assert features.proposal_vectors(photo_id).shape == (3, 3)


def test_the_first_proposals_of_a_larger_store_are_used(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    update_store(
        dataset.path / "features" / "rich", dataset, colour_encoder(), options=FeatureOptions(proposer=Corners(), top=4)
    )
    features = read_photos(dataset, dataset.photos, THREE_PROPOSALS.feature_source)
    assert features.store.path.name == "rich"
    assert len(features.proposals("0000")) == len(features.proposal_vectors("0000")) == 3
    assert read_photos(dataset, dataset.photos, MatchingDataSettings().feature_source).store.path.name == "rich"
    monkeypatch.setattr(proposals, "open_proposer", lambda name, encoder=None: Corners("corners-2"))
    assert read_photos(dataset, dataset.photos, THREE_PROPOSALS.feature_source).store.path.name == "colours,corners=3"


def test_a_store_that_lacks_photos_or_proposals_is_not_used(dataset: Dataset) -> None:
    place = dataset.path / "features"
    update_store(place / "few", dataset, colour_encoder(), options=FeatureOptions(proposer=Corners(), top=2))
    update_store(
        place / "half", dataset, colour_encoder(), photos=dataset.photos[:4], options=FeatureOptions(0, Corners(), 4)
    )
    assert read_photos(dataset, dataset.photos, THREE_PROPOSALS.feature_source).store.path.name == "colours,corners=3"


@pytest.mark.parametrize(
    ("extras", "settings", "words"),
    [
        (FeatureOptions(), THREE_PROPOSALS, "store: .*deixis features DATA --encoder NAME"),
        (FeatureOptions(0, Corners(), 2), replace(THREE_PROPOSALS, proposals="corners"), "store: .* 3 proposals"),
        (FeatureOptions(0, Corners(), 4), THREE_PROPOSALS, r"store: .*head.*corners-1"),
    ],
)
def test_an_unsuitable_features_dir_is_refused(
    dataset: Dataset, tmp_path: Path, extras: FeatureOptions, settings: MatchingDataSettings, words: str
) -> None:
    update_store(tmp_path / "store", dataset, colour_encoder(), options=extras)
    with pytest.raises(DeixisError, match=words):
        read_photos(dataset, dataset.photos, replace(settings, features_dir=str(tmp_path / "store")).feature_source)


def test_locations_are_appended_to_the_vectors(dataset: Dataset) -> None:
    features = read_photos(dataset, dataset.photos, replace(PHRASES, location_weight=2.0).feature_source)
    assert features.region_size == 10
    vectors = features.proposal_vectors("0000")
    np.testing.assert_allclose(vectors[2, 3:], 2 * np.array([0.5, 0, 1, 0.5, 0.5, 0.5, 0.25]))
    np.testing.assert_allclose(features.vectors()[:, 3:], 2 * np.array([[0, 0, 1, 1, 1, 1, 1]] * 9))
    np.testing.assert_allclose(features.region_vectors("0000", features.proposals("0000")), vectors, atol=1e-3)
