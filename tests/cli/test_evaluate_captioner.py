"""`deixis evaluate` of captioners: retrieval, regions, reranking and curves."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.evaluation.items import regions_of, sentences_of
from deixis.evaluation.retrieval import nearest_photos, recall_at_k, sentence_shortlists
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.m_rnn.pipeline import load_captioner
from deixis.models.photo_features import find_or_compute_features
from tests.cli.conftest import Command
from tests.models.quarters import make_quarters, use_small_encoders
from tests.models.small_captioner import train_small_captioner, train_small_m_rnn

DATA = ("--data", "data", "--split", "dev")
RETRIEVAL, CAPTIONS = (("evaluate", task, "--model", "captioner.model", *DATA) for task in ("retrieval", "captions"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos of coloured quarters in data, and a captioner trained on them in captioner.model."""
    path = tmp_path_factory.mktemp("captioners")
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_small_encoders(monkeypatch)
        train_small_captioner(make_quarters(path, 18), path / "captioner.model")
        train_small_m_rnn(Dataset(path / "data", images=path / "images"), path / "m-rnn.model")
    return path


@pytest.fixture(autouse=True)
def _in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    use_small_encoders(monkeypatch)


def test_phrases_of_gold_regions_are_ranked_by_likelihood_ratio(command: Command) -> None:
    found = command.json("evaluate", "regions", "--model", "m-rnn.model", *DATA)
    dataset, pipeline = Dataset("data"), load_captioner("m-rnn.model")
    dev = dataset.split("dev")
    gold, features = regions_of(dev), find_or_compute_features(pipeline.encoder, dataset, dev)
    boxes = np.array(gold.boxes)
    priors = pipeline.model.prepare_text(list(gold.phrases)).log_prior
    ranks = []
    for region, photo in enumerate(gold.photo_of_region):
        [vector] = features.region_vectors(dev.ids[photo], boxes[region : region + 1])
        words = pipeline.model.log_probabilities(np.tile(vector, (len(gold.phrases), 1)), gold.phrases)
        scores = np.array([each.sum() for each in words]) - priors
        correct_phrases = {gold.phrases[phrase] for owner, phrase in gold.positives if owner == region}
        correct = np.array([phrase in correct_phrases for phrase in gold.phrases])
        ranks.append(1 + int((scores[~correct] >= scores[correct].max() - 1e-6).sum()))
    assert found["r1"] == pytest.approx(100 * np.mean(np.array(ranks) == 1))
    assert found["medr"] == pytest.approx(np.median(ranks))
    assert found["n"] == 6


def test_a_written_matrix_has_the_same_scores(tmp_path: Path, command: Command) -> None:
    matrix = tmp_path / "matrix.npy"
    first = command.json(*RETRIEVAL, "--out", matrix)
    again = command.json("evaluate", "retrieval", "--scores", matrix, *DATA)
    assert (first["i2t_r1"], first["t2i_medr"]) == (again["i2t_r1"], again["t2i_medr"])
    assert np.load(matrix).shape == (6, 12)


def test_the_curve_uses_shortlists_of_near_photos(tmp_path: Path, command: Command) -> None:
    matrix, curve = tmp_path / "matrix.npy", tmp_path / "curve.csv"
    found = command.json(*RETRIEVAL, "--out", matrix, "--curve", curve, "--shortlist", 3)
    dataset, pipeline = Dataset("data"), load_captioner("captioner.model")
    gold = sentences_of(dataset.split("dev"))
    vectors = find_or_compute_features(pipeline.encoder, dataset, dataset.split("dev")).vectors()
    lists = sentence_shortlists(list(nearest_photos(vectors, 3)), gold.photo_of_sentence)
    expected = recall_at_k(np.load(matrix), gold.photo_of_sentence, i2t_shortlists=lists)
    assert found["i2t_r1"] == expected.i2t_r1
    with curve.open() as file:
        rows = list(csv.DictReader(file))
    shares = 100 * expected.rankings["i2t"].ranks / 6
    assert float(rows[49]["i2t"]) == pytest.approx(100 * np.mean(shares <= 50), abs=1e-3)


def test_captions_are_reranked_by_training_photos_or_by_an_oracle(command: Command) -> None:
    plain = command.json(*CAPTIONS, "--beam", 10)
    reranked = command.json(*CAPTIONS, "--rerank", "cider")
    best = command.json(*CAPTIONS, "--rerank", "cider-oracle")
    assert best["cider_d"] >= max(plain["cider_d"], reranked["cider_d"])
    assert "a beam of 10, " in best["protocol"]
    assert plain["perplexity"] == reranked["perplexity"]
    pipeline, dataset = load_captioner("captioner.model"), Dataset("data")
    features = find_or_compute_features(pipeline.encoder, dataset, dataset.split("dev"))
    beams = pipeline.model.generate(pipeline.model_inputs(features), Decoding(beam=10, top=10))
    assert len({some[0].text for some in beams}) > 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("evaluate", "captions", "--predictions", "x.json", *DATA, "--rerank", "cider"), "--rerank: "),
        ((*CAPTIONS, "--rerank", "bleu", "--neighbours", "images"), "deixis train consensus"),
        ((*RETRIEVAL, "--curve", "curve.doc"), "--curve curve.doc"),
        ((*RETRIEVAL, "--out", "matrix.csv"), "--out matrix.csv"),
        ((*RETRIEVAL, "--shortlist", "100"), "100 of 6 photos"),
        (("evaluate", "retrieval", "--scores", "x.npy", *DATA, "--shortlist", "2"), "--shortlist: "),
    ],
    ids=lambda value: value if isinstance(value, str) else value[1],
)
def test_errors_are_one_line(command: Command, arguments: tuple[str, ...], words: str) -> None:
    assert words in command.error(*arguments)


def test_a_captioner_cannot_score_regions(command: Command) -> None:
    assert "(regions)" in command.error("evaluate", "regions", "--model", "captioner.model", *DATA)
