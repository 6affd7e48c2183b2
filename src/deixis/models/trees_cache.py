"""The trees of a data set's sentences, parsed once and kept in a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from os import PathLike
from pathlib import Path

from deixis.files.atomic import explained
from deixis.files.progress import OnProgress, silent
from deixis.language import parser
from deixis.language.sentence import Sentence, parse_together
from deixis.models.trees import Forest

SENTENCES_IN_A_FILE = 5000
"""What is parsed between two files, and lost at most when parsing is stopped: about two seconds of work."""


def parsed_forest(
    sentences: Sequence[Sentence], folder: str | PathLike[str], on_progress: OnProgress = silent
) -> Forest:
    """The trees of sentences: read from the folder where they were parsed before, else parsed now and kept there.

    Sentences are kept some thousands in a file, so parsing that was stopped goes on where it was. Each file is known by
    its sentences and the parser, so that neither can change unnoticed.

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
    pieces = []
    for begin in range(0, len(sentences), SENTENCES_IN_A_FILE):
        piece = sentences[begin : begin + SENTENCES_IN_A_FILE]
        path = Path(folder) / f"trees-{_hash(piece)}.safetensors"
        if not path.exists():
            _parse(piece, path)
            on_progress("parsing sentences", begin + len(piece), len(sentences))
        pieces.append(Forest.load(path))
    return Forest.joined(pieces)


def _parse(sentences: Sequence[Sentence], path: Path) -> None:
    parse_together(sentences)
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        Forest.of(sentence.tree for sentence in sentences).save(path)


def _hash(sentences: Sequence[Sentence]) -> str:
    seen = _hash_of_parser().copy()
    for sentence in sentences:
        given = str(sentence.tree) if sentence.has_tree else ""
        seen.update("\0".join([sentence.text, *(token.text for token in sentence.tokens), given, "\n"]).encode())
    return seen.hexdigest()[:16]


@cache
def _hash_of_parser() -> hashlib._Hash:
    seen = hashlib.sha256()
    for name in ("parser.json", "parser.npz"):
        seen.update((Path(parser.__file__).parent / "models" / name).read_bytes())
    return seen
