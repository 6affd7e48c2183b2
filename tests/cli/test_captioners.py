"""`deixis evaluate` of models that write captions: retrieval, regions, reranking, curves and pages, as typed."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.cli.main import _run
from deixis.data.dataset import Dataset
from deixis.evaluation.of_data import regions_of, sentences_of
from deixis.evaluation.retrieval import nearest_photos, recall_at_k
from deixis.evaluation.retrieval import sentences_of as sentences_of_lists
from deixis.models.decoding import Decoding
from deixis.tasks.captions.captioning import CaptionBundle
from deixis.tasks.scores.scoring import seen_by
from tests.tasks.quarters import make_quarters, use_small_encoders
from tests.tasks.writing import SMALL, train_writer

NAMED = ["--model", "m-rnn.model", "--data", "data", "--split", "dev"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos whose quarters have colours, in ./data, and in ./m-rnn.model a model that has learned from them."""
    folder = tmp_path_factory.mktemp("captioners")
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_small_encoders(monkeypatch)
        train_writer(make_quarters(folder, 18), folder / "m-rnn.model")
    return folder


@pytest.fixture(autouse=True)
def _here(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    use_small_encoders(monkeypatch)


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict:
    assert _run(["evaluate", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert _run(["evaluate", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


def test_gold_regions_ask_the_model_for_their_phrases(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "regions", *NAMED)
    dataset, bundle = Dataset("data"), CaptionBundle.load("m-rnn.model")
    dev = dataset.split("dev")
    gold, seen = regions_of(dev), seen_by(bundle.encoder, dataset, dev)
    boxes = np.array(gold.boxes)
    scores = np.zeros((len(boxes), len(gold.phrases)))
    likely = bundle.model.prepare_text(list(gold.phrases)).alone.numpy()
    for region, photo in enumerate(gold.photo_of_region):
        [vector] = seen.region_vectors(dev.ids[photo], boxes[region : region + 1])
        words = bundle.model.log_probabilities(np.tile(vector, (len(gold.phrases), 1)), gold.phrases)
        scores[region] = [each.sum() for each in words] - likely
    ranks = []
    said = {
        region: {gold.phrases[phrase] for of, phrase in gold.positives if of == region} for region in range(len(boxes))
    }
    for region, row in enumerate(scores):
        right = np.array([phrase in said[region] for phrase in gold.phrases])
        ranks.append(1 + int((row[~right] >= row[right].max() - 1e-6).sum()))
    assert found["r1"] == pytest.approx(100 * np.mean(np.array(ranks) == 1))
    assert found["medr"] == pytest.approx(np.median(ranks))
    assert found["n"] == 6


def test_a_matrix_is_kept_and_scores_alike_another_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "matrix.npy"
    first = answer(capsys, "retrieval", *NAMED, "--out", kept)
    again = answer(capsys, "retrieval", "--scores", kept, *NAMED[2:])
    assert {name: first[name] for name in ("i2t_r1", "t2i_medr")} == {
        name: again[name] for name in ("i2t_r1", "t2i_medr")
    }
    assert np.load(kept).shape == (6, 12)


def test_the_curve_has_shortlists_of_near_photos(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept, curve = tmp_path / "matrix.npy", tmp_path / "curve.csv"
    found = answer(capsys, "retrieval", *NAMED, "--out", kept, "--curve", curve, "--shortlist", 3)
    dataset, bundle = Dataset("data"), CaptionBundle.load("m-rnn.model")
    gold = sentences_of(dataset.split("dev"))
    vectors = seen_by(bundle.encoder, dataset, dataset.split("dev")).vectors()
    lists = sentences_of_lists(list(nearest_photos(vectors, 3)), gold.photo_of_sentence)
    expected = recall_at_k(np.load(kept), gold.photo_of_sentence, i2t_shortlists=lists)
    assert found["i2t_r1"] == expected.i2t_r1
    with curve.open() as file:
        rows = list(csv.DictReader(file))
    shares = 100 * expected.rankings["i2t"].ranks / 6
    assert float(rows[49]["i2t"]) == pytest.approx(100 * np.mean(shares <= 50), abs=1e-3)


def test_captions_are_reranked_by_training_photos_or_by_an_oracle(capsys: pytest.CaptureFixture[str]) -> None:
    plain = answer(capsys, "captions", *NAMED, "--beam", 10)
    reranked = answer(capsys, "captions", *NAMED, "--rerank", "cider")
    best = answer(capsys, "captions", *NAMED, "--rerank", "cider-oracle")
    assert best["cider_d"] >= max(plain["cider_d"], reranked["cider_d"])
    assert plain["perplexity"] == reranked["perplexity"]
    bundle, dataset = CaptionBundle.load("m-rnn.model"), Dataset("data")
    seen = seen_by(bundle.encoder, dataset, dataset.split("dev"))
    beams = bundle.model.generate(seen.vectors(), Decoding(beam=10, count=10))
    assert len({some[0].text for some in beams}) > 1


def test_a_page_shows_captions_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert _run(["evaluate", "captions", *NAMED, "--rerank", "bleu", "--page", str(page)]) == 0
    err = capsys.readouterr().err
    assert f"{page}: 6 photos with captions, neighbours and scores" in err
    text = page.read_text(encoding="utf-8")
    for words in ("as the model orders them", "after reranking by BLEU", "nearest training photos", "people wrote"):
        assert text.count(words) == 6, words


def test_a_page_changes_no_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = answer(capsys, "captions", *NAMED)
    assert answer(capsys, "captions", *NAMED, "--page", tmp_path / "page.html") == plain
    assert plain["protocol"].endswith("; sentences: a beam of 5")
    assert "a beam of 5" in (tmp_path / "page.html").read_text(encoding="utf-8")
    wide = answer(capsys, "captions", *NAMED, "--beam", 10, "--length-power", 0.5)
    assert wide["protocol"].endswith("; sentences: a beam of 10, by log-probability over words^0.5")
    reordered = answer(capsys, "captions", *NAMED, "--rerank", "cider-oracle")
    assert reordered["protocol"].endswith("; sentences: a beam of 10, put in another order")


def test_a_page_without_neighbours_says_why(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, empty = tmp_path / "page.html", tmp_path / "empty"
    empty.mkdir()
    assert _run(["evaluate", "captions", *NAMED, "--neighbours", str(empty), "--page", str(page)]) == 0
    assert "the page shows no neighbours: " in capsys.readouterr().err
    assert "nearest training photos" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("captions", *NAMED, "--page", "nowhere/page.html"), "--page nowhere/page.html: the folder nowhere does not"),
        (
            ("captions", "--predictions", "x.json", *NAMED[2:], "--rerank", "cider"),
            "--rerank: needs a model that writes",
        ),
        (
            ("captions", *NAMED, "--rerank", "bleu", "--neighbours", "images"),
            "images holds none; make them from your own",
        ),
        (("retrieval", *NAMED, "--curve", "curve.doc"), "--curve curve.doc: ends in .csv for a table"),
        (("retrieval", *NAMED, "--out", "matrix.csv"), "--out matrix.csv: a file that ends in .npy"),
        (("retrieval", *NAMED, "--shortlist", "100"), "a shortlist of 100 cannot be had from 6 photos"),
        (("retrieval", "--scores", "x.npy", *NAMED[2:], "--shortlist", "2"), "--shortlist: needs --model and --data"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:1]),
)
def test_mistakes_are_one_line(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str) -> None:
    assert words in refusal(capsys, *arguments)


def test_a_model_with_attention_refuses_regions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_writer(Dataset("data", images="images"), tmp_path / "run", settings=replace(SMALL, attention=True))
    said = refusal(capsys, "regions", "--model", tmp_path / "run", *NAMED[2:])
    assert "a model with attention looks at the cells of whole photos; it cannot score regions" in said
