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
from hashlib import sha256
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
_FEW_LABELS = 4

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
        # The longest templates first, so that the n-th parts of all that have one stand side by side.
        order = sorted(range(len(templates)), key=lambda number: -len(templates[number]))
        parts = [(number, part) for part in range(_PARTS) for number in order if part < len(templates[number])]
        self._counts = [sum(part < len(template) for template in templates) for part in range(_PARTS)]
        self._factors = np.array([_odd_number(number, part) for number, part in parts], dtype=np.uint64)
        self._offsets = np.array([templates[number][part][0] for number, part in parts])
        self._columns = np.array([templates[number][part][1] for number, part in parts])

    def __call__(self, facts: Facts) -> Rows:
        """Rows of the weights, (tokens, templates); the templates stand in an order of their own."""
        count, width = facts.shape
        padded = np.full((count + 2 * _REACH, width), EDGE, dtype=np.uint64)
        padded[_REACH : _REACH + count] = facts
        places = (np.arange(_REACH, _REACH + count)[:, None] + self._offsets) * width + self._columns
        # Multiply-shift hashing: sums of facts times odd numbers, of which the highest bits are kept.
        products = padded.ravel()[places] * self._factors
        ones, twos, threes = self._counts
        hashed = products[:, :ones]
        hashed[:, :twos] += products[:, ones : ones + twos]
        hashed[:, :threes] += products[:, ones + twos :]
        rows: Rows = (hashed >> self._shift).astype(np.int64)
        return rows


def _odd_number(template: int, part: int) -> int:
    """A fixed 64-bit number without pattern; a random generator's may change with its library."""
    return int.from_bytes(sha256(f"{template}/{part}".encode()).digest()[:8], "little") | 1


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

    @property
    def bits(self) -> int:
        """The size of the table of weights as a power of two."""
        return int(self.weights.shape[0]).bit_length() - 1

    @cached_property
    def _steps(self) -> list[list[float]]:
        steps: list[list[float]] = self.transitions.tolist()
        return steps

    @cached_property
    def _margin(self) -> float:
        return margin_for(self.transitions)

    def decode(self, rows: Rows) -> list[str]:
        """The best labels for the tokens whose feature rows are given."""
        scores = self.weights[rows].sum(axis=1, dtype=np.int32)
        return [self.labels[number] for number in best_path(scores, self._steps, self._margin)]


def best_path(scores: npt.NDArray[Any], steps: Sequence[Sequence[float]], margin: float) -> list[int]:
    """The sequence of labels with the highest sum of scores and steps from label to label (Viterbi).

    Parameters
    ----------
    scores : array, (tokens, labels)
    steps : lists, (labels + 1, labels)
        What a step from one label to the next is worth; the last row is the start.
    margin : float
        Labels that score so much less than the token's best are not looked at. With twice the range of the steps
        or more the search is exact: no neighbours can make good for a larger gap.

    Returns
    -------
    list of int

    Examples
    --------
    >>> best_path(np.array([[1, 0], [0, 0]]), [[0, 5], [0, 0], [0, 0]], margin=10)
    [0, 1]
    """
    if not len(scores):
        return []
    # Plain lists: a token has few labels worth a look, often one, and arrays of such sizes would be slower.
    first, *others = _worth_a_look(scores, margin)
    reached = [(value + steps[-1][label], label) for label, value in first]
    came_from = []
    for choices in others:
        backward = {}
        arrived = []
        for label, value in choices:
            total, before = max([(total + steps[before][label], before) for total, before in reached])
            backward[label] = before
            arrived.append((total + value, label))
        came_from.append(backward)
        reached = arrived
    path = [max(reached)[1]]
    for backward in reversed(came_from):
        path.append(backward[path[-1]])
    path.reverse()
    return path


def _worth_a_look(scores: npt.NDArray[Any], margin: float) -> list[list[tuple[int, float]]]:
    """For each token, the labels (with their scores) that are within the margin of its best."""
    tokens, labels = np.nonzero(scores >= scores.max(axis=1, keepdims=True) - margin)
    choices: list[list[tuple[int, float]]] = [[] for _ in scores]
    for token, label, value in zip(tokens.tolist(), labels.tolist(), scores[tokens, labels].tolist(), strict=True):
        choices[token].append((label, value))
    return choices


def margin_for(transitions: npt.NDArray[Any]) -> float:
    """A margin for `best_path`: exact for a few labels, and for many one that is exact in practice.

    On 1,000 captions of Entities val (13,272 tokens) the tagger's path with half the range of its transitions is the
    exact one for every token, and is found 80 times faster.
    """
    spread = float(transitions.max() - transitions.min())
    return 2 * spread if transitions.shape[1] <= _FEW_LABELS else spread / 2


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
