"""The scores of a model on a data set: the same as one pair at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.data.making import make_dataset
from deixis.errors import DeixisError
from deixis.evaluation.of_data import sentences_of
from deixis.evaluation.retrieval import recall_at_k
from deixis.tasks.bundle import Bundle
from deixis.tasks.fit.cca import fit_cca
from deixis.tasks.learning import Learning
from deixis.tasks.scores.scoring import retrieval_scores, score_on_dev, seen_photos, sentence_scores
from deixis.vision import encoders
from deixis.vision.store import import_features
from tests.tasks.coloured import SMALL, coloured_photos, fitted_bundle, make_coloured
from tests.vision.store.small import colour_encoder


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
    return make_coloured(tmp_path)


@pytest.fixture
def bundle(dataset: Dataset) -> Bundle:
    return fitted_bundle(dataset)


def test_retrieval_scores_are_those_of_one_pair_at_a_time(bundle: Bundle, dataset: Dataset) -> None:
    dev = dataset.split("dev")
    texts = sentences_of(dev).texts
    scores = retrieval_scores(bundle, seen_photos(bundle, dataset, dev), texts)
    plain = [
        [
            float(bundle.encode_images([dataset.path_of(photo)])[0] @ bundle.encode_sentences([text])[0])
            for text in texts
        ]
        for photo in dev
    ]
    assert scores.shape == (len(dev), len(texts))
    np.testing.assert_allclose(scores.rows(0, len(dev)), plain, atol=1e-5)
    np.testing.assert_allclose(scores.rows(2, 3), plain[2:3], atol=1e-5)


def test_sentence_scores_are_those_of_one_pair_at_a_time(bundle: Bundle) -> None:
    texts = ["A red wall.", "Everything here is red.", "A blue wall."]
    vectors = [bundle.encode_sentences([text])[0] for text in texts]
    plain = [[float(one @ other) for other in vectors] for one in vectors]
    scores = sentence_scores(bundle, texts)
    assert scores.shape == (3, 3)
    np.testing.assert_allclose(scores.rows(0, 3), plain, atol=1e-5)
    np.testing.assert_allclose(scores.rows(1, 2), plain[1:2], atol=1e-5)


def test_features_that_are_there_are_read_without_encoder_and_photos(
    bundle: Bundle, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = seen_photos(bundle, dataset, dataset.split("dev"))
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: pytest.fail("an encoder was opened"))
    elsewhere = Dataset(dataset.path, images=tmp_path / "unmounted")
    bundle.save(tmp_path / "model")
    read = seen_photos(Bundle.load(tmp_path / "model"), elsewhere, elsewhere.split("dev"))
    np.testing.assert_array_equal(read.vectors(), computed.vectors())


def test_features_of_another_encoder_are_not_taken(
    bundle: Bundle, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle.save(tmp_path / "model")
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder("colours-2"))
    with pytest.raises(DeixisError, match="another version of the encoder colours"):
        seen_photos(Bundle.load(tmp_path / "model"), dataset, dataset.split("dev"))


def imported(dataset: Dataset, tmp_path: Path, ids: list[str]) -> Path:
    rows = np.random.default_rng(0).normal(size=(len(ids), 5)).astype(np.float32)
    np.savez(tmp_path / "theirs.npz", ids=ids, features=rows)
    import_features(tmp_path / "store", dataset, tmp_path / "theirs.npz")
    return tmp_path / "store"


def test_imported_features_are_needed_where_the_model_learned_from_some(dataset: Dataset, tmp_path: Path) -> None:
    store = imported(dataset, tmp_path, dataset.photos.ids[:-1])
    bundle = fit_cca(dataset, SMALL, Learning(features=str(store))).bundle
    with pytest.raises(
        DeixisError, match=r"data: has no features that were imported as those the model learned from \(imported:\w+\);"
    ):
        seen_photos(bundle, dataset, dataset.photos)
    seen = seen_photos(bundle, dataset, dataset.photos, also=[store])
    assert seen.left_out == (f"0023: not in {store}",)


def test_dev_is_scored_as_the_evaluation_scores_it(bundle: Bundle, dataset: Dataset) -> None:
    found = score_on_dev(bundle, dataset)
    assert found is not None
    dev = dataset.split("dev")
    gold = sentences_of(dev)
    matrix = bundle.similarity(
        bundle.encode_images([dataset.path_of(photo) for photo in dev]), bundle.encode_sentences(gold.texts)
    )
    assert found.scores == recall_at_k(matrix, gold.photo_of_sentence).scores
    assert (found.split, found.photos, found.left_out) == ("dev", 8, ())


def test_dev_may_be_called_val_or_be_missing(dataset: Dataset, tmp_path: Path) -> None:
    bundle = fitted_bundle(dataset)
    found = score_on_dev(bundle, make_coloured(tmp_path / "a", 12, dev="val"))
    assert found is not None
    assert (found.split, found.photos) == ("val", 4)
    assert score_on_dev(bundle, make_coloured(tmp_path / "b", 12, dev="test")) is None


def test_dev_photos_that_cannot_be_read_are_left_out_and_named(bundle: Bundle, dataset: Dataset) -> None:
    bad = dataset.path_of(dataset.split("dev")[2])
    bad.write_bytes(b"no photo")
    found = score_on_dev(bundle, dataset)
    assert found is not None
    assert (found.photos, found.left_out) == (7, (f"{bad}: not a photo in a known format",))


def test_a_dev_split_without_sentences_is_not_scored(bundle: Bundle, tmp_path: Path) -> None:
    photos = [replace(photo, captions=()) for photo in coloured_photos(tmp_path / "images", 12)]
    make_dataset(tmp_path / "silent", photos, images=tmp_path / "images")
    assert score_on_dev(bundle, Dataset(tmp_path / "silent")) is None
