"""Phrases found in the sample photos by the model that comes with deixis."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import deixis
from deixis import geometry
from deixis.data.dataset import Dataset
from deixis.data.importing import import_dataset
from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError
from deixis.tasks.bundle import Bundle, load
from deixis.tasks.features_of import encode_photos
from deixis.tasks.grounding import ABSENT, Grounded, PointedPhrase, Pointer
from deixis.tasks.pictures.grounded import PhraseBoxes, draw_grounding
from deixis.tasks.pointing import predictions_of

CAT = SAMPLES / "images" / "cat.jpg"


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return load("grounder")


@pytest.fixture(scope="module")
def pointer(bundle: Bundle) -> Pointer:
    return Pointer(bundle)


def test_every_noun_phrase_gets_a_box_within_the_photo(pointer: Pointer) -> None:
    found = pointer.ground(CAT, "A cat with green eyes looks at the camera.")
    assert [phrase.text for phrase in found.phrases] == ["A cat", "green eyes"]
    with Image.open(CAT) as photo:
        assert found.size == photo.size
    for phrase in found.phrases:
        assert found.sentence[slice(*phrase.span)] == phrase.text
        x1, y1, x2, y2 = phrase.box
        assert 0 <= x1 < x2 <= found.size[0] + 0.01
        assert 0 <= y1 < y2 <= found.size[1] + 0.01
        assert 0 < phrase.score <= 1
    assert found.phrases[0].types == ("animals",)


def test_the_model_knows_a_cat_from_what_is_not_there(pointer: Pointer) -> None:
    cat, piano = pointer.ground_all(CAT, ["a cat", "a piano"])
    assert cat.phrases[0].presence is not None
    assert piano.phrases[0].presence is not None
    assert cat.phrases[0].presence > piano.phrases[0].presence + 0.1


def test_most_phrases_of_the_sample_photos_are_found(pointer: Pointer, tmp_path: Path) -> None:
    import_dataset(tmp_path / "data", images=SAMPLES / "images", entities=SAMPLES / "entities", licence="mixed")
    dataset = Dataset(tmp_path / "data")
    hits = []
    for photo in dataset.photos:
        told = pointer.ground_all(dataset.path_of(photo), [caption.text for caption in photo.sentences])
        for caption, found in zip(photo.sentences, told, strict=True):
            gold = {(m.start, m.end): photo.boxes_of(m.chain) for m in caption.mentions if m.chain}
            for phrase in found.phrases:
                if boxes := gold.get(phrase.span):
                    union = geometry.union(np.array([box.xyxy for box in boxes]))
                    hits.append(float(geometry.iou(union[None], np.array([phrase.box]))[0, 0]) >= 0.5)
    assert len(hits) > 30
    assert np.mean(hits) > 0.45


def test_scores_are_those_of_the_store_where_the_photos_are_in_one(bundle: Bundle, tmp_path: Path) -> None:
    """`evaluate grounding --model` and `ground` must not be two opinions."""
    from deixis.evaluation.localization_items import localization_items

    import_dataset(tmp_path / "data", images=SAMPLES / "images", entities=SAMPLES / "entities", licence="mixed")
    dataset = Dataset(tmp_path / "data")
    some = dataset.photos[:1]
    seen = encode_photos(dataset, some, bundle.image_encoder, proposing=bundle.learned.proposing)
    item = localization_items(some)[0]
    prediction = predictions_of(bundle, seen, [item])[0]
    best = prediction.boxes[int(np.argmax(prediction.scores))]
    caption = some[0].captions[item.caption]
    told = Pointer(bundle).ground(dataset.path_of(some[0]), caption.text)
    mine = next(phrase for phrase in told.phrases if phrase.span == item.span)
    np.testing.assert_allclose(mine.box, best, atol=2.0)


def test_a_sentence_without_noun_phrases_points_at_nothing(pointer: Pointer) -> None:
    assert pointer.ground(CAT, "").phrases == ()


def test_the_picture_shows_photo_and_sentence(pointer: Pointer) -> None:
    with Image.open(CAT) as photo:
        drawn = pointer.ground(CAT, "A cat.").drawn(photo.convert("RGB"))
    assert drawn.width >= 900


def test_what_is_absent_is_told_and_not_drawn() -> None:
    photo = Image.new("RGB", (80, 60), "white")
    there, away = (
        PointedPhrase(text, span, ("animals",), (10.0, 10.0, 40.0, 50.0), 0.7, presence)
        for text, span, presence in (("A dog", (0, 5), ABSENT), ("a cat", (10, 15), ABSENT - 0.01))
    )
    found = Grounded("A dog and a cat.", (80, 60), (there, away))
    assert [phrase["absent"] for phrase in found.as_json()["phrases"]] == [False, True]
    expected = draw_grounding(photo, [(found.sentence, [PhraseBoxes(0, 5, (there.box,), ABSENT)])])
    assert found.drawn(photo).tobytes() == expected.tobytes()


def test_in_python_it_is_one_call() -> None:
    found = deixis.ground(CAT, "A cat.")
    assert found.as_json()["phrases"][0]["type"] == "animals"


def test_other_proposals_than_it_learned_from_are_refused(bundle: Bundle) -> None:
    from dataclasses import replace

    other = Bundle(bundle.encoder, None, bundle.model, replace(bundle.learned, proposals_fingerprint="0123"))
    with pytest.raises(DeixisError, match="another version of the proposals head"):
        Pointer(other)
