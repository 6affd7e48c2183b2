"""An index whose photo model has an encoder of its own: a model of OpenCLIP, here a substitute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import deixis
from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError
from deixis.models.grounding import load_embedding_model
from deixis.search.calibration import Calibration
from deixis.search.collection import PhotoCollection, index_photos, search_encoder, store_calibration
from deixis.search.encoder import ACTION, PHOTO_MODEL, SearchEncoder
from deixis.search.index import copy_index
from deixis.search.index.base import PhotoVectors
from tests.models import clip_substitute
from tests.models.clip_substitute import Made, RealVectors, save_weights
from tests.search.region_inputs import region_inputs

PHOTOS = SAMPLES / "images"
CAT = PHOTOS / "cat.jpg"
QUERIES = ["a cat with green eyes", "two dogs", "a bee on a flower", "a rocket", "a man +camera"]


@pytest.fixture(autouse=True)
def opened_anew() -> Iterator[None]:
    """Other tests have substitutes of the same name, and models stay open."""
    search_encoder.cache_clear()
    yield
    search_encoder.cache_clear()


@pytest.fixture(scope="module")
def swapped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An index made by a model of OpenCLIP whose text and photo sides are those of the shipped model."""
    real = RealVectors(load_embedding_model("two-branch"))

    def make() -> Made:
        return real, real.read_photo, real.read_texts

    folder = tmp_path_factory.mktemp("swapped") / "index"
    with pytest.MonkeyPatch.context() as patch:
        clip_substitute.install(patch, make)
        search_encoder.cache_clear()
        index_photos(PHOTOS, folder, model="open-clip:small")
        yield folder


def test_with_the_vectors_of_the_shipped_model_results_are_those_of_the_shipped_model(
    swapped: Path, sample_index: Path
) -> None:
    with deixis.open_index(swapped) as own, deixis.open_index(sample_index) as shipped:
        assert own.encoder.model_name == "open-clip:small:openai"
        assert (own.calibration, shipped.calibration is None) == (None, False)
        shipped.calibration = None
        for query in QUERIES:
            found, expected = own.search(query, 5, explain=True), shipped.search(query, 14, explain=True)
            others = {hit.path: hit for hit in expected}
            assert found[0].path == expected[0].path
            for hit in found:
                assert hit.probability is None
                # Photos are decoded at another scale, so results of almost the same score may change places.
                assert hit.score == pytest.approx(others[hit.path].score, abs=0.05)
                assert [phrase.box for phrase in hit.phrases] == [phrase.box for phrase in others[hit.path].phrases]
        similar, expected = (each.like(CAT, 4) for each in (own, shipped))
        assert [hit.path for hit in similar][:2] == [hit.path for hit in expected][:2]


def test_a_calibration_of_the_index_gives_its_results_probabilities(
    swapped: Path, sample_index: Path, tmp_path: Path
) -> None:
    copy_index(swapped, tmp_path / "index")
    with deixis.open_index(tmp_path / "index") as photos, deixis.open_index(sample_index) as shipped:
        assert shipped.calibration is not None
        # The whole photo gets the weight of the regions, which the grounder encodes here.
        weights = dict(shipped.calibration.weights)
        whole, whole_by_length, regions, *others = weights[ACTION].scores
        weights[ACTION] = replace(weights[ACTION], scores=(whole + regions, whole_by_length, 0.0, *others))
        shipped.calibration = replace(shipped.calibration, weights=weights)
        own = replace(shipped.calibration, fingerprint=photos.encoder.fingerprint)
        store_calibration(tmp_path / "index", photos.encoder, own)
        expected = shipped.search("a cat with green eyes")[0]
    copy_index(tmp_path / "index", tmp_path / "copy")
    for index in (tmp_path / "index", tmp_path / "copy"):
        with deixis.open_index(index) as photos:
            first = photos.search("a cat with green eyes")[0]
            assert first.path == expected.path
            assert first.probability == pytest.approx(expected.probability, abs=0.1)


def test_a_calibration_of_another_model_is_not_used(swapped: Path, tmp_path: Path) -> None:
    copy_index(swapped, tmp_path / "index")
    shipped = Calibration.for_models(search_encoder(PHOTO_MODEL).fingerprint)
    assert shipped is not None
    with deixis.open_index(tmp_path / "index") as photos:
        store_calibration(tmp_path / "index", photos.encoder, shipped)
    with deixis.open_index(tmp_path / "index") as photos:
        assert photos.calibration is None


def test_the_index_remembers_its_model_and_refuses_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clip_substitute.install(monkeypatch)
    weights, index = save_weights(tmp_path / "weights.pt"), tmp_path / "index"
    index_photos(CAT, index, model=f"open-clip:small:{weights}")
    search_encoder.cache_clear()
    assert index_photos([CAT, PHOTOS / "bee.jpg"], index).added == 1
    with deixis.open_index(index) as photos:
        assert (photos.encoder.dimension, len(photos)) == (5, 2)
        assert photos.encoder.model_name == f"open-clip:small:{weights}"
    line = rf"encoded by another model \(open-clip:small:{weights} "
    with pytest.raises(DeixisError, match=line):
        deixis.open_index(index, model="two-branch")
    with pytest.raises(DeixisError, match=line):
        index_photos(CAT, index, model="two-branch")
    save_weights(weights, seed=2)
    search_encoder.cache_clear()
    with pytest.raises(DeixisError, match=line):
        deixis.open_index(index)
    weights.unlink()
    search_encoder.cache_clear()
    with pytest.raises(DeixisError, match=r"weights.pt: no such file"):
        deixis.open_index(index)
    index_photos(CAT, index, model="two-branch", rebuild=True)
    with deixis.open_index(index) as photos:
        assert photos.encoder.model_name == "two-branch"
    search_encoder.cache_clear()


def test_photo_vectors_are_those_of_the_model_and_regions_those_of_the_grounder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip_substitute.install(monkeypatch)
    encoder = SearchEncoder(f"open-clip:small:{save_weights(tmp_path / 'weights.pt')}")
    (_, own), (_, shipped) = next(encoder.encode_photos([CAT])), next(search_encoder(PHOTO_MODEL).encode_photos([CAT]))
    assert isinstance(own, PhotoVectors)
    assert isinstance(shipped, PhotoVectors)
    np.testing.assert_allclose(own.whole, encoder.encode_photo(CAT), atol=0.02)
    np.testing.assert_array_equal(own.region_boxes, shipped.region_boxes)
    grounder = encoder.region_model
    np.testing.assert_allclose(own.region_vectors, grounder.encode_regions(region_inputs(encoder, CAT)), atol=0.02)
    sentence, other = (each.encode_sentence("a cat, qwertyuiop") for each in (encoder, search_encoder(PHOTO_MODEL)))
    assert (sentence.unknown_words, other.unknown_words) == ((), ("qwertyuiop",))
    assert sentence.statistics.rarest == other.statistics.rarest
    assert sentence.statistics.log_frequency < 0
    np.testing.assert_allclose(sentence.phrases[0].vector, grounder.encode_phrases(["a cat"])[0], atol=1e-4)
    assert sentence.phrases[0].whole_vector.shape == (5,)
    with pytest.raises(DeixisError, match="open-clip:small"):
        SearchEncoder(region_model="open-clip:small")


def test_a_collection_reads_the_calibration_of_its_own_models_only(sample_index: Path) -> None:
    with PhotoCollection(sample_index, search_encoder(PHOTO_MODEL)) as photos:
        assert photos.calibration == Calibration.for_models(search_encoder(PHOTO_MODEL).fingerprint)
