"""The Penn Treebank sample that NLTK hands out, English newspaper text: a part to learn from and one to measure on."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

from deixis.errors import DatasetError
from deixis.language.trees import Tree, read_trees

__all__ = ["FIRST_HELD_OUT", "read_treebank"]

FIRST_HELD_OUT = "wsj_0150"
"""From this file to the last, wsj_0199: 661 of the 3,914 sentences, which no shipped parser has seen."""


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
