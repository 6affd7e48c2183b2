"""The grounder as a model: it points, gives vectors, says what a photo shows, and is saved and opened."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.errors import DeixisError
from deixis.language.vectors import WordVectors
from deixis.models import load_model
from deixis.models.base import Embedder
from deixis.models.grounder import Grounder, GrounderSettings, RegionInputs
from deixis.models.saved import SETTINGS
from deixis.models.text_encoders import LONGEST
from tests.models.test_grounder_inputs import WORDS, regions
from tests.models.test_grounder_network import DEEP, SENTENCE, SMALL

SPANS = [(0, 2), (3, 6)]
KINDS = {
    "dot": SMALL,
    "layers": DEEP,
    "alone": replace(SMALL, context=False),
    "presence": replace(SMALL, other_photos=1.0),
    "bare": replace(SMALL, place=False, whole=False, refine=False),
}


def model_of(settings: GrounderSettings, seed: int = 0) -> Grounder:
    """One whose refiner is not at rest."""
    torch.manual_seed(seed)
    model = Grounder(4, 3, WORDS, settings)
    if model.network.refiner is not None:
        torch.nn.init.normal_(model.network.refiner.change.weight, std=0.2)
    return model


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_each_phrase_has_a_score_and_a_box_for_each_region(settings: GrounderSettings) -> None:
    found = model_of(settings).point(regions(5), SENTENCE, SPANS)
    assert found.scores.shape == (2, 5)
    assert found.boxes.shape == (2, 5, 4)
    assert found.scores.dtype == found.boxes.dtype == np.float32
    assert np.isfinite(found.scores).all()
    assert (found.presence is not None) == bool(settings.other_photos)


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("count", [0, 1])
def test_a_photo_may_have_no_region_or_one(settings: GrounderSettings, count: int) -> None:
    found = model_of(settings).point(regions(count), SENTENCE, SPANS)
    assert found.scores.shape == (2, count)
    assert found.boxes.shape == (2, count, 4)
    if found.presence is not None:
        assert (found.presence == 0).all() == (count == 0)


def test_a_sentence_may_have_no_phrase() -> None:
    assert model_of(SMALL).point(regions(3), SENTENCE, []).scores.shape == (0, 3)


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_regions_with_the_least_score_can_be_left_out(settings: GrounderSettings) -> None:
    photo, model = regions(6), model_of(replace(settings, layers=0, cells=False))
    first = RegionInputs(photo.vectors[:4], photo.boxes[:4], photo.objectness[:4], photo.whole)
    all_, some = (model.point(one, SENTENCE, SPANS) for one in (photo, first))
    np.testing.assert_allclose(all_.scores[:, :4], some.scores, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(all_.boxes[:, :4], some.boxes, rtol=1e-5, atol=1e-6)


def test_phrases_beyond_the_longest_sentence_are_read_alone() -> None:
    model, photo = model_of(SMALL), regions(4)
    sentence = ["a"] * LONGEST + ["dog", "and", "cat"]
    found = model.point(photo, sentence, [(LONGEST, LONGEST + 1), (0, 1), (LONGEST + 2, LONGEST + 3)])
    alone = [model.point(photo, [word], [(0, 1)]).scores[0] for word in ("dog", "cat")]
    np.testing.assert_allclose(found.scores[[0, 2]], alone, rtol=1e-5)


def test_all_unknown_words_say_the_same() -> None:
    model, photo = model_of(SMALL), regions(4)
    one, other = (model.point(photo, ["a", word], [(0, 2)]).scores for word in ("zyzzyva", "quokka"))
    assert np.array_equal(one, other)
    assert not np.allclose(one, model.point(photo, ["a", "dog"], [(0, 2)]).scores)


def test_vectors_give_the_scores_of_phrases_that_are_read_alone() -> None:
    model, photos = model_of(SMALL), [regions(4, 0), regions(0, 1), regions(2, 2)]
    assert isinstance(model, Embedder)
    visual, text = model.prepare_visual(photos), model.prepare_text(["a dog", ["a", "red", "cat"], "!"])
    assert visual.shape == (6, model.dimension)
    assert text.shape == (3, model.dimension)
    scores = model.scores(visual, text)
    expected = [
        model.point(photos[2], words, [(0, len(words))]).scores[0] for words in (["a", "dog"], ["a", "red", "cat"])
    ]
    np.testing.assert_allclose(scores[4:, :2].T, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(model.prepare_visual(photos[0]), visual[:4])


def test_nothing_has_no_vectors() -> None:
    model = model_of(SMALL)
    assert model.prepare_visual([]).shape == model.prepare_text([]).shape == (0, model.dimension)


def test_with_layers_that_never_read_a_phrase_alone_there_are_no_vectors() -> None:
    model = model_of(DEEP)
    for prepare, given in ((model.prepare_visual, [regions(2)]), (model.prepare_text, ["a dog"])):
        with pytest.raises(DeixisError, match="layers=2: regions and words are looked at together"):
            prepare(given)  # type: ignore[operator]


def test_with_layers_vectors_are_those_that_learned_from_phrases_read_alone() -> None:
    model, photo = model_of(replace(DEEP, other_photos=0.3)), regions(4)
    model.network.together.matching.phrase.weight.data.mul_(100)  # type: ignore[union-attr]
    best = model.scores(model.prepare_visual(photo), model.prepare_text(["a dog"])).max(axis=0)
    presence = model.point(photo, ["a", "dog"], [(0, 2)]).presence
    np.testing.assert_allclose(model.presence(best), presence, rtol=1e-5)


def test_a_higher_score_is_more_likely_there() -> None:
    model = model_of(KINDS["presence"])
    found = model.presence(np.linspace(-5, 5, 11))
    assert (np.diff(found) > 0).all()
    assert found[5] == 0.5  # before training
    photo = regions(4)
    best = model.scores(model.prepare_visual(photo), model.prepare_text(["a dog"])).max(axis=0)
    np.testing.assert_allclose(model.point(photo, ["a", "dog"], [(0, 2)]).presence, model.presence(best), rtol=1e-5)


def test_presence_is_of_the_phrase_whatever_the_sentence_says() -> None:
    model, photo = model_of(KINDS["presence"]), regions(3)
    alone = model.point(photo, ["a", "dog"], [(0, 2)]).presence
    within = model.point(photo, ["no", "cat", "sees", "a", "dog"], [(3, 5)]).presence
    np.testing.assert_allclose(within, alone, rtol=1e-5)


def test_a_model_that_has_not_learned_presence_says_so() -> None:
    with pytest.raises(DeixisError, match="other_photos=0: the model has not learned"):
        model_of(SMALL).presence([0.3])


def test_pointing_does_not_end_training() -> None:
    model = model_of(SMALL)
    model.network.train()
    model.point(regions(2), SENTENCE, SPANS)
    assert model.network.training


def test_words_can_begin_with_their_vectors() -> None:
    model = model_of(SMALL)
    vectors = WordVectors(np.arange(12, dtype=np.float32).reshape(2, 6), ["dog", "bird"])
    model.start_from(vectors)
    assert model.network.reader.words.weight[1].tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(DeixisError, match="word_size=6: the word vectors have 2 numbers; set word_size=2"):
        model.start_from(WordVectors(np.eye(2, dtype=np.float32), ["dog", "cat"]))


def test_features_of_another_encoder_are_one_clear_line() -> None:
    with pytest.raises(DeixisError, match=r"regions of 5 numbers in a photo of 3: the model learned from 4 and 3"):
        model_of(SMALL).point(regions(2, channels=5), SENTENCE, SPANS)


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_what_is_saved_says_the_same_when_it_is_opened(settings: GrounderSettings, tmp_path: Path) -> None:
    model = model_of(settings)
    model.save(tmp_path / "made")
    opened = load_model(tmp_path / "made")
    assert isinstance(opened, Grounder)
    assert opened.settings == settings
    assert opened.vocabulary == WORDS
    ours, theirs = (one.point(regions(5), SENTENCE, SPANS) for one in (opened, model))
    assert np.array_equal(ours.scores, theirs.scores)
    assert np.array_equal(ours.boxes, theirs.boxes)


@pytest.mark.parametrize("changes", [{"dimension": 10**9}, {"colour": 1}, {"layers": -1}])
def test_settings_that_cannot_be_right_are_one_clear_line(tmp_path: Path, changes: dict[str, int]) -> None:
    model_of(SMALL).save(tmp_path / "made")
    path = tmp_path / "made" / SETTINGS
    document = json.loads(path.read_text())
    document["settings"]["settings"] |= changes
    path.write_text(json.dumps(document))
    with pytest.raises(DeixisError) as refusal:
        Grounder.load(tmp_path / "made")
    assert "\n" not in str(refusal.value)
