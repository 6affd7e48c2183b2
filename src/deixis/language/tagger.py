"""Part-of-speech tagger (Penn Treebank tags) and noun phrase chunker for English, two linear sequence models.

A token is described by a few *facts* (its letters, its suffixes, its shape), each a 32-bit number. A *template*, such
as ``word:-1,word:0``, hashes facts of the token and of its neighbours into one row of a weight table. The score of a
label is the sum over the templates; the best sequence under these scores and the label transitions is found by the
Viterbi algorithm. Because features are hashed, a model is a plain array without a feature dictionary.

The tagger is trained on newspaper text (the 5 % Treebank sample and the CoNLL-2000 chunking data) and on captions
labelled by a larger tagger, the chunker on the mentions of Flickr30k Entities, including pronouns and non-visual ones;
`Sentence.phrases` keeps only visual chunks. As in Entities, chunks are not recursive, the article belongs to the chunk,
the last word is its head, and "a man in an orange hat" is two chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt

from deixis.arrays import IntArray
from deixis.storage.artifacts import Artifact, Storable

Facts = npt.NDArray[np.uint64]
Scores = npt.NDArray[np.int32]

Span = tuple[int, int]
"""Token indices of a chunk, end exclusive."""

Template = tuple[tuple[int, int], ...]
"""Pairs of (token offset, fact index)."""

_PARTS = 3
_REACH = 3
_CACHED_WORDS = 200_000
_FEW_LABELS = 4
_MAX_BITS = 24

MODELS = Path(__file__).parent / "models"
"""The trained models of this package, each a directory."""

FACTS = ("word", "suffix1", "suffix2", "suffix3", "suffix4", "prefix3", "shape", "tag")
"""The facts of a token; the tag only if it is given."""

EDGE = crc32(b"<edge>")
"""The fact of positions before the first token and after the last one."""


def fact(kind: str, value: str) -> int:
    """Return the 32-bit hash of a property of a token, the same on every machine."""
    return crc32(f"{kind}={value}".encode("utf-8", "surrogatepass"))


def shape_of(word: str) -> str:
    """Return the shape of a word: its kinds of characters and its capitalization."""
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


def read_templates(text: str) -> tuple[Template, ...]:
    """Return templates from their text: facts with token offsets, joined by commas."""
    parts = ((part.split(":") for part in template.split(",")) for template in text.split())
    return tuple(tuple((int(offset), FACTS.index(name)) for name, offset in template) for template in parts)


class WordFacts:
    """The facts of words, cached by word."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, ...]] = {}

    def __call__(self, tokens: Sequence[str], tags: Sequence[str] | None = None) -> Facts:
        """Return one row of facts per token, with its tag if passed."""
        known = self._known
        if len(known) > _CACHED_WORDS:
            known.clear()
        rows = []
        for token in tokens:
            row = known.get(token)
            if row is None:
                row = known[token] = self._facts_of(token)
            rows.append(row)
        facts = np.array(rows, dtype=np.uint64).reshape(len(rows), len(FACTS) - 1)
        if tags is None:
            return facts
        return np.column_stack([facts, np.array([fact("tag", tag) for tag in tags], dtype=np.uint64)])

    def _facts_of(self, token: str) -> tuple[int, ...]:
        lower = token.lower()
        spelled = (lower, lower[-1:], lower[-2:], lower[-3:], lower[-4:], lower[:3], shape_of(token))
        return tuple(fact(name, value) for name, value in zip(FACTS[:-1], spelled, strict=True))


class FeatureRows:
    """Converts the facts of a sentence to rows of a weight table of size ``2 ** bits``.

    Templates have one to three parts, at most three tokens away.
    """

    def __init__(self, templates: Sequence[Template], bits: int) -> None:
        self._shift = np.uint64(64 - bits)
        # The longest templates first, so that the n-th parts of all templates are adjacent.
        order = sorted(range(len(templates)), key=lambda number: -len(templates[number]))
        parts = [(number, part) for part in range(_PARTS) for number in order if part < len(templates[number])]
        self._counts = [sum(part < len(template) for template in templates) for part in range(_PARTS)]
        self._factors = np.array([_odd_number(number, part) for number, part in parts], dtype=np.uint64)
        self._offsets = np.array([templates[number][part][0] for number, part in parts])
        self._columns = np.array([templates[number][part][1] for number, part in parts])

    def __call__(self, facts: Facts) -> IntArray:
        """Return rows of the weight table, (tokens, templates), with the templates in an internal order."""
        count, width = facts.shape
        padded = np.full((count + 2 * _REACH, width), EDGE, dtype=np.uint64)
        padded[_REACH : _REACH + count] = facts
        cells = (np.arange(_REACH, _REACH + count)[:, None] + self._offsets) * width + self._columns
        # Multiply-shift hashing: the highest bits of sums of facts times odd numbers.
        products = padded.ravel()[cells] * self._factors
        ones, twos, threes = self._counts
        hashed = products[:, :ones]
        hashed[:, :twos] += products[:, ones : ones + twos]
        hashed[:, :threes] += products[:, ones + twos :]
        rows: IntArray = (hashed >> self._shift).astype(np.int64)
        return rows


def _odd_number(template: int, part: int) -> int:
    """A fixed pseudo-random 64-bit number; that of a random generator could change with its library."""
    return int.from_bytes(sha256(f"{template}/{part}".encode()).digest()[:8], "little") | 1


@dataclass(frozen=True)
class SequenceModel(Storable):
    """Labels, weights and transitions of a trained model."""

    KIND: ClassVar[str] = "sequence-model"

    labels: tuple[str, ...]  # the labels, in the order of the columns of the weights
    weights: npt.NDArray[np.int8]  # (2 ** bits, labels)
    # Score of a transition from one label (row) to the next (column); the last row is the start of the sentence
    transitions: Scores
    about: dict[str, Any]  # training data and settings, as JSON values

    def to_artifact(self) -> Artifact:
        """Content for `save`: most weights are zero, so the others are stored with their distances in the table."""
        positions = np.flatnonzero(self.weights)
        gaps = np.diff(positions, prepend=0)
        arrays = {
            "gaps": gaps.astype(np.min_scalar_type(gaps.max(initial=0))),
            "values": self.weights.ravel()[positions],
            "transitions": self.transitions,
        }
        settings = {"labels": list(self.labels), "bits": self.bits}
        return Artifact(self.KIND, settings, arrays, provenance=self.about)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        settings, arrays = artifact.settings, artifact.arrays
        labels, bits = tuple(map(str, settings["labels"])), int(settings["bits"])
        transitions = arrays["transitions"]
        if transitions.shape != (len(labels) + 1, len(labels)) or not 0 <= bits <= _MAX_BITS:
            raise ValueError(f"{bits} bits and transitions of shape {transitions.shape} for {len(labels)} labels")
        weights = np.zeros(2**bits * len(labels), np.int8)
        weights[np.cumsum(arrays["gaps"], dtype=np.int64)] = arrays["values"]
        return cls(labels, weights.reshape(2**bits, len(labels)), transitions, artifact.provenance)

    @property
    def bits(self) -> int:
        return int(self.weights.shape[0]).bit_length() - 1

    @cached_property
    def _steps(self) -> list[list[float]]:
        steps: list[list[float]] = self.transitions.tolist()
        return steps

    @cached_property
    def _margin(self) -> float:
        return margin_for(self.transitions)

    def decode(self, rows: IntArray) -> list[str]:
        """Return the best labels of the tokens with these feature rows."""
        scores = self.weights[rows].sum(axis=1, dtype=np.int32)
        return [self.labels[number] for number in best_path(scores, self._steps, self._margin)]


def best_path(scores: npt.NDArray[Any], steps: Sequence[Sequence[float]], margin: float) -> list[int]:
    """Find the label sequence with the highest sum of scores (tokens, labels) and transitions (Viterbi).

    The last row of `steps` (labels + 1, labels) is the start. Labels that score `margin` less than the best label of
    the token are skipped; with twice the range of the transitions or more the search is exact.
    """
    if not len(scores):
        return []
    # Plain lists: a token has few candidate labels, often one, and arrays of this size would be slower.
    first, *others = _candidates(scores, margin)
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


def _candidates(scores: npt.NDArray[Any], margin: float) -> list[list[tuple[int, float]]]:
    """For each token, the labels within the margin of its best label, with their scores."""
    tokens, labels = np.nonzero(scores >= scores.max(axis=1, keepdims=True) - margin)
    choices: list[list[tuple[int, float]]] = [[] for _ in scores]
    for token, label, value in zip(tokens.tolist(), labels.tolist(), scores[tokens, labels].tolist(), strict=True):
        choices[token].append((label, value))
    return choices


def margin_for(transitions: npt.NDArray[Any]) -> float:
    """Return a margin for `best_path`: exact for few labels, and exact in practice for many.

    On 1,000 captions of Entities val (13,272 tokens), the tagger with half the range of its transitions gives the exact
    path for every token, 80 times faster.
    """
    spread = float(transitions.max() - transitions.min())
    return 2 * spread if transitions.shape[1] <= _FEW_LABELS else spread / 2


TAGGER_TEMPLATES = read_templates("""
    word:0  word:-1  word:1  word:-2  word:2  word:-1,word:0  word:0,word:1  word:-1,word:1
    suffix1:0  suffix2:0  suffix3:0  suffix4:0  prefix3:0  shape:0  shape:0,suffix2:0
    suffix3:-1  suffix3:1  suffix2:-1,suffix2:0,suffix2:1  shape:-1,shape:0
""")

CHUNK_TEMPLATES = read_templates("""
    word:-2  word:-1  word:0  word:1  word:2
    word:-1,word:0  word:0,word:1  word:-1,word:1  word:-2,word:-1  word:1,word:2  word:-1,word:0,word:1
    suffix2:0  suffix3:0  suffix4:0  shape:0  prefix3:0  suffix3:-1  suffix3:1
    tag:-2  tag:-1  tag:0  tag:1  tag:2
    tag:-1,tag:0  tag:0,tag:1  tag:-2,tag:-1  tag:1,tag:2
    tag:-1,tag:0,tag:1  tag:-2,tag:-1,tag:0  tag:0,tag:1,tag:2
    word:0,tag:1  tag:-1,word:0  tag:0,word:1
""")


class _Labeller:
    """A sequence model with its facts and templates."""

    FOLDER: ClassVar[str]
    TEMPLATES: ClassVar[tuple[Template, ...]]

    def __init__(self, model: SequenceModel) -> None:
        self.model = model
        self._facts = WordFacts()
        self._rows = FeatureRows(self.TEMPLATES, model.bits)

    @classmethod
    @cache
    def shipped(cls) -> Self:
        """The model of the package, loaded once."""
        return cls(SequenceModel.load(MODELS / cls.FOLDER))


class Tagger(_Labeller):
    FOLDER, TEMPLATES = "tagger", TAGGER_TEMPLATES

    def tag(self, tokens: Sequence[str]) -> list[str]:
        return self.model.decode(self._rows(self._facts(tokens)))


def tag(tokens: Sequence[str]) -> list[str]:
    """Return one Penn Treebank tag per token of an English sentence.

    Examples
    --------
    >>> tag(["A", "dog", "runs"])
    ['DT', 'NN', 'VBZ']
    """
    return Tagger.shipped().tag(tokens)


class Chunker(_Labeller):
    FOLDER, TEMPLATES = "chunker", CHUNK_TEMPLATES

    def chunks(self, tokens: Sequence[str], tags: Sequence[str] | None = None) -> list[Span]:
        """Return the chunks of a sentence as token spans, in order, without overlaps.

        `tags` are those of the tagger if already known.
        """
        facts = self._facts(tokens, tag(tokens) if tags is None else tags)
        return spans_from_labels(self.model.decode(self._rows(facts)))


def spans_from_labels(labels: Sequence[str]) -> list[Span]:
    """Convert labels to spans. A chunk may start with "I", since the model does not exclude that."""
    spans = []
    start: int | None = None
    for index, label in enumerate([*labels, "O"]):
        if start is not None and label != "I":
            spans.append((start, index))
            start = None
        if label == "B" or (label == "I" and start is None):
            start = index
    return spans
