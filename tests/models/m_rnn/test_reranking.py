"""Reranking by training photos that are kept beside a model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.errors import DatasetError, DeixisError
from deixis.models.m_rnn.consensus import Consensus, RerankSettings
from deixis.models.m_rnn.decoding import GeneratedSentence
from deixis.models.m_rnn.pipeline import CaptionPipeline, load_captioner, rank_captions
from deixis.models.m_rnn.reranking import (
    FOLDER,
    Neighbours,
    Oracle,
    RerankConfig,
    Reranker,
)
from deixis.models.photo_features import PhotoFeatures, compute_features
from deixis.models.provenance import EncoderInfo
from deixis.storage.artifacts import CONFIG
from tests.models.small_captioner import SMALL_M_RNN, train_small_m_rnn
from tests.unchecked import without_checksums
from tests.vision.feature_store.small import colour_encoder

pytestmark = pytest.mark.usefixtures("small_encoder")


@pytest.fixture
def captioner(captioner_folder: Path) -> CaptionPipeline:
    return load_captioner(captioner_folder / "run")


def features_of(captioner_folder: Path, split: str) -> PhotoFeatures:
    dataset = Dataset(captioner_folder / "data", images=captioner_folder / "images")
    return compute_features(dataset, dataset.split(split), colour_encoder())


def test_training_saves_photos_and_captions_beside_the_model_not_in_it(captioner_folder: Path) -> None:
    found = Neighbours.load(captioner_folder / "run" / FOLDER)
    train = Dataset(captioner_folder / "data").split("train")
    assert found.photos == tuple(train.ids)
    assert found.captions_of(1) == ["a green wall", "everything here is green"]
    assert found.config == RerankConfig("refined")
    inside = "".join(path.read_text() for path in (captioner_folder / "run" / "model").rglob("*.json"))
    assert "everything here is green" not in inside


def test_neighbours_are_found_by_refined_or_plain_features(captioner_folder: Path, captioner: CaptionPipeline) -> None:
    features = features_of(captioner_folder, "dev")
    kept = Neighbours.load(captioner_folder / "run" / FOLDER)
    vectors, train = features.vectors(), features_of(captioner_folder, "train").vectors()
    for feature, change in (("refined", captioner.model.refine), ("photo", np.asarray)):
        kept.config = RerankConfig(feature)  # type: ignore[arg-type]
        reranker = Reranker(kept, captioner.model, RerankSettings("cider", neighbours=4))
        expected = Consensus(change(train), kept.captions).neighbours(change(vectors), 4)
        np.testing.assert_array_equal(reranker.nearest(vectors, 4), expected)
        np.testing.assert_array_equal(reranker.nearest((vectors, np.zeros((8, 1, 1))), 4), expected)


WALLS = [GeneratedSentence(("a", colour, "wall"), -1.0) for colour in ("blue", "green", "red")]


def test_captions_are_sorted_by_consensus(captioner_folder: Path, captioner: CaptionPipeline) -> None:
    reranker = captioner.reranker("cider")
    reranker = replace(reranker, settings=RerankSettings("cider", neighbours=2))
    red, green = features_of(captioner_folder, "dev").vectors()[:2]
    found = rank_captions(np.stack([red, green]), [WALLS, WALLS], reranker)
    assert [result.text for result in found] == ["a red wall", "a green wall"]
    assert found[0].captions[0].log_probability == -1.0
    for result in found:
        assert list(result.consensus) == sorted(result.consensus, reverse=True)
        assert result.consensus[0] > 2 * result.consensus[1]
    assert found[0].as_json()["captions"][0]["consensus"] == round(found[0].consensus[0], 4)
    assert found[0].first(1).as_json()["captions"] == found[0].as_json()["captions"][:1]


def test_the_oracle_scores_by_the_photos_own_captions() -> None:
    for similarity in ("bleu", "cider"):
        oracle = Oracle([["A red wall."], ["A green one."]], similarity)  # type: ignore[arg-type]
        found = rank_captions(np.zeros((2, 3)), [WALLS, WALLS], oracle)
        assert [result.text for result in found] == ["a red wall", "a green wall"]


def test_the_default_beam_is_wider_for_reranking(captioner: CaptionPipeline) -> None:
    assert (captioner.beam_search(None, 1).beam, captioner.beam_search(None, 1).top) == (5, 1)
    reranker = captioner.reranker("bleu")
    reranked = captioner.beam_search(None, 2, ranker=reranker)
    assert (reranked.beam, reranked.top) == (10, 10)
    with pytest.raises(DeixisError, match="top=4"):
        captioner.beam_search(3, 4, ranker=reranker)


def test_neighbours_are_found_beside_the_model_and_missing_ones_name_the_command(
    captioner_folder: Path, captioner: CaptionPipeline, tmp_path: Path
) -> None:
    inside = load_captioner(captioner_folder / "run" / "model")
    assert inside.reranker("bleu").settings == captioner.reranker("bleu").settings == RerankSettings("bleu")
    with pytest.raises(DeixisError, match=str(tmp_path)):
        captioner.reranker("cider", tmp_path)
    captioner.save_pretrained(tmp_path / "alone")
    with pytest.raises(DeixisError, match=f"deixis train consensus --data DATA --set captioner={tmp_path / 'alone'}"):
        load_captioner(tmp_path / "alone").reranker("bleu")


def test_neighbours_of_another_encoder_are_refused(
    captioner_folder: Path, captioner: CaptionPipeline, tmp_path: Path
) -> None:
    kept = Neighbours.load(captioner_folder / "run" / FOLDER)
    for encoder in (EncoderInfo("deixis", "1f2e"), replace(captioner.encoder, crops=10)):
        Neighbours(encoder, kept.photos, kept.vectors, kept.captions).save(tmp_path / "other")
        with pytest.raises(DeixisError, match="other: .* colours"):
            captioner.reranker("cider", tmp_path / "other")


def test_saved_neighbours_are_read_back_and_damaged_ones_refused(
    captioner_folder: Path, captioner: CaptionPipeline, tmp_path: Path
) -> None:
    config = RerankConfig("photo", RerankSettings("bleu", 3, 4), RerankSettings("cider", 5, 6), "euclidean", "mean-f")
    original = Neighbours.from_features(features_of(captioner_folder, "train"), captioner.encoder, config)
    original.save(tmp_path / "kept")
    read = Neighbours.load(tmp_path / "kept")
    assert (read.config, read.photos, read.encoder) == (config, original.photos, captioner.encoder)
    assert [list(map(tuple, texts)) for texts in read.captions] == [list(map(tuple, t)) for t in original.captions]
    np.testing.assert_array_equal(read.vectors, original.vectors)
    assert captioner.reranker("bleu", tmp_path / "kept").settings.neighbours == 3
    without_checksums(tmp_path / "kept")
    document = json.loads((tmp_path / "kept" / CONFIG).read_text())
    for changed, words in (
        ({"version": 9}, "version 9"),
        ({"settings": document["settings"] | {"config": {"neighbour_feature": "smell"}}}, "damaged"),
        ({"kind": "cca"}, "cca"),
    ):
        (tmp_path / "kept" / CONFIG).write_text(json.dumps(document | changed))
        with pytest.raises(DeixisError, match=words):
            load_captioner(captioner_folder / "run").reranker("bleu", tmp_path / "kept")


def test_a_split_without_captions_is_an_error(captioner_folder: Path, captioner: CaptionPipeline) -> None:
    features = features_of(captioner_folder, "train")
    with pytest.raises(DatasetError, match="caption"):
        Neighbours.from_features(replace(features, photos=features.photos[:0]), captioner.encoder)


def test_a_network_without_image_input_uses_plain_features(captioner_folder: Path, tmp_path: Path) -> None:
    dataset = Dataset(captioner_folder / "data", images=captioner_folder / "images")
    train_small_m_rnn(dataset, tmp_path / "run", settings=replace(SMALL_M_RNN, image_input="nowhere"))
    assert Neighbours.load(tmp_path / "run" / FOLDER).config.neighbour_feature == "photo"
