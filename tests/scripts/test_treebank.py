"""The two parts of the treebank sample."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from treebank import read_treebank

from deixis.errors import DatasetError


def test_held_out_files_are_those_from_0150(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        for number in (1, 149, 150, 199):
            archive.writestr(f"treebank/combined/wsj_{number:04}.mrg", f"( (NP (CD {number})))")
    assert [tree.text for tree in read_treebank(tmp_path / "t.zip", held_out=True)] == ["150", "199"]
    assert [tree.text for tree in read_treebank(tmp_path / "t.zip", held_out=False)] == ["1", "149"]


def test_an_invalid_archive_or_one_without_trees_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_text("no zip")
    zipfile.ZipFile(tmp_path / "empty.zip", "w").close()
    for name in ("bad.zip", "empty.zip", "none.zip"):
        with pytest.raises(DatasetError, match=name):
            read_treebank(tmp_path / name, held_out=True)
