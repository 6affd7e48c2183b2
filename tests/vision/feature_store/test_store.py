"""Reading a feature store."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.storage import checksums
from deixis.vision.feature_store import Contents, FeatureOptions, FeatureStore, default_store_path, update_store
from deixis.vision.proposals import Proposals
from tests.vision.feature_store.small import Corners, colour_encoder, draw, everything, make_data


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return make_data(tmp_path, 10)


@pytest.fixture
def store(dataset: Dataset, tmp_path: Path) -> FeatureStore:
    update_store(tmp_path / "store", dataset, colour_encoder(), shard_photos=4)
    return FeatureStore(tmp_path / "store")


def test_vectors_and_maps_are_those_of_the_encoder(store: FeatureStore, dataset: Dataset) -> None:
    assert len(store) == 10
    for photo in dataset.photos:
        [expected] = colour_encoder().encode([Image.open(dataset.path_of(photo)).convert("RGB")])
        found = store.map(photo.id)
        assert found.size == expected.size
        np.testing.assert_allclose(found.whole, expected.whole, rtol=1e-5)
        np.testing.assert_allclose(found.cells, expected.cells, rtol=1e-3)  # kept in half precision


def test_vectors_follow_the_order_of_the_ids_including_duplicates(store: FeatureStore) -> None:
    wanted = ["0009", "0000", "0005", "0009"]
    assert np.array_equal(store.whole(wanted), np.stack([store.map(name).whole for name in wanted]))
    assert np.array_equal(store.whole(), store.whole(store.ids))
    assert store.whole([]).shape == (0, 3)
    assert store.sizes(["0000", "0001"]).tolist() == [[16, 24], [24, 12]]


def test_a_photo_without_features_is_named(store: FeatureStore) -> None:
    with pytest.raises(DeixisError, match="'nobody'"):
        store.whole(["0001", "nobody"])
    assert "nobody" not in store


def test_another_encoder_is_refused_when_reading(store: FeatureStore) -> None:
    FeatureStore(store.path, fingerprint="colours-1")
    with pytest.raises(DeixisError, match=r"colours-1.*colours-2"):
        FeatureStore(store.path, fingerprint="colours-2")


def test_the_error_about_missing_crops_or_proposals_names_the_option(store: FeatureStore) -> None:
    with pytest.raises(DeixisError, match="--crops 10"):
        store.crops(["0001"])
    with pytest.raises(DeixisError, match="--proposals NAME"):
        store.proposals("0001")


def test_crops_and_proposals_are_kept_with_their_vectors(dataset: Dataset, tmp_path: Path) -> None:
    extras = FeatureOptions(crops=10, proposer=Corners(), top=3)
    encoder = colour_encoder()
    update_store(tmp_path / "store", dataset, encoder, options=extras, shard_photos=3)
    store = FeatureStore(tmp_path / "store")
    photo = Image.open(dataset.path_of(dataset.photo("0004"))).convert("RGB")
    expected = Corners().propose(photo, None, 3)
    assert np.array_equal(store.proposals("0004").boxes, expected.boxes)
    assert np.allclose(store.proposals("0004").scores, expected.scores)
    [features] = encoder.encode([photo])
    assert np.allclose(store.proposal_vectors("0004"), features.regions(expected.boxes), atol=1e-3)
    np.testing.assert_allclose(store.crops(["0004"]), encoder.encode_crops([photo]), rtol=1e-5)
    assert store.contents == Contents("colours", "colours-1", 3, 3, 10, "corners", 3, "corners-1")


def test_a_photo_may_have_no_proposals(dataset: Dataset, tmp_path: Path) -> None:
    class OfTallPhotos(Corners):
        def propose(self, photo: Image.Image, features: object, top: int) -> Proposals:
            return super().propose(photo, features, top if photo.height > photo.width else 0)

    update_store(tmp_path / "store", dataset, colour_encoder(), options=FeatureOptions(proposer=OfTallPhotos(), top=4))
    store = FeatureStore(tmp_path / "store")
    for name, (width, height) in zip(store.ids, store.sizes().tolist(), strict=True):
        count = 4 if height > width else 0
        assert store.proposals(name).boxes.shape == (count, 4)
        assert store.proposal_vectors(name).shape == (count, 3)


@pytest.fixture
def full_store(dataset: Dataset, tmp_path: Path) -> FeatureStore:
    """A store with maps, crops and proposals, in one shard."""
    extras = FeatureOptions(crops=10, proposer=Corners(), top=3)
    update_store(tmp_path / "full", dataset, colour_encoder(), options=extras)
    return FeatureStore(tmp_path / "full")


def read_all(store: FeatureStore) -> None:
    store.whole(), store.crops(), store.sizes()
    for name in store.ids:
        store.map(name), store.proposals(name), store.proposal_vectors(name)


@pytest.mark.parametrize("name", ["size", "shape", "cells", "boxes", "scores", "vectors", "proposed", "crops"])
def test_a_missing_array_is_reported_as_damage(full_store: FeatureStore, name: str) -> None:
    shard = full_store.path / full_store.manifest.shards[0].file
    other = name[:-1] + chr(ord(name[-1]) ^ 1)
    shard.write_bytes(shard.read_bytes().replace(f'"{name}"'.encode(), f'"{other}"'.encode()))
    with pytest.raises(DeixisError, match=f"^[^\n]*{shard.name}: damaged [^\n]*$"):
        read_all(FeatureStore(full_store.path))


def test_a_shard_that_may_not_be_read_is_not_called_damaged(
    store: FeatureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = os.open

    def refuse(path: Path, *args: int, **settings: int) -> int:
        if str(path).endswith(".safetensors"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opens(path, *args, **settings)

    monkeypatch.setattr(os, "open", refuse)
    words = r"safetensors: cannot be read \(Permission denied\)"
    with pytest.raises(DeixisError, match=words):
        store.damaged()
    monkeypatch.setattr(checksums, "safe_open", lambda path, **_: refuse(path))
    with pytest.raises(DeixisError, match=words):
        FeatureStore(store.path)


def test_a_reader_keeps_its_snapshot_while_a_writer_works(store: FeatureStore, dataset: Dataset) -> None:
    before = everything(store)
    for photo in dataset.photos:
        draw(dataset.path_of(photo), 1000 + int(photo.id))
    for _ in range(2):  # the second run removes the files that the first no longer needs
        update_store(store.path, dataset, colour_encoder())
    assert everything(store) == before
    assert everything(FeatureStore(store.path)) != before
    assert len(list(store.path.glob("*.safetensors"))) == 1


def test_default_paths_are_plain_names_inside_the_data_set() -> None:
    data = Path("data")
    assert default_store_path(data, "a") == data / "features" / "a"
    assert default_store_path(data, "onnx:/up/../x.onnx").parent == data / "features"
    assert default_store_path(data, "../../x").parent == data / "features"
    assert default_store_path(data, "a", crops=10, proposer="edges", top=7).name == "a,crops=10,edges=7"
