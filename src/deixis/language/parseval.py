"""PARSEVAL: how many brackets of a tree are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from deixis.language.trees import Tree

__all__ = ["BracketScores", "bracket_scores"]

_PUNCTUATION = frozenset([",", ":", "``", "''", "."])


@dataclass(frozen=True)
class BracketScores:
    """Labelled precision, recall and F1, from 0 to 1, and the share of sentences that are right in every bracket."""

    precision: float
    recall: float
    f1: float
    exact: float


def bracket_scores(gold: Iterable[Tree], found: Iterable[Tree]) -> BracketScores:
    """Compare trees by PARSEVAL, as evalb does with Collins's settings.

    Brackets are (label, span) with repetition; leaves do not count; PRT counts as ADVP; words whose gold tag is that of
    a comma, a colon, a full stop or a quotation mark are taken out first. The root counts.

    Examples
    --------
    >>> from deixis.language.trees import read_tree
    >>> gold = read_tree("(S (NP (DT A) (NN dog)) (VP (VBZ runs)) (. .))")
    >>> other = read_tree("(S (NP (DT A) (NN dog)) (ADJP (VBZ runs)) (. .))")
    >>> round(bracket_scores([gold], [other]).f1, 3)
    0.667
    """
    common = in_gold = in_found = exact = sentences = 0
    for right, other in zip(gold, found, strict=True):
        place = _places_without_punctuation(right)
        wanted, given = _brackets(right, place), _brackets(other, place)
        common += (wanted & given).total()
        in_gold += wanted.total()
        in_found += given.total()
        exact += wanted == given
        sentences += 1
    precision, recall = common / max(in_found, 1), common / max(in_gold, 1)
    return BracketScores(precision, recall, 2 * common / max(in_gold + in_found, 1), exact / max(sentences, 1))


def _places_without_punctuation(tree: Tree) -> list[int]:
    """For each gap between tokens, how many words are before it."""
    places = [0]
    for word in tree.leaves():
        places.append(places[-1] + (word.label not in _PUNCTUATION))
    return places


def _brackets(tree: Tree, place: list[int]) -> Counter[tuple[str, int, int]]:
    spans = ((node.label, place[node.start], place[node.end]) for node in tree.phrases())
    return Counter(("ADVP" if label == "PRT" else label, start, end) for label, start, end in spans if start < end)
