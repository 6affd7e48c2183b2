"""PARSEVAL, and the two parts of the treebank sample."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from deixis.errors import DatasetError
from deixis.language.treebank import bracket_scores, read_treebank
from deixis.language.trees import read_tree


def test_a_tree_against_itself_is_perfect() -> None:
    tree = read_tree("(S (NP (DT A) (NN dog)) (VP (VBZ runs)) (. .))")
    scores = bracket_scores([tree], [tree])
    assert (scores.precision, scores.recall, scores.f1, scores.exact) == (1, 1, 1, 1)


def test_precision_and_recall_count_brackets() -> None:
    gold = read_tree("(S (NP (NP (DT a) (NN dog)) (PP (IN in) (NP (NN snow)))) (VP (VBZ runs)))")
    found = read_tree("(S (NP (DT a) (NN dog)) (PP (IN in) (NP (NN snow))) (NP (VBZ runs)))")
    scores = bracket_scores([gold], [found])
    assert scores.precision == pytest.approx(4 / 5)
    assert scores.recall == pytest.approx(4 / 6)
    assert scores.f1 == pytest.approx(8 / 11)
    assert scores.exact == 0


def test_where_punctuation_hangs_does_not_matter_and_particles_are_adverbs() -> None:
    gold = read_tree("(S (VP (VB Get) (PRT (RP up))) (. .))")
    found = read_tree("(S (VP (VB Get) (ADVP (RP up)) (. .)))")
    assert bracket_scores([gold], [found]).exact == 1


def test_held_out_files_are_those_from_0150(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        for number in (1, 149, 150, 199):
            archive.writestr(f"treebank/combined/wsj_{number:04}.mrg", f"( (NP (CD {number})))")
    assert [tree.text for tree in read_treebank(tmp_path / "t.zip", held_out=True)] == ["150", "199"]
    assert [tree.text for tree in read_treebank(tmp_path / "t.zip", held_out=False)] == ["1", "149"]


def test_an_archive_that_is_none_or_holds_no_trees_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_text("no zip")
    zipfile.ZipFile(tmp_path / "empty.zip", "w").close()
    for name, reason in (("bad.zip", "cannot be read"), ("empty.zip", "no .mrg files"), ("none.zip", "cannot be read")):
        with pytest.raises(DatasetError, match=reason):
            read_treebank(tmp_path / name, held_out=True)
