"""Features of a data set's photos and sentences: read where they are, computed where they are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.data.images import open_photo
from deixis.data.making import make_dataset
from deixis.errors import DeixisError
from deixis.language.features.of_data import recipe_of
from deixis.tasks.features_of import encode_photos, find_photos, sentence_vectors, stored_photos
from deixis.vision.store import Extras, FeatureStore, fill_store, import_features
from tests.tasks.coloured import coloured_photos, make_coloured
from tests.vision.store.small import Corners, colour_encoder


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return make_coloured(tmp_path)


def never(pixels: object) -> None:
    raise AssertionError("a photo was encoded")


@pytest.mark.parametrize("crops", [0, 10])
def test_vectors_are_the_encoders_own_in_the_order_of_the_photos(dataset: Dataset, crops: int) -> None:
    encoder = colour_encoder()
    photos = dataset.split("dev")
    seen = encode_photos(dataset, photos, encoder, crops=crops)
    opened = [open_photo(dataset.path_of(photo)) for photo in photos]
    plain = encoder.encode_crops(opened) if crops else np.stack([each.whole for each in encoder.encode(opened)])
    np.testing.assert_allclose(seen.vectors(), plain, atol=1e-6)
    np.testing.assert_array_equal(seen.vectors(2, 5), seen.vectors()[2:5])
    assert seen.photos.ids == photos.ids
    assert seen.require_all() is seen


def test_what_was_computed_is_not_computed_again(dataset: Dataset) -> None:
    first = encode_photos(dataset, dataset.photos, colour_encoder())
    again = encode_photos(dataset, dataset.photos, colour_encoder(network=never))
    np.testing.assert_array_equal(first.vectors(), again.vectors())


def test_features_lie_under_the_encoders_one_name(dataset: Dataset) -> None:
    seen = encode_photos(dataset, dataset.split("dev"), colour_encoder(), crops=10)
    assert seen.store.path == dataset.path / "features" / "colours,crops=10"


def test_photos_that_cannot_be_read_are_left_out_and_named(dataset: Dataset, tmp_path: Path) -> None:
    bad, gone = tmp_path / "images" / "0001.png", tmp_path / "images" / "0006.png"
    bad.write_bytes(b"no photo")
    gone.unlink()
    seen = encode_photos(dataset, dataset.photos, colour_encoder())
    assert seen.photos.ids == [photo for photo in dataset.photos.ids if photo not in ("0001", "0006")]
    assert len(seen.vectors()) == 22
    assert seen.left_out == (f"{bad}: not a photo in a known format", f"{gone}: no such file")
    with pytest.raises(DeixisError, match=r"^2 of 24 photos have no features, the first: .*0001.png: not a photo in a"):
        seen.require_all()


def test_a_photo_that_is_away_today_keeps_its_features(dataset: Dataset, tmp_path: Path) -> None:
    before = encode_photos(dataset, dataset.photos, colour_encoder())
    (tmp_path / "images" / "0006.png").unlink()
    after = encode_photos(dataset, dataset.photos, colour_encoder())
    assert after.left_out == ()
    np.testing.assert_array_equal(before.vectors(), after.vectors())


def test_a_photo_without_a_file_is_left_out_and_named(tmp_path: Path) -> None:
    photos = coloured_photos(tmp_path / "images", 4)
    photos[2] = replace(photos[2], file=None)
    make_dataset(tmp_path / "data", photos, images=tmp_path / "images")
    dataset = Dataset(tmp_path / "data")
    seen = encode_photos(dataset, dataset.photos, colour_encoder())
    assert seen.photos.ids == ["0000", "0001", "0003"]
    assert seen.left_out == (f"0002: not in {seen.store.path}",)


def test_features_of_another_version_of_the_encoder_are_one_line(dataset: Dataset) -> None:
    encode_photos(dataset, dataset.photos, colour_encoder("old"))
    with pytest.raises(
        DeixisError,
        match=r"features/colours: holds features of another version of the encoder colours \(old, here is new\); ",
    ):
        encode_photos(dataset, dataset.photos, colour_encoder("new"))


def test_a_store_without_crops_is_one_line_where_crops_are_wanted(dataset: Dataset) -> None:
    store = encode_photos(dataset, dataset.photos, colour_encoder()).store
    with pytest.raises(DeixisError, match="holds no crops; make a store that does with"):
        stored_photos(store.path, dataset, dataset.photos, crops=10)


def test_features_are_found_by_fingerprint_wherever_they_are_beside_the_data(dataset: Dataset) -> None:
    dev = dataset.split("dev")
    assert find_photos(dataset, dev, "one") is None
    sentence_vectors(dataset, dev, recipe_of("tfidf"))
    place = dataset.path / "features"
    fill_store(place / "a", dataset, colour_encoder("one"), photos=dev[:2])
    fill_store(place / "b", dataset, colour_encoder("one"), photos=dev, extras=Extras(proposer=Corners(), top=2))
    fill_store(place / "c", dataset, colour_encoder("two"))
    found = find_photos(dataset, dev, "one")
    assert found is not None
    assert found.store.path == place / "b"
    assert found.left_out == ()
    assert find_photos(dataset, dev, "one", crops=10) is None
    assert find_photos(dataset, dev, "three") is None


def test_features_are_found_elsewhere_when_told_and_gaps_are_named(dataset: Dataset, tmp_path: Path) -> None:
    dev = dataset.split("dev")
    fill_store(tmp_path / "else", dataset, colour_encoder("one"), photos=dev[:3])
    assert find_photos(dataset, dev, "one") is None
    found = find_photos(dataset, dev, "one", also=[tmp_path / "else"])
    assert found is not None
    assert found.photos.ids == dev.ids[:3]
    assert found.left_out == tuple(f"{photo}: not in {tmp_path / 'else'}" for photo in dev.ids[3:])


def test_imported_features_are_read_in_the_order_of_the_photos(dataset: Dataset, tmp_path: Path) -> None:
    ids = dataset.photos.ids[::-1]
    rows = np.random.default_rng(0).normal(size=(len(ids), 5)).astype(np.float32)
    np.savez(tmp_path / "theirs.npz", ids=ids, features=rows)
    import_features(tmp_path / "store", dataset, tmp_path / "theirs.npz")
    seen = stored_photos(tmp_path / "store", dataset, dataset.photos)
    np.testing.assert_array_equal(seen.vectors(), rows[::-1])
    assert FeatureStore(tmp_path / "store").contents.encoder.startswith("imported:")


def test_sentence_vectors_are_those_of_the_sentences_alone(dataset: Dataset) -> None:
    dev = dataset.split("dev")
    found = sentence_vectors(dataset, dev, recipe_of("tfidf"))
    plain = [(caption.text, place) for place, photo in enumerate(dev) for caption in photo.sentences]
    assert found.owner.tolist() == [place for _, place in plain]
    np.testing.assert_allclose(found.vectors[found.rows], found.features.transform([text for text, _ in plain]))
