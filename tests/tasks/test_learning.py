"""What a model learns from: settings that cannot be, and photos with their regions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.tasks.learning import Learning, see_photos, training_photos
from deixis.training.settings import described
from deixis.vision import proposals
from deixis.vision.store import Extras, fill_store
from tests.tasks.quarters import make_quarters, use_small_encoders
from tests.vision.store.small import Corners, colour_encoder


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path, 9)


PHRASES = Learning(learn="phrases", top=3)


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        ({"crops": 5}, "crops=5: must be 0 or 10"),
        ({"top": 0}, "top=0: must be 1 or more"),
        ({"place": -1.0}, "place=-1.0: must be 0 or more"),
        ({"place": float("nan")}, "place=nan: must be 0 or more"),
        ({"most_regions": -1}, "most_regions=-1: must be 0 or more"),
        (
            {"learn": "phrases", "crops": 10},
            "crops=10: regions are pooled from the map of the whole photo; take crops=0",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(setting: dict[str, float], rule: str) -> None:
    with pytest.raises(DeixisError, match=f"^{rule}$"):
        Learning(**setting)


def test_every_setting_is_described() -> None:
    assert all(described(Learning).values())


def test_a_missing_split_is_one_line(dataset: Dataset) -> None:
    with pytest.raises(DeixisError, match="no split 'all' to learn from; it has: dev, train; name another with --set"):
        training_photos(dataset, "all")


def test_regions_are_computed_and_kept_beside_the_data(dataset: Dataset) -> None:
    seen = see_photos(dataset, dataset.photos, PHRASES)
    assert seen.store.path == dataset.path / "features" / "colours,corners=3"
    photo_id = dataset.photos.ids[0]
    assert seen.proposals(photo_id).tolist() == [[0, 0, 8, 8], [0, 8, 8, 16], [8, 0, 16, 8]]
    assert seen.proposal_vectors(photo_id).shape == (3, 3)


def test_a_store_with_more_proposals_will_do_and_its_first_are_taken(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_store(dataset.path / "features" / "rich", dataset, colour_encoder(), extras=Extras(proposer=Corners(), top=4))
    seen = see_photos(dataset, dataset.photos, PHRASES)
    assert seen.store.path.name == "rich"
    assert len(seen.proposals("0000")) == len(seen.proposal_vectors("0000")) == 3
    assert see_photos(dataset, dataset.photos, Learning()).store.path.name == "rich"
    monkeypatch.setattr(proposals, "open_proposer", lambda name, encoder=None: Corners("corners-2"))
    assert see_photos(dataset, dataset.photos, PHRASES).store.path.name == "colours,corners=3"


def test_a_store_that_lacks_photos_or_proposals_is_not_taken(dataset: Dataset) -> None:
    place = dataset.path / "features"
    fill_store(place / "few", dataset, colour_encoder(), extras=Extras(proposer=Corners(), top=2))
    fill_store(place / "half", dataset, colour_encoder(), photos=dataset.photos[:4], extras=Extras(0, Corners(), 4))
    assert see_photos(dataset, dataset.photos, PHRASES).store.path.name == "colours,corners=3"


@pytest.mark.parametrize(
    ("extras", "learning", "words"),
    [
        (Extras(), PHRASES, "holds no proposals; make a store that does with: deixis features DATA --encoder NAME"),
        (Extras(0, Corners(), 2), Learning(learn="phrases", proposals="corners", top=3), "holds no 3 proposals for a"),
        (Extras(0, Corners(), 4), PHRASES, r"holds no proposals of head, but of corners \(corners-1\); make a store"),
    ],
)
def test_a_store_that_was_named_and_cannot_serve_is_one_line(
    dataset: Dataset, tmp_path: Path, extras: Extras, learning: Learning, words: str
) -> None:
    from dataclasses import replace

    fill_store(tmp_path / "store", dataset, colour_encoder(), extras=extras)
    with pytest.raises(DeixisError, match=words):
        see_photos(dataset, dataset.photos, replace(learning, features=str(tmp_path / "store")))


def test_places_come_after_the_vectors(dataset: Dataset) -> None:
    seen = see_photos(dataset, dataset.photos, Learning(learn="phrases", top=4, place=2.0))
    assert seen.region_size == 10
    vectors = seen.proposal_vectors("0000")
    np.testing.assert_allclose(vectors[2, 3:], 2 * np.array([0.5, 0, 1, 0.5, 0.5, 0.5, 0.25]))
    np.testing.assert_allclose(seen.vectors()[:, 3:], 2 * np.array([[0, 0, 1, 1, 1, 1, 1]] * 9))
    np.testing.assert_allclose(seen.region_vectors("0000", seen.proposals("0000")), vectors, atol=1e-3)
