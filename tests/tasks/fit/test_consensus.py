"""`deixis train consensus` as a function: photos and captions of a data set, and k and m chosen on dev."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deixis.data.dataset import Dataset
from deixis.errors import DatasetError, DeixisError
from deixis.evaluation.captions import caption_scores
from deixis.models.decoding import Decoding
from deixis.tasks.captions.captioning import CaptionBundle
from deixis.tasks.captions.consensus import ConsensusSettings
from deixis.tasks.captions.tuned_consensus import Written, tuned
from deixis.tasks.fit.consensus import ConsensusTraining, NeighbourData, fit_consensus
from deixis.tasks.scores.scoring import seen_by
from deixis.vision import encoders
from tests.tasks.coloured import make_coloured
from tests.tasks.writing import SMALL, train_writer
from tests.vision.store.small import colour_encoder


@pytest.fixture(autouse=True)
def _small_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("consensus")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
        train_writer(make_coloured(folder), folder / "run")
    return folder


@pytest.fixture
def dataset(made: Path) -> Dataset:
    return Dataset(made / "data", images=made / "images")


@pytest.fixture
def data(made: Path) -> NeighbourData:
    return NeighbourData(str(made / "run"))


def test_k_and_m_are_the_best_on_dev_and_neighbours_are_of_train(
    made: Path, dataset: Dataset, data: NeighbourData
) -> None:
    chosen = ConsensusTraining(beam=4)
    found = fit_consensus(dataset, data, chosen)
    assert (found.photos, found.sentences, found.phrases) == (16, 32, 0)
    assert found.neighbours.photos == tuple(dataset.split("train").ids)
    assert not set(found.neighbours.photos) & set(dataset.split("dev").ids)

    bundle, dev = CaptionBundle.load(made / "run"), dataset.split("dev")
    vectors = seen_by(bundle.encoder, dataset, dev).vectors()
    sentences = [[each.words for each in some] for some in bundle.model.generate(vectors, Decoding(beam=4, count=4))]
    own = [[caption.text for caption in photo.sentences] for photo in dev]
    written = Written(bundle.model.refined(vectors), sentences, own)
    consensus = found.neighbours.consensus(bundle.model)
    assert found.neighbours.how.bleu == tuned(consensus, written, "bleu")
    assert found.neighbours.how.cider == tuned(consensus, written, "cider")
    assert found.neighbours.how.tuned_on == 8

    assert found.dev
    first = {photo: " ".join(some[0]) for photo, some in zip(dev.ids, sentences, strict=True)}
    expected = caption_scores(first, dict(zip(dev.ids, own, strict=True)))
    assert found.dev.scores["bleu4"] == pytest.approx(expected.bleu4)
    assert found.dev.scores["k_cider"] == found.neighbours.how.cider.neighbours


def test_what_is_given_is_kept_where_nothing_is_to_be_chosen(dataset: Dataset, data: NeighbourData) -> None:
    chosen = ConsensusTraining("photo", tune=False, neighbours=3, best_bleu=4, best_cider=5)
    found = fit_consensus(dataset, data, chosen)
    how = found.neighbours.how
    assert found.dev is None
    assert (how.feature, how.tuned_on) == ("photo", 0)
    assert (how.bleu, how.cider) == (ConsensusSettings("bleu", 3, 4), ConsensusSettings("cider", 3, 5))


def test_mistakes_are_told_before_the_work(made: Path, dataset: Dataset, data: NeighbourData, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no split 'holiday' to learn from"):
        fit_consensus(dataset, replace(data, train="holiday"), ConsensusTraining())
    with pytest.raises(DeixisError, match="elsewhere: no such directory; make a model with"):
        fit_consensus(dataset, NeighbourData("elsewhere"), ConsensusTraining())
    with pytest.raises(DeixisError, match="neighbours=0, best=175: must be 1 or more"):
        ConsensusTraining(neighbours=0)
    train_writer(dataset, tmp_path / "blind", settings=replace(SMALL, photo_into="nowhere"))
    with pytest.raises(DeixisError, match=r"refines no photos \(photo_into=nowhere\); take feature=photo"):
        fit_consensus(dataset, NeighbourData(str(tmp_path / "blind")), ConsensusTraining())
