"""`deixis evaluate` of captioners: retrieval, regions, reranking, curves and pages."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.cli.main import _run
from deixis.data.dataset import Dataset
from deixis.evaluation.items import regions_of, sentences_of
from deixis.evaluation.retrieval import nearest_photos, recall_at_k, sentence_shortlists
from deixis.models.m_rnn.captioning import load_captioner
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.photo_features import find_or_compute_features
from tests.models.captioner import SMALL, train_small_captioner
from tests.models.quarters import make_quarters, use_small_encoders

OPTIONS = ["--model", "m-rnn.model", "--data", "data", "--split", "dev"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos of coloured quarters in data, and a captioner trained on them in m-rnn.model."""
    path = tmp_path_factory.mktemp("captioners")
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_small_encoders(monkeypatch)
        train_small_captioner(make_quarters(path, 18), path / "m-rnn.model")
    return path


@pytest.fixture(autouse=True)
def _in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    use_small_encoders(monkeypatch)


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict:
    assert _run(["evaluate", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def error_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert _run(["evaluate", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


def test_phrases_of_gold_regions_are_ranked_by_likelihood_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "regions", *OPTIONS)
    dataset, pipeline = Dataset("data"), load_captioner("m-rnn.model")
    dev = dataset.split("dev")
    gold, features = regions_of(dev), find_or_compute_features(pipeline.encoder, dataset, dev)
    boxes = np.array(gold.boxes)
    scores = np.zeros((len(boxes), len(gold.phrases)))
    priors = pipeline.model.prepare_text(list(gold.phrases)).log_prior.numpy()
    for region, photo in enumerate(gold.photo_of_region):
        [vector] = features.region_vectors(dev.ids[photo], boxes[region : region + 1])
        words = pipeline.model.log_probabilities(np.tile(vector, (len(gold.phrases), 1)), gold.phrases)
        scores[region] = [each.sum() for each in words] - priors
    ranks = []
    correct_phrases = {
        region: {gold.phrases[phrase] for owner, phrase in gold.positives if owner == region}
        for region in range(len(boxes))
    }
    for region, row in enumerate(scores):
        correct = np.array([phrase in correct_phrases[region] for phrase in gold.phrases])
        ranks.append(1 + int((row[~correct] >= row[correct].max() - 1e-6).sum()))
    assert found["r1"] == pytest.approx(100 * np.mean(np.array(ranks) == 1))
    assert found["medr"] == pytest.approx(np.median(ranks))
    assert found["n"] == 6


def test_a_written_matrix_has_the_same_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix = tmp_path / "matrix.npy"
    first = run_json(capsys, "retrieval", *OPTIONS, "--out", matrix)
    again = run_json(capsys, "retrieval", "--scores", matrix, *OPTIONS[2:])
    assert {name: first[name] for name in ("i2t_r1", "t2i_medr")} == {
        name: again[name] for name in ("i2t_r1", "t2i_medr")
    }
    assert np.load(matrix).shape == (6, 12)


def test_the_curve_uses_shortlists_of_near_photos(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix, curve = tmp_path / "matrix.npy", tmp_path / "curve.csv"
    found = run_json(capsys, "retrieval", *OPTIONS, "--out", matrix, "--curve", curve, "--shortlist", 3)
    dataset, pipeline = Dataset("data"), load_captioner("m-rnn.model")
    gold = sentences_of(dataset.split("dev"))
    vectors = find_or_compute_features(pipeline.encoder, dataset, dataset.split("dev")).vectors()
    lists = sentence_shortlists(list(nearest_photos(vectors, 3)), gold.photo_of_sentence)
    expected = recall_at_k(np.load(matrix), gold.photo_of_sentence, i2t_shortlists=lists)
    assert found["i2t_r1"] == expected.i2t_r1
    with curve.open() as file:
        rows = list(csv.DictReader(file))
    shares = 100 * expected.rankings["i2t"].ranks / 6
    assert float(rows[49]["i2t"]) == pytest.approx(100 * np.mean(shares <= 50), abs=1e-3)


def test_captions_are_reranked_by_training_photos_or_by_an_oracle(capsys: pytest.CaptureFixture[str]) -> None:
    plain = run_json(capsys, "captions", *OPTIONS, "--beam", 10)
    reranked = run_json(capsys, "captions", *OPTIONS, "--rerank", "cider")
    best = run_json(capsys, "captions", *OPTIONS, "--rerank", "cider-oracle")
    assert best["cider_d"] >= max(plain["cider_d"], reranked["cider_d"])
    assert plain["perplexity"] == reranked["perplexity"]
    pipeline, dataset = load_captioner("m-rnn.model"), Dataset("data")
    features = find_or_compute_features(pipeline.encoder, dataset, dataset.split("dev"))
    beams = pipeline.model.generate(features.vectors(), Decoding(beam=10, count=10))
    assert len({some[0].text for some in beams}) > 1


def test_a_page_shows_captions_before_and_after_reranking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert _run(["evaluate", "captions", *OPTIONS, "--rerank", "bleu", "--page", str(page)]) == 0
    err = capsys.readouterr().err
    assert str(page) in err
    text = page.read_text(encoding="utf-8")
    for words in ("by probability", "after reranking by BLEU", "nearest training photos", "by people"):
        assert text.count(words) == 6, words


def test_a_page_does_not_change_the_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = run_json(capsys, "captions", *OPTIONS)
    assert run_json(capsys, "captions", *OPTIONS, "--page", tmp_path / "page.html") == plain
    assert "a beam of 5" in plain["protocol"]
    assert "a beam of 5" in (tmp_path / "page.html").read_text(encoding="utf-8")
    wide = run_json(capsys, "captions", *OPTIONS, "--beam", 10, "--length-power", 0.5)
    assert "a beam of 10" in wide["protocol"]
    assert "words^0.5" in wide["protocol"]
    reordered = run_json(capsys, "captions", *OPTIONS, "--rerank", "cider-oracle")
    assert "a beam of 10, " in reordered["protocol"]


def test_a_page_without_neighbours_gives_a_note(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, empty = tmp_path / "page.html", tmp_path / "empty"
    empty.mkdir()
    assert _run(["evaluate", "captions", *OPTIONS, "--neighbours", str(empty), "--page", str(page)]) == 0
    assert "neighbours" in capsys.readouterr().err
    assert "nearest training photos" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("captions", *OPTIONS, "--page", "nowhere/page.html"), "--page nowhere/page.html"),
        (
            ("captions", "--predictions", "x.json", *OPTIONS[2:], "--rerank", "cider"),
            "--rerank: ",
        ),
        (
            ("captions", *OPTIONS, "--rerank", "bleu", "--neighbours", "images"),
            "deixis train consensus",
        ),
        (("retrieval", *OPTIONS, "--curve", "curve.doc"), "--curve curve.doc"),
        (("retrieval", *OPTIONS, "--out", "matrix.csv"), "--out matrix.csv"),
        (("retrieval", *OPTIONS, "--shortlist", "100"), "100 of 6 photos"),
        (("retrieval", "--scores", "x.npy", *OPTIONS[2:], "--shortlist", "2"), "--shortlist: "),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:1]),
)
def test_errors_are_one_line(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str) -> None:
    assert words in error_of(capsys, *arguments)


def test_a_model_with_attention_cannot_score_regions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_small_captioner(Dataset("data", images="images"), tmp_path / "run", settings=replace(SMALL, attention=True))
    assert "(regions)" in error_of(capsys, "regions", "--model", tmp_path / "run", *OPTIONS[2:])
