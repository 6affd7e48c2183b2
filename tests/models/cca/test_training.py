"""From a data set directory to a bundle with a CCA in it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.images import open_photo
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.evaluation.items import sentences_of
from deixis.evaluation.retrieval import recall_at_k
from deixis.language.features import TfIdf
from deixis.models import CCA, CCASettings
from deixis.models.cca import model as cca
from deixis.models.cca.model import Stacked
from deixis.models.cca.spec import CCATrainSettings
from deixis.models.pipeline import Pipeline, load
from deixis.models.provenance import EncoderInfo, Provenance
from deixis.models.training.data import MatchingDataSettings
from deixis.models.training.runner import TrainResult, train
from deixis.models.training.settings import Settings
from deixis.vision import encoders
from deixis.vision.encoder import ImageEncoder, InputSize
from tests.models.coloured import SMALL, coloured_photos, fit_cca, make_coloured, paint
from tests.vision.feature_store.small import colour_encoder, colours


class Trained(NamedTuple):
    result: TrainResult
    pipeline: Pipeline


def trained(dataset: Dataset, settings: CCATrainSettings = SMALL, data: MatchingDataSettings | None = None) -> Trained:
    parts = Settings((data or MatchingDataSettings(), settings))
    result = train("cca", dataset, out=dataset.path.parent / "cca.model", settings=parts)
    assert result is not None
    return Trained(result, load(result.path))


def learned(model: CCA) -> list[np.ndarray]:
    return [model.x_mean_, model.y_mean_, model.x_projection_, model.y_projection_, model.correlations_]


def assert_same(one: CCA, other: CCA, rtol: float = 1e-3, atol: float = 1e-4) -> None:
    for left, right in zip(learned(one), learned(other), strict=True):
        np.testing.assert_allclose(left, right, rtol, atol)


def plainly_fitted(dataset: Dataset, photos: list[Photo]) -> CCA:
    """One loop over photos and their sentences, so plain that it is obviously right."""
    encoder = colour_encoder()
    text = TfIdf().fit([caption.text for photo in dataset.split("train") for caption in photo.captions])
    visual, texts = [], []
    for photo in photos:
        vector = encoder.encode([open_photo(dataset.path_of(photo))])[0].whole
        for caption in photo.sentences:
            visual.append(vector)
            texts.append(text.transform([caption.text])[0])
    return CCA(2, 0.01).fit(np.stack(visual), np.stack(texts))


def test_training_equals_a_plain_loop_over_the_training_photos(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = trained(dataset, SMALL)
    plain = plainly_fitted(dataset, list(dataset.split("train")))
    assert_same(found.pipeline.model, plain)
    monkeypatch.setattr(cca, "BLOCK", 7)
    assert_same(fit_cca(dataset, SMALL).model, plain)
    assert (found.result.photos, found.result.sentences, found.result.left_out) == (16, 32, ())
    assert found.pipeline.encoder.name == "colours"
    chosen = replace(SMALL, embedding_dim=3, regularization=0.2, correlation_power=2.0)
    assert fit_cca(dataset, chosen).model.settings == CCASettings(3, 0.2, 2.0)


def test_training_does_not_use_dev(dataset: Dataset, tmp_path: Path) -> None:
    first = fit_cca(dataset, SMALL)
    photos = coloured_photos(tmp_path / "other", 24)
    for index, photo in enumerate(photos):
        if "dev" in photo.splits:
            paint(tmp_path / "other" / f"{photo.id}.png", (0, 0, 0), 1)
            photos[index] = replace(photo, captions=photo.captions[:1] * 3)
    make_dataset(tmp_path / "other.data", photos, images=tmp_path / "other")
    again = fit_cca(Dataset(tmp_path / "other.data"), SMALL)
    for left, right in zip(learned(first.model), learned(again.model), strict=True):
        np.testing.assert_array_equal(left, right)


def test_ten_crops_are_averaged_as_in_the_papers(dataset: Dataset) -> None:
    found = trained(dataset, SMALL, MatchingDataSettings(crops=10))
    assert found.pipeline.encoder.crops == 10
    assert (dataset.path / "features" / "colours,crops=10").is_dir()
    opened = [open_photo(dataset.path_of(photo)) for photo in dataset.split("train")]
    np.testing.assert_allclose(found.pipeline.model.x_mean_, colour_encoder().encode_crops(opened).mean(0), atol=1e-5)


def test_a_split_without_sentences_or_readable_photos_is_refused(tmp_path: Path, dataset: Dataset) -> None:
    photos = [
        replace(photo, captions=tuple(caption for caption in photo.captions if caption.region_phrase))
        for photo in coloured_photos(tmp_path / "images", 8)
    ]
    make_dataset(tmp_path / "phrases", photos, images=tmp_path / "images")
    with pytest.raises(DeixisError, match="phrases: .*'train'"):
        fit_cca(Dataset(tmp_path / "phrases"), SMALL)
    for photo in dataset.photos:
        dataset.path_of(photo).write_bytes(b"no photo")
    with pytest.raises(DeixisError, match="'train'.*0000.png"):
        fit_cca(dataset, SMALL)


def test_photos_whose_numbers_are_not_finite_are_left_out(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def burst(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cells, whole = colours(pixels)
        return cells, np.where(whole[:, :1] > 0.7, np.nan, whole)

    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder(network=burst))
    found = trained(dataset, SMALL)
    assert (found.result.photos, len(found.result.left_out)) == (8, 8)  # green and blue photos have little red
    assert all("numbers that are not finite" in line for line in found.result.left_out)
    assert np.isfinite(found.pipeline.model.x_mean_).all()


PHRASES = MatchingDataSettings(train_on="phrases", max_proposals=4)


def phrase_pairs(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """One loop over the mentions that have a box, so plain that it is obviously right."""
    encoder = colour_encoder()
    text = TfIdf().fit([caption.text for photo in dataset.split("train") for caption in photo.captions])
    visual, texts = [], []
    for photo in dataset.split("train"):
        features = encoder.encode([open_photo(dataset.path_of(photo))])[0]
        for caption in photo.captions:
            for mention in caption.mentions:
                visual.append(features.regions([photo.boxes_of(mention.chain)[0].xyxy])[0])
                texts.append(text.transform([caption.phrase(mention)])[0])
    return np.stack(visual), np.stack(texts)


assert_nearly_same = partial(assert_same, rtol=0.02, atol=0.02)
"""Regions and phrases are kept in half precision."""


def test_training_on_phrases_equals_a_plain_loop_over_the_mentions(quarters: Dataset) -> None:
    found = trained(quarters, SMALL, PHRASES)
    assert_nearly_same(found.pipeline.model, CCA(2, 0.01).fit(*phrase_pairs(quarters)))
    assert (found.result.photos, found.result.sentences, found.result.phrases) == (16, 0, 32)
    encoder = EncoderInfo("colours", "colours-1")
    assert found.pipeline.provenance == Provenance(encoder, "phrases", 0.0, "corners", 4, "corners-1")


def test_training_on_both_equals_training_on_their_concatenation(quarters: Dataset) -> None:
    found = trained(quarters, SMALL, replace(PHRASES, train_on="both"))
    regions, phrases = phrase_pairs(quarters)
    text = TfIdf().fit([caption.text for photo in quarters.split("train") for caption in photo.captions])
    train = list(quarters.split("train"))
    opened = colour_encoder().encode([open_photo(quarters.path_of(photo)) for photo in train])
    photos = np.stack([features.whole for features, photo in zip(opened, train, strict=True) for _ in photo.sentences])
    sentences = text.transform([caption.text for photo in train for caption in photo.sentences])
    together = CCA(2, 0.01).fit(np.concatenate([photos, regions]), np.concatenate([sentences, phrases]))
    assert_nearly_same(found.pipeline.model, together)
    assert (found.result.sentences, found.result.phrases) == (32, 32)


def test_an_auxiliary_model_is_stacked(quarters: Dataset, tmp_path: Path) -> None:
    auxiliary = fit_cca(quarters, SMALL, PHRASES)
    auxiliary.save_pretrained(tmp_path / "aux")
    chosen = replace(SMALL, auxiliary_model=str(tmp_path / "aux"), auxiliary_weight=0.5)
    bundle = fit_cca(quarters, chosen)
    assert isinstance(bundle.model, Stacked)
    assert bundle.model.weight == 0.5
    plain = fit_cca(quarters, SMALL)
    rows, owner = quarters.split("train").sentence_rows()
    whole = colour_encoder().encode([open_photo(quarters.path_of(photo)) for photo in quarters.split("train")])
    photos = np.stack([features.whole for features in whole])[owner]
    texts = quarters.tables["captions"]["text"].take(rows).to_pylist()
    stacked = Stacked(auxiliary.model, CCA(2, 0.01), 0.5).fit(photos, plain.text.transform(texts))
    assert_same(bundle.model.model, stacked.model)
    bundle.save_pretrained(tmp_path / "sae")
    again = load(tmp_path / "sae")
    np.testing.assert_array_equal(again.encode_sentences(texts[:3]), bundle.encode_sentences(texts[:3]))


def test_an_auxiliary_model_of_other_features_is_refused(quarters: Dataset, tmp_path: Path) -> None:
    fit_cca(quarters, SMALL, replace(PHRASES, location_weight=1.0)).save_pretrained(tmp_path / "placed")
    with pytest.raises(DeixisError, match="placed: .*location_weight=1.0"):
        fit_cca(quarters, replace(SMALL, auxiliary_model=str(tmp_path / "placed")))
    with pytest.raises(DeixisError, match="auxiliary_model=nowhere"):
        fit_cca(quarters, replace(SMALL, auxiliary_model="nowhere"))
    stacked = replace(SMALL, auxiliary_model=str(tmp_path / "plain"))
    fit_cca(quarters, SMALL, PHRASES).save_pretrained(tmp_path / "plain")
    fit_cca(quarters, stacked).save_pretrained(tmp_path / "twice")
    with pytest.raises(DeixisError, match="twice"):
        fit_cca(quarters, replace(SMALL, auxiliary_model=str(tmp_path / "twice")))


def test_photos_are_regions_if_their_own_vectors_have_another_size(
    quarters: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def longer(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cells, whole = colours(pixels)
        return cells, np.hstack([whole, whole])[:, ::-1]

    size = InputSize(8, keep_aspect=True, multiple=2)
    encoder = ImageEncoder("colours", longer, size, channels=3, dimension=6, fingerprint="colours-6")
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: encoder)
    pipeline = fit_cca(quarters, SMALL, replace(PHRASES, train_on="both"))
    found = pipeline.features(quarters, quarters.photos).vectors()
    equal = fit_cca(quarters, SMALL, PHRASES).features(quarters, quarters.photos)
    for row, photo_id in enumerate(equal.photos.ids):
        photo = equal.store.map(photo_id)
        np.testing.assert_array_equal(found[row], photo.regions([0, 0, *photo.size])[0])


def test_dev_is_scored_as_the_evaluation_scores_it(dataset: Dataset) -> None:
    found, pipeline = trained(dataset)
    dev = dataset.split("dev")
    gold = sentences_of(dev)
    matrix = pipeline.similarity(
        pipeline.encode_images([dataset.path_of(photo) for photo in dev]), pipeline.encode_sentences(gold.texts)
    )
    assert found.dev is not None
    assert found.dev.scores == recall_at_k(matrix, gold.photo_of_sentence).scores
    assert (found.dev.split, found.dev.photos, found.dev.left_out) == ("dev", 8, ())


def test_dev_may_be_called_val_or_be_missing(dataset: Dataset, tmp_path: Path) -> None:
    found = trained(make_coloured(tmp_path / "a", 12, dev="val")).result.dev
    assert found is not None
    assert (found.split, found.photos) == ("val", 4)
    assert trained(make_coloured(tmp_path / "b", 12, dev="test")).result.dev is None


def test_a_dev_split_without_sentences_is_not_scored(dataset: Dataset, tmp_path: Path) -> None:
    photos = [
        replace(photo, captions=()) if "dev" in photo.splits else photo
        for photo in coloured_photos(tmp_path / "images", 12)
    ]
    make_dataset(tmp_path / "uncaptioned", photos, images=tmp_path / "images")
    assert trained(Dataset(tmp_path / "uncaptioned")).result.dev is None


def test_a_model_of_phrases_is_scored_by_localization(quarters: Dataset) -> None:
    found = trained(quarters, SMALL, PHRASES).result.dev
    assert found is not None
    assert set(found.scores) == {"r1", "r5", "r10", "upper_bound"}
    assert (found.split, found.photos, found.scores["upper_bound"]) == ("dev", 8, 100)
