from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DatasetError
from deixis.evaluation.captions.metrics import (
    bleu_from,
    bleu_statistics,
    cider,
    distinct_sentences,
    distinct_share,
    novel_sentences,
    rouge_l,
)
from deixis.evaluation.captions.ngrams import CaptionSet
from deixis.tokens import words

from . import plain
from .strategies import caption_sets


def test_case_and_punctuation_do_not_make_a_sentence_novel() -> None:
    sentences = [words(each) for each in ("A dog runs", "a dog runs!", "A dog run")]
    assert novel_sentences(sentences, ["a dog runs."]).tolist() == [False, False, True]


def test_novelty_needs_a_list_of_training_captions() -> None:
    with pytest.raises(DatasetError, match="training"):
        novel_sentences([["a"]], [])
    with pytest.raises(DatasetError, match="training"):
        novel_sentences([["a"]], "a dog")


def plain_distinct(candidates: list[list[str]], n: int) -> float:
    grams = [tuple(each[i : i + n]) for each in candidates for i in range(len(each) - n + 1)]
    return 100 * len(set(grams)) / len(grams) if grams else 0.0


@given(caption_sets(), st.integers(1, 4))
def test_distinct_n_is_that_of_plain_loops_with_and_without_each_candidate(captions: CaptionSet, n: int) -> None:
    candidates = [list(each) for each in captions.candidates]
    found = distinct_share(captions, n)
    assert found.value == pytest.approx(plain_distinct(candidates, n))
    for index, without in enumerate(found.without):
        assert without == pytest.approx(plain_distinct(candidates[:index] + candidates[index + 1 :], n))


@given(caption_sets())
def test_distinct_sentences_are_counted_with_and_without_each(captions: CaptionSet) -> None:
    sentences = [tuple(each) for each in captions.candidates]
    found = distinct_sentences(captions)
    assert found.value == len(set(sentences))
    assert found.without.tolist() == [len(set(sentences[:at] + sentences[at + 1 :])) for at in range(len(sentences))]


@given(caption_sets(), st.data())
def test_a_bootstrap_sample_of_diversity_is_the_mean_of_the_drawn_pseudo_values(
    captions: CaptionSet, data: st.DataObject
) -> None:
    found, n = distinct_share(captions, 1), len(captions.photos)
    drawn = data.draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))
    pseudo = [n * found.value - (n - 1) * without for without in found.without]
    shift = found.value - sum(pseudo) / n
    counts = np.bincount(drawn, minlength=n)[None].astype(float)
    assert found.statistic(counts)[0] == pytest.approx(sum(pseudo[at] + shift for at in drawn) / n)
    assert found.statistic(np.ones((1, n)))[0] == pytest.approx(found.value)


@given(caption_sets())
def test_corpus_bleu_agrees_with_plain_loops(captions: CaptionSet) -> None:
    expected = plain.bleu(captions.candidates, captions.references)
    assert bleu_from(bleu_statistics(captions).sum(axis=0)) == pytest.approx(expected, abs=1e-12)


@given(caption_sets())
def test_cider_and_cider_d_agree_with_plain_loops(captions: CaptionSet) -> None:
    found = cider(captions)
    assert found.cider == pytest.approx(plain.cider(captions.candidates, captions.references, damped=False), abs=1e-9)
    assert found.cider_d == pytest.approx(plain.cider(captions.candidates, captions.references, damped=True), abs=1e-9)


@given(caption_sets())
def test_rouge_l_agrees_with_plain_loops(captions: CaptionSet) -> None:
    pairs = zip(captions.candidates, captions.references, strict=True)
    assert rouge_l(captions) == pytest.approx([plain.rouge_l(*pair) for pair in pairs], abs=1e-12)


def test_rouge_l_is_right_for_sentences_of_more_than_64_words() -> None:
    words = random.Random(0).choices("abcdefgh", k=150)
    captions = CaptionSet(("1",), [words], [[words[::2], words]])
    assert rouge_l(captions).tolist() == [1.0]
    assert rouge_l(CaptionSet(("1",), [words[::2]], [[words]])) == pytest.approx(2.44 * 0.5 / (0.5 + 1.44))
