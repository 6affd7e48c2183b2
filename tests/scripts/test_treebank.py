"""Plain trees of the Penn Treebank sample."""

from __future__ import annotations

import zipfile
from pathlib import Path

from treebank import read_treebank

TEXT = """
( (S (NP-SBJ-1 (DT The) (NN dog)) (VP (VBZ is) (VP (VBN seen) (NP (-NONE- *-1)) (PRT|ADVP (RP up))
  (PP=2 (-LRB- -LRB-) (IN by) (NP (PRP us))))) (. .)))
( (NP (-NONE- *)))
()
"""
BY_US = "(PP (-LRB- -LRB-) (IN by) (NP (PRP us)))"
PLAIN = f"(S (NP (DT The) (NN dog)) (VP (VBZ is) (VP (VBN seen) (PRT (RP up)) {BY_US})) (. .))"


def test_plain_trees_have_no_traces_suffixes_or_unlabelled_brackets(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "treebank.zip", "w") as archive:
        archive.writestr("treebank/combined/wsj_0001.mrg", TEXT)
        archive.writestr("treebank/combined/wsj_0199.mrg", "( (NP (NN dog)))")
    [tree] = read_treebank(tmp_path / "treebank.zip", held_out=False)
    assert str(tree) == PLAIN
    assert [str(each) for each in read_treebank(tmp_path / "treebank.zip", held_out=True)] == ["(NP (NN dog))"]
