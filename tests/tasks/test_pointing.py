"""A model points at regions: the same scores one pair at a time, from stored features or from a photo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.data.images import open_photo
from deixis.evaluation.localization_items import localization_items
from deixis.evaluation.of_data import regions_of
from deixis.tasks.bundle import Bundle
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.fit_cca import fit_cca
from deixis.tasks.learning import Learning
from deixis.tasks.pointing import gold_region_scores, predictions_of, region_scores
from deixis.tasks.scoring import seen_photos
from tests.tasks.coloured import SMALL
from tests.tasks.quarters import QUARTERS, make_quarters, use_small_encoders


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path)


@pytest.fixture(params=[0.0, 2.0], ids=["looks", "looks and places"])
def bundle(dataset: Dataset, request: pytest.FixtureRequest) -> Bundle:
    learning = Learning(learn="phrases", top=3, place=request.param)
    return fit_cca(dataset, replace(SMALL, components=3), learning).bundle


@pytest.fixture(params=["computed", "found"])
def seen(bundle: Bundle, dataset: Dataset, request: pytest.FixtureRequest) -> SeenPhotos:
    computed = seen_photos(bundle, dataset, dataset.split("dev"), regions=True)
    found = seen_photos(bundle, dataset, dataset.split("dev"), regions=True)
    return found if request.param == "found" else computed


def test_predictions_are_the_scores_of_the_photo_itself(bundle: Bundle, dataset: Dataset, seen: SeenPhotos) -> None:
    items = localization_items(dataset.split("dev"))
    found = predictions_of(bundle, seen, items)
    assert [prediction.key for prediction in found] == [(item.photo, item.caption, item.span) for item in items]
    for item, prediction in zip(items, found, strict=True):
        photo = bundle.image_encoder.encode([open_photo(dataset.path_of(dataset.photo(item.photo)))])[0]
        assert prediction.boxes.tolist() == [list(box) for box in QUARTERS[:3]]
        plain = region_scores(bundle, photo, QUARTERS[:3], [item.phrase])[:, 0]
        np.testing.assert_allclose(prediction.scores, plain, atol=0.02)  # stored in half precision


def test_gold_regions_meet_all_phrases(bundle: Bundle, dataset: Dataset, seen: SeenPhotos) -> None:
    gold = regions_of(dataset.split("dev"))
    scores = gold_region_scores(bundle, seen, gold)
    assert scores.shape == (len(gold.boxes), len(gold.phrases))
    ids = dataset.split("dev").ids
    for row in (0, 5, len(gold.boxes) - 1):
        photo = seen.store.map(ids[gold.photo_of_region[row]])
        plain = region_scores(bundle, photo, [gold.boxes[row]], gold.phrases)
        np.testing.assert_allclose(scores.rows(row, row + 1), plain, atol=1e-4)


def test_no_region_and_no_phrase_give_no_scores(bundle: Bundle, dataset: Dataset, seen: SeenPhotos) -> None:
    photo = seen.store.map(dataset.split("dev").ids[0])
    assert region_scores(bundle, photo, np.zeros((0, 4)), ["a dog"]).shape == (0, 1)
    assert region_scores(bundle, photo, QUARTERS, []).shape == (4, 0)
