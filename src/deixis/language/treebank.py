"""The Penn Treebank sample that NLTK hands out, cut into a part to learn from and one to measure on, and PARSEVAL."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from deixis.errors import DatasetError
from deixis.language.trees import Tree, read_trees

__all__ = ["FIRST_HELD_OUT", "BracketScores", "bracket_scores", "read_treebank"]

FIRST_HELD_OUT = "wsj_0150"
"""From this file to the last, wsj_0199: 661 of the 3,914 sentences, which no shipped parser has seen."""

_PUNCTUATION = frozenset([",", ":", "``", "''", "."])


def read_treebank(archive: Path, *, held_out: bool) -> list[Tree]:
    """Read the plain trees (no traces, no marks after categories) of one part of ``treebank.zip``.

    Parameters
    ----------
    archive
        The file, as NLTK hands it out: ``treebank/combined/wsj_0001.mrg`` and on.
    held_out
        The part to measure on, or the other one.

    Raises
    ------
    DatasetError
        Where the file cannot be read or holds no trees.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            names = sorted(name for name in opened.namelist() if name.endswith(".mrg"))
            wanted = [name for name in names if (PurePosixPath(name).stem >= FIRST_HELD_OUT) == held_out]
            texts = {name: opened.read(name).decode("latin-1") for name in wanted}
    except (OSError, zipfile.BadZipFile) as problem:
        raise DatasetError(f"{archive}: cannot be read ({problem})") from None
    if not texts:
        raise DatasetError(f"{archive}: no .mrg files of the Penn Treebank in it")
    return [tree for name, text in texts.items() for tree in read_trees(text, plain=True, name=f"{archive}/{name}")]


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
