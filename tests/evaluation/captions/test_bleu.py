from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from deixis.evaluation.captions.bleu import bleu_from, bleu_statistics
from deixis.evaluation.captions.coded import CaptionSet, caption_set

from . import plain
from .strategies import caption_sets


@given(caption_sets())
def test_corpus_bleu_is_that_of_plain_loops(captions: CaptionSet) -> None:
    expected = plain.bleu(captions.candidates, captions.references)
    assert bleu_from(bleu_statistics(captions).sum(axis=0)) == pytest.approx(expected, abs=1e-12)


@given(caption_sets())
def test_bleu_of_one_photo_is_corpus_bleu_of_that_photo(captions: CaptionSet) -> None:
    for photo, found in enumerate(bleu_from(bleu_statistics(captions))):
        expected = plain.bleu([captions.candidates[photo]], [captions.references[photo]])
        assert found == pytest.approx(expected, abs=1e-12)


def test_an_ngram_counts_at_most_as_often_as_one_reference_has_it() -> None:
    captions = caption_set({"1": "the the the the"}, {"1": ["the cat the", "the dog"]})
    assert bleu_statistics(captions)[0, 0] == 2


def test_of_two_equally_close_references_the_shorter_sets_the_length() -> None:
    captions = caption_set({"1": "one two three"}, {"1": ["one two three four", "one two"]})
    assert bleu_statistics(captions)[0, -1] == 2


def test_a_short_candidate_is_penalised_and_a_long_one_is_not() -> None:
    short, long = np.array([2.0, 1, 0, 0, 2, 1, 0, 0, 2, 4]), np.array([2.0, 1, 0, 0, 2, 1, 0, 0, 2, 1])
    assert bleu_from(short)[0] == pytest.approx(np.exp(-1))
    assert bleu_from(long)[0] == pytest.approx(1)
