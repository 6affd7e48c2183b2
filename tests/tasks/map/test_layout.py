"""Where photos and sentences lie on the map."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.data.importing import import_dataset
from deixis.data.samples import SAMPLES
from deixis.errors import DatasetError, DeixisError
from deixis.tasks.bundle import Bundle, load
from deixis.tasks.map.layout import laid_out, map_of, some_photos

pytest.importorskip("openTSNE", reason="the extra 'map' is not installed")


def clusters(count: int = 3, each: int = 20) -> np.ndarray:
    generator = np.random.default_rng(0)
    middles = np.repeat(np.eye(count, 8), each, axis=0)
    return (middles + generator.normal(0, 0.05, middles.shape)).astype(np.float32)


def test_what_points_the_same_way_lies_together() -> None:
    places = laid_out(clusters())
    group = np.repeat(np.arange(3), 20)
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (group[apart.argmin(axis=1)] == group).all()


def test_places_fill_a_square_and_are_the_same_for_the_same_seed() -> None:
    places = laid_out(clusters(), seed=3)
    assert places.min() >= 0
    assert places.max() <= 1
    assert np.ptp(places, axis=0).max() == pytest.approx(1, abs=1e-5)
    assert np.array_equal(places, laid_out(clusters(), seed=3))


def test_length_says_nothing() -> None:
    scaled = clusters() * np.random.default_rng(1).uniform(0.1, 10, (60, 1)).astype(np.float32)
    group = np.repeat(np.arange(3), 20)
    places = laid_out(scaled)
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (group[apart.argmin(axis=1)] == group).all()


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    with pytest.raises(DeixisError, match=r"install it with: pip install 'deixis\[map\]'"):
        laid_out(clusters())


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("map") / "data"
    import_dataset(folder, images=SAMPLES / "images", entities=SAMPLES / "entities", licence="mixed")
    return Dataset(folder)


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return load("two-branch")


def test_sentences_lie_near_their_photos(samples: Dataset, bundle: Bundle) -> None:
    shown = map_of(bundle, samples, samples.photos)
    assert len(shown.files) == len(samples.photos)
    assert [shown.sentences[row] for row in np.flatnonzero(shown.owner == 0)] == [
        caption.text for caption in samples.photos[0].sentences
    ]
    apart = np.linalg.norm(shown.sentence_places[:, None] - shown.photo_places[None], axis=2)
    own = apart[np.arange(len(shown.owner)), shown.owner]
    assert (apart < own[:, None]).sum(axis=1).mean() < len(shown.files) / 4  # by chance it would be half of them


def test_photos_are_drawn_by_lot_and_stay_in_the_order_of_the_data(samples: Dataset) -> None:
    some = some_photos(samples, samples.photos, 5, seed=1)
    assert len(some) == 5
    order = [samples.photos.ids.index(photo_id) for photo_id in some.ids]
    assert order == sorted(order)
    assert some.ids != some_photos(samples, samples.photos, 5, seed=2).ids
    assert len(some_photos(samples, samples.photos, 999)) == len(samples.photos)


def test_too_few_photos_and_models_that_only_point_make_no_map(
    samples: Dataset, bundle: Bundle, tmp_path: Path
) -> None:
    with pytest.raises(DatasetError, match="2 photos with .* sentences make no map"):
        map_of(bundle, samples, samples.photos[:2])
    with pytest.raises(DeixisError, match="a grounder points at phrases"):
        map_of(load("grounder"), samples, samples.photos)
