"""Fixtures of all tests of models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deixis.data.dataset import Dataset
from deixis.models import provenance
from deixis.models.grounding import EmbeddingPipeline
from deixis.models.photo_features import PhotoFeatures
from deixis.models.training.data import MatchingDataSettings
from deixis.vision import encoders
from deixis.vision.feature_store import update_store
from tests.models.coloured import SMALL, fit_cca, make_coloured
from tests.models.quarters import make_quarters, make_store, use_small_encoders
from tests.models.small_captioner import train_small_captioner
from tests.vision.feature_store.small import colour_encoder


@pytest.fixture(autouse=True)
def no_encoder_is_open_yet() -> None:
    """Encoders are kept while anybody has them, and the small ones of tests all have one name."""
    provenance._ENCODERS.clear()


@pytest.fixture
def dataset(tmp_path: Path, small_encoder: None) -> Dataset:
    """24 photos in four colours, with sentences that name them."""
    return make_coloured(tmp_path)


@pytest.fixture
def quarters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """24 photos of four colours each, with sentences whose phrases have boxes."""
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path / "quarters")


@pytest.fixture
def small_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder that needs no weights instead of the real ones."""
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())


@pytest.fixture(scope="session")
def coloured_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of photos in four colours in ./data, and a store of their features in ./features."""
    folder = tmp_path_factory.mktemp("coloured")
    update_store(folder / "features", make_coloured(folder), colour_encoder())
    return folder


@pytest.fixture(scope="session")
def quarters_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of photos in four quarters in ./data, and a store of their features in ./features."""
    folder = tmp_path_factory.mktemp("quarters")
    make_store(make_quarters(folder), folder / "features")
    return folder


@pytest.fixture(scope="session")
def captioner_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos in four colours in ./images, their data set in ./data, and in ./run a captioner that names the colours."""
    folder = tmp_path_factory.mktemp("captioner")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
        train_small_captioner(make_coloured(folder), folder / "run")
    return folder


@pytest.fixture(params=[0.0, 2.0], ids=["looks", "looks and places"])
def cca(quarters: Dataset, request: pytest.FixtureRequest) -> EmbeddingPipeline:
    data = MatchingDataSettings(train_on="phrases", max_proposals=3, location_weight=request.param)
    return fit_cca(quarters, replace(SMALL, embedding_dim=3), data)


@pytest.fixture
def features(cca: EmbeddingPipeline, quarters: Dataset) -> PhotoFeatures:
    return cca.features(quarters, quarters.split("dev"), regions=True)
