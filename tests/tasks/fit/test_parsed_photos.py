"""Regions and trees of photos, in the order in which an HM-LSTM wants them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.tasks.features_of import Proposing, SeenPhotos, stored_photos
from deixis.tasks.fit.parsed_photos import TREES, parsed_photos, photo_regions
from deixis.vision.encoder import ImageEncoder, InputSize
from deixis.vision.store import Extras, fill_store
from tests.tasks.quarters import QUARTERS, make_quarters, make_store
from tests.vision.store.small import Corners, colours


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quarters")
    make_store(make_quarters(folder, 6), folder / "features")
    return folder


@pytest.fixture
def dataset(made: Path) -> Dataset:
    return Dataset(made / "data")


@pytest.fixture
def seen(made: Path, dataset: Dataset) -> SeenPhotos:
    return stored_photos(made / "features", dataset, dataset.photos, proposing=Proposing("corners", 3))


def test_the_whole_photo_comes_first_then_proposals_then_gold_boxes(seen: SeenPhotos) -> None:
    regions = photo_regions(seen, gold=True)
    assert regions.candidates.tolist() == [4] * 6
    assert np.diff(regions.starts).tolist() == [6] * 6
    first = regions.boxes[:6].tolist()
    assert first == [[0, 0, 16, 16], *map(list, QUARTERS[:3]), *map(list, QUARTERS[:2])]
    np.testing.assert_allclose(regions.vectors[0], seen.vectors(0, 1)[0], atol=1e-3)
    np.testing.assert_allclose(regions.vectors[1:4], seen.proposal_vectors(seen.photos.ids[0]), atol=1e-3)
    np.testing.assert_allclose(regions.vectors[4:6], regions.vectors[1:3], atol=0.01)  # the same boxes


def test_every_sentence_knows_its_photo_and_trees_are_kept_beside_the_data(dataset: Dataset, seen: SeenPhotos) -> None:
    data = parsed_photos(dataset, seen)
    assert data.photo.tolist() == np.repeat(np.arange(6), 2).tolist()
    texts = [caption.text for photo in dataset.photos for caption in photo.sentences]
    assert [data.forest.text(n, 0).replace(" .", ".") for n in range(len(data.forest))] == texts
    assert list((dataset.path / TREES).glob("trees-*.safetensors"))


def test_an_encoder_that_sees_photos_and_regions_differently_is_refused(dataset: Dataset, tmp_path: Path) -> None:
    def network(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cells, whole = colours(pixels)
        return cells, np.repeat(whole, 2, axis=1)

    size = InputSize(8, keep_aspect=True, multiple=2)
    encoder = ImageEncoder("twice", network, size, channels=3, dimension=6, fingerprint="twice-1")
    fill_store(tmp_path / "features", dataset, encoder, extras=Extras(proposer=Corners(), top=4))
    seen = stored_photos(tmp_path / "features", dataset, dataset.photos, proposing=Proposing("corners", 4))
    with pytest.raises(DeixisError, match="whole photos have 6 numbers and those of regions 3"):
        photo_regions(seen)
