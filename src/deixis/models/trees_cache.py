"""The trees of a data set's sentences, parsed once and kept in a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from deixis.files.progress import OnProgress, silent
from deixis.language import parser
from deixis.language.sentence import Sentence, parse_together
from deixis.models.trees import Forest


def parsed_forest(
    sentences: Sequence[Sentence], folder: str | PathLike[str], on_progress: OnProgress = silent
) -> Forest:
    """The trees of sentences: read from the folder if they were parsed before, else parsed now and kept there.

    What is kept is known by the sentences and the parser, so that neither can change unnoticed.

    Parameters
    ----------
    sentences
        In the order of the forest; those that bring a tree keep it.
    folder
        Made if it is not there.
    on_progress
        Told how many are parsed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for _ in range(2):
    ...         forest = parsed_forest([Sentence("A dog runs.")], folder)
    >>> forest.text(0, 1)
    'A dog'
    """
    path = Path(folder) / f"trees-{_hash(sentences)}.safetensors"
    if path.exists():
        return Forest.load(path)
    parse_together(sentences, on_progress)
    forest = Forest.of(sentence.tree for sentence in sentences)
    path.parent.mkdir(parents=True, exist_ok=True)
    forest.save(path)
    return forest


def _hash(sentences: Sequence[Sentence]) -> str:
    seen = hashlib.sha256()
    for name in ("parser.json", "parser.npz"):
        seen.update((Path(parser.__file__).parent / "models" / name).read_bytes())
    for sentence in sentences:
        given = str(sentence.tree) if sentence.has_tree else ""
        seen.update("\0".join([sentence.text, *(token.text for token in sentence.tokens), given, "\n"]).encode())
    return seen.hexdigest()[:16]
