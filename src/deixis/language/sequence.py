"""A linear model that gives each token of a sentence a label: what the tagger and the chunker have in common.

A token is described by a few *facts* (its letters, its ending, its shape), each a 32-bit number. A *template* takes
facts of the token and of its neighbours and hashes them into one row of a table of weights; the score of a label is
the sum over the templates, and the best sequence under these scores and the label-to-label transitions is searched
(Viterbi). Hashing keeps the model a plain array: no dictionary of features is shipped or loaded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from deixis.errors import DeixisError

Facts = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.int32]

Template = tuple[tuple[int, int], ...]
"""Pairs of (how many tokens to the right, which fact)."""

_PARTS = 3
_REACH = 3
_CACHED_WORDS = 200_000

EDGE = crc32(b"<edge>")
"""The fact of every place before the first token and after the last one."""


def fact(kind: str, value: str) -> int:
    """A number for something said of a token, the same on every machine.

    Examples
    --------
    >>> fact("word", "dog") == fact("word", "dog") != fact("suffix", "dog")
    True
    """
    return crc32(f"{kind}={value}".encode("utf-8", "surrogatepass"))


def shape_of(word: str) -> str:
    """How a word looks: which kinds of characters it has, and where its capitals are.

    Examples
    --------
    >>> [shape_of(word) for word in ("dog", "Dog", "BMX", "T-shirt", "12", ".")]
    ['lower', 'title', 'upper', 'title-', 'digit', 'sign']
    """
    hyphen = "-" if "-" in word[1:] else ""
    if any(character.isdigit() for character in word):
        return "digit" + hyphen
    if not any(character.isalpha() for character in word):
        return "sign"
    if word.islower():
        return "lower" + hyphen
    if word.isupper() and len(word) > 1:
        return "upper" + hyphen
    return ("title" if word[0].isupper() else "mixed") + hyphen


class WordFacts:
    """The facts that a word's letters give, remembered word by word.

    Examples
    --------
    >>> facts = WordFacts()
    >>> facts(["A", "dog"]).shape == (2, len(WordFacts.NAMES))
    True
    """

    NAMES = ("word", "suffix1", "suffix2", "suffix3", "suffix4", "prefix3", "shape")

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, ...]] = {}

    def __call__(self, tokens: Sequence[str]) -> Facts:
        """One row of facts per token."""
        known = self._known
        if len(known) > _CACHED_WORDS:
            known.clear()
        rows = []
        for token in tokens:
            row = known.get(token)
            if row is None:
                row = known[token] = self._facts_of(token)
            rows.append(row)
        return np.array(rows, dtype=np.uint64).reshape(len(rows), len(self.NAMES))

    def _facts_of(self, token: str) -> tuple[int, ...]:
        lower = token.lower()
        spelled = (lower, lower[-1:], lower[-2:], lower[-3:], lower[-4:], lower[:3], shape_of(token))
        return tuple(fact(name, value) for name, value in zip(self.NAMES, spelled, strict=True))


class FeatureRows:
    """Turns the facts of a sentence into rows of a table of ``2 ** bits`` weights.

    Parameters
    ----------
    templates : sequence of Template
        Each with one to three parts that reach at most three tokens away.
    bits : int
        The table's size as a power of two.

    Examples
    --------
    >>> rows = FeatureRows([((0, 0),), ((-1, 0), (0, 0))], bits=10)
    >>> rows(WordFacts()(["A", "dog"])).shape
    (2, 2)
    """

    def __init__(self, templates: Sequence[Template], bits: int) -> None:
        self._shift = np.uint64(64 - bits)
        # Multiply-shift hashing: sums of facts times odd numbers, of which the highest bits are kept.
        numbers = np.random.default_rng(len(templates)).integers(0, 2**63, (len(templates), _PARTS), dtype=np.uint64)
        self._factors = (numbers * np.uint64(2) + np.uint64(1)).T[:, None, :].copy()
        self._offsets = np.zeros(self._factors.shape, dtype=np.int64)
        self._columns = np.zeros(self._factors.shape, dtype=np.int64)
        for number, template in enumerate(templates):
            self._factors[len(template) :, 0, number] = 0
            for part, (offset, column) in enumerate(template):
                self._offsets[part, 0, number] = offset
                self._columns[part, 0, number] = column

    def __call__(self, facts: Facts) -> Rows:
        """Rows of the weights, (tokens, templates)."""
        count, width = facts.shape
        padded = np.full((count + 2 * _REACH, width), EDGE, dtype=np.uint64)
        padded[_REACH : _REACH + count] = facts
        places = (np.arange(_REACH, _REACH + count)[:, None] + self._offsets) * width + self._columns
        products = padded.ravel()[places]
        products *= self._factors
        hashed = (products.sum(axis=0, dtype=np.uint64) >> self._shift).astype(np.int64)
        return np.asarray(hashed)


@dataclass(frozen=True)
class SequenceModel:
    """Labels with their weights, ready to decode.

    Attributes
    ----------
    labels
        The labels, in the order of the weights' columns.
    weights
        Whole numbers, (2 ** bits, labels).
    transitions
        Score of going from one label (row) to the next (column); the last row is the sentence's start.
    about
        What the model was learned from, as JSON-like values.
    """

    labels: tuple[str, ...]
    weights: npt.NDArray[np.int8]
    transitions: Scores
    about: dict[str, Any]

    @cached_property
    def bits(self) -> int:
        """The size of the table of weights as a power of two."""
        return int(self.weights.shape[0]).bit_length() - 1

    def decode(self, rows: Rows) -> list[str]:
        """The best labels for the tokens whose feature rows are given."""
        scores = self.weights[rows].sum(axis=1, dtype=np.int32)
        return [self.labels[number] for number in best_path(scores, self.transitions)]


def best_path(
    scores: npt.NDArray[Any], transitions: npt.NDArray[Any], margin: float | None = None
) -> list[int]:
    """The sequence of labels with the highest sum of scores and transitions (Viterbi).

    Parameters
    ----------
    scores : array, (tokens, labels)
    transitions : array, (labels + 1, labels)
        The last row is the start.
    margin : float, optional
        Labels that score so much less than the token's best are not looked at. The default is twice the range of the
        transitions, more than which no neighbours can make good: the search is then exact.

    Returns
    -------
    list of int

    Examples
    --------
    >>> best_path(np.array([[1, 0], [0, 0]]), np.array([[0, 5], [0, 0], [0, 0]]))
    [0, 1]
    """
    if not len(scores):
        return []
    if margin is None:
        margin = 2 * float(transitions.max() - transitions.min())
    # Plain lists from here on: a token has few labels worth a look, often one, and arrays would be slower.
    tokens, labels = np.nonzero(scores >= scores.max(axis=1, keepdims=True) - margin)
    values = scores[tokens, labels].tolist()
    looked_at: list[list[tuple[int, Any]]] = [[] for _ in scores]
    for token, label, value in zip(tokens.tolist(), labels.tolist(), values, strict=True):
        looked_at[token].append((label, value))
    steps = transitions.tolist()
    reached = [(label, value + steps[-1][label]) for label, value in looked_at[0]]
    came_from = []
    for choices in looked_at[1:]:
        if len(reached) == 1:
            before, total = reached[0]
            step = steps[before]
            came_from.append(dict.fromkeys([label for label, _ in choices], before))
            reached = [(label, total + step[label] + value) for label, value in choices]
            continue
        backward = {}
        arrived = []
        for label, value in choices:
            total, before = max([(total + steps[before][label], before) for before, total in reached])
            backward[label] = before
            arrived.append((label, total + value))
        came_from.append(backward)
        reached = arrived
    path = [max(reached, key=lambda choice: choice[1])[0]]
    for backward in reversed(came_from):
        path.append(backward[path[-1]])
    path.reverse()
    return path


def save_model(model: SequenceModel, stem: Path) -> None:
    """Write ``stem.npz`` (the numbers) and ``stem.json`` (labels, and what they were learned from)."""
    packed = BytesIO()
    np.savez_compressed(packed, weights=model.weights, transitions=model.transitions)
    stem.with_suffix(".npz").write_bytes(packed.getvalue())
    about = {"labels": list(model.labels), **model.about}
    stem.with_suffix(".json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load_shipped(name: str) -> SequenceModel:
    """Read a model that comes with the package."""
    folder = files("deixis.language") / "models"
    try:
        packed = (folder / f"{name}.npz").read_bytes()
        about = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise DeixisError(f"{folder}: the model {name!r} is not there; install deixis again ({error})") from None
    with np.load(BytesIO(packed), allow_pickle=False) as arrays:
        return SequenceModel(tuple(about.pop("labels")), arrays["weights"], arrays["transitions"], about)
