from __future__ import annotations

import math

import pytest
from hypothesis import given, settings

from deixis.evaluation.captions.cider import cider
from deixis.evaluation.captions.coded import CaptionSet, caption_set

from . import plain
from .strategies import caption_sets


@given(caption_sets())
@settings(deadline=None)
def test_both_ciders_are_those_of_plain_loops(captions: CaptionSet) -> None:
    found = cider(captions)
    assert found.cider == pytest.approx(plain.cider(captions.candidates, captions.references, damped=False), abs=1e-9)
    assert found.cider_d == pytest.approx(plain.cider(captions.candidates, captions.references, damped=True), abs=1e-9)


def test_a_caption_equal_to_its_only_reference_scores_ten_in_both() -> None:
    captions = caption_set(
        {"1": "a dog runs in snow", "2": "two cats sleep on sofas"},
        {"1": ["a dog runs in snow"], "2": ["two cats sleep on sofas"]},
    )
    assert cider(captions).cider == pytest.approx([10, 10])
    assert cider(captions).cider_d == pytest.approx([10, 10])


def test_repeating_a_rare_word_costs_nothing_in_cider_but_does_in_cider_d() -> None:
    captions = caption_set({"1": "zebra zebra zebra", "2": "dog"}, {"1": ["zebra"], "2": ["dog"]})
    assert cider(captions).cider == pytest.approx([2.5, 2.5])
    assert cider(captions).cider_d == pytest.approx([2.5 / 3 * math.exp(-4 / 72), 2.5])


def test_one_photo_alone_scores_nothing() -> None:
    assert cider(caption_set({"1": "a dog"}, {"1": ["a dog"]})).cider_d.tolist() == [0.0]
