"""The Penn Treebank sample of NLTK (English newspaper text), split into a training and a test part."""

from __future__ import annotations

import re
import zipfile
from dataclasses import replace
from pathlib import Path, PurePosixPath

from deixis.errors import DatasetError
from deixis.language.trees import Tree, read_tree, read_trees

TRACE = "-NONE-"
LABEL_END = re.compile(r"(?<=.)[-=|].*")

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
    trees = (tree for name, text in texts.items() for tree in read_trees(text, name=f"{archive}/{name}"))
    return [read_tree(text) for text in map(plain_text, trees) if text]


def plain_text(tree: Tree) -> str:
    """Return only words and categories, as bracketed text.

    Without traces (``-NONE-``), phrases that are empty without them, suffixes of categories (``NP-SBJ-1`` becomes
    ``NP``) and unlabelled brackets around a sentence.
    """
    if tree.is_leaf:
        return "" if tree.label == TRACE else str(replace(tree, label=_category(tree.label)))
    inside = list(filter(None, map(plain_text, tree.children)))
    if len(inside) < 2 and not tree.label:
        return "".join(inside)
    return f"({_category(tree.label)} {' '.join(inside)})" if inside else ""


def _category(label: str) -> str:
    """A label without suffixes; labels that start with a hyphen (-LRB-) are kept."""
    return label if label.startswith("-") else LABEL_END.sub("", label)
