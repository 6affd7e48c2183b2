"""Inputs of the grounder: padding, selection and spans."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.grounder.inputs import cell_arrays, make_text_inputs, to_word_spans
from deixis.models.grounder.network import RegionBatch, TextBatch
from deixis.models.inputs import MAX_WORDS
from deixis.models.region_inputs import RegionInputs
from deixis.tokens import tokenize, words

WORDS = Vocabulary(("a", "dog", "cat"), (3, 2, 1))


def regions(count: int, seed: int = 0, channels: int = 4) -> RegionInputs:
    rng = np.random.default_rng(seed)
    cells = rng.normal(size=(channels, 2, 3))
    return RegionInputs(rng.normal(size=(count, channels)), rng.uniform(size=(count, 4)), rng.uniform(size=count),
                        rng.normal(size=3), cells)  # fmt: skip


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
