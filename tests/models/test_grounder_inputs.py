"""What the grounder is given: regions and readings, padded, numbered and never mixed up."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.grounder_inputs import ReadingBatch, RegionBatch, RegionInputs, readings_of, words_and_spans
from deixis.models.text_encoders import LONGEST
from deixis.tokens import tokenize, words

WORDS = Vocabulary(("a", "dog", "cat"), (3, 2, 1))


def regions(count: int, seed: int = 0, channels: int = 4) -> RegionInputs:
    rng = np.random.default_rng(seed)
    cells = rng.normal(size=(channels, 2, 3))
    return RegionInputs(rng.normal(size=(count, channels)), rng.uniform(size=(count, 4)), rng.uniform(size=count),
                        rng.normal(size=3), cells)  # fmt: skip


def test_photos_keep_their_regions_when_put_together() -> None:
    photos = [regions(2, 0), regions(0, 1), regions(5, 2)]
    batch = RegionBatch.of(photos, cells=True)
    assert batch.vectors.shape == (3, 5, 4)
    assert batch.there.sum(1).tolist() == [2, 0, 5]
    for row, photo in enumerate(photos):
        np.testing.assert_allclose(batch.vectors[row][batch.there[row]], photo.vectors, rtol=1e-6)
        np.testing.assert_allclose(batch.boxes[row][batch.there[row]], photo.boxes, rtol=1e-6)
        np.testing.assert_allclose(batch.whole[row], photo.whole, rtol=1e-6)


def test_cells_stand_row_by_row_with_their_middles() -> None:
    photo = regions(1)
    batch = RegionBatch.of([photo], cells=True)
    assert batch.cells is not None
    assert batch.cell_places is not None
    assert photo.cells is not None
    np.testing.assert_allclose(batch.cells[0, 4], photo.cells[:, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(batch.cell_places[0, 4], [0.5, 0.75])


def test_arrays_that_are_read_backwards_are_taken() -> None:
    photo = regions(3)
    turned = RegionInputs(photo.vectors[::-1], photo.boxes[::-1], photo.objectness[::-1], photo.whole[::-1])
    np.testing.assert_allclose(RegionBatch.of([turned]).objectness[0], photo.objectness[::-1], rtol=1e-6)
    assert len(RegionBatch.of([RegionInputs(*(a[::-1][:1] for a in (photo.vectors, photo.boxes, photo.objectness)),
                                            photo.whole)])) == 1  # fmt: skip


def test_photos_can_be_chosen_and_changed_to_other_numbers() -> None:
    batch = RegionBatch.of([regions(2, 0), regions(3, 1)]).at(torch.tensor([1, 1, 0]))
    moved = batch.to(torch.device("cpu"), torch.float64)
    assert moved.there.sum(1).tolist() == [3, 3, 2]
    assert moved.boxes.dtype == torch.float64
    assert moved.there.dtype == torch.bool


@pytest.mark.parametrize("boxes", [np.zeros((3, 4)), np.zeros((2, 3)), np.zeros(8)])
def test_regions_that_do_not_fit_each_other_are_one_clear_line(boxes: np.ndarray) -> None:
    with pytest.raises(DeixisError, match="do not fit each other") as refusal:
        RegionInputs(np.zeros((2, 4)), boxes, np.zeros(2), np.zeros(3))
    assert "\n" not in str(refusal.value)


def test_a_missing_map_is_one_clear_line() -> None:
    photo = RegionInputs(np.zeros((2, 4)), np.zeros((2, 4)), np.zeros(2), np.zeros(3))
    with pytest.raises(DeixisError, match="the map of the photo is needed"):
        RegionBatch.of([photo], cells=True)


def test_phrases_are_read_within_their_sentence_or_alone() -> None:
    sentence, spans = ["a", "dog", "and", "a", "red", "cat"], [(0, 2), (3, 6)]
    (together,) = readings_of(sentence, spans)
    assert (together.words, together.spans, together.phrases) == (tuple(sentence), ((0, 2), (3, 6)), (0, 1))
    alone = readings_of(sentence, spans, context=False)
    assert [one.words for one in alone] == [("a", "dog"), ("a", "red", "cat")]
    assert [one.spans for one in alone] == [((0, 2),), ((0, 3),)]


def test_phrases_of_a_batch_are_taken_out_of_their_sentences() -> None:
    vocabulary = Vocabulary(("a", "big", "dog", "cat"), (4, 3, 2, 1))
    sentences = [(["a", "dog", "sees", "a", "big", "cat"], [(0, 2), (3, 6)]), (["cat"], [(0, 1)])]
    within, apart = (
        ReadingBatch.of([one for said in sentences for one in readings_of(*said, context=context)], vocabulary)
        for context in (True, False)
    )
    alone = within.alone()
    assert alone.lengths.tolist() == apart.lengths.tolist() == [2, 3, 1]
    for ours, theirs, length in zip(alone.words, apart.words, apart.lengths, strict=True):
        assert ours[:length].tolist() == theirs[:length].tolist()
    assert alone.spans.tolist() == apart.spans.tolist()
    assert alone.asked.tolist() == apart.asked.tolist()


def test_phrases_beyond_the_longest_sentence_are_read_alone() -> None:
    sentence = ["word"] * (LONGEST - 1) + ["a", "dog", "and", "a", "cat"]
    first, across, beyond = readings_of(sentence, [(0, 2), (LONGEST - 1, LONGEST + 1), (LONGEST + 2, LONGEST + 4)])
    assert len(first.words) == LONGEST
    assert (first.phrases, across.phrases, beyond.phrases) == ((0,), (1,), (2,))
    assert (across.words, beyond.words) == (("a", "dog"), ("a", "cat"))
    (endless,) = readings_of(["word"] * 500, [(0, 500)])
    assert endless.spans == ((0, LONGEST),)


def test_a_phrase_without_words_is_an_unknown_word() -> None:
    batch = ReadingBatch.of(readings_of(["a", "dog"], [(1, 1)]), WORDS)
    assert batch.words.tolist() == [[len(WORDS)]]


@pytest.mark.parametrize("span", [(-1, 1), (1, 3), (2, 1)])
def test_a_span_outside_the_sentence_is_one_clear_line(span: tuple[int, int]) -> None:
    with pytest.raises(DeixisError, match="the sentence has 2"):
        readings_of(["a", "dog"], [span])


def test_some_readings_have_no_more_columns_than_they_need() -> None:
    readings = [*readings_of(["a", "dog", "and", "a", "cat"], [(0, 2), (3, 5)]), *readings_of(["a", "dog"], [(1, 2)])]
    batch = ReadingBatch.of(readings, WORDS)
    assert batch.words.tolist() == [[0, 1, 3, 0, 2], [0, 1, 4, 4, 4]]
    some = batch.at(torch.tensor([1]))
    assert some.words.tolist() == [[0, 1]]
    assert some.spans.tolist() == [[[1, 2]]]


@given(st.text("ab ,.'-", max_size=30), st.integers(0, 30), st.integers(0, 30))
def test_the_words_of_a_span_are_those_of_its_text(text: str, start: int, length: int) -> None:
    tokens = tokenize(text)
    found, (span,) = words_and_spans(tokens, [(start, start + length)])
    assert found == words(tokens)
    if length:
        touched = [token for token in tokens if token.start < start + length and token.end > start]
        assert found[slice(*span)] == words(touched)
    assert 0 <= span[0] <= span[1] <= len(found)
