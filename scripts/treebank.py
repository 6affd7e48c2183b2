"""The Penn Treebank sample of NLTK (English newspaper text), split into a training and a test part."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

from deixis.errors import DatasetError
from deixis.language.trees import Tree, read_trees

FIRST_HELD_OUT = "wsj_0150"
"""First file of the test part, which ends with wsj_0199: 661 of the 3,914 sentences, not used for training."""


def read_treebank(archive: Path, *, held_out: bool) -> list[Tree]:
    """Read the plain trees of one part of ``treebank.zip``.

    Parameters
    ----------
    archive
        NLTK's file, with ``treebank/combined/wsj_0001.mrg`` and so on.
    held_out
        Read the test part instead of the training part.

    Raises
    ------
    DatasetError
        If the file cannot be read or has no trees.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            names = sorted(name for name in opened.namelist() if name.endswith(".mrg"))
            selected = [name for name in names if (PurePosixPath(name).stem >= FIRST_HELD_OUT) == held_out]
            texts = {name: opened.read(name).decode("latin-1") for name in selected}
    except (OSError, zipfile.BadZipFile) as problem:
        raise DatasetError(f"{archive}: cannot be read ({problem})") from None
    if not texts:
        raise DatasetError(f"{archive}: contains no .mrg files of the Penn Treebank")
    return [tree for name, text in texts.items() for tree in read_trees(text, plain=True, name=f"{archive}/{name}")]
