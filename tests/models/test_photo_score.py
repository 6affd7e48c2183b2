"""Scores of captions by their photos."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import deixis
from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError
from deixis.language.sentence import Sentence
from deixis.models.photo_score import ScoreWeights, score_captions, shipped_scorer

IMAGES = SAMPLES / "images"
RIGHT = {
    "bee": "A bee on a flower.",
    "cat": "A cat looks up.",
    "coffee": "A cup of coffee with a spoon.",
    "dogs": "Two brown dogs look out of a window.",
    "mountains": "A path leads to rocky mountains.",
    "rocket": "A tall rocket stands under a dark sky.",
}
PHOTOS = [IMAGES / f"{name}.jpg" for name in RIGHT]


@pytest.fixture(scope="module")
def matrix() -> np.ndarray:
    """Scores of all photos (rows) and captions (columns)."""
    photos = [photo for photo in PHOTOS for _ in RIGHT]
    return deixis.photo_score(photos, [*RIGHT.values()] * len(PHOTOS)).reshape(len(PHOTOS), -1)


def test_every_caption_scores_highest_with_its_own_photo(matrix: np.ndarray) -> None:
    assert matrix.argmax(axis=0).tolist() == matrix.argmax(axis=1).tolist() == list(range(len(RIGHT)))
    assert ((matrix > 0) & (matrix < 1)).all()
    assert np.diag(matrix).mean() > 0.5 > matrix[~np.eye(len(RIGHT), dtype=bool)].mean()


def test_a_score_is_a_probability_computed_from_similarities_of_caption_phrases_and_regions() -> None:
    photo, caption, weights = IMAGES / "dogs.jpg", "Two brown dogs look out of a window.", ScoreWeights.load()
    whole, regions = deixis.load("two-branch"), deixis.load("grounder")
    phrases = [phrase.text for phrase in Sentence(caption).phrases]
    image = whole.encode_images([photo])
    proposed = regions.propose(photo)
    boxes = proposed.proposals.boxes[:20]
    from deixis.models.base import RegionInputs

    inputs = RegionInputs(
        proposed.features.regions(boxes),
        boxes / np.tile(proposed.features.size, 2),
        proposed.proposals.scores[:20],
        proposed.features.whole,
    )
    found = regions.compare(regions.encode_regions(inputs), regions.encode_phrases(phrases))
    of_photo = [float(image[0] @ whole.encode_sentences([phrase])[0]) for phrase in phrases]
    of_regions = [float(max(found[:, column])) for column in range(len(phrases))]
    features = [float(image[0] @ whole.encode_sentences([caption])[0])]
    features += [sum(of_photo) / len(phrases), max(of_photo), sum(of_regions) / len(phrases), max(of_regions)]
    logit = sum(w * f for w, f in zip(weights.photo.weights, [1, *features], strict=True))
    assert deixis.photo_score(photo, caption) == pytest.approx(1 / (1 + np.exp(-logit)), abs=1e-3)

    references = ["Dogs at a window.", "A pair of animals in a house."]
    ours = whole.encode_sentences([caption, *phrases])
    theirs = whole.encode_sentences(references)
    parts = whole.encode_sentences([phrase.text for text in references for phrase in Sentence(text).phrases])
    features += [
        max(float(ours[0] @ each) for each in theirs),
        float(np.mean([max(float(phrase @ each) for each in parts) for phrase in ours[1:]])),
    ]
    logit = sum(w * f for w, f in zip(weights.references.weights, [1, *features], strict=True))
    score = deixis.ref_photo_score(photo, caption, references)
    assert score == pytest.approx(1 / (1 + np.exp(-logit)), abs=1e-3)


def test_a_wrong_noun_and_an_unknown_word_lower_the_score() -> None:
    names = list(RIGHT)
    wrong = [RIGHT[name].replace(name.rstrip("s"), "umbrella") for name in names]
    unknown = [RIGHT[name].replace(name.rstrip("s"), "blorf") for name in names]
    changed = [index for index, name in enumerate(names) if wrong[index] != RIGHT[name]]
    own, others, strange = (deixis.photo_score(PHOTOS, texts) for texts in (list(RIGHT.values()), wrong, unknown))
    assert len(changed) >= 4
    assert (own > others)[changed].all()
    assert (own > strange)[changed].all()


def test_references_that_agree_raise_the_score_and_others_lower_it() -> None:
    photo, caption = IMAGES / "coffee.jpg", "A drink on a table."
    agree = deixis.ref_photo_score(photo, caption, ["A beverage on a table.", "A cup."])
    disagree = deixis.ref_photo_score(photo, caption, ["A man rides a horse.", "Two trains."])
    assert agree > disagree


def test_a_caption_without_words_scores_0() -> None:
    assert deixis.photo_score(IMAGES / "cat.jpg", " ... ") == 0
    assert deixis.ref_photo_score(IMAGES / "cat.jpg", "", ["A cat."]) == 0


def test_a_photo_is_encoded_once_however_often_it_occurs(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = []
    scorer, propose = shipped_scorer(), shipped_scorer().region_model.propose_batch

    def count(photos: Sequence[object]) -> object:
        encoded.extend(photos)
        return propose(photos)

    monkeypatch.setattr(scorer.region_model, "propose_batch", count)
    cat, bee = IMAGES / "cat.jpg", IMAGES / "bee.jpg"
    found = score_captions([cat, bee, str(cat)], ["A cat.", "A bee.", "A cat."])
    assert encoded == [cat, bee]
    assert found[0] == found[2] != found[1]


def test_an_open_image_scores_like_its_file() -> None:
    path = IMAGES / "cat.jpg"
    with Image.open(path) as image:
        score = deixis.photo_score(image.convert("RGB"), "A cat.")
    assert score == pytest.approx(deixis.photo_score(path, "A cat."), abs=0.02)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: deixis.photo_score(PHOTOS[:2], ["A cat."]), "caption"),
        (lambda: deixis.photo_score(PHOTOS[0], ["A cat."]), "caption"),  # type: ignore[call-overload]
        (lambda: deixis.photo_score("nowhere.jpg", "A cat."), "nowhere.jpg"),
        (lambda: deixis.ref_photo_score(PHOTOS[0], "A cat.", "A cat."), "references"),
        (lambda: deixis.ref_photo_score(PHOTOS[0], "A cat.", []), "references"),
        (lambda: deixis.ref_photo_score(PHOTOS[:2], ["a", "b"], [["A cat."]]), "references"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[], object], word: str) -> None:
    with pytest.raises(DeixisError, match=word):
        call()


def test_weights_of_another_number_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "weights.json"
    file.write_text(json.dumps({"fingerprint": "x", "photo": [1, 2], "references": [1]}))
    with pytest.raises(DeixisError, match=r"weights\.json"):
        ScoreWeights.load(file)
