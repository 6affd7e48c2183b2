"""`deixis match`: the best sentences for a photo, from a file or a data set, by any model; errors."""

from __future__ import annotations

from pathlib import Path

import pytest

import deixis
from tests.cli.conftest import Command
from tests.models.quarters import make_quarters

SENTENCES = ["A rocket flies to the moon .", "Two dogs run on the grass .", "A plate of sushi on a table ."]


@pytest.fixture
def photo() -> Path:
    return next(iter(sorted((Path(deixis.__file__).parent / "data" / "samples" / "images").glob("*.*"))))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join([*SENTENCES, "", SENTENCES[0]]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("model", ["two-branch", "captioner"])
def test_sentences_are_ranked_by_the_scores_of_the_model(model: str, photo: Path, file: Path, command: Command) -> None:
    document = command.json("match", photo, "--sentences", file, "--model", model)
    assert document["photo"] == str(photo)
    assert ("log" if model == "captioner" else "similarity") in document["score"]
    found = document["sentences"]
    assert sorted(each["text"] for each in found) == sorted(SENTENCES), "a repeated sentence is listed once"
    scores = [each["score"] for each in found]
    assert scores == sorted(scores, reverse=True)
    opened = deixis.load(model)
    assert [text for text, _ in opened.match(photo, SENTENCES, top=2)] == [each["text"] for each in found[:2]]
    if model == "two-branch":
        plain = opened.similarity(opened.encode_images([photo]), opened.encode_sentences(SENTENCES))[0]
        assert found[0]["text"] == SENTENCES[int(plain.argmax())]


def test_sentences_of_a_data_set_and_their_number(photo: Path, tmp_path: Path, command: Command) -> None:
    make_quarters(tmp_path, 6)
    out, err = command("match", photo, "--sentences", tmp_path / "data", "--split", "dev", "--top", 3)
    assert len(out.splitlines()) == 3
    assert err.startswith("score: similarity to the photo")
    assert all("square" in line or "corner" in line for line in out.splitlines())
