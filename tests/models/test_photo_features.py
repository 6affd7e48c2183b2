"""Features of a data set's photos and sentences: read where they are, computed where they are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.images import open_photo
from deixis.errors import DeixisError
from deixis.language.features.captions import recipe_of
from deixis.models.photo_features import compute_features, find_features, read_features, sentence_vectors
from deixis.vision.feature_store import FeatureOptions, FeatureStore, import_features, update_store
from tests.models.coloured import coloured_photos, make_coloured
from tests.vision.feature_store.small import Corners, colour_encoder


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return make_coloured(tmp_path)


def never(pixels: object) -> None:
    raise AssertionError("a photo was encoded")


@pytest.mark.parametrize("crops", [0, 10])
def test_vectors_equal_the_encoders_in_the_order_of_the_photos(dataset: Dataset, crops: int) -> None:
    encoder = colour_encoder()
    photos = dataset.split("dev")
    features = compute_features(dataset, photos, encoder, crops=crops)
    opened = [open_photo(dataset.path_of(photo)) for photo in photos]
    plain = encoder.encode_crops(opened) if crops else np.stack([each.whole for each in encoder.encode(opened)])
    np.testing.assert_allclose(features.vectors(), plain, atol=1e-6)
    np.testing.assert_array_equal(features.vectors(2, 5), features.vectors()[2:5])
    assert features.photos.ids == photos.ids
    assert features.store.path == dataset.path / "features" / ("colours,crops=10" if crops else "colours")
    assert features.require_all() is features


def test_stored_features_are_not_computed_again(dataset: Dataset) -> None:
    first = compute_features(dataset, dataset.photos, colour_encoder())
    again = compute_features(dataset, dataset.photos, colour_encoder(network=never))
    np.testing.assert_array_equal(first.vectors(), again.vectors())


def test_photos_that_cannot_be_read_are_left_out_and_named(dataset: Dataset, tmp_path: Path) -> None:
    bad, gone = tmp_path / "images" / "0001.png", tmp_path / "images" / "0006.png"
    bad.write_bytes(b"no photo")
    gone.unlink()
    features = compute_features(dataset, dataset.photos, colour_encoder())
    assert features.photos.ids == [photo for photo in dataset.photos.ids if photo not in ("0001", "0006")]
    assert len(features.vectors()) == 22
    assert [line.partition(": ")[0] for line in features.left_out] == [str(bad), str(gone)]
    with pytest.raises(DeixisError, match="0001.png"):
        features.require_all()


def test_a_missing_photo_keeps_its_stored_features(dataset: Dataset, tmp_path: Path) -> None:
    before = compute_features(dataset, dataset.photos, colour_encoder())
    (tmp_path / "images" / "0006.png").unlink()
    after = compute_features(dataset, dataset.photos, colour_encoder())
    assert after.left_out == ()
    np.testing.assert_array_equal(before.vectors(), after.vectors())


def test_a_photo_without_a_file_is_left_out_and_named(tmp_path: Path) -> None:
    photos = coloured_photos(tmp_path / "images", 4)
    photos[2] = replace(photos[2], file=None)
    make_dataset(tmp_path / "data", photos, images=tmp_path / "images")
    dataset = Dataset(tmp_path / "data")
    features = compute_features(dataset, dataset.photos, colour_encoder())
    assert features.photos.ids == ["0000", "0001", "0003"]
    assert features.left_out == (f"0002: not in {features.store.path}",)


def test_features_of_another_version_of_the_encoder_are_refused(dataset: Dataset) -> None:
    compute_features(dataset, dataset.photos, colour_encoder("old"))
    with pytest.raises(DeixisError, match=r"features/colours: .*old.*new"):
        compute_features(dataset, dataset.photos, colour_encoder("new"))


def test_a_store_without_crops_is_refused_if_crops_are_needed(dataset: Dataset) -> None:
    store = compute_features(dataset, dataset.photos, colour_encoder()).store
    with pytest.raises(DeixisError, match="--crops 10"):
        read_features(store.path, dataset, dataset.photos, crops=10)


def test_features_in_the_data_set_are_found_by_fingerprint(dataset: Dataset) -> None:
    dev = dataset.split("dev")
    assert find_features(dataset, dev, "one") is None
    sentence_vectors(dataset, dev, recipe_of("tfidf"))
    place = dataset.path / "features"
    update_store(place / "a", dataset, colour_encoder("one"), photos=dev[:2])
    update_store(
        place / "b", dataset, colour_encoder("one"), photos=dev, options=FeatureOptions(proposer=Corners(), top=2)
    )
    update_store(place / "c", dataset, colour_encoder("two"))
    found = find_features(dataset, dev, "one")
    assert found is not None
    assert found.store.path == place / "b"
    assert found.left_out == ()
    assert find_features(dataset, dev, "one", crops=10) is None
    assert find_features(dataset, dev, "three") is None


def test_features_are_found_in_other_stores_and_missing_photos_are_named(dataset: Dataset, tmp_path: Path) -> None:
    dev = dataset.split("dev")
    update_store(tmp_path / "else", dataset, colour_encoder("one"), photos=dev[:3])
    assert find_features(dataset, dev, "one") is None
    found = find_features(dataset, dev, "one", also=[tmp_path / "else"])
    assert found is not None
    assert found.photos.ids == dev.ids[:3]
    assert found.left_out == tuple(f"{photo}: not in {tmp_path / 'else'}" for photo in dev.ids[3:])


def test_imported_features_are_read_in_the_order_of_the_photos(dataset: Dataset, tmp_path: Path) -> None:
    ids = dataset.photos.ids[::-1]
    rows = np.random.default_rng(0).normal(size=(len(ids), 5)).astype(np.float32)
    np.savez(tmp_path / "theirs.npz", ids=ids, features=rows)
    import_features(tmp_path / "store", dataset, tmp_path / "theirs.npz")
    features = read_features(tmp_path / "store", dataset, dataset.photos)
    np.testing.assert_array_equal(features.vectors(), rows[::-1])
    assert FeatureStore(tmp_path / "store").contents.encoder.startswith("imported:")


def test_sentence_vectors_cover_only_the_sentences_of_the_photos(dataset: Dataset) -> None:
    dev = dataset.split("dev")
    found = sentence_vectors(dataset, dev, recipe_of("tfidf"))
    plain = [(caption.text, place) for place, photo in enumerate(dev) for caption in photo.sentences]
    assert found.owner.tolist() == [place for _, place in plain]
    np.testing.assert_allclose(found.vectors[found.rows], found.features.transform([text for text, _ in plain]))
