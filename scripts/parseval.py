"""PARSEVAL scores of constituency trees."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from deixis.language.trees import Tree, read_trees

CAPTION_TREES = Path(__file__).parent.parent / "tests" / "language" / "caption_trees.txt"
"""Captions written for this project, with hand-checked phrases: one tree a line, without parts of speech."""

_CAPTION_LABELS = frozenset(["NP", "VP", "PP"])
_BARE_WORD = re.compile(r"(?<=\s)[^\s()]+")
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


def read_caption_trees(path: Path = CAPTION_TREES) -> list[Tree]:
    """Read trees whose words have no part of speech; punctuation is its own, and other words have X."""

    def leaf(found: re.Match[str]) -> str:
        return f"({found[0] if found[0] in _PUNCTUATION else 'X'} {found[0]})"

    return read_trees(_BARE_WORD.sub(leaf, path.read_text(encoding="utf-8")), name=str(path))


def caption_scores(gold: Iterable[Tree], found: Iterable[Tree]) -> BracketScores:
    """Compare the noun, verb and prepositional phrases of captions, without repetition."""
    common = in_gold = in_found = exact = sentences = 0
    for expected, other in zip(gold, found, strict=True):
        offsets = _offsets_without_punctuation(expected)
        ours, theirs = (
            {bracket for bracket in _brackets(tree, offsets) if bracket[0] in _CAPTION_LABELS}
            for tree in (expected, other)
        )
        common, in_gold, in_found = common + len(ours & theirs), in_gold + len(ours), in_found + len(theirs)
        exact, sentences = exact + (ours == theirs), sentences + 1
    return BracketScores(common / in_found, common / in_gold, 2 * common / (in_gold + in_found), exact / sentences)


def sentence_roots(gold: Iterable[Tree], found: Iterable[Tree]) -> tuple[float, float]:
    """Return the share of full sentences whose root is S, and the share of fragments whose root is not."""
    pairs = [(expected.label == "S", other.label == "S") for expected, other in zip(gold, found, strict=True)]
    right = Counter(is_sentence for is_sentence, found_s in pairs if is_sentence == found_s)
    every = Counter(is_sentence for is_sentence, _ in pairs)
    return right[True] / every[True], right[False] / every[False]
