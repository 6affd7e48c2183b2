"""`deixis evaluate captions --photo-score` and `deixis evaluate pairs`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau

import deixis
from deixis.data.dataset import Dataset
from deixis.data.samples import SAMPLES
from tests.cli.conftest import Command

IMAGES = SAMPLES / "images"
PAIRS = [
    ("bee.jpg", "A bee on a flower.", 4),
    ("bee.jpg", "A yellow flower.", 3),
    ("bee.jpg", "A train at a station.", 1),
    ("cat.webp", "A cat looks up.", 4),  # another ending than the file has
    ("cat.webp", "A dog in the snow.", 1),
    ("coffee", "A cup of coffee.", 4),
    ("coffee", "Two men play football.", 1),
]


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_captions_are_scored_by_their_photos_on_request(samples: Path, command: Command) -> None:
    dataset = Dataset(samples)
    captions = [photo.captions[0].text for photo in dataset.photos]
    for name, texts in (("own.json", captions), ("other.json", captions[1:] + captions[:1])):
        results = [{"image_id": photo.id, "caption": text} for photo, text in zip(dataset.photos, texts, strict=True)]
        Path(name).write_text(json.dumps(results))
    arguments = ("evaluate", "captions", "--predictions", "own.json", "--data", samples)
    found = command.json(*arguments, "--photo-score", "--against", "other.json")
    photos = [dataset.path_of(photo) for photo in dataset.photos]
    references = [[caption.text for caption in photo.sentences] for photo in dataset.photos]
    assert found["photo_score"] == pytest.approx(100 * deixis.photo_score(photos, captions).mean(), abs=0.5)
    with_references = 100 * deixis.ref_photo_score(photos, captions, references).mean()
    assert found["ref_photo_score"] == pytest.approx(with_references, abs=0.5)
    for name in ("photo_score", "ref_photo_score"):
        assert found["interval"][name][0] <= found[name] <= found["interval"][name][1]
        assert found["difference"][name]["difference"] > 10
    assert "photo_score" not in command.json(*arguments)


def test_pairs_of_a_csv_file_are_scored_and_compared_with_ratings(command: Command) -> None:
    lines = ["image,caption,rating", *(f'{photo},"{caption}",{rating}' for photo, caption, rating in PAIRS)]
    Path("pairs.csv").write_text("\n".join(lines))
    found = command.json("evaluate", "pairs", "pairs.csv", "--images", IMAGES, "--out", "scores.csv")
    paths = [IMAGES / f"{Path(photo).stem}.jpg" for photo, _, _ in PAIRS]
    scores = deixis.photo_score(paths, [caption for _, caption, _ in PAIRS])
    assert (found["n"], found["photos"]) == (7, 3)
    assert found["photo_score"] == pytest.approx(100 * scores.mean(), abs=1e-3)
    assert [pair["photo_score"] for pair in found["pairs"]] == pytest.approx(scores.tolist(), abs=1e-5)
    tau = kendalltau(scores, [rating for _, _, rating in PAIRS], variant="c").statistic
    assert found["photo_score_tau_c"] == pytest.approx(100 * tau, abs=1e-6)
    low, high = found["interval"]["photo_score_tau_c"]
    assert low <= high <= 100.001
    assert "ref_photo_score" not in found
    with Path("scores.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["photo_score"]) for row in rows] == pytest.approx(scores.tolist(), abs=1e-5)
    assert rows[0]["rating"] == "4.0"


def test_references_come_from_the_data_set_or_the_file_but_never_the_caption_itself(
    samples: Path, command: Command
) -> None:
    dataset = Dataset(samples)
    photo = next(photo for photo in dataset.photos if photo.id == "bee")
    own = photo.captions[0].text
    Path("pairs.jsonl").write_text(json.dumps({"photo": "bee.jpg", "text": own}))
    [pair] = command.json("evaluate", "pairs", "pairs.jsonl", "--data", samples)["pairs"]
    others = [caption.text for caption in photo.sentences if caption.text != own]
    expected = deixis.ref_photo_score(dataset.path_of(photo), own, others)
    assert pair["ref_photo_score"] == pytest.approx(expected, abs=1e-5)
    Path("pairs.jsonl").write_text(json.dumps({"photo": "bee.jpg", "text": own, "references": others[:1]}))
    [pair] = command.json("evaluate", "pairs", "pairs.jsonl", "--images", IMAGES)["pairs"]
    expected = deixis.ref_photo_score(dataset.path_of(photo), own, others[:1])
    assert pair["ref_photo_score"] == pytest.approx(expected, abs=1e-5)
    out, _ = command("evaluate", "pairs", "pairs.jsonl", "--images", IMAGES, "--out", "scores.jsonl")
    assert "ref_photo_score" in out
    assert np.isfinite(json.loads(Path("scores.jsonl").read_text())["ref_photo_score"])


def test_captions_in_a_table_are_no_formulas(command: Command) -> None:
    Path("pairs.csv").write_text('image,caption\ncat.jpg,"=1+1 cats"')
    command("evaluate", "pairs", "pairs.csv", "--images", IMAGES, "--out", "scores.csv")
    with Path("scores.csv").open(newline="") as file:
        assert [row["caption"] for row in csv.DictReader(file)] == ["'=1+1 cats"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("image,caption\nnobody.jpg,A cat.", "nobody.jpg"),
        ("image,caption\ncat.jpg", "line 2"),
        ("image\ncat.jpg", "caption"),
        ("image,caption,rating\ncat.jpg,A cat.,good", "rating"),
        ('{"image": "cat.jpg", "caption": "A cat.", "references": "A cat."}', "references"),
        ('{"image": "cat.jpg"', "line 1"),
        ("image,caption\n", "pairs.txt"),
    ],
)
def test_errors_name_the_line_or_the_photo(command: Command, text: str, word: str) -> None:
    Path("pairs.txt").write_text(text)
    assert word in command.error("evaluate", "pairs", "pairs.txt", "--images", IMAGES)
