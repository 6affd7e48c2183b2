from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DatasetError
from deixis.evaluation.captions.coded import CaptionSet
from deixis.evaluation.captions.novelty import distinct_sentences, distinct_share, novel_sentences
from deixis.evaluation.intervals import bootstrap
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


def plain_distinct(candidates: list[list[str]], n: int) -> float:
    grams = [tuple(each[i : i + n]) for each in candidates for i in range(len(each) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0


@given(caption_sets(), st.integers(1, 4))
def test_distinct_counts_the_ngrams_of_all_candidates_and_of_all_but_each(captions: CaptionSet, n: int) -> None:
    candidates = [list(each) for each in captions.candidates]
    found = distinct_share(captions, n)
    assert found.value == pytest.approx(plain_distinct(candidates, n))
    for place, without in enumerate(found.without):
        assert without == pytest.approx(plain_distinct(candidates[:place] + candidates[place + 1 :], n))


@given(caption_sets())
def test_distinct_sentences_are_counted_with_and_without_each(captions: CaptionSet) -> None:
    sentences = [tuple(each) for each in captions.candidates]
    found = distinct_sentences(captions)
    assert found.value == len(set(sentences))
    assert found.without.tolist() == [len(set(sentences[:at] + sentences[at + 1 :])) for at in range(len(sentences))]


@given(caption_sets(), st.data())
def test_a_drawing_of_diversity_is_the_mean_of_the_drawn_pseudo_values(
    captions: CaptionSet, data: st.DataObject
) -> None:
    found, n = distinct_share(captions, 1), len(captions.photos)
    drawn = data.draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))
    pseudo = [n * found.value - (n - 1) * without for without in found.without]
    shift = found.value - sum(pseudo) / n
    counts = np.bincount(drawn, minlength=n)[None].astype(float)
    assert found.statistic(counts)[0] == pytest.approx(sum(pseudo[at] + shift for at in drawn) / n)
    assert found.statistic(np.ones((1, n)))[0] == pytest.approx(found.value)


def test_the_interval_of_diversity_covers_that_of_other_sets_of_the_same_size() -> None:
    """Words as unevenly common as they are; of forty sets, nearly all intervals hold the mean of hundreds of others."""
    rng = np.random.default_rng(0)

    def a_set() -> CaptionSet:
        candidates = [[f"w{word}" for word in rng.zipf(1.5, size=6)] for _ in range(100)]
        return CaptionSet(tuple(map(str, range(100))), candidates, [[["a"]]] * 100)

    usual = np.mean([distinct_share(a_set(), 1).value for _ in range(300)])
    covered = 0
    for _ in range(40):
        bounds = bootstrap(distinct_share(a_set(), 1).statistic, 100, rounds=400)
        covered += bounds.low <= usual <= bounds.high
    assert covered >= 34
