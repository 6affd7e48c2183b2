"""scripts/region_crops.py: a vector of each region's own pixels, imported for tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import region_crops

from deixis.vision import encoders
from deixis.vision.feature_store import FeatureStore, import_features
from tests.models.quarters import QUARTERS, make_quarters, use_small_encoders


@pytest.mark.parametrize("crops", [1, 10])
def test_the_vector_of_a_region_is_that_of_its_own_pixels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crops: int
) -> None:
    use_small_encoders(monkeypatch)
    dataset = make_quarters(tmp_path, 3)
    arguments = [str(dataset.path), "--out", str(tmp_path / "crops"), "--top", "1", "--crops", str(crops)]
    assert region_crops.main(arguments) == 0
    store = tmp_path / "store"
    import_features(store, dataset, tmp_path / "crops" / "photos.npz", regions=tmp_path / "crops" / "regions")
    features, encoder = FeatureStore(store), encoders.open_encoder("small")
    for photo in dataset.photos:
        boxes = features.proposals(photo.id).boxes
        assert {tuple(box) for box in boxes[1:].tolist()} == {*QUARTERS[:2]} - {tuple(boxes[0])}, "gold boxes come last"
        with region_crops.Image.open(dataset.path_of(photo)) as picture:
            for box, vector in zip(boxes, features.regions(photo.id, boxes), strict=True):
                alone = picture.convert("RGB").crop(tuple(map(int, box)))
                [expected] = region_crops.encode(encoder, [alone], crops)
                np.testing.assert_allclose(vector, expected, atol=2e-3)
