"""The grounder as a model: scores and boxes, vectors, presence, saving and loading."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis import geometry
from deixis.errors import DeixisError
from deixis.models.base import Embedder
from deixis.models.grounder.model import Grounder, vote
from deixis.models.grounder.network import BoxRefiner
from deixis.models.grounder.spec import GrounderSettings
from deixis.models.inputs import MAX_WORDS
from deixis.models.region_inputs import RegionInputs
from tests.models.grounder.test_inputs import WORDS, regions
from tests.models.grounder.test_network import DEEP, SENTENCE, SMALL

SPANS = [(0, 2), (3, 6)]
KINDS = {
    "dot": SMALL,
    "layers": DEEP,
    "alone": replace(SMALL, sentence_context=False),
    "presence": replace(SMALL, presence_weight=1.0),
    "sets": replace(SMALL, sets_weight=1.0),
    "everything": replace(DEEP, presence_weight=0.3, sets_weight=0.5),
    "bare": replace(SMALL, use_location=False, global_context=False, refine_boxes=False, sets_weight=0.5),
}


def model_of(settings: GrounderSettings, seed: int = 0) -> Grounder:
    """A model whose refiners have random weights."""
    torch.manual_seed(seed)
    model = Grounder(4, 3, WORDS, settings)
    for refiner in (module for module in model.network.modules() if isinstance(module, BoxRefiner)):
        torch.nn.init.normal_(refiner.offsets.weight, std=0.2)
    return model


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_each_phrase_has_a_score_and_a_box_for_each_region(settings: GrounderSettings) -> None:
    found = model_of(settings).ground(regions(5), SENTENCE, SPANS)
    assert found.scores.shape == (2, 5)
    assert found.boxes.shape == (2, 5, 4)
    assert found.scores.dtype == found.boxes.dtype == np.float32
    assert np.isfinite(found.scores).all()
    assert (found.presence is not None) == bool(settings.presence_weight)
    assert (found.members is not None) == (found.member_boxes is not None) == bool(settings.sets_weight)
    if found.members is not None and found.member_boxes is not None:
        assert found.members.shape == (2, 5)
        assert ((found.members > 0) & (found.members < 1)).all()
        assert found.member_boxes.shape == (2, 5, 4)
        assert np.allclose(found.member_boxes, found.boxes) != settings.refine_boxes  # another refiner


def test_the_box_of_a_phrase_is_the_mean_of_the_boxes_that_agree_with_the_best() -> None:
    rng = np.random.default_rng(0)
    corners = np.sort(rng.uniform(size=(6, 40, 2, 2)), axis=2)  # (phrases, regions, begin and end, x and y)
    boxes, scores = corners.reshape(6, 40, 4), rng.normal(size=(6, 40)) * 2
    expected, used = [], 0
    for phrase in range(6):
        best = int(scores[phrase].argmax())
        near = [k for k in range(40) if geometry.iou(boxes[phrase, best], boxes[phrase, k])[0, 0] >= 0.5]
        weights = [np.exp(scores[phrase, k]) for k in near]
        expected.append(np.average(boxes[phrase, near], axis=0, weights=weights))
        used += len(near)
    assert 6 < used < 240, "some boxes agree and others do not"
    np.testing.assert_allclose(vote(scores, boxes), expected)
    assert np.array_equal(vote(np.zeros((1, 2)), np.zeros((1, 2, 4))), np.zeros((1, 4))), "of empty boxes"


def test_only_the_best_box_of_a_phrase_is_voted(monkeypatch: pytest.MonkeyPatch) -> None:
    model, photo = model_of(SMALL), regions(4)
    photo.boxes[:] = [[0.1, 0.1, 0.5, 0.5], [0.12, 0.1, 0.5, 0.5], [0.1, 0.12, 0.5, 0.52], [0.1, 0.1, 0.5, 0.48]]
    found = model.ground(photo, SENTENCE, SPANS)
    best = [0, 1], found.scores.argmax(axis=1)
    monkeypatch.setattr("deixis.models.grounder.model.vote", lambda _, boxes: boxes[best])
    plain = model.ground(photo, SENTENCE, SPANS).boxes
    np.testing.assert_allclose(found.boxes[best], vote(found.scores, plain), rtol=1e-5)
    assert (np.abs(found.boxes - plain).max(axis=2) > 1e-4).sum(axis=1).tolist() == [1, 1]


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("count", [0, 1])
def test_a_photo_can_have_no_region_or_one(settings: GrounderSettings, count: int) -> None:
    found = model_of(settings).ground(regions(count), SENTENCE, SPANS)
    assert found.scores.shape == (2, count)
    assert found.boxes.shape == (2, count, 4)
    if found.presence is not None:
        assert (found.presence == 0).all() == (count == 0)


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_without_layers_regions_do_not_affect_each_other(settings: GrounderSettings) -> None:
    photo, model = regions(6), model_of(replace(settings, num_layers=0, use_feature_map=False))
    first = RegionInputs(photo.vectors[:4], photo.boxes[:4], photo.objectness[:4], photo.whole)
    all_, some = (model.ground(one, SENTENCE, SPANS) for one in (photo, first))
    np.testing.assert_allclose(all_.scores[:, :4], some.scores, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(all_.boxes[:, :4], some.boxes, rtol=1e-5, atol=1e-6)


def test_vectors_give_the_scores_of_phrases_alone() -> None:
    model, photos = model_of(SMALL), [regions(4, 0), regions(0, 1), regions(2, 2)]
    assert isinstance(model, Embedder)
    visual, text = model.prepare_visual(photos), model.prepare_text(["a dog", ["a", "red", "cat"], "!"])
    assert visual.shape == (6, model.dimension)
    assert text.shape == (3, model.dimension)
    scores = model.scores(visual, text)
    expected = [
        model.ground(photos[2], words, [(0, len(words))]).scores[0] for words in (["a", "dog"], ["a", "red", "cat"])
    ]
    np.testing.assert_allclose(scores[4:, :2].T, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.prepare_visual(photos[0]), visual[:4], rtol=1e-4, atol=1e-5)


def test_empty_input_gives_no_scores_and_no_vectors() -> None:
    model = model_of(SMALL)
    assert model.ground(regions(3), SENTENCE, []).scores.shape == (0, 3)
    assert model.prepare_visual([]).shape == model.prepare_text([]).shape == (0, model.dimension)


def test_with_layers_and_without_presence_there_are_no_vectors() -> None:
    model = model_of(DEEP)
    for prepare, features in ((model.prepare_visual, [regions(2)]), (model.prepare_text, ["a dog"])):
        with pytest.raises(DeixisError, match="num_layers=2"):
            prepare(features)  # type: ignore[operator]


def test_with_layers_and_presence_vectors_are_those_of_phrases_alone() -> None:
    model, photo = model_of(replace(DEEP, presence_weight=0.3)), regions(4)
    model.network.fusion.matching.phrase.weight.data.mul_(100)  # type: ignore[union-attr]
    best = model.scores(model.prepare_visual(photo), model.prepare_text(["a dog"])).max(axis=0)
    presence = model.ground(photo, ["a", "dog"], [(0, 2)]).presence
    np.testing.assert_allclose(model.presence_probability(best), presence, rtol=1e-5)


def test_presence_increases_with_the_score() -> None:
    model = model_of(KINDS["presence"])
    found = model.presence_probability(np.linspace(-5, 5, 11))
    assert (np.diff(found) > 0).all()
    assert found[5] == 0.5  # before training
    photo = regions(4)
    best = model.scores(model.prepare_visual(photo), model.prepare_text(["a dog"])).max(axis=0)
    np.testing.assert_allclose(
        model.ground(photo, ["a", "dog"], [(0, 2)]).presence, model.presence_probability(best), rtol=1e-5
    )


def test_presence_does_not_depend_on_the_sentence() -> None:
    model, photo = model_of(KINDS["presence"]), regions(3)
    alone = model.ground(photo, ["a", "dog"], [(0, 2)]).presence
    within = model.ground(photo, ["no", "cat", "sees", "a", "dog"], [(3, 5)]).presence
    np.testing.assert_allclose(within, alone, rtol=1e-5)


def test_a_model_without_presence_raises_an_error() -> None:
    with pytest.raises(DeixisError, match="presence_weight=0"):
        model_of(SMALL).presence_probability([0.3])


def test_features_of_another_encoder_raise_an_error() -> None:
    with pytest.raises(DeixisError, match="features of 5"):
        model_of(SMALL).ground(regions(2, channels=5), SENTENCE, SPANS)


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_a_model_survives_saving_and_loading(settings: GrounderSettings, tmp_path: Path) -> None:
    model = model_of(settings)
    model.save(tmp_path / "made")
    opened = Grounder.load(tmp_path / "made")
    assert opened.settings == settings
    assert opened.vocabulary == WORDS
    assert_equal_outputs(opened, model)
    assert opened.functions._module is None  # computed by ONNX Runtime
    opened.network.train()
    assert_equal_outputs(opened, model)  # computed by torch


def assert_equal_outputs(one: Grounder, other: Grounder) -> None:
    """Compare two models on photos and sentences of all sizes."""
    long = ["a"] * MAX_WORDS + ["dog"]  # the second phrase is encoded alone
    inputs = [(5, SENTENCE, SPANS), (1, ["cat"], [(0, 1)]), (9, long, [(0, 2), (MAX_WORDS, MAX_WORDS + 1)])]
    for count, words, spans in inputs:
        photo = regions(count)
        ours, theirs = (model.ground(photo, words, spans) for model in (one, other))
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ours.boxes, theirs.boxes, rtol=1e-4, atol=1e-5)
        if theirs.members is not None:
            np.testing.assert_allclose(ours.members, theirs.members, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(ours.member_boxes, theirs.member_boxes, rtol=1e-4, atol=1e-5)
        if theirs.presence is not None:
            np.testing.assert_allclose(ours.presence, theirs.presence, rtol=1e-4, atol=1e-5)
        if one.settings.presence_weight or not one.settings.num_layers:
            np.testing.assert_allclose(one.prepare_visual(photo), other.prepare_visual(photo), rtol=1e-4, atol=1e-5)
    if one.settings.presence_weight or not one.settings.num_layers:
        for texts in (["a dog", "cat", "a red cat and a dog"], ["dog"], ["a cat"] * 2000):
            np.testing.assert_allclose(one.prepare_text(texts), other.prepare_text(texts), rtol=1e-4, atol=1e-5)
