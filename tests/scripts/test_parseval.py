"""PARSEVAL on trees by hand."""

from __future__ import annotations

import pytest
from parseval import bracket_scores

from deixis.language.trees import read_tree


def test_precision_and_recall_count_brackets() -> None:
    gold = read_tree("(S (NP (NP (DT a) (NN dog)) (PP (IN in) (NP (NN snow)))) (VP (VBZ runs)))")
    found = read_tree("(S (NP (DT a) (NN dog)) (PP (IN in) (NP (NN snow))) (NP (VBZ runs)))")
    scores = bracket_scores([gold], [found])
    assert scores.precision == pytest.approx(4 / 5)
    assert scores.recall == pytest.approx(4 / 6)
    assert scores.f1 == pytest.approx(8 / 11)
    assert scores.exact == 0


def test_punctuation_is_ignored_and_particles_count_as_adverbs() -> None:
    gold = read_tree("(S (VP (VB Get) (PRT (RP up))) (. .))")
    found = read_tree("(S (VP (VB Get) (ADVP (RP up)) (. .)))")
    assert bracket_scores([gold], [found]).exact == 1
