from __future__ import annotations

import random

import pytest
from hypothesis import given

from deixis.evaluation.captions.coded import CaptionSet
from deixis.evaluation.captions.rouge import rouge_l

from . import plain
from .strategies import caption_sets


@given(caption_sets())
def test_rouge_is_that_of_plain_loops(captions: CaptionSet) -> None:
    pairs = zip(captions.candidates, captions.references, strict=True)
    assert rouge_l(captions) == pytest.approx([plain.rouge_l(*pair) for pair in pairs], abs=1e-12)


def test_sentences_longer_than_a_machine_word_are_no_exception() -> None:
    words = random.Random(0).choices("abcdefgh", k=150)
    captions = CaptionSet(("1",), [words], [[words[::2], words]])
    assert rouge_l(captions).tolist() == [1.0]
    assert rouge_l(CaptionSet(("1",), [words[::2]], [[words]])) == pytest.approx(2.44 * 0.5 / (0.5 + 1.44))


def test_an_empty_candidate_is_right_about_nothing_but_an_empty_reference() -> None:
    assert rouge_l(CaptionSet(("1", "2"), [[], []], [[["a"]], [[]]])).tolist() == [0.0, 1.0]
