"""PARSEVAL scores of constituency trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from deixis.language.trees import Tree

_PUNCTUATION = frozenset([",", ":", "``", "''", "."])


@dataclass(frozen=True)
class BracketScores:
    """Labelled precision, recall and F1 from 0 to 1, and the fraction of sentences with all brackets correct."""

    precision: float
    recall: float
    f1: float
    exact: float


def bracket_scores(gold: Iterable[Tree], found: Iterable[Tree]) -> BracketScores:
    """Compare trees by PARSEVAL, as evalb does with Collins's settings.

    Brackets are (label, span) with repetition; leaves do not count; PRT counts as ADVP; punctuation, by gold tag, is
    removed first. The root counts.

    Examples
    --------
    >>> from deixis.language.trees import read_tree
    >>> gold = read_tree("(S (NP (DT A) (NN dog)) (VP (VBZ runs)) (. .))")
    >>> other = read_tree("(S (NP (DT A) (NN dog)) (ADJP (VBZ runs)) (. .))")
    >>> round(bracket_scores([gold], [other]).f1, 3)
    0.667
    """
    common = in_gold = in_found = exact = sentences = 0
    for expected, other in zip(gold, found, strict=True):
        offsets = _offsets_without_punctuation(expected)
        gold_brackets, found_brackets = _brackets(expected, offsets), _brackets(other, offsets)
        common += (gold_brackets & found_brackets).total()
        in_gold += gold_brackets.total()
        in_found += found_brackets.total()
        exact += gold_brackets == found_brackets
        sentences += 1
    precision, recall = common / max(in_found, 1), common / max(in_gold, 1)
    return BracketScores(precision, recall, 2 * common / max(in_gold + in_found, 1), exact / max(sentences, 1))


def _offsets_without_punctuation(tree: Tree) -> list[int]:
    """For each gap between tokens, the number of words before it."""
    offsets = [0]
    for word in tree.leaves():
        offsets.append(offsets[-1] + (word.label not in _PUNCTUATION))
    return offsets


def _brackets(tree: Tree, offsets: list[int]) -> Counter[tuple[str, int, int]]:
    spans = ((node.label, offsets[node.start], offsets[node.end]) for node in tree.phrases())
    return Counter(("ADVP" if label == "PRT" else label, start, end) for label, start, end in spans if start < end)
