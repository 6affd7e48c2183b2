"""PARSEVAL on trees by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from parseval import bracket_scores, caption_scores, read_caption_trees, sentence_roots

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


def test_phrases_of_captions_count_once_and_roots_are_those_of_sentences(tmp_path: Path) -> None:
    (tmp_path / "trees.txt").write_text("(S (NP A dog) (VP runs (PP in (NP snow))) .)\n(NP A dog)\n")
    gold = read_caption_trees(tmp_path / "trees.txt")
    assert [tree.words() for tree in gold] == [["A", "dog", "runs", "in", "snow", "."], ["A", "dog"]]
    first = "(FRAG (NP (NP (DT A) (NN dog))) (VP (VBZ runs)) (PP (IN in) (NP (NN snow))) (. .))"
    found = [read_tree(first), read_tree("(NP (DT A) (NN dog))")]
    scores = caption_scores(gold, found)  # one of the five phrases, the verb phrase, is too short
    assert (scores.precision, scores.recall, scores.exact) == (0.8, 0.8, 0.5)
    assert sentence_roots(gold, found) == (0.0, 1.0)
