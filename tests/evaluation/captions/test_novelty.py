from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DatasetError
from deixis.evaluation.captions.coded import CaptionSet
from deixis.evaluation.captions.novelty import distinct_share, novel_sentences
from deixis.tokens import words

from .strategies import caption_sets


def test_case_and_punctuation_do_not_make_a_sentence_novel() -> None:
    sentences = [words(each) for each in ("A dog runs", "a dog runs!", "A dog run")]
    assert novel_sentences(sentences, ["a dog runs."]).tolist() == [False, False, True]


def test_training_captions_must_be_there() -> None:
    with pytest.raises(DatasetError, match="there are none"):
        novel_sentences([["a"]], [])
    with pytest.raises(DatasetError, match="not one text"):
        novel_sentences([["a"]], "a dog")


@given(caption_sets(), st.integers(1, 4))
def test_distinct_counts_the_ngrams_of_all_candidates(captions: CaptionSet, n: int) -> None:
    grams = [tuple(each[i : i + n]) for each in captions.candidates for i in range(len(each) - n + 1)]
    assert distinct_share(captions, n) == pytest.approx(len(set(grams)) / len(grams) if grams else 0)
