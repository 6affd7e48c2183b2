"""Training photos that are kept beside a model, and what they make of its sentences."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import deixis
from deixis.data.dataset import Dataset
from deixis.errors import DatasetError, DeixisError
from deixis.models.decoding import Generated
from deixis.models.m_rnn_model import WithCells
from deixis.tasks.bundle import EncoderOfBundle
from deixis.tasks.captions.captioning import CaptionBundle, beam_of, results_of
from deixis.tasks.captions.consensus import Consensus, ConsensusSettings
from deixis.tasks.captions.reranking import FOLDER, HowReranked, Neighbours, Oracle, Reranker, feature_of, open_reranker
from deixis.tasks.features_of import SeenPhotos, encode_photos
from deixis.vision import encoders
from tests.tasks.coloured import make_coloured
from tests.tasks.writing import SMALL, train_writer
from tests.vision.store.small import colour_encoder


@pytest.fixture(autouse=True)
def _small_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos in four colours in ./images, and in ./run a model that names them."""
    folder = tmp_path_factory.mktemp("reranking")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
        train_writer(make_coloured(folder), folder / "run")
    return folder


@pytest.fixture
def bundle(made: Path) -> CaptionBundle:
    return CaptionBundle.load(made / "run")


def seen_in(made: Path, split: str) -> SeenPhotos:
    dataset = Dataset(made / "data", images=made / "images")
    return encode_photos(dataset, dataset.split(split), colour_encoder())


def test_training_leaves_its_photos_and_captions_beside_the_model_and_not_in_it(made: Path) -> None:
    found = Neighbours.load(made / "run" / FOLDER)
    train = Dataset(made / "data").split("train")
    assert found.photos == tuple(train.ids)
    assert found.captions_of(1) == ["a green wall", "everything here is green"]
    assert found.how == HowReranked("refined")
    inside = "".join(path.read_text() for path in (made / "run" / "model").rglob("*.json"))
    assert "everything here is green" not in inside


def test_photos_are_looked_up_as_the_model_refines_them_or_as_they_are(made: Path, bundle: CaptionBundle) -> None:
    seen = seen_in(made, "dev")
    kept = Neighbours.load(made / "run" / FOLDER)
    vectors, train = seen.vectors(), seen_in(made, "train").vectors()
    for feature in ("refined", "photo"):
        kept.how = HowReranked(feature)  # type: ignore[arg-type]
        reranker = Reranker(kept, bundle.model, ConsensusSettings("cider", neighbours=4))
        plain = Consensus(train, kept.captions) if feature == "photo" else None
        refined = Consensus(bundle.model.refined(train), kept.captions)
        asked = vectors if plain else bundle.model.refined(vectors)
        expected = (plain or refined).neighbours(asked, 4)
        np.testing.assert_array_equal(reranker.nearest(vectors, 4), expected)
        np.testing.assert_array_equal(reranker.nearest(WithCells(vectors, np.zeros((8, 1, 1))), 4), expected)


def test_sentences_stand_in_the_order_of_their_consensus(made: Path, bundle: CaptionBundle) -> None:
    reranker = open_reranker("cider", made / "run", bundle)
    reranker = replace(reranker, settings=ConsensusSettings("cider", neighbours=2))
    red, green = seen_in(made, "dev").vectors()[:2]
    some = [Generated(("a", colour, "wall"), -1.0) for colour in ("blue", "green", "red")]
    found = results_of(np.stack([red, green]), [some, some], reranker)
    assert [result.text for result in found] == ["a red wall", "a green wall"]
    assert found[0].captions[0].log_probability == -1.0
    for result in found:
        assert list(result.consensus) == sorted(result.consensus, reverse=True)
        assert result.consensus[0] > 2 * result.consensus[1]
    assert found[0].as_json()["captions"][0]["consensus"] == round(found[0].consensus[0], 4)
    assert found[0].first(1).as_json()["captions"] == found[0].as_json()["captions"][:1]


def test_an_oracle_asks_the_photos_own_captions(made: Path) -> None:
    some = [Generated(("a", colour, "wall"), -1.0) for colour in ("blue", "green", "red")]
    for similarity in ("bleu", "cider"):
        judge = Oracle([["A red wall."], ["A green one."]], similarity)  # type: ignore[arg-type]
        found = results_of(np.zeros((2, 3)), [some, some], judge)
        assert [result.text for result in found] == ["a red wall", "a green wall"]


def test_the_package_reranks_a_photo(made: Path) -> None:
    photo = made / "images" / "0008.png"
    found = deixis.caption(photo, rerank="cider", top=2, model=made / "run")
    assert len(found.captions) == 2
    assert "red" in found.text
    assert found.consensus[0] >= found.consensus[1]
    assert deixis.caption(photo, model=made / "run").consensus == ()


def test_a_beam_to_choose_from_is_wider_and_kept_whole(bundle: CaptionBundle) -> None:
    assert (beam_of(bundle, None, 1).beam, beam_of(bundle, None, 1).count) == (5, 1)
    reranked = beam_of(bundle, None, 2, reranked=True)
    assert (reranked.beam, reranked.count) == (10, 10)
    with pytest.raises(DeixisError, match="count=4: a beam of 3"):
        beam_of(bundle, 3, 4, reranked=True)


def test_without_training_photos_it_is_said_what_to_run(made: Path, bundle: CaptionBundle, tmp_path: Path) -> None:
    for words in (
        "--rerank bleu: needs training photos with their captions, and elsewhere has none beside it",
        "deixis train consensus --data DATA --set model=elsewhere, and name them with --neighbours consensus.model",
    ):
        with pytest.raises(DeixisError, match=words):
            open_reranker("bleu", "elsewhere", bundle)
    with pytest.raises(DeixisError, match=f"{tmp_path} holds none; make them from your own data"):
        open_reranker("cider", made / "run", bundle, tmp_path)


def test_the_folder_of_the_model_in_a_run_finds_them_too(made: Path, bundle: CaptionBundle) -> None:
    assert open_reranker("bleu", made / "run" / "model", bundle).settings == ConsensusSettings("bleu")


def test_photos_that_another_encoder_saw_are_refused(made: Path, bundle: CaptionBundle, tmp_path: Path) -> None:
    kept = Neighbours.load(made / "run" / FOLDER)
    for encoder in (EncoderOfBundle("deixis", "1f2e"), replace(bundle.encoder, crops=10)):
        Neighbours(encoder, kept.photos, kept.vectors, kept.captions).save(tmp_path / "other")
        with pytest.raises(DeixisError, match="its photos were seen by .*, those of the model by colours"):
            open_reranker("cider", made / "run", bundle, tmp_path / "other")


def test_what_was_saved_reranks_alike_and_newer_or_damaged_folders_are_refused(
    made: Path, bundle: CaptionBundle, tmp_path: Path
) -> None:
    how = HowReranked("photo", ConsensusSettings("bleu", 3, 4), ConsensusSettings("cider", 5, 6), tuned_on=8)
    made_of = Neighbours.of(seen_in(made, "train"), bundle.encoder, how)
    made_of.save(tmp_path / "kept")
    read = Neighbours.load(tmp_path / "kept")
    assert (read.how, read.photos, read.encoder) == (how, made_of.photos, bundle.encoder)
    assert [list(map(tuple, texts)) for texts in read.captions] == [list(map(tuple, t)) for t in made_of.captions]
    np.testing.assert_array_equal(read.vectors, made_of.vectors)
    assert open_reranker("bleu", made / "run", bundle, tmp_path / "kept").settings.neighbours == 3
    document = json.loads((tmp_path / "kept" / "saved.json").read_text())
    for changed, words in (
        ({"version": 9}, "written for version 9"),
        ({"settings": document["settings"] | {"how": {"feature": "smell"}}}, "damaged, or not made by deixis"),
    ):
        (tmp_path / "kept" / "saved.json").write_text(json.dumps(document | changed))
        with pytest.raises(DeixisError, match=words):
            open_reranker("bleu", made / "run", bundle, tmp_path / "kept")


def test_a_split_without_captions_has_nothing_to_say(made: Path, bundle: CaptionBundle) -> None:
    seen = seen_in(made, "train")
    with pytest.raises(DatasetError, match="no photo to learn from has a caption"):
        Neighbours.of(replace(seen, photos=seen.photos[:0]), bundle.encoder)


def test_a_network_that_no_photo_enters_keeps_photos_as_they_are(made: Path, tmp_path: Path) -> None:
    dataset = Dataset(made / "data", images=made / "images")
    train_writer(dataset, tmp_path / "run", settings=replace(SMALL, photo_into="nowhere"))
    assert Neighbours.load(tmp_path / "run" / FOLDER).how.feature == "photo"
    assert feature_of(CaptionBundle.load(made / "run").model) == "refined"
