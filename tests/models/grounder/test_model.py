"""The grounder as a model: scores and boxes, vectors, presence, saving and loading."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from deixis import geometry
from deixis.errors import DeixisError
from deixis.evaluation.box_sets import set_f1
from deixis.language.vocabulary import Vocabulary
from deixis.models.base import MAX_WORDS, Embedder, RegionInputs
from deixis.models.grounder.model import (
    BoxSetSettings,
    Grounder,
    RegionMembers,
    cell_arrays,
    fit_box_sets,
    make_text_inputs,
    to_word_spans,
    vote,
)
from deixis.models.grounder.network import BoxRefiner, RegionBatch, TextBatch
from deixis.models.grounder.spec import GrounderSettings
from deixis.runtime import Functions
from deixis.tokens import tokenize, words
from tests.models.grounder.test_network import DEEP, SENTENCE, SMALL, WORDS, regions

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


def test_a_long_list_of_things_takes_no_more_memory_than_a_long_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query of 120 words took 400 MB: each phrase beyond the longest sentence was padded to a hundred phrases."""
    model, photo, words = model_of(KINDS["everything"]), regions(4), ["dog"] * (MAX_WORDS + 5)
    call, phrases = Functions.__call__, []

    def counted(self: Functions, function: str, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        if function == "ground":
            phrases.append(arrays[6].shape[0] * arrays[6].shape[1])
        return call(self, function, *arrays)

    monkeypatch.setattr(Functions, "__call__", counted)
    found = model.ground(photo, words, [(word, word + 1) for word in range(len(words))])
    assert phrases == [MAX_WORDS, 2, 2, 1]
    alone = model.ground(photo, ["dog"], [(0, 1)])
    np.testing.assert_allclose(found.scores[MAX_WORDS:], np.repeat(alone.scores, 5, axis=0), rtol=1e-4, atol=1e-5)
    assert found.members is not None
    assert alone.members is not None
    np.testing.assert_allclose(found.members[MAX_WORDS:], np.repeat(alone.members, 5, axis=0), rtol=1e-4, atol=1e-5)


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
    for count, text, spans in inputs:
        photo = regions(count)
        ours, theirs = (model.ground(photo, text, spans) for model in (one, other))
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


def test_a_batch_keeps_the_regions_of_each_photo() -> None:
    photos = [regions(2, 0), regions(0, 1), regions(5, 2)]
    batch = RegionBatch.collate(photos, cells=True)
    assert batch.vectors.shape == (3, 5, 4)
    assert batch.mask.sum(1).tolist() == [2, 0, 5]
    for row, photo in enumerate(photos):
        np.testing.assert_allclose(batch.vectors[row][batch.mask[row]], photo.vectors, rtol=1e-6)
        np.testing.assert_allclose(batch.boxes[row][batch.mask[row]], photo.boxes, rtol=1e-6)
        np.testing.assert_allclose(batch.whole[row], photo.whole, rtol=1e-6)


def test_cells_are_row_by_row_with_their_centres() -> None:
    photo = regions(1)
    batch = RegionBatch.collate([photo], cells=True)
    assert batch.cells is not None
    assert batch.cell_centres is not None
    assert photo.cells is not None
    np.testing.assert_allclose(batch.cells[0, 4], photo.cells[:, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(batch.cell_centres[0, 4], [0.5, 0.75])


@pytest.mark.parametrize("boxes", [np.zeros((3, 4)), np.zeros((2, 3)), np.zeros(8)])
def test_inconsistent_shapes_raise_an_error(boxes: np.ndarray) -> None:
    with pytest.raises(DeixisError, match="shapes") as refusal:
        RegionInputs(np.zeros((2, 4)), boxes, np.zeros(2), np.zeros(3))
    assert "\n" not in str(refusal.value)


def test_a_missing_feature_map_raises_an_error() -> None:
    photo = RegionInputs(np.zeros((2, 4)), np.zeros((2, 4)), np.zeros(2), np.zeros(3))
    with pytest.raises(DeixisError, match="use_feature_map=true"):
        RegionBatch.collate([photo], cells=True)


def test_phrases_are_encoded_in_their_sentence_or_alone() -> None:
    sentence, spans = ["a", "dog", "and", "a", "red", "cat"], [(0, 2), (3, 6)]
    (together,) = make_text_inputs(sentence, spans)
    assert (together.words, together.spans, together.phrases) == (tuple(sentence), ((0, 2), (3, 6)), (0, 1))
    alone = make_text_inputs(sentence, spans, context=False)
    assert [one.words for one in alone] == [("a", "dog"), ("a", "red", "cat")]
    assert [one.spans for one in alone] == [((0, 2),), ((0, 3),)]


def test_phrases_of_a_batch_can_be_split_from_their_sentences() -> None:
    vocabulary = Vocabulary(("a", "big", "dog", "cat"), (4, 3, 2, 1))
    sentences = [(["a", "dog", "sees", "a", "big", "cat"], [(0, 2), (3, 6)]), (["cat"], [(0, 1)])]
    within, apart = (
        TextBatch.collate(
            [text for sentence in sentences for text in make_text_inputs(*sentence, context=context)], vocabulary
        )
        for context in (True, False)
    )
    alone = within.split_phrases()
    assert alone.lengths.tolist() == apart.lengths.tolist() == [2, 3, 1]
    for ours, theirs, length in zip(alone.words, apart.words, apart.lengths, strict=True):
        assert ours[:length].tolist() == theirs[:length].tolist()
    assert alone.spans.tolist() == apart.spans.tolist()
    assert alone.mask.tolist() == apart.mask.tolist()


def test_phrases_beyond_the_longest_sentence_are_encoded_alone() -> None:
    sentence = ["word"] * (MAX_WORDS - 1) + ["a", "dog", "and", "a", "cat"]
    first, across, beyond = make_text_inputs(
        sentence, [(0, 2), (MAX_WORDS - 1, MAX_WORDS + 1), (MAX_WORDS + 2, MAX_WORDS + 4)]
    )
    assert len(first.words) == MAX_WORDS
    assert (first.phrases, across.phrases, beyond.phrases) == ((0,), (1,), (2,))
    assert (across.words, beyond.words) == (("a", "dog"), ("a", "cat"))
    (endless,) = make_text_inputs(["word"] * 500, [(0, 500)])
    assert endless.spans == ((0, MAX_WORDS),)


def test_a_phrase_without_words_is_an_unknown_word() -> None:
    batch = TextBatch.collate(make_text_inputs(["a", "dog"], [(1, 1)]), WORDS)
    assert batch.words.tolist() == [[len(WORDS)]]


@pytest.mark.parametrize("span", [(-1, 1), (1, 3), (2, 1)])
def test_a_span_outside_the_sentence_raises_an_error(span: tuple[int, int]) -> None:
    with pytest.raises(DeixisError, match="span"):
        make_text_inputs(["a", "dog"], [span])


def test_selected_inputs_have_no_more_padding_than_needed() -> None:
    inputs = [
        *make_text_inputs(["a", "dog", "and", "a", "cat"], [(0, 2), (3, 5)]),
        *make_text_inputs(["a", "dog"], [(1, 2)]),
    ]
    batch = TextBatch.collate(inputs, WORDS)
    assert batch.words.tolist() == [[0, 1, 3, 0, 2], [0, 1, 4, 4, 4]]
    some = batch.select(torch.tensor([1]))
    assert some.words.tolist() == [[0, 1]]
    assert some.spans.tolist() == [[[1, 2]]]


@given(st.text("ab ,.'-", max_size=30), st.integers(0, 30), st.integers(0, 30))
def test_word_spans_cover_the_words_that_a_character_span_touches(text: str, start: int, length: int) -> None:
    tokens = tokenize(text)
    found, (span,) = to_word_spans(tokens, [(start, start + length)])
    assert found == words(tokens)
    if length:
        touched = [token for token in tokens if token.start < start + length and token.end > start]
        assert found[slice(*span)] == words(touched)
    assert 0 <= span[0] <= span[1] <= len(found)


def test_a_feature_map_is_pooled_to_the_grid() -> None:
    cells = np.arange(32, dtype=np.float32).reshape(2, 4, 4)
    photo = RegionInputs(np.ones((1, 2)), np.array([[0, 0, 1, 1]]), np.ones(1), np.ones(2), cells)
    vectors, centres = cell_arrays(photo, 2)
    assert vectors.shape == (4, 2)
    np.testing.assert_allclose(vectors.mean(axis=0), cells.mean(axis=(1, 2)))
    assert np.all(np.diff(vectors[:, 0]) > 0)  # row by row, as in the map
    np.testing.assert_allclose(centres, [[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]])


EVERYTHING = [0, 0, 100, 50]
LEFT, RIGHT = [0, 0, 40, 50], [60, 0, 100, 50]
SETTINGS = BoxSetSettings(min_probability=0.4, max_iou=0.5, max_containment=0.9)


def phrase(*boxes: list[int], probabilities: list[float]) -> RegionMembers:
    return RegionMembers(np.array(EVERYTHING), np.array(boxes, dtype=float).reshape(-1, 4), np.array(probabilities))


def select(*boxes: list[int], probabilities: list[float], settings: BoxSetSettings = SETTINGS) -> list[list[float]]:
    return phrase(*boxes, probabilities=probabilities).select(settings).boxes.tolist()


def test_probable_boxes_are_selected_in_order_of_probability() -> None:
    found = phrase(LEFT, RIGHT, [0, 0, 9, 9], probabilities=[0.6, 0.8, 0.39]).select(SETTINGS)
    assert found.boxes.tolist() == [RIGHT, LEFT]
    assert found.probabilities is not None
    assert found.probabilities.tolist() == [0.8, 0.6]


def test_the_box_around_everything_is_returned_unless_two_boxes_are_selected() -> None:
    assert select(probabilities=[]) == [EVERYTHING]
    assert select(LEFT, RIGHT, probabilities=[0.9, 0.3]) == [EVERYTHING]
    assert select(LEFT, [0, 0, 38, 50], probabilities=[0.9, 0.8]) == [EVERYTHING]  # the same thing twice
    assert phrase(LEFT, probabilities=[0.9]).select(SETTINGS).probabilities is None


def test_no_more_boxes_are_selected_than_the_phrase_says() -> None:
    several = phrase(LEFT, RIGHT, [45, 0, 55, 50], probabilities=[0.9, 0.8, 0.2])
    assert replace(several, count=1).select(SETTINGS).boxes.tolist() == [EVERYTHING]
    assert replace(several, count=2).select(SETTINGS).boxes.tolist() == [LEFT, RIGHT]
    counted = replace(SETTINGS, min_counted=0.1)  # applies to phrases that state a number, and only to them
    assert len(replace(several, count=3).select(counted).boxes) == 3
    assert len(several.select(counted).boxes) == 2


def test_a_box_that_contains_a_more_probable_box_is_left_out() -> None:
    assert select(EVERYTHING, LEFT, RIGHT, probabilities=[0.6, 0.7, 0.8]) == [RIGHT, LEFT]
    assert select(EVERYTHING, LEFT, RIGHT, probabilities=[0.9, 0.7, 0.8]) == [EVERYTHING]
    apart = BoxSetSettings(min_probability=0.4, max_iou=0.5, max_containment=1.1)
    assert select(EVERYTHING, LEFT, RIGHT, probabilities=[0.9, 0.7, 0.8], settings=apart) == [EVERYTHING, RIGHT, LEFT]


def test_the_fitted_settings_select_the_gold_boxes() -> None:
    """Things have probabilities around 0.25, other regions around 0.15; a thing may be inside another."""
    rng, inner, gold = np.random.default_rng(0), [5, 5, 25, 25], np.array([LEFT, [5, 5, 25, 25], RIGHT])
    examples = []
    for _ in range(40):
        chances = np.array([0.25, 0.25, 0.25, 0.15, 0.15]) + rng.uniform(-0.04, 0.04, 5)
        boxes = LEFT, inner, RIGHT, EVERYTHING, [45, 0, 55, 50]
        examples.append((phrase(*boxes, probabilities=chances.tolist()), gold))
    assert np.mean([set_f1(one.select(SETTINGS).boxes, gold) for one, _ in examples]) < 0.5
    fitted = fit_box_sets(examples)
    assert np.mean([set_f1(one.select(fitted).boxes, gold) for one, _ in examples]) > 0.95
    assert 0.15 < fitted.min_probability < 0.25
    assert fitted.max_containment > 1
