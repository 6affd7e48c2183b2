"""Regions and trees of photos."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.models.hm_lstm.data import TREES_DIR, parse_photos, read_photo_regions
from deixis.models.photo_features import PhotoFeatures, read_features
from deixis.models.provenance import ProposalSource
from deixis.vision.encoder import ImageEncoder, InputSize
from deixis.vision.feature_store import FeatureOptions, update_store
from tests.models.quarters import QUARTERS, make_quarters, make_store
from tests.vision.feature_store.small import Corners, colours


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quarters")
    make_store(make_quarters(folder, 6), folder / "features")
    return folder


@pytest.fixture
def dataset(made: Path) -> Dataset:
    return Dataset(made / "data")


@pytest.fixture
def features(made: Path, dataset: Dataset) -> PhotoFeatures:
    return read_features(made / "features", dataset, dataset.photos, proposals=ProposalSource("corners", 3))


def test_regions_are_the_whole_photo_then_proposals_then_gold_boxes(features: PhotoFeatures) -> None:
    regions = read_photo_regions(features, gold=True)
    assert regions.candidates.tolist() == [4] * 6
    assert np.diff(regions.starts).tolist() == [6] * 6
    first = regions.boxes[:6].tolist()
    assert first == [[0, 0, 16, 16], *map(list, QUARTERS[:3]), *map(list, QUARTERS[:2])]
    np.testing.assert_allclose(regions.vectors[0], features.vectors(0, 1)[0], atol=1e-3)
    np.testing.assert_allclose(regions.vectors[1:4], features.proposal_vectors(features.photos.ids[0]), atol=1e-3)
    np.testing.assert_allclose(regions.vectors[4:6], regions.vectors[1:3], atol=0.01)  # the same boxes


def test_sentences_have_their_photo_and_trees_are_cached_in_the_data_set(
    dataset: Dataset, features: PhotoFeatures
) -> None:
    data = parse_photos(dataset, features)
    assert data.photo.tolist() == np.repeat(np.arange(6), 2).tolist()
    texts = [caption.text for photo in dataset.photos for caption in photo.sentences]
    assert [data.forest.text(n, 0).replace(" .", ".") for n in range(len(data.forest))] == texts
    assert list((dataset.path / TREES_DIR).glob("trees-*"))


def test_a_photo_whose_own_vector_has_another_size_is_pooled_like_a_region(dataset: Dataset, tmp_path: Path) -> None:
    def network(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cells, whole = colours(pixels)
        return cells, np.repeat(whole, 2, axis=1)

    size = InputSize(8, keep_aspect=True, multiple=2)
    encoder = ImageEncoder("twice", network, size, channels=3, dimension=6, fingerprint="twice-1")
    update_store(tmp_path / "features", dataset, encoder, options=FeatureOptions(proposer=Corners(), top=4))
    features = read_features(tmp_path / "features", dataset, dataset.photos, proposals=ProposalSource("corners", 4))
    regions = read_photo_regions(features.with_photo_vector("region"))
    assert regions.vectors.shape[1] == 3
    for photo_id, first in zip(regions.photos, regions.starts[:-1], strict=True):
        photo = features.store.map(photo_id)
        np.testing.assert_array_equal(regions.vectors[first], photo.regions([0, 0, *photo.size])[0].astype(np.float16))
